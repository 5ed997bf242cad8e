//! The log of an open session: appends records.

use std::sync::Arc;

use crate::record::metadata::RESTORED;
use crate::record::{Kind, line};
use crate::sys::{SessionId, Timestamp};

use super::context::StoreContext;
use super::header;
use super::medium::{Durability, Image, StoreError, Sync, WritableLog};

/// A larger buffer is freed after use, in bytes.
const KEEP: usize = 1024 * 1024;
/// Copied records are written together in blocks of this many bytes.
const BLOCK: usize = 256 * 1024;

/// The only writer of a session. Holds its lock until it is dropped.
///
/// # Results
///
/// `Ok` means that the system has the complete record, so that it survives the end of this process,
/// and a power failure if [`Durability`] asks for a sync here. After an `Err` the record does not
/// count as written: what a failed write left of it was removed, or will be before the next write.
///
/// After a failed sync all later calls fail with [`StoreError::Poisoned`]. The system may have
/// dropped the bytes that it could not write, so that the next sync would succeed without them. The
/// record is removed, too, if possible. Opening the session again reads what the file contains.
#[derive(Debug)]
pub struct Log {
    context: Arc<StoreContext>,
    id: SessionId,
    owned: Box<dyn WritableLog>,
    next_seq: u64,
    /// The length of the file, or what it will be once it is truncated (see `has_excess`).
    end: u64,
    /// Whether the last record has no line break yet.
    unterminated: bool,
    /// Whether a failed write left bytes after `end` that could not be removed.
    has_excess: bool,
    synced: Synced,
    /// The time of the record that was appended last, if any was.
    last_at: Option<Timestamp>,
    buffer: Vec<u8>,
    /// Copied records that are not written yet.
    waiting: Vec<u8>,
}

/// How much of the file survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    All,
    NotYet,
    /// Unknown, since a sync failed.
    Unknown,
}

/// A position between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPosition {
    /// Where the next record goes, in bytes.
    pub(super) end: u64,
    next_seq: u64,
}

/// A record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its sequence number.
    pub seq: u64,
    /// The number of the first record that was appended with it.
    pub first: u64,
    /// Its first byte.
    pub offset: u64,
    /// Where the next record goes.
    pub end: u64,
    /// Its time.
    pub at: Timestamp,
}

impl Log {
    pub(super) fn new(
        context: Arc<StoreContext>,
        id: SessionId,
        owned: Box<dyn WritableLog>,
    ) -> Self {
        Self {
            context,
            id,
            owned,
            next_seq: 0,
            end: 0,
            unterminated: false,
            has_excess: false,
            // The process that wrote it may have died before it was synced.
            synced: Synced::NotYet,
            last_at: None,
            buffer: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Continues after existing records. If there are bytes after `end`, the caller must
    /// [`truncate`](Self::truncate) it.
    pub(super) fn after(mut self, next_seq: u64, end: u64, unterminated: bool) -> Self {
        self.next_seq = next_seq;
        self.end = end;
        self.unterminated = unterminated;
        self
    }

    /// Appends a record with the current time and the next sequence number.
    ///
    /// `payload` must be one JSON value on one line, and `id` must need no escaping in JSON.
    pub fn append(
        &mut self,
        kind: Kind,
        id: Option<&str>,
        payload: &str,
        sync: Sync,
    ) -> Result<Appended, StoreError> {
        self.append_all(std::iter::once((kind, id, payload)), sync)
    }

    /// Appends records as [`append`](Self::append) does, with one write: all of them or none.
    /// Returns the position of the last one, except that `offset` is where the first one begins.
    pub fn append_all<'a>(
        &mut self,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)>,
        sync: Sync,
    ) -> Result<Appended, StoreError> {
        let at = self.context.sys.clock.now();
        let before = self.end + u64::from(self.unterminated);
        let first = self.next_seq;
        let (seq, end) = self.append_at(&at.to_string(), records, sync)?;
        self.last_at = Some(at);
        Ok(Appended {
            seq,
            first,
            offset: before,
            end,
            at,
        })
    }

    /// Appends records with this time, in the format of [`Timestamp`]'s `Display`, with one write:
    /// all of them or none. Returns the sequence number of the last record and where the next one
    /// goes.
    pub(super) fn append_at<'a>(
        &mut self,
        time: &str,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)>,
        sync: Sync,
    ) -> Result<(u64, u64), StoreError> {
        self.unpoisoned()?;
        if self.has_excess {
            self.truncate()?;
        }
        self.buffer.clear();
        if self.unterminated {
            self.buffer.push(b'\n');
        }
        let (mut next_seq, mut sync) = (self.next_seq, sync);
        let mut head = None;
        for (kind, id, payload) in records {
            self.check(payload)?;
            line::encode_at(&mut self.buffer, next_seq, time, kind, id, payload);
            next_seq += 1;
            match kind {
                // A database keeps prompts as it keeps the ends of turns.
                Kind::Prompt if self.context.medium.waits() => sync = Sync::Turn,
                Kind::Rewind => head = header::rewound(&*self.owned, &self.id)?,
                _ => {}
            }
        }
        let before = (self.end, self.unterminated);
        let safe = self.context.durability.syncs(sync);
        self.write(head.as_deref(), safe)?;
        if safe && let Err(error) = self.sync() {
            // Records that fail to sync are not reported, so they must not reappear.
            (self.end, self.unterminated) = before;
            if let Err(error) = self.truncate() {
                tracing::debug!(session = %self.id, %error, "cannot undo the write of a record");
            }
            return Err(error);
        }
        self.next_seq = next_seq;
        Ok((next_seq.saturating_sub(1), self.end))
    }

    /// Appends records with their own times, and one of the current time which says that the session
    /// was brought here now. If that fails, none of them remains.
    pub fn append_dated<'a>(
        &mut self,
        records: impl Iterator<Item = (Timestamp, Kind, Option<&'a str>, &'a str)>,
        sync: Sync,
    ) -> Result<(), StoreError> {
        self.unpoisoned()?;
        if self.has_excess {
            self.truncate()?;
        }
        let before = (self.end, self.next_seq, self.unterminated);
        if self.unterminated {
            self.waiting.push(b'\n');
        }
        let write = || {
            for (at, kind, id, payload) in records {
                self.check(payload)?;
                self.copy(&at.to_string(), kind, id, payload)?;
            }
            self.write_waiting()?;
            self.append(Kind::Info, None, RESTORED, sync)
        };
        let written = write();
        if written.is_err() {
            self.waiting.clear();
            (self.end, self.next_seq, self.unterminated) = before;
            self.truncate()?;
        }
        written.map(drop)
    }

    /// Appends a record of another log with its time there. It is written together with others, at
    /// the latest by [`truncate`](Self::truncate).
    pub(super) fn copy(
        &mut self,
        at: &str,
        kind: Kind,
        id: Option<&str>,
        payload: &str,
    ) -> Result<(), StoreError> {
        line::encode_at(&mut self.waiting, self.next_seq, at, kind, id, payload);
        self.next_seq += 1;
        if self.waiting.len() >= BLOCK {
            self.write_waiting()?;
        }
        Ok(())
    }

    /// The position after all records, including copied ones.
    pub(super) fn place(&self) -> LogPosition {
        LogPosition {
            end: self.end + self.waiting.len() as u64,
            next_seq: self.next_seq,
        }
    }

    /// Writes all copied records up to this position.
    pub(super) fn truncate_to(&mut self, place: LogPosition) -> Result<(), StoreError> {
        self.write_waiting()?;
        if place.end < self.end {
            self.end = place.end;
            self.next_seq = place.next_seq;
            self.truncate()?;
        }
        Ok(())
    }

    fn write_waiting(&mut self) -> Result<(), StoreError> {
        std::mem::swap(&mut self.buffer, &mut self.waiting);
        let written = self.write(None, false);
        std::mem::swap(&mut self.buffer, &mut self.waiting);
        self.waiting.clear();
        written
    }

    /// The log itself, to be read.
    pub(super) fn file(&self) -> &dyn Image {
        &*self.owned
    }

    /// Gives a new log its name, once its content is safe.
    pub(super) fn publish(&mut self) -> Result<(), StoreError> {
        self.owned.publish()?;
        if self.context.durability != Durability::Os {
            self.synced = Synced::All;
        }
        Ok(())
    }

    /// Makes all records survive a power failure, the first time also the file's name, unless the
    /// durability is [`Durability::Os`].
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.unpoisoned()?;
        if self.context.durability == Durability::Os || self.synced == Synced::All {
            return Ok(());
        }
        self.synced = Synced::Unknown;
        self.owned.sync()?;
        self.synced = Synced::All;
        Ok(())
    }

    /// Fails if the file no longer has its name: if another program has replaced or removed it, what
    /// is appended is lost when this process ends.
    pub fn check_name(&self) -> Result<(), StoreError> {
        if self.owned.is_current()? {
            return Ok(());
        }
        Err(StoreError::Replaced {
            path: self.owned.path().to_owned(),
        })
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether appending such a record waits for the disk.
    pub fn waits(&self, sync: Sync) -> bool {
        self.context.medium.waits() || self.context.durability.syncs(sync)
    }

    /// The time of the record that was appended last, if any was.
    pub fn last_at(&self) -> Option<Timestamp> {
        self.last_at
    }

    /// The length of the file, which is where the next record goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Moves the session to the trash while it is locked, so that nothing can be appended. False if
    /// another program has replaced or removed the log.
    pub fn trash(self) -> Result<bool, StoreError> {
        self.owned.bury()
    }

    /// Whether a payload can be one record.
    fn check(&self, payload: &str) -> Result<(), StoreError> {
        let id = || self.id.clone();
        if memchr::memchr2(b'\n', b'\r', payload.as_bytes()).is_some() {
            return Err(StoreError::LineBreak { id: id() });
        }
        if payload.len() > line::LONGEST - line::AROUND {
            return Err(StoreError::TooLong { id: id() });
        }
        Ok(())
    }

    fn unpoisoned(&self) -> Result<(), StoreError> {
        match self.synced {
            Synced::Unknown => Err(StoreError::Poisoned {
                id: self.id.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Truncates the file after its last complete record.
    pub(super) fn truncate(&mut self) -> Result<(), StoreError> {
        let truncated = self.owned.cut(self.end);
        self.has_excess = truncated.is_err();
        self.unsync();
        truncated
    }

    /// The file has changed since it was synced.
    fn unsync(&mut self) {
        if self.synced == Synced::All {
            self.synced = Synced::NotYet;
        }
    }

    /// Writes the buffer, all of it or nothing, and before it the beginning of the header, if it changes.
    fn write(&mut self, head: Option<&[u8]>, safe: bool) -> Result<(), StoreError> {
        let written = match head {
            None => self.owned.append(self.end, &self.buffer, safe),
            Some(head) => self
                .owned
                .append_with_head(head, self.end, &self.buffer, safe),
        };
        if written.is_ok() {
            self.end += self.buffer.len() as u64;
            self.unterminated = false;
            self.synced = Synced::NotYet;
        } else {
            // The write's error is reported; undoing it is tried again later if that fails.
            self.has_excess = self.owned.undo(self.end).is_err();
            self.unsync();
        }
        if self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
        written
    }
}

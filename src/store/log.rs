//! Appending to a session's file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::record::{Kind, line};
use crate::sys::{DiskFile, SessionId, Timestamp};

use super::base::StoreContext;
use super::durability::{Durability, Sync};
use super::error::StoreError;
use super::lock::Lock;
use super::trash;

/// A larger buffer is given back after use, in bytes.
const KEEP: usize = 1024 * 1024;
/// Records that are copied are written together when they have so many bytes.
const BLOCK: usize = 256 * 1024;

/// The one writer of a session. Holds its lock until it is dropped.
///
/// # What an answer means
///
/// `Ok` means that the record was handed to the system whole, so that it survives the end of this
/// process, and that it survives a power cut if [`Durability`] asks for a sync here. `Err` means
/// that nothing may be claimed of the record; what a failed write left of it has been cut off, or
/// will be before anything else is written.
///
/// After a failed sync every later call fails with [`StoreError::Poisoned`]. The system may have
/// dropped the bytes that it could not write and forgotten about them, so that the next sync would
/// succeed without them. The record that was to be synced is cut off, too, if the disk lets us.
/// Opening the session anew begins with what is in the file.
#[derive(Debug)]
pub struct Log {
    base: Arc<StoreContext>,
    id: SessionId,
    lock: Lock,
    next_seq: u64,
    /// How long the file is, or shall be once `uncut` is put right.
    end: u64,
    /// The last record has no line break yet.
    unterminated: bool,
    /// A failed write left bytes behind `end` that could not be cut off.
    uncut: bool,
    /// The file's name in its folder was synced.
    name_synced: bool,
    synced: Synced,
    /// The time of the record that was appended last, if any was.
    last_at: Option<Timestamp>,
    buffer: Vec<u8>,
    /// Records that are copied and not written yet.
    waiting: Vec<u8>,
}

/// How much of the file survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    All,
    NotYet,
    /// Nobody knows, since a sync failed.
    Unknown,
}

/// A place between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where the next record goes, in bytes.
    pub(super) end: u64,
    next_seq: u64,
}

/// A record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its sequence number.
    pub seq: u64,
    /// Its first byte.
    pub offset: u64,
    /// Where the next record goes.
    pub end: u64,
    /// Its time.
    pub at: Timestamp,
}

impl Log {
    pub(super) fn new(base: &Arc<StoreContext>, id: &SessionId, lock: Lock) -> Self {
        Self {
            base: base.clone(),
            id: id.clone(),
            lock,
            next_seq: 0,
            end: 0,
            unterminated: false,
            uncut: false,
            name_synced: false,
            // Whoever wrote what is there may have died before it was synced.
            synced: Synced::NotYet,
            last_at: None,
            buffer: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Goes on behind what is there already. Bytes behind `end` will be cut off.
    pub(super) fn behind(mut self, next_seq: u64, end: u64, unterminated: bool) -> Self {
        self.next_seq = next_seq;
        self.end = end;
        self.unterminated = unterminated;
        self
    }

    /// Appends a record with the present time and the next sequence number.
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
    /// Answers with the last one's place in the log; its `offset` is where the first one begins.
    pub fn append_all<'a>(
        &mut self,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)>,
        sync: Sync,
    ) -> Result<Appended, StoreError> {
        let at = self.base.sys.clock.now();
        let before = self.end + u64::from(self.unterminated);
        let (seq, end) = self.append_at(&at.to_string(), records, sync)?;
        self.last_at = Some(at);
        Ok(Appended {
            seq,
            offset: before,
            end,
            at,
        })
    }

    /// The same with another time, in the form of [`Timestamp`]'s `Display`. Answers with the last
    /// one's sequence number and where the next record goes.
    pub(super) fn append_at<'a>(
        &mut self,
        time: &str,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)>,
        sync: Sync,
    ) -> Result<(u64, u64), StoreError> {
        self.unpoisoned()?;
        if self.uncut {
            self.cut()?;
        }
        self.buffer.clear();
        if self.unterminated {
            self.buffer.push(b'\n');
        }
        let mut next_seq = self.next_seq;
        for (kind, id, payload) in records {
            if memchr::memchr2(b'\n', b'\r', payload.as_bytes()).is_some() {
                return Err(StoreError::LineBreak {
                    id: self.id.clone(),
                });
            }
            if payload.len() > line::LONGEST - line::AROUND {
                return Err(StoreError::TooLong {
                    id: self.id.clone(),
                });
            }
            line::encode_at(&mut self.buffer, next_seq, time, kind, id, payload);
            next_seq += 1;
        }
        let before = (self.end, self.unterminated);
        self.write()?;
        if self.base.durability.syncs(sync)
            && let Err(error) = self.sync()
        {
            // Nobody is told of these records, so they shall not come back either.
            (self.end, self.unterminated) = before;
            if let Err(error) = self.cut() {
                tracing::debug!(session = %self.id, %error, "cannot take back a record");
            }
            return Err(error);
        }
        self.next_seq = next_seq;
        Ok((next_seq.saturating_sub(1), self.end))
    }

    /// Takes a record as it stands in another log, with the time that it has there. It is written
    /// with others, at the latest by [`back_to`](Self::back_to).
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

    /// The place behind all records, those that are copied included.
    pub(super) fn place(&self) -> Place {
        Place {
            end: self.end + self.waiting.len() as u64,
            next_seq: self.next_seq,
        }
    }

    /// Writes all that was copied, up to this place.
    pub(super) fn back_to(&mut self, place: Place) -> Result<(), StoreError> {
        self.write_waiting()?;
        if place.end < self.end {
            self.end = place.end;
            self.next_seq = place.next_seq;
            self.cut()?;
        }
        Ok(())
    }

    fn write_waiting(&mut self) -> Result<(), StoreError> {
        std::mem::swap(&mut self.buffer, &mut self.waiting);
        let written = self.write();
        std::mem::swap(&mut self.buffer, &mut self.waiting);
        self.waiting.clear();
        written
    }

    /// The name that the file has, or is to have.
    pub(super) fn path(&self) -> &Path {
        &self.lock.path
    }

    /// The file itself, to be read.
    pub(super) fn file(&self) -> &dyn DiskFile {
        &*self.lock.file
    }

    /// Gives the file its name, once what is in it is safe. So far it has been at `from`.
    pub(super) fn publish(&mut self, from: &Path) -> Result<(), StoreError> {
        let synced = self.base.durability != Durability::Os;
        if synced {
            let safe = self.lock.file.sync();
            safe.map_err(StoreError::disk("sync", from))?;
        }
        let named = self.base.sys.disk.rename(from, &self.lock.path);
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists {
                id: self.id.clone(),
            },
            _ => StoreError::disk("create", &self.lock.path)(error),
        })?;
        if synced {
            if let Err(error) = self.base.sync_dir(&self.base.layout.sessions) {
                self.base.discard(&self.lock.path);
                return Err(error);
            }
            self.name_synced = true;
            self.synced = Synced::All;
        }
        Ok(())
    }

    /// Makes all that was appended survive a power cut, the first time with the file's name, unless the durability is
    /// [`Durability::Os`].
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.unpoisoned()?;
        if self.base.durability == Durability::Os || self.synced == Synced::All {
            return Ok(());
        }
        self.synced = Synced::Unknown;
        let synced = self.lock.file.sync();
        synced.map_err(StoreError::disk("sync", &self.lock.path))?;
        if !self.name_synced {
            self.base.sync_dir(&self.base.layout.sessions)?;
            self.name_synced = true;
        }
        self.synced = Synced::All;
        Ok(())
    }

    /// Makes sure that the file still has its name: what is appended to a file that another program
    /// has replaced or removed is lost when this process ends.
    pub fn check_name(&self) -> Result<(), StoreError> {
        if self.lock.is_current()? {
            return Ok(());
        }
        Err(StoreError::Replaced {
            path: self.lock.path.clone(),
        })
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Whether appending a record that is so precious waits for the disk.
    pub fn waits(&self, sync: Sync) -> bool {
        self.base.durability.syncs(sync)
    }

    /// The time of the record that was appended last, if any was.
    pub fn last_at(&self) -> Option<Timestamp> {
        self.last_at
    }

    /// How long the file is; where the next record goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Moves the session to the trash, with the lock held: nothing can be appended any more. False if
    /// another program has replaced or removed its file.
    pub fn trash(self) -> Result<bool, StoreError> {
        trash::bury(&self.base, &self.id, &self.lock)
    }

    fn unpoisoned(&self) -> Result<(), StoreError> {
        match self.synced {
            Synced::Unknown => Err(StoreError::Poisoned {
                id: self.id.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Cuts the file back to its last whole record.
    pub(super) fn cut(&mut self) -> Result<(), StoreError> {
        let cut = self.lock.file.set_len(self.end);
        self.uncut = cut.is_err();
        if self.synced == Synced::All {
            self.synced = Synced::NotYet;
        }
        cut.map_err(StoreError::disk("shorten", &self.lock.path))
    }

    /// Writes the buffer, all of it or nothing.
    fn write(&mut self) -> Result<(), StoreError> {
        let written = self.write_all();
        match written {
            Ok(()) => {
                self.end += self.buffer.len() as u64;
                self.unterminated = false;
                self.synced = Synced::NotYet;
            }
            // The write's error is the one to tell of; a cut that fails is tried again.
            Err(_) => self.uncut = self.cut().is_err(),
        }
        if self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
        written.map_err(StoreError::disk("append to", &self.lock.path))
    }

    fn write_all(&mut self) -> io::Result<()> {
        let mut left = &self.buffer[..];
        while !left.is_empty() {
            match self.lock.file.append(left)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => left = left.get(written..).unwrap_or_default(),
            }
        }
        Ok(())
    }
}

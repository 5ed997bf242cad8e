//! The logs of a store as the catalog reads them.

use crate::conversation::{Passage, SearchText};
use crate::record::{AgentSessionId, Kind};
use crate::store::{Store, StoreError};
use crate::sys::{SessionId, in_parallel};

use super::Summary;

/// Text of complete turns is indexed for good when there are this many bytes of it. Shorter text is
/// read again when the log grows.
const PIECE: usize = 32 * 1024;

/// More reader threads than this gain nothing on a disk.
pub(super) const MAX_READERS: usize = 4;

/// For fewer logs it does not pay to start another reader thread.
const FOR_A_READER: usize = 16;

/// The logs of a store.
#[derive(Clone, Debug)]
pub(super) struct Logs {
    pub(super) store: Store,
    /// The least length of a piece; tests have short ones.
    pub(super) piece: usize,
}

/// The words of a part of a log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Texts {
    /// Text of complete turns, in pieces that do not grow.
    pub(super) done: Vec<LogPiece>,
    /// The text after them up to the end of the log, if the end was reached. It may grow.
    pub(super) open: Option<Vec<Passage>>,
    /// The offset in the log, in bytes, where `done` ends.
    pub(super) from: u64,
    /// Whether this is the text of the whole log, of which other text was read before.
    pub(super) anew: bool,
}

/// Text of a part of a log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct LogPiece {
    /// The text.
    pub(super) passages: Vec<Passage>,
    /// The offset in the log, in bytes, where it ends and the next piece begins.
    pub(super) end: u64,
}

impl Texts {
    /// All of the text.
    pub(super) fn passages(&self) -> impl Iterator<Item = &Passage> {
        let done = self.done.iter().flat_map(|piece| &piece.passages);
        done.chain(self.open.iter().flatten())
    }
}

impl Logs {
    pub(super) fn new(store: Store) -> Self {
        Self {
            store,
            piece: PIECE,
        }
    }

    /// When a log was last added, removed or renamed, in milliseconds.
    pub(super) fn folder_changed(&self) -> Result<i64, StoreError> {
        Ok(self.store.folder_changed()?.as_millis())
    }

    /// Reads a log. `from` is the result of an earlier call for the same log: only what follows
    /// `from.scanned` is read.
    pub(super) fn summarize(
        &self,
        id: &SessionId,
        from: Option<&Summary>,
    ) -> Result<Summary, StoreError> {
        let mut reader = self.store.read(id)?;
        let Some(from) = from else {
            return Ok(Summary::of(&reader.scan()?));
        };
        let mut summary = from.clone();
        reader.seek(from.scanned);
        while let Some(entry) = reader.next()? {
            if entry.record.kind == Kind::Rewind {
                // What the summary has may be undone.
                return Ok(Summary::of(&reader.scan()?));
            }
            summary.apply_record(&entry.record);
            summary.scanned = entry.end;
        }
        Ok(summary)
    }

    /// The sessions in the trash with the agents' ids of them. Logs that cannot be read are left
    /// out.
    pub(super) fn trashed(&self) -> Result<Vec<(SessionId, Vec<AgentSessionId>)>, StoreError> {
        let mut known = Vec::new();
        for trashed in self.store.trashed()? {
            let scan = self
                .store
                .read_trashed(&trashed)
                .and_then(|mut log| log.scan());
            match scan {
                Ok(scan) => known.push((trashed.id, Summary::of(&scan).agent_ids)),
                Err(error) => tracing::debug!(%error, "cannot read a log in the trash"),
            }
        }
        Ok(known)
    }

    /// Reads the words of a log from byte `from` on, which must be 0 or what an earlier call
    /// returned as [`Texts::from`]. Stops when it has read `budget` bytes of text, or soon after.
    /// `known` is how long the log was when it was last read to its end, negative if it never was: if the
    /// session has gone back to an earlier place since then, all of the log is read anew.
    pub(super) fn texts(
        &self,
        id: &SessionId,
        from: u64,
        known: i64,
        budget: usize,
    ) -> Result<Texts, StoreError> {
        let mut reader = self.store.read(id)?;
        reader.seek(from);
        let mut text = SearchText::default();
        let mut texts = Texts {
            from,
            ..Texts::default()
        };
        while let Some(entry) = reader.next()? {
            let is_new = u64::try_from(known).map_or(true, |known| entry.end > known);
            if entry.record.kind == Kind::Rewind && from > 0 && is_new {
                // What was read before may be undone. Read in parts, it would be read for ever.
                let texts = self.texts(id, 0, -1, usize::MAX)?;
                return Ok(Texts {
                    anew: true,
                    ..texts
                });
            }
            text.record(entry.offset, &entry.record);
            let read = entry.end - from;
            let ended = entry.record.kind == Kind::End && !text.within_message();
            let turn_ended = ended && text.len() >= self.piece;
            // A turn may be longer than the budget. A word that is split there is lost only if one
            // message is several times as long.
            let long =
                read >= budget as u64 && (!text.within_message() || read >= 4 * budget as u64);
            if turn_ended || long {
                texts.done.push(LogPiece {
                    passages: text.take(),
                    end: entry.end,
                });
                texts.from = entry.end;
            }
            if texts.from > from && read >= budget as u64 {
                return Ok(texts);
            }
        }
        texts.open = Some(text.take());
        Ok(texts)
    }

    /// Calls `take` with the passages of the log before `end`, some at a time.
    pub(super) fn passages(
        &self,
        id: &SessionId,
        end: u64,
        take: &mut dyn FnMut(Vec<Passage>),
    ) -> Result<(), StoreError> {
        let mut reader = self.store.read(id)?;
        let mut text = SearchText::default();
        while let Some(entry) = reader.next()?.filter(|entry| entry.offset < end) {
            text.record(entry.offset, &entry.record);
            if text.len() >= self.piece {
                take(text.take());
            }
        }
        take(text.take());
        Ok(())
    }

    /// The passages of a piece that begins at `start` and ends at `end`. Without an end, stops when
    /// it has read `most` bytes.
    pub(super) fn piece(
        &self,
        id: &SessionId,
        start: u64,
        end: Option<u64>,
        most: usize,
    ) -> Result<Vec<Passage>, StoreError> {
        let mut reader = self.store.read(id)?;
        reader.seek(start);
        let mut text = SearchText::default();
        while let Some(entry) = reader.next()? {
            text.record(entry.offset, &entry.record);
            if entry.end >= end.unwrap_or(start + most as u64) {
                break;
            }
        }
        Ok(text.take())
    }
}

/// Applies `read` to each of `jobs`, on several threads if there are many.
pub fn read_all<J: Sync, T: Send>(jobs: &[J], read: impl Fn(&J) -> T + Sync) -> Vec<T> {
    in_parallel(
        jobs,
        jobs.len().div_ceil(FOR_A_READER).min(MAX_READERS),
        read,
    )
}

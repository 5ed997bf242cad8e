//! Where logs are kept. Each is a sequence of bytes that grows by whole blocks of records.
//!
//! A `Medium` knows nothing of records: the folder above reads, checks, recovers and forks logs in
//! the same way wherever they are.

pub mod durability;
pub mod error;
pub mod holder;
pub mod place;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::sys::{SessionId, Timestamp, Watch};

pub use durability::{Durability, Sync};
pub use error::StoreError;
pub use holder::Holder;

/// A session in the trash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trashed {
    /// The session.
    pub id: SessionId,
    /// When it was deleted.
    pub at: Timestamp,
}

/// The properties of a log that are known without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct LogInfo {
    /// Whether it is a log, and nothing else with its name.
    pub(in crate::store) is_log: bool,
    /// Its length in bytes.
    pub(in crate::store) len: u64,
    /// When it was last written to.
    pub(in crate::store) changed_at: Timestamp,
}

/// Called with each session whose log changes; with none if some changes may have been missed.
pub(in crate::store) type LogChanged = Box<dyn Fn(Option<SessionId>) + Send>;

/// The sessions whose changes are wanted, asked for again and again; all if `None`.
pub(in crate::store) type Wanted = Option<Box<dyn Fn() -> Vec<SessionId> + Send>>;

/// Called with each session that another process has taken over from this one.
pub(in crate::store) type TakenOver = Box<dyn Fn(&SessionId) + Send + std::marker::Sync>;

/// The logs of a store.
pub(in crate::store) trait Medium: Send + std::marker::Sync + fmt::Debug {
    /// Makes sure that sessions can be created. To be called before the first one is.
    fn prepare(&self) -> Result<(), StoreError>;

    /// Whether there is a store. Creates nothing.
    fn is_there(&self) -> Result<bool, StoreError>;

    /// From now on, other processes that need a session which is open here learn that this client
    /// has it.
    fn serves(&self, client: &str);

    /// From now on, other processes that need a session which is open here learn the name of the
    /// socket on which they can reach this one. Returns false if none can: they may be on other hosts.
    fn announces(&self, socket: &str) -> bool {
        tracing::trace!(socket, "nobody learns of it");
        false
    }

    /// Begins a log that nobody sees until it is [published](WritableLog::publish). It vanishes if it is
    /// dropped before.
    fn draft(&self, id: &SessionId) -> Result<Box<dyn WritableLog>, StoreError>;

    /// Makes this process the one writer of a log: by force, even if another process has it, as far
    /// as the medium keeps that process from writing.
    fn claim(&self, id: &SessionId, by_force: bool) -> Result<Box<dyn WritableLog>, StoreError>;

    /// Calls `taken` with each session that another process has taken over from this one, some time
    /// later and perhaps several times. Returns false if none can be.
    fn on_taken_over(&self, taken: TakenOver) -> bool {
        drop(taken);
        false
    }

    /// Whether reading and appending wait for another machine, whatever is read or appended.
    fn waits(&self) -> bool {
        false
    }

    /// Opens a log for reading. Other processes may write to it meanwhile.
    fn open(&self, id: &SessionId) -> Result<Box<dyn Image>, StoreError>;

    /// The properties of a log; none if it does not exist.
    fn info(&self, id: &SessionId) -> Result<Option<LogInfo>, StoreError>;

    /// The error for a session that has no log: `NotFound` only if it is known to be absent.
    fn absent(&self, id: &SessionId) -> StoreError;

    /// The ids of all sessions, oldest first.
    fn ids(&self) -> Result<Vec<SessionId>, StoreError>;

    /// When a session was last added or removed.
    fn names_changed(&self) -> Result<Timestamp, StoreError>;

    /// Calls `changed` from another thread until the result is dropped, at least for the sessions that
    /// are wanted.
    fn watch(&self, wanted: Wanted, changed: LogChanged) -> Result<Watch, StoreError>;

    /// The process that has a session open for writing, if it is known.
    fn holder(&self, id: &SessionId) -> Option<Holder>;

    /// Whether a process has a session open for writing.
    fn is_open(&self, id: &SessionId) -> bool;

    /// Whether another process that has a session open is about to release it.
    fn is_being_released(&self, id: &SessionId) -> bool;

    /// Lets other processes know that this one is about to release its sessions.
    fn ending(&self);

    /// The sessions in the trash, by id and then by time.
    fn trashed(&self) -> Result<Vec<Trashed>, StoreError>;

    /// Opens a log in the trash for reading.
    fn open_trashed(&self, trashed: &Trashed) -> Result<Box<dyn Image>, StoreError>;

    /// Makes this process the writer of a log in the trash, so that it can be restored. `None` if it
    /// cannot be written to.
    fn claim_trashed(&self, trashed: &Trashed) -> Result<Option<Box<dyn WritableLog>>, StoreError>;

    /// Moves a log out of the trash.
    fn restore(&self, trashed: &Trashed) -> Result<(), StoreError>;

    /// How many things [`empty_trash`](Self::empty_trash) would remove.
    fn count_trash(&self, before: Timestamp) -> Result<usize, StoreError>;

    /// Permanently removes what came into the trash before a time. Returns how many things were
    /// removed. What another process is using remains.
    fn empty_trash(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Whether this process may remove sessions permanently.
    fn may_remove(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Makes logs in which nobody has prompted since `before` shorter to store and faster to read,
    /// without a change of their bytes; some at a time. False if none is left.
    fn join_blocks(&self, before: Timestamp) -> Result<bool, StoreError> {
        tracing::trace!(%before, "there is nothing to join");
        Ok(false)
    }

    /// Whether anything in the store belongs to this session. The catalog does not count.
    fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError>;

    /// Permanently removes a session and what the trash has of it; false if there is nothing. Fails
    /// while it is open for writing.
    fn erase(&self, id: &SessionId, wanted: &mut dyn FnMut() -> bool) -> Result<bool, StoreError>;

    /// A small text beside the sessions, which may be lost at any time.
    fn note(&self, name: &str) -> Option<Vec<u8>>;

    /// Writes such a text.
    fn set_note(&self, name: &str, text: &str) -> Result<(), StoreError>;
}

/// The bytes of a log.
pub(in crate::store) trait Image: Send + std::marker::Sync + fmt::Debug {
    /// Reads from `offset` into `buffer`; 0 at the end of the log.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Its name in messages.
    fn path(&self) -> &Path;
}

/// A log that only this process appends to, until it is dropped or another process takes it over.
pub(in crate::store) trait WritableLog: Image {
    /// Appends a block at the end of the log, which is at `end`. If `safe`, it is to survive a power
    /// failure once [`sync`](Self::sync) was called, too, which some media do at once.
    fn append(&mut self, end: u64, block: &[u8], safe: bool) -> Result<(), StoreError>;

    /// Puts `head` in the place of as many bytes at the beginning of the log, and appends a block as
    /// [`append`](Self::append) does. If this ends in between, the log has the head and not the block.
    fn append_with_head(
        &mut self,
        head: &[u8],
        end: u64,
        block: &[u8],
        safe: bool,
    ) -> Result<(), StoreError>;

    /// Removes what a failed append has left after `end`, where the medium may leave anything.
    fn undo(&mut self, end: u64) -> Result<(), StoreError> {
        self.cut(end)
    }

    /// Makes what was appended survive a power failure.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Removes what is after `end`, because it is no record.
    fn cut(&mut self, end: u64) -> Result<(), StoreError>;

    /// Keeps a copy of what is after `offset` in the trash, and returns where.
    fn keep_aside(&self, offset: u64) -> Result<PathBuf, StoreError>;

    /// Gives a new log its name.
    fn publish(&mut self) -> Result<(), StoreError>;

    /// Puts a new log into the trash instead, as one that was deleted then.
    fn publish_in_trash(&mut self, at: Timestamp) -> Result<(), StoreError>;

    /// Whether the log still has its name: another program may have replaced or removed it.
    fn is_current(&self) -> Result<bool, StoreError>;

    /// Moves the log to the trash; false if it no longer has its name.
    fn bury(&self) -> Result<bool, StoreError>;
}

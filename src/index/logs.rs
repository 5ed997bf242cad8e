//! What the catalog asks of the session logs.

use std::io;

use crate::record::Inner;
use crate::sys::{SessionId, Timestamp};

/// The session logs as the catalog sees them.
pub trait Logs: Send + Sync {
    /// The sessions that have a log, in any order.
    fn ids(&self) -> io::Result<Vec<SessionId>>;

    /// When a log was last added, removed or renamed: the time at which the folder changed, as
    /// precise as the file system has it.
    fn folder_changed(&self) -> io::Result<Timestamp>;

    /// The length of a log in bytes, without opening it; none if there is no such log.
    fn len(&self, id: &SessionId) -> io::Result<Option<u64>>;

    /// Reads a log, or says why it cannot be read. `from` is what an earlier call said of the same
    /// log: only what follows `from.scanned` needs to be read.
    fn summarize(&self, id: &SessionId, from: Option<&Summary>) -> Result<Summary, String>;

    /// Sessions in the trash that agents know by ids of their own, with these. Logs that cannot be
    /// read are left out.
    fn trashed(&self) -> io::Result<Vec<(SessionId, Vec<Inner>)>>;

    /// Reads the words of a log from byte `from` on, which must be 0 or what an earlier call
    /// returned as [`Texts::from`]. Stops when it has read text of `budget` bytes, or soon after.
    fn texts(&self, id: &SessionId, from: u64, budget: usize) -> Result<Texts, String>;
}

/// The words of a part of a log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Texts {
    /// Text of whole turns, in pieces that nothing will be added to.
    pub done: Vec<String>,
    /// What follows them up to the end of the log, if that was reached. More may be added to it.
    pub open: Option<String>,
    /// The byte of the log behind `done`.
    pub from: u64,
}

/// What the list shows of a session.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// The working directory, as last recorded.
    pub cwd: String,
    /// The id that clients know it by, if that is another one: that of the agent that made it.
    pub known_as: Option<String>,
    /// How agents know it, as far as that was found in what was read last: the catalog keeps what
    /// was found before.
    pub inners: Vec<Inner>,
    /// Further directories of the workspace, as last recorded.
    pub additional_directories: Vec<String>,
    /// What answers its prompts, by the name of the engine in the log's header.
    pub source: String,
    /// One line that tells the session from others.
    pub title: Option<String>,
    /// When the session was made, in the form of [`Timestamp`]'s `Display`.
    pub created_at: String,
    /// The latest time of its prompts, in the same form; none if it was never prompted. It must
    /// not go back when the clock does: the order of the list hangs on it.
    pub updated_at: Option<String>,
    /// Whether lists leave it out unless they are asked for it.
    pub archived: bool,
    /// How many prompts it has.
    pub prompts: u64,
    /// How many bytes of the log this is true for: up to the end of a record.
    pub scanned: u64,
}

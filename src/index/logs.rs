//! What the catalog needs from the session logs.

use std::io;

use crate::record::AgentSessionId;
use crate::sys::{SessionId, Timestamp};

/// The session logs as the catalog sees them.
pub trait Logs: Send + Sync {
    /// The sessions that have a log, in any order.
    fn ids(&self) -> io::Result<Vec<SessionId>>;

    /// When a log was last added, removed or renamed: the folder's modification time, as precise as
    /// the file system has it.
    fn folder_changed(&self) -> io::Result<Timestamp>;

    /// The length of a log in bytes, without opening it; none if there is no such log.
    fn len(&self, id: &SessionId) -> io::Result<Option<u64>>;

    /// Reads a log, or says why it cannot be read. `from` is the result of an earlier call for the
    /// same log: only what follows `from.scanned` needs to be read.
    fn summarize(&self, id: &SessionId, from: Option<&Summary>) -> Result<Summary, String>;

    /// Sessions in the trash for which agents have ids of their own, with these ids. Logs that
    /// cannot be read are left out.
    fn trashed(&self) -> io::Result<Vec<(SessionId, Vec<AgentSessionId>)>>;

    /// Reads the words of a log from byte `from` on, which must be 0 or what an earlier call
    /// returned as [`Texts::from`]. Stops when it has read `budget` bytes of text, or soon after.
    fn texts(&self, id: &SessionId, from: u64, budget: usize) -> Result<Texts, String>;
}

/// The words of a part of a log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Texts {
    /// Text of complete turns, in pieces that do not grow.
    pub done: Vec<Piece>,
    /// The text after them up to the end of the log, if the end was reached. It may grow.
    pub open: Option<String>,
    /// The offset in the log, in bytes, where `done` ends.
    pub from: u64,
}

/// Text of a part of a log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// The offset in the log, in bytes, where it ends and the next piece begins.
    pub end: u64,
}

/// What the list shows of a session.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// The working directory, as last recorded.
    pub cwd: String,
    /// The id by which clients know it, if it is not its own: that of the agent that created it.
    pub known_as: Option<String>,
    /// The agents' ids of it, as far as the last read found them. The catalog keeps earlier ones.
    pub inners: Vec<AgentSessionId>,
    /// Further directories of the workspace, as last recorded.
    pub additional_directories: Vec<String>,
    /// What answers its prompts: the name of the engine in the log's header.
    pub source: String,
    /// One line that distinguishes the session from others.
    pub title: Option<String>,
    /// When the session was created, in the format of [`Timestamp`]'s `Display`.
    pub created_at: String,
    /// The latest time of its prompts, in the same format; none if it was never prompted. It must
    /// not go back when the clock does, since lists are ordered by it.
    pub updated_at: Option<String>,
    /// When it was last restored from the trash, in the same format.
    pub restored_at: Option<String>,
    /// Whether lists leave it out by default.
    pub archived: bool,
    /// How many prompts it has.
    pub prompts: u64,
    /// How many bytes of the log this summary covers, up to the end of a record.
    pub scanned: u64,
}

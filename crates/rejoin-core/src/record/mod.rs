//! Defines what one line of a session's log means.
//!
//! `docs/format.md` is the specification.

mod first_words;
pub mod activity;
mod as_v1;
pub mod cursor;
pub mod header;
pub mod agent_cursors;
pub mod agent_session_id;
pub mod kind;
pub mod line;
pub mod open_calls;
mod open_subagents;
pub mod open_turns;
pub mod prompt_keys;
pub mod references;
pub mod rewind;
pub mod subagents;
pub mod current_settings;
pub mod title;
pub mod metadata;
pub mod titles;
pub mod payload;
pub mod places;

pub use activity::{Activity, ActivityState};
pub use agent_cursors::{AgentCursors, AgentPlace, KnownPlace};
pub use agent_session_id::AgentSessionId;
pub use as_v1::{InVersion1, snapshot_of};
pub use current_settings::CurrentSettings;
pub use cursor::{Cursor, LogPlace};
pub use header::Header;
pub use kind::Kind;
pub use line::Record;
pub use open_calls::OpenCalls;
pub use open_subagents::OpenSubagents;
pub use open_turns::OpenTurns;
pub use places::{Place, Places};
pub use prompt_keys::PromptKeys;
pub use rewind::{Rewind, RewindTarget, RewoundHistory};

/// The version of the format in which this program writes a session of version 1 of the protocol.
pub const FORMAT: u32 = 1;

/// The version of the format of a session that begins with an agent of version 2 of the protocol.
pub const FORMAT_V2: u32 = 2;

/// The version of the format of a session that has gone back to an earlier place: the newest that this
/// program reads.
pub const FORMAT_REWOUND: u32 = 3;

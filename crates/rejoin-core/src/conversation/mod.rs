//! Reads a log as a conversation: its turns, messages and tool calls, as text and in bounded memory.
//!
//! Pages of turns, briefings, exports and the search are made from what this folder reads.

mod call;
mod end;
mod entry;
mod excerpt;
mod message;
mod passage;
mod permission;
mod position;
mod render;
mod search_text;
mod splitter;
mod transcript;
mod turn;

pub use call::TurnCalls;
pub use end::{TurnEnding, end_members};
pub use entry::{CallEntry, ChunkEntry, Entry, prompt_blocks, update_in};
pub use passage::{Field, Passage};
pub use permission::{Decision, PermissionOption, PermissionRequest, Permissions};
pub use position::TurnPosition;
pub use search_text::SearchText;
pub use splitter::{TurnContent, TurnSink, TurnSplitter, TurnStart};
pub use transcript::{Transcript, TranscriptEntry};
pub use turn::TurnFold;

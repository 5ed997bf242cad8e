//! Reads a log as a conversation: its turns, messages and tool calls, as text and in bounded memory.
//!
//! Whoever shows, summarizes or searches conversations visits what this folder reads.

mod message;
mod call;
mod excerpt;
mod passage;
mod position;
mod render;
mod search_text;
mod splitter;
mod transcript;
mod turn;

pub use call::TurnCalls;
pub use passage::{Field, Passage};
pub use position::TurnPosition;
pub use search_text::SearchText;
pub use splitter::{TurnSink, TurnSplitter, TurnStart};
pub use transcript::{Transcript, TranscriptEntry};
pub use turn::{TurnFold, end_members};

//! Parses an agent's lines as text: which message each one is, and where its parts are.
//!
//! Pure, and no tree is built or printed. `message` parses one line, `reader` many lines that
//! differ only in their text, `payload` finds the update and the session's id.

mod message;
mod payload;
mod reader;

pub(super) use message::{AgentMessage, ResponseOutcome, read};
pub(super) use payload::{Fields, NamedSession, Payload, PayloadForm, session_of};
pub(super) use reader::MessageReader;

//! Makes records of an agent's lines.
//!
//! Pure: text in, text out. `message` parses a line, `reader` the many lines that differ only in
//! their text, `marks` makes a record of an update; none of them builds or prints a tree.
//! `terminals` keeps what replays need in addition.

mod calls;
mod echo;
mod marks;
mod message;
mod messages;
mod names;
mod payload;
mod reader;
mod session_id;
mod terminals;

pub use crate::engine::captured::{Exit, OUTPUT_LIMIT};
pub use marks::{IdNormalizer, Shaped};
pub use message::{Message, Outcome, read};
pub use payload::{Form, Payload};
pub use reader::Reader;
pub use session_id::{Named, session_of};
pub use terminals::Terminals;

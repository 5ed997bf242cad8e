//! What stands between a line of the child and the record that is made of it.
//!
//! Pure: text in, text out. `message` reads a line, `reader` the many that look alike, `marks` shapes the update that is in it, and
//! neither builds a tree or prints one anew. `terminals` keeps what replays need besides.

mod calls;
mod echo;
mod marks;
mod message;
mod messages;
mod names;
mod payload;
mod reader;
mod scan;
mod session_id;
mod splice;
mod terminals;

pub use crate::engine::captured::{Exit, OUTPUT_LIMIT};
pub use marks::{Marks, Shaped};
pub use message::{Message, Outcome, read};
pub use payload::{Form, Payload};
pub use reader::Reader;
pub use session_id::{Named, session_of};
pub use terminals::Terminals;

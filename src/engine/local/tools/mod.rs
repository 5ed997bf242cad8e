//! What the engine really does: reads and writes files and runs commands, by way of the client if
//! that offers it, and asks before it changes anything.

mod client;
mod ended;
mod files;
mod here;
mod path;
pub(super) mod permission;
mod read;
mod run;
pub(super) mod shown;
mod terminal;
mod write;

pub(super) use read::read;
pub(super) use run::run;
pub(super) use write::write;

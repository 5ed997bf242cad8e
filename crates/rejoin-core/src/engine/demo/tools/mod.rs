//! The tools that read and write files and run commands, through the client if it supports that.
//!
//! The tools request permission before they change anything.

mod client;
mod confined;
mod files;
mod path;
pub(super) mod permission;
mod read;
mod run;
mod terminal;
mod write;

pub(super) use read::read;
pub(super) use run::run;
pub(super) use write::write;

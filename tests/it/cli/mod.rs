//! The command line: the real binary, what it prints, and its exit codes.

mod commands;
pub(crate) mod docs;
mod export;
mod history;
mod log;
mod names;
mod people;
mod permissions;
#[cfg(unix)]
mod picker;
mod removal;
mod resume;
mod show;
mod stats;
mod wait;
#[cfg(unix)]
pub(crate) mod widths;

//! Protocol version 1: one file for each method, which decodes, calls, encodes.

mod archive;
mod cancel;
mod close;
mod content;
mod context;
mod delete;
mod dispatch;
mod foreign;
mod fork;
mod forward;
mod greeting;
mod get;
mod initialize;
mod list;
mod listed;
mod load;
mod new;
mod open;
mod params;
mod place;
mod prompt;
mod reply;
mod resume;
mod set_title;
mod status;

pub use context::Context;
pub use dispatch::{notification, request};

//! Protocol version 1: one file for each method, which decodes, calls, encodes.

mod cancel;
mod close;
mod content;
mod context;
mod delete;
mod dispatch;
mod foreign;
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
mod settings;

pub use context::Context;
pub use dispatch::{notification, request};

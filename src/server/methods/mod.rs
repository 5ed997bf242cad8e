//! Protocol version 1: one file for each method, which decodes, calls, encodes.

pub(super) mod archive;
pub(super) mod cancel;
pub(super) mod close;
mod content;
pub(super) mod context;
pub(super) mod delete;
mod dispatch;
mod foreign;
pub(super) mod fork;
mod forward;
mod greeting;
pub(super) mod get;
pub(super) mod initialize;
pub(super) mod list;
mod listed;
mod load;
pub(super) mod new;
mod open;
pub(super) mod params;
pub(super) mod place;
pub(super) mod prompt;
pub(super) mod reply;
mod resume;
pub(super) mod set_title;
mod settings;
pub(super) mod status;

pub use context::Context;
pub use dispatch::{notification, request};
pub use reply::encode;

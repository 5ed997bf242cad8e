//! What tests share.

pub(crate) mod agent;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod conductor;
pub(crate) mod conform;
pub(crate) mod conform_agent;
pub(crate) mod conform_v2;
pub(crate) mod connection;
mod cursors;
pub(crate) mod damage;
pub(crate) mod expect;
pub(crate) mod fixture;
pub(crate) mod http_server;
pub(crate) mod json;
pub(crate) mod logs;
pub(crate) mod memory;
pub(crate) mod pattern;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod rewrite;
#[cfg(all(unix, feature = "store-postgres"))]
pub(crate) mod rows;
pub(crate) mod runner;
pub(crate) mod env;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod sessions;
pub(crate) mod systems;
#[cfg(unix)]
pub(crate) mod terminal;
pub(crate) mod verbs;
pub(crate) mod wrapped;

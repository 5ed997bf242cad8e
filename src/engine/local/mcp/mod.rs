//! The MCP servers of a session: connected when it is opened, used by `/tools` and `/call`, ended
//! with it.

pub(super) mod call;
mod connection;
mod content;
mod ears;
mod failure;
#[cfg(feature = "mcp-http")]
mod http;
mod process;
mod secrets;
mod server;
mod servers;
pub(super) mod tools;
mod wanted;

pub(super) use servers::Servers;

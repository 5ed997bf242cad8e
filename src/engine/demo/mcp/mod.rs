//! A session's MCP servers: they start when it opens, serve `/tools` and `/call`, and end with it.

mod bounded;
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
mod tool;
pub(super) mod tools;
mod server_config;

pub(super) use servers::Servers;

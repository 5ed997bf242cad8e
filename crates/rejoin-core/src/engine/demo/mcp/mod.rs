//! A session's MCP servers: they start when it opens, serve `/tools` and `/call`, and end with it.
//!
//! `servers` has all servers of a session, `server` one of them with its state, `connection` the
//! protocol with one that runs. `config` says how to reach a server, `stdio` and `http` reach it, and
//! `peer` has what is to be answered. `tools` keeps what is used of its tools, `secrets` hides what
//! nobody may see.

mod commands;
mod config;
mod connection;
#[cfg(feature = "mcp-http")]
mod http;
mod peer;
mod secrets;
mod connected_server;
mod servers;
mod stdio;
mod tools;

pub(super) use commands::{call_tool, list_tools};
pub(super) use servers::McpServers;

//! A session's MCP servers: they start when it opens, serve `/tools` and `/call`, and end with it.
//!
//! `servers` has all servers of a session, `server` one of them with its state, `connection` the
//! protocol with one that runs. `config` says how to reach a server, `stdio` and `http` reach it, and
//! `bounded` limits what it may send, and `lean` what of a list of tools is kept. `error` and `secrets` make what is reported about it readable
//! and safe.

mod bounded;
mod call;
mod config;
mod connection;
mod error;
#[cfg(feature = "mcp-http")]
mod http;
#[cfg(feature = "mcp-http")]
mod http_client;
mod lean;
mod secrets;
mod server;
mod servers;
mod stdio;
mod tools;

pub(super) use call::call_tool;
pub(super) use servers::McpServers;
pub(super) use tools::list_tools;

//! Recorded conversations for models: an MCP server whose tools search, read and list them.
//!
//! The server only reads. Its tools show the sessions of one working directory, unless they are
//! allowed all.

mod answer;
mod list;
mod read;
mod rows;
mod scope;
mod search;
mod server;
mod tools;

pub use scope::Scope;
pub use server::serve;

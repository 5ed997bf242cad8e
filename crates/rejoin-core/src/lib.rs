//! All of rejoin below its command line: sessions, their logs, and the protocol.
//!
//! # Layout
//!
//! From the top of the program to the bottom; a file imports only from its own folder or from one
//! further down this list.
//!
//! - [`mcp`] serves recorded conversations to models.
//! - [`session`] runs conversations: a pure state machine inside a task.
//! - [`engine`] answers prompts.
//! - [`export`] writes conversations as JSON, as Markdown, and as a page for a browser.
//! - [`briefing`] renders conversations as text for a model.
//! - [`history`] finds sessions and reads them turn by turn, without loading them.
//! - [`sources`] reads the conversations of other tools.
//! - [`index`] is the catalog, a cache that may be deleted.
//! - [`store`] keeps the logs: appending, reading, locking, recovering, the trash.
//! - [`conversation`] reads a log as a conversation: turns, messages, tool calls, searchable text.
//! - [`record`] says what one line of a log means.
//! - [`transport`] is the transport: lines in, lines out, bounded.
//! - [`redact`] masks keys and tokens in payloads.
//! - [`json`] finds its way through JSON text without building a tree, and writes objects.
//! - [`text`] puts text on one line, shortens it, and compares its lines.
//! - [`sys`] is the machine as arguments: clock, ids, disk.

pub mod mcp;
pub mod server;
pub mod session;
pub mod engine;
pub mod export;
pub mod replay;
pub mod briefing;
pub mod history;
pub mod sources;
pub mod index;
pub mod store;
pub mod conversation;
pub mod record;
pub mod transport;
pub mod protocol;
pub mod redact;
pub mod json;
pub mod text;
pub mod sys;

/// The name of the program, as it introduces itself to clients, agents and servers.
pub const NAME: &str = "rejoin";

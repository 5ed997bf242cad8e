//! The payload of a log's first record: what the session is and where it runs.

use serde::{Deserialize, Serialize};

/// The header of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Version of the log's format.
    pub format: u32,
    /// The session's id; the file is named after it.
    pub session_id: String,
    /// The id that clients know it by, if that is another one: the wrapped agent's own, of a
    /// session that was made without us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// The session's working directory: absolute, without `.`, `..` or a trailing slash.
    #[serde(flatten)]
    pub place: Place,
    /// The client that made it, if it said who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Party>,
    /// What answers its prompts.
    pub engine: Party,
    /// The protocol version of the connection that made it.
    pub protocol_version: u16,
    /// The session whose history it began with, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
}

/// The session that another one was forked from. It need not be there any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    /// Its id.
    pub session_id: String,
    /// The message that the fork's history ends with, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// Where a session works; a `reopen` record holds a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The working directory.
    pub cwd: String,
    /// Further directories of the workspace.
    #[serde(default)]
    pub additional_directories: Vec<String>,
    /// The MCP servers that the client named, without anything that may be a secret.
    #[serde(default)]
    pub mcp_servers: Vec<McpServer>,
}

/// A client or engine by name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Its name.
    pub name: String,
    /// Its version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// An MCP server as far as it may be kept: arguments, values of environment variables and
/// headers, and the query of an address never are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// The name the client gave it.
    pub name: String,
    /// `stdio`, `http` or `sse`.
    #[serde(rename = "type")]
    pub transport: String,
    /// The command of a stdio server, or scheme, host and path of an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Names of the environment variables or headers it is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

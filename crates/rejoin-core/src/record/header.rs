//! The payload of a log's first record: what the session is and where it runs.

use serde::{Deserialize, Serialize};

use crate::sys::SessionId;

use super::{AgentSessionId, FORMAT};

/// The header of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Version of the log's format.
    pub format: u32,
    /// The session's id; the file is named after it.
    pub session_id: String,
    /// The id that clients use, if it differs: the wrapped agent's own id, if the session was
    /// created without us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// The session's working directory: absolute, without `.`, `..` or a trailing slash.
    #[serde(flatten)]
    pub workspace: Workspace,
    /// The client that created it, if it identified itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Implementation>,
    /// The engine that answers its prompts.
    pub engine: Implementation,
    /// The protocol version of the connection that created it.
    pub protocol_version: u16,
    /// The session that it was forked from, if it is a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
}

impl Header {
    /// The header of a session of the built-in engine, in the current format and without anything
    /// that is optional.
    pub fn new(id: &SessionId, cwd: &str) -> Self {
        Self {
            format: FORMAT,
            session_id: id.to_string(),
            known_as: None,
            workspace: Workspace::at(cwd),
            client: None,
            engine: Implementation {
                name: "local".to_owned(),
                version: None,
            },
            protocol_version: 1,
            forked_from: None,
        }
    }

    /// The session of the agent that the session was made from, as that agent knows it.
    pub(crate) fn agent_session(&self) -> Option<AgentSessionId> {
        let id = self.known_as.clone()?;
        let agent = self.engine.name.clone();
        Some(AgentSessionId { agent, id })
    }

    /// The client that an answer without the name of a client was given in. A fork has answers that were
    /// given in clients of its source.
    pub(crate) fn answering_client(&self) -> Option<&Implementation> {
        self.client.as_ref().filter(|_| self.forked_from.is_none())
    }
}

/// The session that another one was forked from. It may no longer exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    /// Its id.
    pub session_id: String,
    /// The message that the fork's history ends with, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The cursor at which it was forked, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_id: Option<String>,
}

/// The workspace of a session. A `reopen` record holds a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// The working directory.
    pub cwd: String,
    /// Further directories of the workspace.
    #[serde(default)]
    pub additional_directories: Vec<String>,
    /// The MCP servers that the client named, without possible secrets.
    #[serde(default)]
    pub mcp_servers: Vec<McpServer>,
}

impl Workspace {
    /// A workspace of one directory, without MCP servers.
    pub fn at(cwd: &str) -> Self {
        Self {
            cwd: cwd.to_owned(),
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
        }
    }
}

/// A client or engine by name and version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Implementation {
    /// Its name.
    pub name: String,
    /// Its version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Implementation {
    /// The display name of an engine: the built-in one has the program's name.
    pub fn shown(engine: &str) -> &str {
        match engine {
            "local" => crate::NAME,
            name => name,
        }
    }
}

/// The parts of an MCP server that may be recorded: never arguments, values of environment
/// variables and headers, or the query of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// The name the client gave it.
    pub name: String,
    /// `stdio`, `http`, `sse`, or another type that the client gave.
    #[serde(rename = "type")]
    pub transport: String,
    /// The command of a stdio server, or scheme, host and path of a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Names of its environment variables or headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl McpServer {
    /// The type of a server as it may be shown and recorded. Text that does not look like a type
    /// name may contain anything, so it is replaced.
    pub fn type_name(name: &str) -> &str {
        let plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if !name.is_empty() && name.len() <= 32 && name.chars().all(plain) {
            name
        } else {
            "unknown"
        }
    }
}

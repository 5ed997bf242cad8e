//! The MCP server `rejoin mcp`, with which an agent looks up a conversation that it was handed: it
//! is offered among the MCP servers of its session.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::json::{string_member, text_elements, text_member, with_members};

use crate::engine::agent::capabilities::Capabilities;

/// The name of the server, unless the client has given another one that name.
const NAME: &str = "rejoin";

/// How `rejoin mcp` is started.
#[derive(Clone, Debug)]
pub struct Recall {
    /// The program.
    pub command: PathBuf,
    /// How it reaches the conversations.
    pub reach: Reach,
}

/// How `rejoin mcp` reaches the conversations.
#[derive(Clone, Debug)]
pub enum Reach {
    /// By itself.
    Directly {
        /// The store with the conversations.
        store: PathBuf,
        /// The other tools whose conversations it shows, as its option takes them.
        sources: String,
        /// The variables with those tools' folders: agents start servers with few variables of their
        /// own.
        env: Vec<(&'static str, String)>,
    },
    /// Through this process: only it knows the password of the store.
    Through(Arc<dyn Lend>),
}

/// Lends conversations to other processes.
pub trait Lend: fmt::Debug + Send + Sync {
    /// How a process gets those of a working directory; `None` if it cannot. Must be called inside of a
    /// runtime.
    fn lend(&self, cwd: &str) -> Option<Lent>;
}

/// How a process gets conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The socket to connect to.
    pub socket: PathBuf,
    /// The first line to send.
    pub key: String,
}

/// The variable with the key of [`Lent`].
pub const KEY: &str = "REJOIN_MCP_KEY";

impl Recall {
    /// The parameters of a request that opens a session in this working directory, with the server
    /// added to those of the client, and its name; `None` if the agent starts no servers.
    pub(super) fn offer(
        &self,
        params: &str,
        cwd: &str,
        capabilities: &Capabilities,
    ) -> Option<(String, String)> {
        if !capabilities.mcp_stdio {
            return None;
        }
        let command = self.command.to_str()?;
        let (arguments, env) = self.reach.start(cwd)?;
        let given = text_member(params, "mcpServers").unwrap_or("[]");
        let name = free_name(given);
        let mut server = json!({
            "name": name,
            "command": command,
            "args": arguments,
            "env": env,
        });
        if capabilities.is_native {
            server["type"] = "stdio".into();
        }
        let mut servers: Vec<_> = text_elements(given).map(str::to_owned).collect();
        servers.push(server.to_string());
        let servers = format!("[{}]", servers.join(","));
        Some((with_members(params, &[], &[("mcpServers", &servers)]), name))
    }
}

impl Reach {
    /// The arguments and variables with which `rejoin mcp` shows the conversations of a working
    /// directory.
    fn start(&self, cwd: &str) -> Option<(Value, Value)> {
        let variable = |(name, value): (&str, &str)| json!({ "name": name, "value": value });
        Some(match self {
            Self::Directly {
                store,
                sources,
                env,
            } => {
                let env = env.iter().map(|(name, value)| variable((name, value)));
                let arguments = ["mcp", "--store", store.to_str()?, "--cwd", cwd];
                let sources = ["--sources", sources];
                (json!([&arguments[..], &sources].concat()), env.collect())
            }
            Self::Through(lender) => {
                let Lent { socket, key } = lender.lend(cwd)?;
                let arguments = json!(["mcp", "--through", socket.to_str()?]);
                (arguments, json!([variable((KEY, &key))]))
            }
        })
    }
}

/// The sentence about the server in a briefing: how the session with this id is read with its
/// tools.
pub(super) fn how_to_get_more(server: &str, session: &str) -> String {
    format!(
        "The tools `read`, `search` and `list` of the MCP server \"{server}\" show this conversation \
         in full and others of this folder: its session is \"{session}\", and its turns have the \
         numbers above. Use them before you ask the user for what was said.\n"
    )
}

fn free_name(servers: &str) -> String {
    let taken: Vec<_> = text_elements(servers)
        .filter_map(|server| string_member(server, "name"))
        .collect();
    let mut name = NAME.to_owned();
    let mut number = 1;
    while taken.contains(&name) {
        number += 1;
        name = format!("{NAME}-{number}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_added_to_those_of_the_client() {
        let recall = Recall {
            command: "/bin/rejoin".into(),
            reach: Reach::Directly {
                store: "/s".into(),
                sources: "codex".to_owned(),
                env: vec![("CODEX_HOME", "/c".to_owned())],
            },
        };
        let mut agent = Capabilities {
            mcp_stdio: true,
            ..Capabilities::default()
        };
        let own = |name: &str| {
            json!({ "name": name, "command": "/bin/rejoin",
                "args": ["mcp", "--store", "/s", "--cwd", "/w", "--sources", "codex"],
                "env": [{ "name": "CODEX_HOME", "value": "/c" }] })
        };
        let offer = |params, agent: &Capabilities| {
            let (params, name) = recall.offer(params, "/w", agent)?;
            Some((crate::json::tree(&params)?, name))
        };
        assert_eq!(
            offer(r#"{"cwd":"/w"}"#, &agent),
            Some((
                json!({ "cwd": "/w", "mcpServers": [own("rejoin")] }),
                "rejoin".to_owned()
            ))
        );
        let given = r#"{"mcpServers":[ {"name":"rejoin","n":1.50}, {"name":"x"} ],"cwd":"/w"}"#;
        let (params, name) = recall.offer(given, "/w", &agent).unwrap();
        assert!(
            params.contains(r#"[{"name":"rejoin","n":1.50},{"name":"x"},{"#),
            "{params}"
        );
        assert_eq!(
            crate::json::tree(&params).unwrap()["mcpServers"][2],
            own("rejoin-2")
        );
        assert_eq!(name, "rejoin-2");
        agent.is_native = true;
        assert_eq!(
            offer("{}", &agent).unwrap().0["mcpServers"][0]["type"],
            "stdio"
        );
        agent.mcp_stdio = false;
        assert_eq!(offer("{}", &agent), None);
    }
    #[derive(Debug)]
    struct Lender;

    impl Lend for Lender {
        fn lend(&self, cwd: &str) -> Option<Lent> {
            (cwd == "/w").then(|| Lent {
                socket: "/run/s.sock".into(),
                key: "secret".to_owned(),
            })
        }
    }

    #[test]
    fn a_server_that_goes_through_this_process_gets_a_key_and_no_store() {
        let recall = Recall {
            command: "/bin/rejoin".into(),
            reach: Reach::Through(Arc::new(Lender)),
        };
        let agent = Capabilities {
            mcp_stdio: true,
            ..Capabilities::default()
        };
        let (params, _) = recall.offer("{}", "/w", &agent).unwrap();
        assert_eq!(
            crate::json::tree(&params).unwrap()["mcpServers"][0],
            json!({ "name": "rejoin", "command": "/bin/rejoin",
                "args": ["mcp", "--through", "/run/s.sock"],
                "env": [{ "name": "REJOIN_MCP_KEY", "value": "secret" }] })
        );
        assert_eq!(recall.offer("{}", "/elsewhere", &agent), None);
    }
}

//! All MCP servers of one session.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::SessionConfig;
use crate::engine::process::Launch;
use crate::engine::upstream::Patience;
use crate::sys::lock;
use crate::text::shortened;

use super::config::{ServerConfig, servers};
use super::connected_server::{DemoMcpServer, McpServerState};

/// How long opening a session waits for its servers. The others continue to start.
const OPENS: Duration = Duration::from_secs(1);

/// How many servers a session can have.
const MOST: usize = 64;

/// How many failed servers are reported to the user at once.
const FAILURES: usize = 10;

/// How many characters of a name and of a reason are shown.
const NAMED: usize = 100;
const REASON: usize = 500;

/// The servers of one session, in the order in which the client named them.
#[derive(Default)]
pub(crate) struct McpServers {
    /// How the subprocesses are started.
    launch: Launch,
    list: Mutex<McpServerList>,
}

#[derive(Default)]
struct McpServerList {
    servers: Vec<Arc<DemoMcpServer>>,
    /// Servers that are being ended.
    ending: Vec<Weak<DemoMcpServer>>,
    /// Whether the session is closed, so that no server may be started.
    over: bool,
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration may contain secrets.
        f.write_str("McpServers")
    }
}

impl McpServers {
    /// A session without servers.
    pub(crate) fn new(launch: Launch) -> Self {
        Self {
            launch,
            list: Mutex::default(),
        }
    }

    /// Updates the servers to the session's configuration: starts new ones, ends those that are no
    /// longer configured, keeps the others. Must be called inside of a runtime.
    pub(crate) fn configure(&self, session: &SessionConfig) {
        let config = servers(&session.params.0);
        let cwd = &session.workspace.cwd;
        let mut list = lock(&self.list);
        if list.over {
            return;
        }
        let mut before = std::mem::take(&mut list.servers);
        for config in config {
            let server = self.server(config, cwd, &list.servers, &mut before);
            list.servers.push(server);
        }
        list.ending.retain(|server| server.strong_count() > 0);
        list.ending.extend(before.iter().map(Arc::downgrade));
        drop(list);
        for server in before {
            tokio::spawn(async move { server.end(Patience::EndOfInput).await });
        }
    }

    /// An existing server with this configuration, or a new one.
    fn server(
        &self,
        config: ServerConfig,
        cwd: &str,
        others: &[Arc<DemoMcpServer>],
        before: &mut Vec<Arc<DemoMcpServer>>,
    ) -> Arc<DemoMcpServer> {
        if others.len() >= MOST {
            let why = format!("a session can have {MOST} MCP servers");
            return DemoMcpServer::unusable(config, cwd, &why);
        }
        if others.iter().any(|other| other.name() == config.name) {
            return DemoMcpServer::unusable(config, cwd, "another server has the same name");
        }
        match before.iter().position(|server| server.is_for(&config, cwd)) {
            Some(at) => {
                let server = before.remove(at);
                server.restart_if_ended();
                server
            }
            None => DemoMcpServer::start(config, cwd, self.launch.clone()),
        }
    }

    /// Waits a short time for all servers to start or fail.
    pub(crate) async fn wait_until_started(&self) {
        let until = Instant::now() + OPENS;
        for server in self.list() {
            server.wait_until_started(until).await;
        }
    }

    /// The state of the servers, for the response to the client that opens the session; `None` if
    /// there are none.
    pub(crate) fn report(&self) -> Option<String> {
        let servers: Vec<Value> = self.list().iter().map(|server| entry(server)).collect();
        if servers.is_empty() {
            return None;
        }
        let answer = json!({ "_meta": { "rejoin": { "mcpServers": servers } } });
        Some(answer.to_string())
    }

    /// The servers that could never be used, as a message to the user; each is reported once.
    pub(crate) fn failures(&self) -> Option<String> {
        let servers = self.list().into_iter();
        let failed = servers.filter_map(|server| Some((server.unreported_failure()?, server)));
        let mut lines: Vec<String> = failed
            .map(|(why, server)| {
                let name = shortened(server.name(), NAMED);
                let why = shortened(&why, REASON);
                format!("[rejoin] The MCP server `{name}` cannot be used: {why}.\n")
            })
            .collect();
        if lines.len() > FAILURES {
            let more = lines.len() - FAILURES;
            lines.truncate(FAILURES);
            lines.push(format!(
                "[rejoin] {more} more MCP servers cannot be used; `/tools` lists them.\n"
            ));
        }
        (!lines.is_empty()).then(|| lines.concat())
    }

    /// Ends all servers for good.
    pub(crate) async fn end(&self, patience: Patience) {
        let servers = {
            let mut list = lock(&self.list);
            list.over = true;
            let ending: Vec<_> = list.ending.iter().filter_map(Weak::upgrade).collect();
            let mut all = list.servers.clone();
            all.extend(ending);
            all
        };
        let mut tasks: JoinSet<()> = servers
            .into_iter()
            .map(|server| async move { server.end(patience).await })
            .collect();
        while tasks.join_next().await.is_some() {}
    }

    /// The current servers.
    pub(super) fn list(&self) -> Vec<Arc<DemoMcpServer>> {
        lock(&self.list).servers.clone()
    }

    /// Splits the name of a server off the text after a command. The longest matching name is used.
    pub(super) fn named<'a>(&self, text: &'a str) -> Option<(Arc<DemoMcpServer>, &'a str)> {
        let servers = self.list().into_iter();
        let named = servers.filter_map(|server| {
            let rest = strip_name(text, server.name())?;
            Some((server, rest))
        });
        // Of servers with the same name the first one is used.
        named.reduce(|best, next| {
            if next.1.len() < best.1.len() {
                next
            } else {
                best
            }
        })
    }
}

/// The text after a name and white space.
pub(super) fn strip_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.trim_start().strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim_start())
}

fn entry(server: &DemoMcpServer) -> Value {
    let (status, error) = match server.state() {
        McpServerState::Starting | McpServerState::Closed => ("starting", None),
        McpServerState::Ready(connection) if connection.has_ended() => {
            ("failed", Some("it has ended".to_owned()))
        }
        McpServerState::Ready(_) => ("connected", None),
        McpServerState::Failed(why) => ("failed", Some(why.to_string())),
    };
    let mut entry = json!({ "name": server.name(), "status": status });
    if let Some(error) = error {
        entry["error"] = error.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Secret;
    use crate::record::header::Workspace;

    fn session(servers: &Value) -> SessionConfig {
        SessionConfig {
            name: "s".to_owned(),
            workspace: Workspace::at("/no/such/folder"),
            params: Secret::new(&json!({ "mcpServers": servers }).to_string()),
        }
    }

    fn process(name: &str) -> Value {
        json!({ "name": name, "command": "/no/such/server", "args": [], "env": [] })
    }

    #[tokio::test]
    async fn unusable_servers_are_reported_with_the_reason() {
        let servers = McpServers::default();
        assert_eq!(servers.report(), None);
        let old =
            json!({ "name": "old", "type": "sse", "url": "http://h/?k=S3CRET", "headers": [] });
        servers.configure(&session(&json!([old, process("a"), process("a")])));
        for server in servers.list() {
            server
                .wait_until_started(Instant::now() + Duration::from_mins(1))
                .await;
        }
        let report: Value = serde_json::from_str(&servers.report().unwrap()).unwrap();
        let failed = |name, error| json!({ "name": name, "status": "failed", "error": error });
        let expected = json!([
            failed("old", "the transport `sse` is not supported"),
            failed("a", "there is no folder /no/such/folder to start it in"),
            failed("a", "another server has the same name"),
        ]);
        assert_eq!(report["_meta"]["rejoin"]["mcpServers"], expected);
        servers.end(Patience::Hurry).await;
        servers.configure(&session(&json!([process("late")])));
        assert!(servers.list().iter().all(|server| server.name() != "late"));
    }

    #[tokio::test]
    async fn more_servers_than_a_session_can_have_are_reported_as_failed() {
        let servers = McpServers::default();
        let named: Vec<Value> = (0..MOST + 2).map(|at| process(&at.to_string())).collect();
        servers.configure(&session(&json!(named)));
        let report: Value = serde_json::from_str(&servers.report().unwrap()).unwrap();
        let report = report["_meta"]["rejoin"]["mcpServers"].as_array().unwrap();
        assert_eq!(report.len(), MOST + 2);
        for (at, server) in report.iter().enumerate() {
            let refused = server["error"] == "a session can have 64 MCP servers";
            assert_eq!(refused, at >= MOST, "{server}");
        }
        // Failed servers are reported to the user once.
        for server in servers.list() {
            server
                .wait_until_started(Instant::now() + Duration::from_mins(1))
                .await;
        }
        let text = servers.failures().unwrap();
        assert_eq!(text.lines().count(), FAILURES + 1);
        assert!(text.starts_with("[rejoin] The MCP server `0` cannot be used: there is no folder"));
        assert!(
            text.contains("[rejoin] 56 more MCP servers cannot be used"),
            "{text}"
        );
        assert_eq!(servers.failures(), None);
        // Requesting an unusable server does not start it.
        let last = servers.list().pop().unwrap();
        last.restart_if_ended();
        assert!(matches!(last.state(), McpServerState::Failed(_)));
        // A server that was moved into the limit is started.
        servers.configure(&session(&json!([process("65")])));
        let moved = servers.list().pop().unwrap();
        assert!(matches!(moved.state(), McpServerState::Starting));
        servers.end(Patience::Hurry).await;
    }

    #[tokio::test]
    async fn the_longest_matching_name_is_used() {
        let servers = McpServers::default();
        let named = ["my", "my server", "my server 2", "é"].map(process);
        servers.configure(&session(&json!(named)));
        for (text, expected) in [
            ("my tool {}", Some(("my", "tool {}"))),
            (" my server  tool", Some(("my server", "tool"))),
            ("my server 2\ntool", Some(("my server 2", "tool"))),
            ("my server 22", Some(("my server", "22"))),
            ("é", Some(("é", ""))),
            ("myserver tool", None),
            ("", None),
        ] {
            let found = servers.named(text);
            let found = found.as_ref().map(|(server, rest)| (server.name(), *rest));
            assert_eq!(found, expected, "{text:?}");
        }
        servers.end(Patience::Hurry).await;
    }
}

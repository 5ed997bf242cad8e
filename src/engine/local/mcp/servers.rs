//! All MCP servers of one session.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::Wanted as Session;
use crate::engine::relay::Patience;
use crate::sys::lock;

use super::server::{Server, State};
use super::wanted::{Wanted, servers};

/// How long opening a session waits for its servers. Who is not there by then goes on starting.
const OPENS: Duration = Duration::from_secs(1);

/// The servers of one session, in the order in which the client named them.
#[derive(Default)]
pub(crate) struct Servers {
    /// The program that ends their processes if we are killed.
    guard: Option<PathBuf>,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    servers: Vec<Arc<Server>>,
    /// Those that are being ended.
    leaving: Vec<Weak<Server>>,
    /// Whether no server may be started any more.
    over: bool,
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // How they are reached may be secret.
        f.write_str("Servers")
    }
}

impl Servers {
    /// A session without servers.
    pub(crate) fn new(guard: Option<PathBuf>) -> Self {
        Self {
            guard,
            list: Mutex::default(),
        }
    }

    /// Sees to it that the session has the servers that it is wanted to have: new ones begin to
    /// start, others are ended, those that stay are left alone. Must be called inside of a runtime.
    pub(crate) fn want(&self, session: &Session) {
        let wanted = servers(&session.params.0);
        let cwd = &session.place.cwd;
        let mut list = lock(&self.list);
        if list.over {
            return;
        }
        let mut before = std::mem::take(&mut list.servers);
        for wanted in wanted {
            let kept = before.iter().position(|server| server.is(&wanted, cwd));
            let server = match kept {
                Some(at) => {
                    let server = before.remove(at);
                    server.revive();
                    server
                }
                None => self.server(wanted, cwd, &list.servers),
            };
            list.servers.push(server);
        }
        list.leaving.retain(|server| server.strong_count() > 0);
        list.leaving.extend(before.iter().map(Arc::downgrade));
        drop(list);
        for server in before {
            tokio::spawn(async move { server.end(Patience::EndOfInput).await });
        }
    }

    fn server(&self, wanted: Wanted, cwd: &str, others: &[Arc<Server>]) -> Arc<Server> {
        if others.iter().any(|other| other.name() == wanted.name) {
            return Server::unusable(wanted, cwd, "another server has the same name");
        }
        Server::start(wanted, cwd, self.guard.clone())
    }

    /// Waits until all have started or cannot be, but not for long.
    pub(crate) async fn settle(&self) {
        let until = Instant::now() + OPENS;
        for server in self.list() {
            server.settled(until).await;
        }
    }

    /// How they are, as a client is told that opens the session; nothing if there are none.
    pub(crate) fn report(&self) -> Option<String> {
        let servers: Vec<Value> = self.list().iter().map(|server| entry(server)).collect();
        if servers.is_empty() {
            return None;
        }
        let answer = json!({ "_meta": { "rejoin": { "mcpServers": servers } } });
        Some(answer.to_string())
    }

    /// Ends them all, for good.
    pub(crate) async fn end(&self, patience: Patience) {
        let servers = {
            let mut list = lock(&self.list);
            list.over = true;
            let leaving: Vec<_> = list.leaving.iter().filter_map(Weak::upgrade).collect();
            let mut all = list.servers.clone();
            all.extend(leaving);
            all
        };
        let mut ending: JoinSet<()> = servers
            .into_iter()
            .map(|server| async move { server.end(patience).await })
            .collect();
        while ending.join_next().await.is_some() {}
    }

    /// The servers as they are now.
    pub(super) fn list(&self) -> Vec<Arc<Server>> {
        lock(&self.list).servers.clone()
    }

    /// Cuts the name of a server off the beginning of what follows a command. The longest name that
    /// fits is meant.
    pub(super) fn named<'a>(&self, text: &'a str) -> Option<(Arc<Server>, &'a str)> {
        let servers = self.list().into_iter();
        let named = servers.filter_map(|server| {
            let rest = cut(text, server.name())?;
            Some((server, rest))
        });
        // Of servers with the same name the first is meant.
        named.reduce(|best, next| {
            if next.1.len() < best.1.len() {
                next
            } else {
                best
            }
        })
    }
}

/// What follows a name and white space.
pub(super) fn cut<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.trim_start().strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim_start())
}

fn entry(server: &Server) -> Value {
    let (status, error) = match server.state() {
        State::Starting | State::Gone => ("starting", None),
        State::Ready(connection) if connection.is_over() => {
            ("failed", Some("it has ended".to_owned()))
        }
        State::Ready(_) => ("connected", None),
        State::Failed(why) => ("failed", Some(why.to_string())),
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
    use crate::record::header::Place;

    fn session(servers: &Value) -> Session {
        Session {
            name: "s".to_owned(),
            place: Place {
                cwd: "/no/such/folder".to_owned(),
                additional_directories: Vec::new(),
                mcp_servers: Vec::new(),
            },
            params: Secret(json!({ "mcpServers": servers }).to_string().into()),
        }
    }

    fn process(name: &str) -> Value {
        json!({ "name": name, "command": "/no/such/server", "args": [], "env": [] })
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_reported_with_the_reason() {
        let servers = Servers::default();
        assert_eq!(servers.report(), None);
        let old =
            json!({ "name": "old", "type": "sse", "url": "http://h/?k=S3CRET", "headers": [] });
        servers.want(&session(&json!([old, process("a"), process("a")])));
        for server in servers.list() {
            server
                .settled(Instant::now() + Duration::from_mins(1))
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
        servers.want(&session(&json!([process("late")])));
        assert!(servers.list().iter().all(|server| server.name() != "late"));
    }

    #[tokio::test]
    async fn the_longest_name_that_fits_is_meant() {
        let servers = Servers::default();
        let named = ["my", "my server", "my server 2", "é"].map(process);
        servers.want(&session(&json!(named)));
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

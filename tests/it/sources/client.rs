//! A client of a server in this process that lists conversations of other tools.

use std::io::{BufRead, BufReader, Lines, PipeReader, PipeWriter, Write};
use std::path::Path;
use std::sync::Arc;

use rejoin::engine::Engine;
use rejoin::engine::demo::LocalEngine;
use rejoin::server::Options;
use rejoin::session::ReplayPolicy;
use rejoin::sources::{LiveSources, SOURCES, Source};
use rejoin::sys::Sys;
use serde_json::{Value, json};

use super::places;
use crate::support::server::{self, Server};

/// A connection.
pub(super) struct Client {
    input: PipeWriter,
    output: Lines<BufReader<PipeReader>>,
    _server: Server,
    id: u64,
    /// The notifications that came since the last request.
    pub(super) notified: Vec<Value>,
}

impl Client {
    /// Of the built-in engine, with the sources of these names; with all of them, if there are none.
    /// `unstable` among them is the option, `clip` one that clips what tools return to 2000 bytes, and
    /// `subagents` the client's capability.
    pub(super) fn new(store: &Path, home: &Path, names: &[&str]) -> Self {
        Self::of(Arc::new(LocalEngine::new()), store, home, names)
    }

    /// The same with another engine.
    pub(super) fn of(engine: Arc<dyn Engine>, store: &Path, home: &Path, names: &[&str]) -> Self {
        let is_chosen = |source: &&Source| names.is_empty() || names.contains(&source.name);
        let chosen = SOURCES.iter().filter(is_chosen).collect();
        let options = Options {
            store: Some(store.to_owned()),
            sources: Some(Arc::new(LiveSources::new(chosen, places(home)))),
            unstable: names.contains(&"unstable"),
            replay: ReplayPolicy {
                clip: names.contains(&"clip").then_some(2000),
                ..ReplayPolicy::default()
            },
            ..Options::default()
        };
        let (server, input, output) = server::start(options, Sys::real(), engine, 2);
        let mut client = Self {
            input,
            output: BufReader::new(output).lines(),
            _server: server,
            id: 0,
            notified: Vec::new(),
        };
        let mut capabilities = json!({});
        if names.contains(&"subagents") {
            capabilities["subagents"] = json!({});
        }
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        client.call("initialize", params);
        client
    }

    /// The result of a request.
    pub(super) fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The response to a request.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.notified.clear();
        let id = self.id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.notified.push(message);
        }
    }

    /// The next message.
    pub(super) fn next(&mut self) -> Value {
        let line = self.output.next().expect("it goes on").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The entries of a list.
    pub(super) fn list(&mut self) -> Vec<Value> {
        let result = self.call("session/list", json!({ "limit": 1000 }));
        let sessions = result["sessions"].as_array().unwrap().clone();
        assert_eq!(result["total"], sessions.len());
        sessions
    }

    /// The titles of a list.
    pub(super) fn titles(&mut self) -> Vec<String> {
        let title = |session: &Value| session["title"].as_str().unwrap_or("-").to_owned();
        self.list().iter().map(title).collect()
    }
}

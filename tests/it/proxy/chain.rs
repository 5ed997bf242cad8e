//! A client, `rejoin proxy` and an agent behind a small conductor.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::agent::{Agent, GUARD, Inbox};
use crate::support::conductor;
use crate::support::systems::{self, FOLDER};

/// A chain, as its client sees it.
struct Client {
    conductor: Box<dyn Agent>,
    inbox: Inbox,
    last: u64,
}

impl Client {
    /// Starts a chain whose agent is the built-in engine with a store of its own.
    fn start(stores: &Path) -> Self {
        let agent = stores.join("agent");
        let command = ["--", env!("CARGO_BIN_EXE_rejoin"), "serve", "--store"];
        let mut args: Vec<String> = command.map(str::to_owned).to_vec();
        args.push(agent.to_str().expect("it is UTF-8").to_owned());
        let (conductor, output) = conductor::start(&stores.join("proxy"), &args);
        let mut client = Self {
            conductor,
            inbox: Inbox::new(output),
            last: 0,
        };
        let greeting = client.call("initialize", &json!({ "protocolVersion": 1 }));
        assert_eq!(greeting["agentCapabilities"]["loadSession"], true);
        client
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let sent = self.conductor.send(format!("{line}\n").as_bytes());
        sent.expect("it reads");
        id
    }

    fn next(&mut self) -> Option<Value> {
        let line = self.inbox.next(GUARD).expect("it does not hang");
        line.map(|line| serde_json::from_slice(&line).expect("it sends JSON"))
    }

    /// The result of a request, and the updates before it.
    fn finish(&mut self, id: u64) -> (Value, Vec<Value>) {
        let mut updates = Vec::new();
        loop {
            let mut message = self.next().expect("an answer comes");
            if message["id"] == id {
                assert!(message["error"].is_null(), "{message}");
                return (message["result"].take(), updates);
            }
            assert_eq!(message["method"], "session/update", "{message}");
            updates.push(message["params"]["update"].take());
        }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.finish(id).0
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        self.send("session/prompt", &params)
    }
}

/// What is said in these updates.
fn said(updates: &[Value]) -> String {
    let texts = updates.iter().filter(|update| {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        kind.ends_with("message_chunk")
    });
    let texts = texts.filter_map(|update| update["content"]["text"].as_str());
    texts.collect()
}

#[test]
fn a_conversation_survives_the_death_of_the_whole_chain() {
    let stores = tempfile::tempdir().expect("folders can be made");
    let mut client = Client::start(stores.path());
    let place = json!({ "cwd": FOLDER, "mcpServers": [] });
    let session = client.call("session/new", &place)["sessionId"].clone();
    let session = session.as_str().expect("a session").to_owned();
    let id = client.prompt(&session, "/flood 300 10");
    let (result, live) = client.finish(id);
    assert_eq!(result["stopReason"], "end_turn");
    let flood = said(&live);
    client.prompt(&session, "/slow 600");
    let begun = client.next().expect("an update comes");
    assert_eq!(begun["method"], "session/update");
    client.conductor.kill();

    let mut client = Client::start(stores.path());
    let list = client.call("session/list", &json!({}));
    assert_eq!(list["sessions"][0]["sessionId"], session.as_str());
    let place = json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] });
    let id = client.send("session/load", &place);
    let (_, replayed) = client.finish(id);
    let begun = begun["params"]["update"]["content"]["text"].as_str();
    let expected = format!("/flood 300 10{flood}/slow 600{}", begun.expect("a text"));
    assert!(said(&replayed).starts_with(&expected), "{replayed:?}");

    // The agent knows it, too.
    let id = client.prompt(&session, "/recall 2");
    let (result, updates) = client.finish(id);
    assert_eq!(result["stopReason"], "end_turn");
    assert_eq!(
        said(&updates),
        "Prompt 1 of this session was:\n\n/flood 300 10"
    );
    client.conductor.end_input();
    client.conductor.wait().expect("it ends well");
    assert_eq!(client.next(), None);
}

#[test]
fn a_turn_is_cancelled_through_the_chain() {
    if !systems::can_run("a_turn_is_cancelled_through_the_chain") {
        return;
    }
    let stores = tempfile::tempdir().expect("folders can be made");
    let mut client = Client::start(stores.path());
    let place = json!({ "cwd": FOLDER, "mcpServers": [] });
    let session = client.call("session/new", &place)["sessionId"].clone();
    let session = session.as_str().expect("a session").to_owned();
    let id = client.prompt(&session, "/slow 600");
    let begun = client.next().expect("an update comes");
    assert_eq!(begun["method"], "session/update");
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    let sent = client.conductor.send(format!("{cancel}\n").as_bytes());
    sent.expect("it reads");
    assert_eq!(client.finish(id).0["stopReason"], "cancelled");
    client.conductor.stop();
    client.conductor.wait().expect("it ends well");
}

#[test]
fn a_flood_comes_through_whole_and_in_order() {
    let stores = tempfile::tempdir().expect("folders can be made");
    let mut client = Client::start(stores.path());
    let place = json!({ "cwd": FOLDER, "mcpServers": [] });
    let session = client.call("session/new", &place)["sessionId"].clone();
    let session = session.as_str().expect("a session").to_owned();
    // The client does not read until everything between the agent and the client is full.
    client.inbox.pause();
    let id = client.prompt(&session, "/flood 5000 400");
    let place = json!({ "sessionId": "none", "cwd": FOLDER, "mcpServers": [] });
    let other = client.send("session/close", &place);
    client.inbox.go_on();
    let mut texts = String::new();
    let (mut turned, mut refused) = (false, false);
    while !(turned && refused) {
        let message = client.next().expect("an answer comes");
        if message["id"] == id {
            assert_eq!(message["result"]["stopReason"], "end_turn");
            turned = true;
        } else if message["id"] == other {
            assert!(message["error"].is_object(), "{message}");
            refused = true;
        } else {
            let text = message["params"]["update"]["content"]["text"].as_str();
            texts.push_str(text.unwrap_or_default());
        }
    }
    let id = client.prompt(&session, "/recall 1");
    client.finish(id);
    let place = json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] });
    let id = client.send("session/load", &place);
    let (_, replayed) = client.finish(id);
    let agent: Vec<Value> = replayed
        .into_iter()
        .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
        .collect();
    assert!(texts.len() > 1_000_000, "{}", texts.len());
    assert!(said(&agent).starts_with(&texts));
}

//! Several clients of one process.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use rejoin::engine::{AttachOutcome, AttachReason, CloseReason, PromptEnd};
use rejoin::server::{Options, Process, ProcessKind};
use rejoin::sys::sim::SimDisk;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::engine::{Event, Scripted};
use crate::support::agent::{GUARD, Inbox};
use crate::support::client::Client;
use crate::support::systems::FOLDER;

/// A process, and what its engine is asked for.
struct Rig {
    runtime: Runtime,
    process: Process,
    events: Receiver<Event>,
}

struct Served {
    client: Client,
    serving: JoinHandle<io::Result<()>>,
}

impl Rig {
    fn start() -> Self {
        let (tell, events) = mpsc::channel();
        let tell = Arc::new(Mutex::new(tell));
        let engine = Arc::new(Scripted { tell, wraps: false });
        let options = Options {
            store: Some(Path::new("/store").to_owned()),
            ..Options::default()
        };
        let runtime = Builder::new_multi_thread().enable_all().build();
        Self {
            runtime: runtime.expect("runtimes can be made"),
            process: Process::new(options, SimDisk::new().sys(), engine, ProcessKind::Host),
            events,
        }
    }

    fn connect(&self, version: u8) -> Served {
        let (input, to_server) = io::pipe().expect("pipes can be made");
        let (from_server, output) = io::pipe().expect("pipes can be made");
        let process = self.process.clone();
        let serving = async move { process.serve_stream(input, output).await };
        let serving = self.runtime.spawn(serving);
        let inbox = Inbox::new(Box::new(from_server));
        let client = Client::new(Box::new(to_server), inbox, version);
        Served { client, serving }
    }

    /// The engine is asked to attach, and does.
    fn attach(&self, expected: AttachReason) {
        match self.event() {
            Event::Attach(how, _, responder) if how == expected => {
                responder
                    .send(Ok(AttachOutcome::default()))
                    .expect("it waits");
            }
            event => panic!("{event:?}"),
        }
    }

    fn event(&self) -> Event {
        self.events
            .recv_timeout(GUARD)
            .expect("the engine is asked")
    }

    /// A new session of this client.
    fn session(&self, client: &mut Client) -> String {
        let id = client.ask("session/new", &json!({ "cwd": FOLDER, "mcpServers": [] }));
        self.attach(AttachReason::New);
        let (_, answer) = client.take(id);
        let session = answer["result"]["sessionId"].as_str();
        session.expect("an id").to_owned()
    }

    /// The client has gone, and everything that it had is released.
    fn gone(&self, served: Served) {
        drop(served.client);
        let served = self.runtime.block_on(served.serving);
        served.expect("no panic").expect("serving began");
    }
}

fn end_of_turn() -> PromptEnd {
    PromptEnd::With(r#"{"stopReason":"end_turn"}"#.to_owned())
}

fn prompt(session: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "go" }] })
}

#[test]
fn clients_of_one_process_have_their_own_sessions_versions_and_ends() {
    let rig = Rig::start();
    let (mut first, mut second) = (rig.connect(1), rig.connect(2));
    let (one, two) = (
        rig.session(&mut first.client),
        rig.session(&mut second.client),
    );
    first.client.ask("session/prompt", &prompt(&one));
    let Event::Prompt(turn_of_first) = rig.event() else {
        panic!("it is prompted");
    };
    // The first client goes in the middle of its turn, and the second one works on.
    drop(first.client);
    let asked = second.client.ask("session/prompt", &prompt(&two));
    let Event::Prompt(turn) = rig.event() else {
        panic!("it is prompted");
    };
    turn.send(Ok(end_of_turn())).expect("it waits");
    assert!(second.client.take(asked).1.get("result").is_some());
    // The turn that has lost its client runs to its end.
    turn_of_first.send(Ok(end_of_turn())).expect("it waits");
    let served = rig.runtime.block_on(first.serving);
    served.expect("no panic").expect("serving began");
    assert!(matches!(rig.event(), Event::Part(CloseReason::Closed)));
    // The next client has all of it.
    let mut third = rig.connect(1);
    let load = json!({ "sessionId": one, "cwd": FOLDER, "mcpServers": [] });
    let load = third.client.ask("session/load", &load);
    rig.attach(AttachReason::Again);
    assert!(third.client.take(load).1.get("result").is_some());
    let listed = third.client.answer("session/list", &json!({}));
    assert_eq!(
        listed["result"]["sessions"].as_array().map(Vec::len),
        Some(2)
    );
    rig.gone(second);
    rig.gone(third);
}

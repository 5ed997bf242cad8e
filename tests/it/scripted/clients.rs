//! Several clients of one process.

use std::io::{self, PipeWriter, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

use rejoin::engine::{Attach, Attached, CloseReason, Ended};
use rejoin::server::{Options, Process};
use rejoin::sys::sim::SimDisk;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::engine::{Event, Scripted};
use crate::support::agent::{GUARD, Inbox};
use crate::support::systems::FOLDER;

/// A process, and what its engine is asked for.
struct Rig {
    runtime: Runtime,
    process: Process,
    events: Receiver<Event>,
}

struct Client {
    input: PipeWriter,
    inbox: Inbox,
    serving: JoinHandle<io::Result<()>>,
    last: u64,
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
            process: Process::new(options, SimDisk::new().sys(), engine),
            events,
        }
    }

    fn connect(&self, version: u8) -> Client {
        let (input, to_server) = io::pipe().expect("pipes can be made");
        let (from_server, output) = io::pipe().expect("pipes can be made");
        let process = self.process.clone();
        let serving = async move { process.serve_stream(input, output).await };
        let mut client = Client {
            input: to_server,
            inbox: Inbox::new(Box::new(from_server)),
            serving: self.runtime.spawn(serving),
            last: 0,
        };
        let info = json!({ "name": "rig", "version": "1" });
        let hello = json!({ "protocolVersion": version, "info": info });
        let answer = client.answer("initialize", &hello);
        assert_eq!(answer["result"]["protocolVersion"], version);
        client
    }

    /// The engine is asked to attach, and does.
    fn attach(&self, expected: Attach) {
        match self.event() {
            Event::Attach(how, _, responder) if how == expected => {
                responder.send(Ok(Attached::default())).expect("it waits");
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
        self.attach(Attach::New);
        let answer = client.take(id);
        let session = answer["result"]["sessionId"].as_str();
        session.expect("an id").to_owned()
    }

    /// The client has gone, and everything that it had is released.
    fn gone(&self, client: Client) {
        drop(client.input);
        let served = self.runtime.block_on(client.serving);
        served.expect("no panic").expect("serving began");
    }
}

impl Client {
    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.input, "{request}").expect("the process reads");
        id
    }

    /// The answer to a request. What comes before it is passed over.
    fn take(&self, id: u64) -> Value {
        loop {
            let line = self.inbox.next(GUARD).expect("something comes");
            let line = line.expect("the connection goes on");
            let message: Value = serde_json::from_slice(&line).expect("a message is JSON");
            if message["id"] == id {
                return message;
            }
        }
    }

    fn answer(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.take(id)
    }
}

fn end_of_turn() -> Ended {
    Ended::With(r#"{"stopReason":"end_turn"}"#.to_owned())
}

fn prompt(session: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "go" }] })
}

#[test]
fn clients_of_one_process_have_their_own_sessions_versions_and_ends() {
    let rig = Rig::start();
    let (mut first, mut second) = (rig.connect(1), rig.connect(2));
    let (one, two) = (rig.session(&mut first), rig.session(&mut second));
    first.ask("session/prompt", &prompt(&one));
    let Event::Prompt(turn_of_first) = rig.event() else {
        panic!("it is prompted");
    };
    // The first client goes in the middle of its turn, and the second one works on.
    drop(first.input);
    let asked = second.ask("session/prompt", &prompt(&two));
    let Event::Prompt(turn) = rig.event() else {
        panic!("it is prompted");
    };
    turn.send(Ok(end_of_turn())).expect("it waits");
    assert!(second.take(asked).get("result").is_some());
    // The turn that has lost its client runs to its end.
    turn_of_first.send(Ok(end_of_turn())).expect("it waits");
    let served = rig.runtime.block_on(first.serving);
    served.expect("no panic").expect("serving began");
    assert!(matches!(rig.event(), Event::Part(CloseReason::Closed)));
    // The next client has all of it.
    let mut third = rig.connect(1);
    let load = json!({ "sessionId": one, "cwd": FOLDER, "mcpServers": [] });
    let load = third.ask("session/load", &load);
    rig.attach(Attach::Again);
    assert!(third.take(load).get("result").is_some());
    let listed = third.answer("session/list", &json!({}));
    assert_eq!(
        listed["result"]["sessions"].as_array().map(Vec::len),
        Some(2)
    );
    rig.gone(second);
    rig.gone(third);
}

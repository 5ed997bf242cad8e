//! Processes that run out of descriptors.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::sockets::socket;
use super::stage::{Kind, Stage, ends};
use crate::keep::Served;
use crate::support::env;
use crate::support::systems::FOLDER;
use crate::support::wrapped::until;

/// How long a connection may take to be served or refused.
const PATIENCE: Duration = Duration::from_mins(2);

/// A connection to a process of the store, as that of a client, once it is served or refused.
fn connection(socket: &Path) -> Result<UnixStream, String> {
    let stream = UnixStream::connect(socket).map_err(|error| error.to_string())?;
    let connect = json!({ "jsonrpc": "2.0", "id": 0, "method": "_rejoin/connect", "params": {} });
    let limited = stream.set_read_timeout(Some(PATIENCE));
    limited.map_err(|error| error.to_string())?;
    // A refusal may be there before this is written.
    let written = writeln!(&stream, "{connect}");
    let mut answer = String::new();
    let read = BufReader::new(&stream).read_line(&mut answer).map(drop);
    if let (Err(error), true) = (written.and(read), answer.is_empty()) {
        return Err(error.to_string());
    }
    let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    match answer["error"]["message"].as_str() {
        Some(refused) => Err(refused.to_owned()),
        None => Ok(stream),
    }
}

/// Connects as often as the process allows, which has so many descriptors; returns the connections.
fn exhaust(socket: &Path, descriptors: usize) -> Vec<UnixStream> {
    let mut connections = Vec::new();
    loop {
        match connection(socket) {
            Ok(stream) => connections.push(stream),
            Err(refused) => {
                // Without the descriptor in reserve, there are no words.
                let words = ["descriptors", "reset", "refused", "Broken pipe"];
                let is_known = words.iter().any(|word| refused.contains(word));
                assert!(is_known || refused.contains("EOF"), "{refused}");
                return connections;
            }
        }
        assert!(connections.len() < descriptors, "there is no end");
    }
}

/// Clients come until a host has no descriptors left, and go, twice, while a turn runs.
fn host_without_descriptors(descriptors: usize) {
    let stage = Stage::new(Kind::Wrap);
    let limit = format!("ulimit -n {descriptors}");
    let mut client = Served::start(stage.command(&["--keep"], &limit), 1);
    let session = client.session();
    let turn = client.prompt(&session, "hang");
    let socket = socket(&stage.store);
    for round in 0..2 {
        let connections = exhaust(&socket, descriptors);
        // A client costs one, and a process has few of its own. Those who have just gone may not be gone
        // for the process.
        assert!(
            round > 0 || connections.len() + 30 >= descriptors,
            "{} clients with {descriptors} descriptors",
            connections.len()
        );
        // Those that are there are served; what needs a descriptor fails, and nothing else.
        let params = json!({ "cwd": FOLDER, "mcpServers": [] });
        let (mut refused, mut sessions) = (0, Vec::new());
        for _ in 0..10 {
            let answer = client.client.answer("session/new", &params);
            match answer["result"]["sessionId"].as_str() {
                Some(made) => sessions.push(made.to_owned()),
                None => refused += 1,
            }
        }
        assert!(round > 0 || refused > 0);
        drop(connections);
        for made in sessions {
            client
                .client
                .answer("session/close", &json!({ "sessionId": made }));
        }
    }
    // Another client comes when the others are gone, and goes on with the session.
    let other = until(|| connection(&socket).map(drop));
    other.expect("there is room again");
    let mut second = Served::start(stage.command(&["--keep"], &limit), 1);
    until(|| {
        let loaded = second.client.answer("session/load", &place(&session));
        loaded
            .get("result")
            .map(drop)
            .ok_or_else(|| loaded.to_string())
    })
    .expect("there is room again");
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    client.client.send(&cancel);
    let (_, answer) = client.client.take(turn);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    ends(&mut second, &session, "say words");
    second.end();
    client.end();
}

#[test]
fn a_host_without_descriptors_goes_on() {
    for descriptors in [40, 64, 256] {
        host_without_descriptors(descriptors);
    }
    // As many connections as that need as many descriptors of the test.
    if env::slow() && raised() {
        host_without_descriptors(1024);
    }
}

/// Raises the limit of this process.
fn raised() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).is_ok()
}

/// A process of one client keeps its socket.
#[test]
fn an_owner_without_descriptors_is_reached_later() {
    let stage = Stage::new(Kind::Serve);
    let mut owner = Served::start(stage.command(&[], "ulimit -n 48"), 1);
    let session = owner.session();
    ends(&mut owner, &session, "/echo one");
    let path = socket(&stage.store);
    for _ in 0..3 {
        drop(exhaust(&path, 48));
    }
    let mut other = stage.client(&[]);
    until(|| {
        let loaded = other.client.answer("session/load", &place(&session));
        match loaded["result"]["_meta"]["rejoin"]["owner"] {
            Value::Object(_) => Ok(()),
            _ => Err(loaded.to_string()),
        }
    })
    .expect("it is reached");
    ends(&mut other, &session, "/echo two");
    other.end();
    owner.end();
}

fn place(session: &str) -> Value {
    json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] })
}

/// The limits of descriptors of a process, the one that holds and the highest.
#[cfg(target_os = "linux")]
fn limits(process: u64) -> (u64, u64) {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).expect("it runs");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let mut words = line.expect("it is listed").split_whitespace().skip(3);
    let mut next = || {
        words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("a number")
    };
    (next(), next())
}

#[cfg(target_os = "linux")]
#[test]
fn agents_and_commands_have_the_limit_that_rejoin_was_started_with() {
    let limit = "ulimit -Sn 300 && ulimit -Hn 900";
    for keeps in [false, true] {
        let stage = Stage::new(Kind::Wrap);
        let options: &[&str] = if keeps { &["--keep"] } else { &[] };
        let mut client = Served::start(stage.command(options, limit), 1);
        client.session();
        let live = stage.live();
        let process = live["sessions"][0]["pid"].as_u64().expect("it is open");
        assert_eq!(limits(process), (900, 900));
        let agents = stage.agents();
        assert_eq!(limits(agents[0].into()), (300, 900));
        client.end();
    }
    let stage = Stage::new(Kind::Serve);
    let mut client = Served::start(stage.command(&[], limit), 1);
    let folder = stage
        .folder
        .path()
        .to_str()
        .expect("folders of tests are text");
    let new = json!({ "cwd": folder, "mcpServers": [] });
    let made = client.client.answer("session/new", &new);
    let session = made["result"]["sessionId"]
        .as_str()
        .expect("it is made")
        .to_owned();
    let turn = client.prompt(&session, "/run sleep 0.2; ulimit -Sn");
    let (_, asked) = client
        .client
        .until(|message| message["method"] == "session/request_permission");
    let option = &asked["params"]["options"][0]["optionId"];
    let outcome = json!({ "outcome": "selected", "optionId": option });
    let result = json!({ "outcome": outcome });
    client
        .client
        .send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
    let (shown, _) = client.client.take(turn);
    let shown = Value::from(shown).to_string();
    assert!(shown.contains("300"), "{shown}");
    client.end();
}

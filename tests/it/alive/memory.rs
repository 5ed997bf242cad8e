//! What clients do not read and what servers send has a bound in memory.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use super::sockets::socket;
use super::stage::{Kind, Stage, ends};
use crate::support::env;
use crate::support::wrapped::{mcp_server, until};

/// What a process may take here, in MiB: it has about 50 of its own in a debug build.
const MOST: u64 = 250;

/// How many connections there are, and how many pages of a session each of them asks for.
const CONNECTIONS: usize = 12;
const PAGES: usize = 10;

/// The memory of a process that is not shared with others, in MiB.
fn memory(process: u64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let words = line.expect("it is listed").split_whitespace().next();
    let kilobytes: u64 = words.and_then(|word| word.parse().ok()).expect("a number");
    kilobytes / 1024
}

/// How many descriptors a process has.
fn descriptors(process: u64) -> usize {
    let open = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    open.count()
}

/// How long a process has computed so far, in ticks of the system.
fn computed(process: u64) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("it has a name");
    let ticks = rest.split(' ').skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<u64>().expect("a number"))
        .sum()
}

/// A client that asks for pages of a session and reads none.
fn asks(socket: &Path, session: &str, pages: usize) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let mut ask = |id: usize, method: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(stream, "{request}").expect("it reads");
    };
    ask(0, "initialize", json!({ "protocolVersion": 1 }));
    for id in 1..=pages {
        ask(id, "session/get", json!({ "sessionId": session }));
    }
    stream
}

#[test]
fn answers_that_nobody_reads_have_a_bound_for_the_process() {
    let (connections, pages) = if env::slow() {
        (20, 50)
    } else {
        (CONNECTIONS, PAGES)
    };
    let stage = Stage::new(Kind::Serve);
    let mut client = stage.client(&[]);
    let session = client.session();
    // A turn of three megabytes, which are one page.
    ends(&mut client, &session, "/flood 100 30000");
    let live = stage.live();
    let process = live["sessions"][0]["pid"].as_u64().expect("it is open");
    let socket = socket(&stage.store);
    let before = descriptors(process);
    let mut clients: Vec<_> = (0..connections)
        .map(|_| asks(&socket, &session, pages))
        .collect();
    // Each of them can read the beginning of its first page, so all of them are under way.
    for stream in &mut clients {
        let mut beginning = [0; 4096];
        stream.read_exact(&mut beginning).expect("it answers");
    }
    let mut most = 0;
    let mut last = computed(process);
    until(|| {
        most = most.max(memory(process));
        // It rests when nothing more can be answered before something is read.
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = computed(process);
        if std::mem::replace(&mut last, now) + 1 >= now {
            Ok(())
        } else {
            Err("it goes on".to_owned())
        }
    })
    .expect("it rests");
    assert!(most < MOST, "{most} MiB");
    // What the clients have not read goes with them, and so does what was to be answered.
    drop(clients);
    until(|| match descriptors(process) {
        now if now <= before => Ok(()),
        now => Err(format!("{now} descriptors, and {before} before")),
    })
    .expect("they are gone");
    let left = memory(process);
    assert!(left < MOST / 2, "{left} MiB are left");
    ends(&mut client, &session, "/echo still there");
    client.end();
}

#[test]
fn a_long_list_of_tools_takes_little_memory() {
    let stage = Stage::new(Kind::Serve);
    let mut client = stage.client(&[]);
    let folder = stage
        .folder
        .path()
        .to_str()
        .expect("folders of tests are text");
    let server = json!({
        "name": "many",
        "command": mcp_server(),
        "args": ["--more", "100000"],
        "env": [],
    });
    let new = json!({ "cwd": folder, "mcpServers": [server] });
    let made = client.client.answer("session/new", &new);
    let session = made["result"]["sessionId"]
        .as_str()
        .expect("it is made")
        .to_owned();
    let live = stage.live();
    let process = live["sessions"][0]["pid"].as_u64().expect("it is open");
    let before = memory(process);
    // On a busy machine the server may need longer than a turn waits for it.
    until(|| {
        let turn = client.prompt(&session, "/tools");
        let (shown, answer) = client.client.take(turn);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        let shown = Value::from(shown).to_string();
        let is_cut = shown.contains("and more, which are not used");
        is_cut.then_some(()).ok_or(shown)
    })
    .expect("there are more tools than are used");
    let peak = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .and_then(|peak| peak.split_whitespace().next()?.parse().ok())
        .expect("a number");
    assert!(
        peak / 1024 < MOST,
        "{} MiB at the most, and {before} before",
        peak / 1024
    );
    client.end();
}

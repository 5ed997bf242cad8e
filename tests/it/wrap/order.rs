//! What a client sends leaves for the agent in the order in which it came.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::command;
use crate::support::systems::FOLDER;
use crate::support::wrapped::program;

/// How often each kind of message is sent.
const ROUNDS: u64 = 400;

#[test]
fn messages_with_and_without_a_session_keep_their_order() {
    let folder = TempDir::new().unwrap();
    let record = folder.path().join("record");
    let agent = program();
    let mut child = command(
        &folder.path().join("store"),
        &[
            "wrap",
            "--",
            agent.to_str().unwrap(),
            "--record",
            record.to_str().unwrap(),
        ],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut answer = |id: &Value| loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended");
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["id"] == *id {
            return line;
        }
    };
    let send = |input: &mut dyn Write, message: &Value| writeln!(input, "{message}").unwrap();
    let initialize = json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize",
        "params": { "protocolVersion": 1 } });
    send(&mut input, &initialize);
    answer(&"i".into());
    let new = json!({ "jsonrpc": "2.0", "id": "n", "method": "session/new",
        "params": { "cwd": FOLDER, "mcpServers": [] } });
    let sessions = [0, 1].map(|_| {
        send(&mut input, &new);
        answer(&"n".into())["result"]["sessionId"].clone()
    });
    let mut count = 0..;
    for _ in 0..ROUNDS {
        for session in [Some(&sessions[0]), None, Some(&sessions[1]), None] {
            let n: u64 = count.next().unwrap();
            let mut params = json!({ "n": n });
            if let Some(session) = session {
                params["sessionId"] = session.clone();
            }
            let mut message = json!({ "jsonrpc": "2.0", "method": "_v/told", "params": params });
            if n.is_multiple_of(3) {
                message["id"] = n.into();
            }
            send(&mut input, &message);
        }
    }
    let last = json!({ "jsonrpc": "2.0", "id": "last", "method": "_echo", "params": {} });
    send(&mut input, &last);
    answer(&"last".into());
    drop(input);
    child.wait().unwrap();
    let record = std::fs::read_to_string(record).unwrap();
    let messages = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let received: Vec<_> = messages
        .filter_map(|message| message["params"]["n"].as_u64())
        .collect();
    assert_eq!(received, (0..4 * ROUNDS).collect::<Vec<_>>());
}

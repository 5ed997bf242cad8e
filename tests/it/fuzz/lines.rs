//! Damaged messages sent to a whole server: each is answered once or never, as it should be, and
//! the connection lives on.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;

use proptest::prelude::*;
use rejoin::engine::demo::LocalEngine;
use rejoin::server::Options;
use rejoin::sys::sim::SimDisk;
use rejoin::transport::line::InputLine;
use rejoin::transport::message::{Message, read};
use serde_json::Value;

use super::cases;
use super::input::damaged_messages;
use crate::support::agent::GUARD;
use crate::support::server;

const HELLO: &str =
    r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1}}"#;

/// Sends these bytes after a greeting, and ends the input. Returns the lines that came.
fn serve(bytes: Vec<u8>) -> Vec<Value> {
    let options = Options {
        store: Some("/store".into()),
        ..Options::default()
    };
    let engine = Arc::new(LocalEngine::new());
    let (server, mut to_server, from_server) =
        server::start(options, SimDisk::new().sys(), engine, 0);
    let writer = std::thread::spawn(move || {
        to_server.write_all(HELLO.as_bytes()).unwrap();
        to_server.write_all(b"\n").unwrap();
        to_server.write_all(&bytes).unwrap();
    });
    let lines = BufReader::new(from_server).lines();
    let lines = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let lines = lines.collect();
    writer.join().unwrap();
    server.wait(GUARD).unwrap().unwrap();
    lines
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn each_damaged_line_is_answered(bytes in damaged_messages()) {
        let mut expected = BTreeMap::<String, usize>::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            let id = match read(InputLine::Whole(line.to_vec()), 1 << 20) {
                Message::Request { id, .. } => id,
                Message::Invalid(invalid) => invalid.id,
                _ => continue,
            };
            let id: Value = serde_json::from_str(&id).unwrap();
            *expected.entry(id.to_string()).or_default() += 1;
        }
        *expected.entry("\"hello\"".to_owned()).or_default() += 1;
        let mut answers = BTreeMap::<String, usize>::new();
        for line in serve(bytes) {
            if let Some(id) = line.get("id") {
                prop_assert!(line["result"].is_object() != line["error"].is_object());
                *answers.entry(id.to_string()).or_default() += 1;
            } else {
                prop_assert_eq!(&line["method"], "session/update");
            }
        }
        prop_assert_eq!(answers, expected);
    }
}

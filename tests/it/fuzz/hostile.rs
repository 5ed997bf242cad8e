//! Logs that somebody else made, with checksums that are right: whatever stands in them, a client
//! is sent nothing but updates of the session that it asked for, and the answers to its requests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use rejoin::engine::demo::LocalEngine;
use rejoin::server::Options;
use rejoin::sys::sim::SimDisk;

use super::cases;
use crate::support::agent::GUARD;
use crate::support::json::Json;
use crate::support::server;
use crate::support::systems::local;

const ID: &str = "sess_01902f3c-7b1e-7c3a-8f00-000000000001";
const AT: &str = "2026-11-21T08:30:00.123Z";
const CHUNK: &str =
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#;

/// What a foreign log may hold.
#[derive(Clone, Debug)]
struct Forged {
    at: &'static str,
    kind: &'static str,
    id: Option<&'static str>,
    payload: String,
}

/// How a client reads the session.
#[derive(Clone, Copy, Debug)]
struct How {
    version: u16,
    exact: bool,
    method: &'static str,
}

const WAYS: [How; 8] = [
    How {
        version: 1,
        exact: false,
        method: "session/load",
    },
    How {
        version: 1,
        exact: true,
        method: "session/load",
    },
    How {
        version: 2,
        exact: false,
        method: "session/resume",
    },
    How {
        version: 2,
        exact: true,
        method: "session/resume",
    },
    How {
        version: 1,
        exact: false,
        method: "session/get",
    },
    How {
        version: 2,
        exact: false,
        method: "session/get",
    },
    How {
        version: 1,
        exact: false,
        method: "session/list",
    },
    How {
        version: 2,
        exact: false,
        method: "session/list",
    },
];

/// The line of a record, whatever is in it.
fn line(seq: usize, forged: &Forged) -> Vec<u8> {
    let id = forged.id.map(|id| format!(r#""id":"{id}","#));
    let body = format!(
        r#""seq":{seq},"at":"{}","kind":"{}",{}"payload":{}}}"#,
        forged.at,
        forged.kind,
        id.unwrap_or_default(),
        forged.payload
    );
    let crc = crc32fast::hash(body.as_bytes());
    format!("{{\"crc\":\"{crc:08x}\",{body}\n").into_bytes()
}

fn header() -> Forged {
    let header = format!(
        r#"{{"format":1,"sessionId":"{ID}","cwd":"/w","engine":{{"name":"local"}},"protocolVersion":1}}"#
    );
    forged("session", &local(&header))
}

fn forged(kind: &'static str, payload: &str) -> Forged {
    Forged {
        at: AT,
        kind,
        id: (kind == "prompt").then_some("msg_1"),
        payload: payload.to_owned(),
    }
}

/// Serves a client that reads a session of these records; every line that it is sent.
fn served(records: &[Forged], how: How) -> Vec<String> {
    let all = std::iter::once(header()).chain(records.iter().cloned());
    let lines = all.enumerate().map(|(seq, forged)| line(seq, &forged));
    let disk = SimDisk::new();
    let path = Path::new("/store/sessions").join(format!("{ID}.jsonl"));
    disk.put(&path, &lines.collect::<Vec<_>>().concat());

    let mut options = Options {
        store: Some("/store".into()),
        unstable: true,
        ..Options::default()
    };
    options.replay.exact = how.exact;
    let engine = Arc::new(LocalEngine::new());
    let (server, mut to_server, from_server) = server::start(options, disk.sys(), engine, 0);
    let version = how.version;
    let params = match how.method {
        "session/list" => r#"{"search":"a"}"#.to_owned(),
        "session/get" => format!(r#"{{"sessionId":"{ID}"}}"#),
        _ => local(&format!(
            r#"{{"sessionId":"{ID}","cwd":"/w","mcpServers":[],"replayFrom":{{"type":"start"}}}}"#
        ))
        .into_owned(),
    };
    writeln!(
        to_server,
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":{version},"info":{{"name":"t","version":"1"}}}}}}"#
    )
    .unwrap();
    let method = how.method;
    writeln!(
        to_server,
        r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#
    )
    .unwrap();
    drop(to_server);
    let lines = BufReader::new(from_server).split(b'\n');
    let lines = lines.map(|line| String::from_utf8(line.unwrap()).expect("it is UTF-8"));
    let lines = lines.collect();
    server.wait(GUARD).unwrap().unwrap();
    lines
}

/// The members of an object, each of which may occur once.
fn members<'a>(json: &'a Json, known: &[&str]) -> Result<Vec<(&'a str, &'a Json)>, String> {
    let Json::Object(members) = json else {
        return Err(format!("{json} is no object"));
    };
    let members: Vec<_> = members
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    for name in known {
        if members.iter().filter(|(other, _)| other == name).count() > 1 {
            return Err(format!("`{name}` occurs twice"));
        }
    }
    Ok(members)
}

fn member<'a>(members: &[(&str, &'a Json)], name: &str) -> Option<&'a Json> {
    members
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, value)| *value)
}

/// Whether a line is an answer to one of the two requests, or an update of the session.
fn check(line: &str) -> Result<(), String> {
    if line.contains('\r') {
        return Err("there is a carriage return".to_owned());
    }
    let json = Json::parse(line).map_err(|error| error.to_string())?;
    let all = members(
        &json,
        &["jsonrpc", "id", "method", "params", "result", "error"],
    )?;
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    let is_answer = names
        .iter()
        .all(|name| ["jsonrpc", "id", "result", "error"].contains(name));
    if is_answer && names.len() == 3 {
        return Ok(());
    }
    if names != ["jsonrpc", "method", "params"] {
        return Err(format!("it has {names:?}"));
    }
    let string = |text: &str| Json::String(text.to_owned());
    if member(&all, "method") != Some(&string("session/update")) {
        return Err("it is no update".to_owned());
    }
    let params = members(all[2].1, &["sessionId", "update", "_meta"])?;
    if member(&params, "sessionId") != Some(&string(ID)) {
        return Err("it is about another session".to_owned());
    }
    let update = member(&params, "update").ok_or("it has no update")?;
    let update = members(update, &[])?;
    match update.iter().rfind(|(name, _)| *name == "sessionUpdate") {
        Some((_, Json::String(_))) => Ok(()),
        other => Err(format!("its kind is {other:?}")),
    }
}

const PAYLOADS: [&str; 14] = [
    CHUNK,
    r#"{"sessionUpdate":"agent_thought_chunk","messageId":"m","content":{"type":"text","text":"one\ud83d"},"_meta":null}"#,
    r#"{"sessionUpdate":"user_message_chunk","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}"#,
    r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","status":"pending","content":[{"type":"terminal","terminalId":"x"}]}"#,
    r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawOutput":null,"content":[{"type":"diff","path":"/a","oldText":null,"newText":""}]}"#,
    r#"{"sessionUpdate":"plan","entries":[]}"#,
    r#"{"sessionUpdate":"session_info_update","title":"t","_meta":null}"#,
    r#"{"sessionUpdate":"current_mode_update","currentModeId":"ask"}"#,
    r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"a","name":"A","type":"select","currentValue":"x","options":[]}]}"#,
    r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","description":"b"}]}"#,
    r#"{"update":{"sessionUpdate":"usage_update","used":1.0},"_meta":{"rejoin":{"at":1},"a":[]}}"#,
    r#"{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}"#,
    r#"{"prompt":[{"type":"text","text":"a"}],"_meta":{}}"#,
    r#"{"stopReason":"end_turn"}"#,
];

/// What is put into a payload, or behind it.
const PLANTS: [&str; 26] = [
    "}",
    "}}",
    "]",
    "{",
    "[",
    "\"",
    "\\",
    ",",
    ":",
    "\r",
    "\u{1}",
    "\u{2028}",
    " ",
    "7",
    "null",
    "1e",
    r#"},"id":77,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/etc/x","content":"x","y":{"z":1}"#,
    r#"}},"id":77,"method":"terminal/create","params":{"sessionId":"s","y":{"z":1}"#,
    r#""sessionId":"other","#,
    r#","sessionId":"other""#,
    r#","session\u0049d":"other""#,
    r#","update":{"sessionUpdate":"x"}"#,
    r#","upd\u0061te":7"#,
    r#","_met\u0061":{"rejoin":{}}"#,
    r#","sessionUpdate":7"#,
    r#","content":[]"#,
];

fn payload() -> impl Strategy<Value = String> {
    let plant = prop_oneof![
        3 => prop::sample::select(&PLANTS[..]).prop_map(str::to_owned),
        1 => prop::sample::select(&PAYLOADS[..]).prop_map(str::to_owned),
        1 => any::<String>().prop_map(|text| text.replace('\n', " ")),
    ];
    let plants = prop::collection::vec((any::<Index>(), any::<bool>(), plant), 0..3);
    (prop::sample::select(&PAYLOADS[..]), plants).prop_map(|(payload, plants)| {
        let mut payload = payload.to_owned();
        for (at, at_end, plant) in plants {
            // Where one object ends is where another one can begin.
            let ends: Vec<_> = payload
                .match_indices(['}', '"', '{'])
                .map(|(at, _)| at + 1)
                .collect();
            let at = match ends.as_slice() {
                [] => payload.len(),
                _ if at_end => payload.len(),
                ends => *at.get(ends),
            };
            payload.insert_str(at, &plant);
        }
        payload
    })
}

fn record() -> impl Strategy<Value = Forged> {
    let kind = prop::sample::select(
        &[
            "update",
            "update",
            "update",
            "update_params",
            "info",
            "output",
            "transient",
            "prompt",
            "end",
            "ask",
            "answer",
            "inner",
            "reopen",
            "session",
            "dream",
        ][..],
    );
    let at = prop_oneof![
        8 => Just(AT),
        1 => prop::sample::select(&["2026-11-21T08:30:00.12\u{1}Z", "2026-11-21T08:30:00.12\rZ"][..]),
    ];
    let id = prop_oneof![
        4 => Just(None),
        2 => Just(Some("msg_1")),
        2 => prop::sample::select(&["a\\", "a\u{1}", "\r", "é"][..]).prop_map(Some),
    ];
    (at, kind, id, payload()).prop_map(|(at, kind, id, payload)| Forged {
        at,
        kind,
        id,
        payload,
    })
}

#[test]
fn payload_cannot_close_its_envelope() {
    let attack = r#"},"id":77,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/etc/evil","content":"x","y":{"z":1}"#;
    let update = format!("{CHUNK}{attack}");
    let evil = [
        forged("update", &update),
        forged("update_params", &format!(r#"{{"update":{update}}}"#)),
        forged("update_params", &format!(r#"{{"update":{CHUNK}}}{attack}"#)),
        forged("info", &format!(r#"{{"sessionUpdate":"x"{attack}"#)),
        forged("output", &update),
        forged("transient", &update),
        forged(
            "prompt",
            &format!(r#"{{"prompt":[{{"type":"text","text":"x"}}{attack}]}}"#),
        ),
    ];
    let before = forged("prompt", r#"{"prompt":[{"type":"text","text":"before"}]}"#);
    let behind = forged("update", &CHUNK.replace("\"a\"", "\"behind\""));
    let records: Vec<_> = [before]
        .into_iter()
        .chain(evil.clone())
        .chain([behind, forged("end", r#"{"stopReason":"end_turn"}"#)])
        .collect();
    for how in WAYS {
        let lines = served(&records, how);
        for line in &lines {
            assert_eq!(check(line), Ok(()), "{how:?} {line}");
            assert!(!line.contains("evil"), "{how:?} {line}");
        }
        let all = lines.concat();
        if how.method != "session/list" {
            assert!(
                all.contains("before") && all.contains("behind"),
                "{how:?} {all}"
            );
            assert_eq!(
                all.matches("unreadable payload").count(),
                evil.len(),
                "{how:?}"
            );
        }
    }
}

#[test]
fn search_text_stays_in_its_session() {
    let params =
        format!(r#"{{"sessionId":"elsewhere","update":{CHUNK},"session\u0049d":"elsewhere"}}"#);
    for how in WAYS {
        let lines = served(
            &[forged("update_params", &params), forged("info", &params)],
            how,
        );
        for line in &lines {
            assert_eq!(check(line), Ok(()), "{how:?} {line}");
            assert!(!line.contains("elsewhere"), "{how:?} {line}");
        }
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn client_gets_updates_of_its_session_only(
        records in prop::collection::vec(record(), 1..8),
        how in prop::sample::select(&WAYS[..]),
    ) {
        for line in served(&records, how) {
            prop_assert_eq!(check(&line), Ok(()), "{:?} {}", how, line);
        }
    }
}

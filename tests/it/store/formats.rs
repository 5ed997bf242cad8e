//! Files of every version of the format, as they were written then.

use std::path::Path;

use rejoin::conversation::Transcript;
use rejoin::protocol::v2::V2View;
use rejoin::record::Kind;
use rejoin::replay::{Options, Replay};
use rejoin::store::Store;
use rejoin::sys::SessionId;
use rejoin::sys::sim::SimDisk;
use serde_json::{Value, json};

use super::support::*;

fn v1() -> (SimDisk, Store, SessionId, Vec<u8>) {
    v1_file("sess_019aa564-cd00-7b3c-9e41-5f2d8c6a1b07")
}

fn v1_file(id: &str) -> (SimDisk, Store, SessionId, Vec<u8>) {
    file("v1", id)
}

fn v2() -> (SimDisk, Store, SessionId, Vec<u8>) {
    file("v2", "sess_019aa58a-7e10-7c42-a3b5-6d0e9f2c4b18")
}

fn v3() -> (SimDisk, Store, SessionId, Vec<u8>) {
    file("v3", "sess_019ac2f4-6a00-7d35-9b1c-2e4f6a8c0d17")
}

/// What is said in records, and which of them are rewinds.
fn said(records: &[Owned]) -> Vec<String> {
    let said = records.iter().filter_map(|record| {
        let payload: Value = serde_json::from_str(&record.payload).unwrap();
        let text = |value: &Value| value["text"].as_str().map(|text| text.trim().to_owned());
        match record.kind {
            Kind::Prompt => text(&payload["prompt"][0]),
            Kind::Update => text(&payload["content"]),
            Kind::Rewind => Some(payload["history"].to_string()),
            _ => None,
        }
    });
    said.collect()
}

#[test]
fn version_3_reads_as_the_conversation_is_now() {
    let (_disk, store, id, content) = v3();
    let mut reader = store.read(&id).unwrap();
    let records = rest(&mut reader);
    assert_eq!(reader.damage(), []);
    let back = "[rejoin] Went back to before turn 2. Files in the workspace were not changed.";
    let forward = "[rejoin] Went to before turn 3 of what was undone. \
                   Files in the workspace were not changed.";
    assert_eq!(
        said(&records),
        [
            "Name the engine.",
            "It is called Difference.",
            "[[0,5]]",
            back,
            "Draw it in blue.",
            "It is blue now.",
            "[[0,5],[9,15]]",
            forward,
            "And smaller.",
            "It fits into a pocket.",
        ]
    );
    let mut all = store.read_all(&id).unwrap();
    let lines = String::from_utf8(content.clone()).unwrap().lines().count();
    assert_eq!(rest(&mut all).len(), lines);

    let scan = store.open_log(&id).unwrap().scan;
    assert_eq!((scan.next_seq, scan.end), (25, content.len() as u64));
    assert_eq!(scan.prompts.len(), 3);
    // The title is no part of the conversation.
    assert_eq!(scan.titles.title(), Some("The engine"));
    assert_eq!(scan.agent_ids.len(), 2);
}

fn file(format: &str, id: &str) -> (SimDisk, Store, SessionId, Vec<u8>) {
    let id = SessionId::parse(id).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats");
    let folder = folder.join(format);
    let content = std::fs::read(folder.join(format!("{id}.jsonl"))).unwrap();
    let disk = SimDisk::new();
    disk.put(&root().join(format!("sessions/{id}.jsonl")), &content);
    let store = store(&disk);
    (disk, store, id, content)
}

#[test]
fn version_1_scans() {
    let (_disk, store, id, content) = v1();
    let scan = store.read(&id).unwrap().scan().unwrap();
    let header = serde_json::to_value(&scan.header).unwrap();
    assert_eq!(
        header,
        json!({
            "format": 1,
            "sessionId": id.as_str(),
            "cwd": "/home/ada/engine",
            "additionalDirectories": ["/home/ada/notes"],
            "mcpServers": [{
                "name": "files",
                "type": "stdio",
                "target": "/usr/bin/mcp-files",
                "secrets": ["API_TOKEN"],
            }],
            "client": {"name": "zed", "version": "0.210.0"},
            "engine": {"name": "local", "version": "0.1.0"},
            "protocolVersion": 1,
        })
    );
    assert_eq!(scan.workspace.cwd, "/home/ada/engine-2");
    assert_eq!(scan.workspace.additional_directories, [""; 0]);
    assert_eq!(scan.workspace.mcp_servers, []);
    assert_eq!((scan.records, scan.next_seq), (23, 23));
    assert_eq!(scan.end, content.len() as u64);
    assert_eq!(scan.prompts.len(), 5);
    assert!(!scan.turn_open());
    assert!(!scan.unterminated);
    assert_eq!((scan.torn, scan.damage), (None, vec![]));
    let last = scan.updated_at.as_deref();
    assert_eq!(last, Some("2026-11-21T08:33:20.022Z"));
    let first: Value = serde_json::from_str(&scan.first_prompt.unwrap()).unwrap();
    let text = "What does the engine do?\r\n\tIn one line — please 🙂";
    assert_eq!(first["prompt"][0]["text"], text);
}

#[test]
fn version_1_reads_record_by_record() {
    let (_disk, store, id, content) = v1();
    let mut reader = store.read(&id).unwrap();
    let records = rest(&mut reader);
    assert_eq!(reader.damage(), []);
    let summary: Vec<_> = records.iter().map(summary).collect();
    assert_eq!(
        summary,
        [
            "0 session",
            "1 prompt msg_019aa564cd107000800000000000000a: text, resource_link",
            "2 update: agent_thought_chunk",
            "3 update: plan",
            "4 update: agent_message_chunk",
            "5 update: agent_message_chunk",
            r#"6 end: {"stopReason":"end_turn"}"#,
            "7 prompt msg_019aa564cd407000800000000000000b: text, image",
            "8 update: tool_call in_progress",
            "9 update: tool_call_update completed",
            "10 update_params: agent_message_chunk",
            r#"11 end: {"stopReason":"end_turn"}"#,
            r#"12 reopen: {"cwd":"/home/ada/engine-2","additionalDirectories":[],"mcpServers":[]}"#,
            "13 prompt msg_019aa564cd707000800000000000000d: text",
            "14 update: agent_message_chunk",
            r#"15 end: {"stopReason":"cancelled"}"#,
            "16 prompt msg_019aa564cd907000800000000000000e: text",
            r#"17 end: {"error":{"code":-32603,"message":"it failed, as asked"}}"#,
            "18 prompt msg_019aa564cda07000800000000000000f: text",
            "19 update: tool_call",
            "20 update: tool_call_update in_progress",
            "21 update: tool_call_update failed",
            r#"22 end: {"interrupted":"the process ended during this turn"}"#,
        ]
    );
    // Payloads are bytes of the file, not values that were printed again.
    let text = String::from_utf8(content).unwrap();
    for (record, line) in records.iter().zip(text.lines()) {
        let payload = format!("\"payload\":{}}}", record.payload);
        assert!(line.ends_with(&payload), "{line}");
    }
    assert!(
        records[7]
            .payload
            .contains(r#""trace":12345678901234567890"#)
    );
    assert!(records[8].payload.contains(r#""n":0.10"#));
    assert!(records[9].payload.contains(r#""rawOutput":null"#));
    assert!(records[5].payload.contains(r"patterns.\u0000"));
    assert!(records[10].payload.contains(r#""_meta":{"rendered":true}"#));
}

#[test]
fn version_1_of_a_wrapped_agent_reads_and_folds() {
    let (_disk, store, id, _content) = v1_file("sess_019aa571-2c40-7e15-8d02-91b7c3f0a6de");
    let mut reader = store.read(&id).unwrap();
    let scan = reader.scan().unwrap();
    assert_eq!((scan.records, scan.torn, scan.damage), (24, None, vec![]));
    let (mut transcript, mut replay) =
        (Transcript::default(), Replay::new("s", Options::default()));
    let mut lines = Vec::new();
    let mut summary = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        transcript.record(&entry.record);
        replay.record(&entry.record, &mut lines);
        summary.push(entry.record.kind.as_str());
    }
    replay.finish(&mut lines);
    assert_eq!(
        summary.join(" "),
        "session inner info info prompt transient update update ask answer update info output \
         update info transient info info end info inner prompt ask end"
    );
    assert_eq!(
        transcript.text(),
        "user: Run the tests\n\nagent: I run them.\n\ntool: cargo test (completed)\n\
         test result: ok. 12 passed\n\n\nuser: And now push"
    );
    assert_eq!(
        transcript.state_text(),
        "commands: /plan\nmode: ask\ntitle: Running the tests\nusage: 1450 of 200000 tokens"
    );
    let mut folded = Transcript::default();
    for line in std::str::from_utf8(&lines).unwrap().lines() {
        folded.notification(line);
    }
    assert_eq!(folded.state, transcript.state);
    assert_eq!(folded.text(), transcript.text());
}

/// A record in a few words.
fn summary(record: &Owned) -> String {
    let value: Value = serde_json::from_str(&record.payload).unwrap();
    let (seq, kind) = (record.seq, record.kind.as_str());
    match record.kind {
        Kind::Session => format!("{seq} {kind}"),
        Kind::Prompt => {
            let blocks = value["prompt"].as_array().unwrap().iter();
            let types: Vec<_> = blocks
                .map(|block| block["type"].as_str().unwrap())
                .collect();
            let id = record.id.as_deref().unwrap();
            format!("{seq} {kind} {id}: {}", types.join(", "))
        }
        Kind::Update | Kind::UpdateParams => {
            let update = value.get("update").unwrap_or(&value);
            let mut summary = format!(
                "{seq} {kind}: {}",
                update["sessionUpdate"].as_str().unwrap()
            );
            if let Some(status) = update["status"].as_str() {
                summary = format!("{summary} {status}");
            }
            summary
        }
        _ => format!("{seq} {kind}: {}", record.payload),
    }
}

#[test]
fn version_1_can_be_continued() {
    let (disk, store, id, content) = v1();
    let mut opened = store.open_log(&id).unwrap();
    assert_eq!(opened.scan.end, content.len() as u64, "nothing to recover");
    assert_eq!(add(&mut opened.log, Kind::Prompt, PROMPT).unwrap(), 23);
    let path = root().join(format!("sessions/{id}.jsonl"));
    let after = disk.bytes(&path).unwrap();
    assert_eq!(after[..content.len()], content);
    assert_eq!(store.read(&id).unwrap().scan().unwrap().records, 24);
}

#[test]
fn version_2_scans_and_can_be_continued() {
    let (disk, store, id, content) = v2();
    let mut reader = store.read(&id).unwrap();
    let scan = reader.scan().unwrap();
    assert_eq!((scan.header.format, scan.header.protocol_version), (2, 2));
    assert_eq!((scan.records, scan.prompts.len()), (37, 3));
    assert!(!scan.turn_open());
    assert!(scan.interrupted);
    assert_eq!(scan.titles.title(), Some("The drifting gauge"));
    assert_eq!(
        scan.settings.options.as_deref(),
        Some(
            r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"mode","name":"Mode","category":"mode","type":"select","currentValue":"ask","options":[{"value":"ask","name":"Ask"},{"value":"code","name":"Code"}]}]}"#
        )
    );
    assert_eq!((scan.torn, scan.damage), (None, vec![]));
    let text = String::from_utf8(content.clone()).unwrap();
    for (record, line) in rest(&mut reader).iter().zip(text.lines()) {
        assert_ne!(record.kind, Kind::Unknown, "{line}");
        let payload = format!("\"payload\":{}}}", record.payload);
        assert!(line.ends_with(&payload), "{line}");
    }
    let mut opened = store.open_log(&id).unwrap();
    assert_eq!(opened.scan.end, content.len() as u64, "nothing to recover");
    assert_eq!(add(&mut opened.log, Kind::Prompt, PROMPT).unwrap(), 37);
    let path = root().join(format!("sessions/{id}.jsonl"));
    let after = disk.bytes(&path).unwrap();
    assert_eq!(after[..content.len()], content);
}

#[test]
fn version_2_replays_in_either_version() {
    let (_disk, store, id, _content) = v2();
    let replayed = |version_2| {
        let options = Options {
            version_2,
            ..Options::default()
        };
        let (mut replay, mut lines) = (Replay::new("s", options), Vec::new());
        let mut reader = store.read(&id).unwrap();
        while let Some(entry) = reader.next().unwrap() {
            replay.record(&entry.record, &mut lines);
        }
        replay.finish(&mut lines);
        assert_eq!(replay.cut(), 0);
        lines
    };
    let mut folded = Transcript::default();
    for line in std::str::from_utf8(&replayed(false)).unwrap().lines() {
        folded.notification(line);
    }
    assert_eq!(
        folded.text(),
        "user: Measure the drift\n\nthought: The gauge drifts.\n\n\
         agent: I read the gauge. It shows 0.10.\n\n\
         plan:\n[completed] Read\n[pending] Mend\n\n\
         tool: gauge --all (completed)\ndrift: 0.10\n\ndrift: 0.10\n\n\
         tool: Mend gauge.rs (completed)\n[diff /home/ada/engine/gauge.rs]\n\n\
         [compaction_update]\n\n[moon_phase]\n\n\
         user: And now in version 1\n\nagent: As before.\n\n\
         tool: Read gauge.rs (completed)\n\nuser: Once more\n\n\
         tool: gauge --again (failed)\n\
         Interrupted: the agent process ended before this tool call did."
    );
    assert_eq!(
        folded.state_text(),
        "commands: /plan\noptions: mode = ask\ntitle: The drifting gauge\nusage: 1450 of 200000 tokens"
    );
    let mut shown = Vec::new();
    V2View::new().lines(&replayed(true), &mut shown);
    let shown = String::from_utf8(shown).unwrap();
    let mut reader = store.read(&id).unwrap();
    for record in rest(&mut reader) {
        let value: Value = serde_json::from_str(&record.payload).unwrap();
        let update = value["update"]["sessionUpdate"].as_str();
        let is_chunk = update == Some("agent_message_chunk");
        if matches!(record.kind, Kind::UpdateV2 | Kind::SubagentV2) && !is_chunk {
            let update = rejoin::json::text_member(&record.payload, "update").unwrap();
            assert!(shown.contains(update), "{update} is missing");
        }
    }
    assert!(shown.contains(r#""messageId":"w-m1.2""#));
}

#[test]
fn prompts_with_keys_are_found_with_what_became_of_them() {
    const END: &str = r#"{"stopReason":"end_turn"}"#;
    const CRASH: &str = r#"{"interrupted":"the process ended during this turn"}"#;
    let (_disk, store, id, _) = v1_file("sess_019aa5c2-1f40-7d23-b6a1-3c9e7f5d2a84");
    let scan = store.read(&id).unwrap().scan().unwrap();
    assert!(scan.damage.is_empty() && !scan.turn_open());
    for (key, message, has_begun, end) in [
        ("measure-1", "c1", true, END),
        ("drück-2 \"x\"", "c3", true, CRASH),
        ("report-3", "c5", true, END),
        ("rest-4", "c7", false, CRASH),
    ] {
        let found = scan.keys.find(key).unwrap();
        assert!(found.message_id.ends_with(message), "{found:?}");
        assert_eq!(
            (found.has_begun, found.end.as_deref()),
            (has_begun, Some(end))
        );
        let mut reader = store.read(&id).unwrap();
        reader.seek(found.offset);
        let record = reader.next().unwrap().unwrap().record;
        assert_eq!(record.id, Some(&*found.message_id));
    }
    assert_eq!(scan.keys.find("measure-2"), None);
}

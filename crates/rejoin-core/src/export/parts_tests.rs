//! Tests of parts: whatever their length, together they have the whole conversation.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::store::{Durability, Store, Sync};
use crate::sys::Sys;
use crate::sys::sim::SimDisk;

fn update(name: &str, mut members: Value) -> (Kind, String) {
    members["sessionUpdate"] = name.into();
    (Kind::Update, members.to_string())
}

fn said(text: &str) -> (Kind, String) {
    let content = json!({ "content": { "type": "text", "text": text } });
    update("agent_message_chunk", content)
}

/// The parts of a log in a form that shows what a reader sees.
fn parts(records: &[(Kind, String)], longest: usize, last: Option<u64>) -> Vec<String> {
    let sys = Sys {
        disk: Arc::new(SimDisk::new()),
        ..Sys::real()
    };
    let id = sys.ids.session();
    let store = Store::open(Path::new("/store"), sys, Durability::Os).unwrap();
    let mut log = store.create(&id, &Header::new(&id, "/w")).unwrap();
    for (kind, payload) in records {
        log.append(*kind, None, payload, Sync::Buffered).unwrap();
    }
    let mut shown = Vec::new();
    let choice = PartOptions {
        options: Options {
            last,
            ..Options::default()
        },
        longest,
    };
    let title = |call: &Map<String, Value>| {
        let text = |name: &str| {
            call.get(name)
                .and_then(Value::as_str)
                .unwrap_or("-")
                .to_owned()
        };
        format!("{} {}", text("title"), text("status"))
    };
    let entry = |entry: &TranscriptEntry| match entry {
        TranscriptEntry::Message { blocks, .. } => blocks[0]["text"].as_str().unwrap().to_owned(),
        TranscriptEntry::ToolCall { call, .. } => title(call),
        TranscriptEntry::Plan { .. } => "plan".to_owned(),
        TranscriptEntry::Other { update } => update["title"].as_str().unwrap_or("-").to_owned(),
    };
    let read = read(&mut store.read(&id).unwrap(), choice, &mut |part| {
        shown.push(match part {
            ConversationPart::Session(session) => format!("{} turns", session["turns"]),
            ConversationPart::Turn(turn, _) => format!("turn {turn}"),
            ConversationPart::Said(said) => {
                assert!(
                    said.entries
                        .iter()
                        .map(TranscriptEntry::size)
                        .sum::<usize>()
                        < longest + 200
                );
                let inner = said.subagents.values().flat_map(|inner| &inner.entries);
                let entries = said.entries.iter().map(entry);
                let entries = entries.chain(inner.map(|inner| format!("< {}", entry(inner))));
                entries.collect::<Vec<_>>().join(", ")
            }
            ConversationPart::Permission(asked) => asked.sentence(str::to_owned),
            ConversationPart::Ended(how) => how.to_owned(),
            ConversationPart::Damage(report) => report.to_string(),
        });
        Ok::<(), StoreError>(())
    });
    read.unwrap();
    shown
}

fn records() -> Vec<(Kind, String)> {
    let prompt = |text: &str| {
        let prompt = json!({ "prompt": [{ "type": "text", "text": text }] });
        (Kind::Prompt, prompt.to_string())
    };
    let kid = |text: &str| {
        let update = json!({ "sessionUpdate": "agent_message_chunk",
            "content": { "type": "text", "text": text } });
        let params = json!({ "sessionId": "kid", "update": update });
        (Kind::Subagent, params.to_string())
    };
    vec![
        prompt("one"),
        update(
            "tool_call",
            json!({ "toolCallId": "a", "title": "A", "status": "pending" }),
        ),
        said(&"x".repeat(300)),
        update(
            "subagent_update",
            json!({ "sessionId": "kid", "title": "Kid" }),
        ),
        kid("helps"),
        update(
            "tool_call",
            json!({ "toolCallId": "b", "title": "B", "status": "completed" }),
        ),
        said("end"),
        kid("is done"),
        update(
            "tool_call_update",
            json!({ "toolCallId": "a", "status": "completed" }),
        ),
        (Kind::End, json!({ "stopReason": "end_turn" }).to_string()),
        prompt("two"),
        (Kind::End, json!({ "stopReason": "cancelled" }).to_string()),
        prompt("three"),
    ]
}

#[test]
fn a_turn_is_one_part_with_all_changes() {
    let x = "x".repeat(300);
    assert_eq!(
        parts(&records(), LONGEST, None),
        [
            "3 turns",
            "turn 1",
            &format!("one, A completed, {x}, Kid, B completed, end, < helpsis done"),
            "turn 2",
            "two",
            "The turn was cancelled.",
            "turn 3",
            "three",
            "The turn has no end in the log.",
        ]
    );
}

#[test]
fn a_long_turn_is_several_parts() {
    let x = "x".repeat(300);
    let shown = parts(&records(), 300, None);
    assert_eq!(
        shown[2..shown.len() - 6],
        [
            // A part ends when it is too long, and its last entry may be incomplete.
            &format!("one, A pending, {x}"),
            "Kid, B completed, end, < helpsis done",
            "A completed",
        ]
    );
    assert_eq!(shown[..2], ["3 turns", "turn 1"]);
}

#[test]
fn updates_of_one_call_do_not_make_it_long() {
    let mut records = records()[..2].to_vec();
    for step in 0..100 {
        let content = json!({ "toolCallId": "a", "title": format!("{step:100}") });
        records.push(update("tool_call_update", content));
    }
    let shown = parts(&records, 1000, None);
    assert_eq!(shown[2], format!("one, {:100} pending", 99));
}

#[test]
fn only_the_last_turns() {
    let all = parts(&records(), LONGEST, None);
    for (last, from) in [(0, 9), (1, 6), (2, 3), (3, 1), (9, 1)] {
        let shown = parts(&records(), LONGEST, Some(last));
        assert_eq!(shown[0], all[0]);
        assert_eq!(shown[1..], all[from..], "{last}");
    }
}

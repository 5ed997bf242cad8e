//! Properties: converting updates to the other version and back loses nothing.

use proptest::prelude::*;
use serde_json::Value;

use super::tests::all;
use super::*;
use crate::conversation::{Transcript, TranscriptEntry};
use crate::protocol::v2::V2View;
use crate::protocol::v2::fold::bare;
use crate::protocol::v2::table::TABLE as OF_VERSION_1;
use crate::replay::live_line;
use crate::replay::properties::any_item;
use crate::replay::tests::{Item, exact, replay, update};

/// Any update of version 2.
pub(crate) fn any_update() -> impl Strategy<Value = String> {
    let role = prop::sample::select(&["user_message", "agent_message", "agent_thought"][..]);
    let id = prop::sample::select(&["a", "b", "c"][..]);
    let text = prop::sample::select(&["", "x", "xy", "xyz", "\\u0078", "\\ud83d"][..]);
    let block = prop_oneof![
        3 => text.prop_map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#)),
        1 => Just(r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#.to_owned()),
    ];
    let meta = prop::sample::select(&["", r#","_meta":{"a":1}"#, r#","_meta":null"#][..]);
    let content = prop_oneof![
        3 => prop::collection::vec(block.clone(), 0..3).prop_map(|blocks| format!(r#","content":[{}]"#, blocks.join(","))),
        1 => Just(r#","content":null"#.to_owned()),
        1 => Just(String::new()),
    ];
    let whole =
        (role.clone(), id.clone(), content, meta.clone()).prop_map(|(role, id, content, meta)| {
            format!(r#"{{"sessionUpdate":"{role}","messageId":"{id}"{content}{meta}}}"#)
        });
    let chunk = (role, id.clone(), block, meta).prop_map(|(role, id, block, meta)| {
        format!(r#"{{"sessionUpdate":"{role}_chunk","messageId":"{id}","content":{block}{meta}}}"#)
    });
    let fields = prop::sample::select(
        &[
            r#","title":"T""#,
            r#","title":null,"status":null"#,
            r#","status":"completed","rawInput":null"#,
            r#","content":[{"type":"terminal","terminalId":"a"}]"#,
            r#","_meta":{"a":null}"#,
            r#","_meta":{"terminal_info":{"terminal_id":"a"}}"#,
            r#","locations":[{"path":"/a","line":0}]"#,
        ][..],
    );
    let call = (id.clone(), fields).prop_map(|(id, fields)| {
        format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{id}"{fields}}}"#)
    });
    let part = id.clone().prop_map(|id| {
        format!(r#"{{"sessionUpdate":"tool_call_content_chunk","toolCallId":"{id}","content":{{"type":"terminal","terminalId":"{id}"}}}}"#)
    });
    let output = id.prop_map(|id| {
        format!(r#"{{"sessionUpdate":"terminal_output_chunk","terminalId":"{id}","data":"eA=="}}"#)
    });
    let full = prop::sample::select(all().collect::<Vec<_>>()).prop_map(str::to_owned);
    prop_oneof![3 => chunk, 3 => whole, 2 => call, 1 => part, 1 => output, 2 => full]
}

/// Any record of a log of version 1, including each kind of update in its full form.
fn item() -> impl Strategy<Value = Item> {
    let full = prop::sample::select(&OF_VERSION_1[..]).prop_map(|(full, _)| update(full));
    prop_oneof![3 => any_item(), 1 => full]
}

/// The updates in lines of the session itself.
fn updates_in(lines: &str) -> Vec<String> {
    let own = lines
        .lines()
        .filter(|line| line.contains(r#""sessionId":"s""#));
    own.filter_map(|line| {
        let params = json::text_member(line, "params")?;
        json::text_member(params, "update").map(str::to_owned)
    })
    .collect()
}

fn viewed(lines: &str) -> String {
    let mut out = Vec::new();
    V2View::new().lines(lines.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

fn converted(updates: &[String], mut conversion: Conversion) -> Vec<String> {
    let mut shown = Vec::new();
    let put = &mut |update: &str| shown.push(update.to_owned());
    for update in updates {
        conversion.update(update, put);
    }
    conversion.finish(put);
    shown
}

/// The transcript of updates of version 1, without what both versions say in different ways.
fn folded(updates: &[String]) -> Value {
    let mut transcript = Transcript::default();
    for update in updates {
        transcript.update(update);
    }
    for entry in &mut transcript.entries {
        let plan = match entry {
            TranscriptEntry::Other { update } if update["plan"]["type"] == "items" => {
                update["plan"]["entries"].take()
            }
            _ => continue,
        };
        let plan = [("entries".to_owned(), plan)].into_iter().collect();
        *entry = TranscriptEntry::Plan { plan };
    }
    bare(transcript)
}

fn tree(update: &str) -> Value {
    json::tree(update).unwrap_or_else(|| panic!("not JSON: {update}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn version_1_comes_back_from_version_2(items in prop::collection::vec(item(), 0..24)) {
        let lines = replay(&items, exact());
        let back = converted(&updates_in(&viewed(&lines)), Conversion::new());
        prop_assert_eq!(folded(&back), folded(&updates_in(&lines)));
    }

    #[test]
    fn version_2_comes_back_from_version_1(updates in prop::collection::vec(any_update(), 0..24)) {
        let shown = converted(&updates, Conversion::with_originals());
        let mut lines = Vec::new();
        for update in &shown {
            live_line("s", update, &mut lines);
        }
        let back = updates_in(&viewed(std::str::from_utf8(&lines).unwrap()));
        let back: Vec<_> = back.iter().map(|update| tree(update)).collect();
        let updates = updates.iter().map(|update| tree(update));
        // What the session is doing is not part of its history, nor is the end of a replay.
        let is_history = |update: &Value| {
            let kind = &update["sessionUpdate"];
            kind != "state_update" && kind != "replay_complete" && kind != "history_truncated"
        };
        let updates = updates.filter(is_history);
        prop_assert_eq!(back, updates.collect::<Vec<_>>());
    }

    #[test]
    fn no_text_is_a_panic(text in "[a-z{}\",:\\[\\]]{0,80}", full in prop::sample::select(all().collect::<Vec<_>>())) {
        let mut conversion = Conversion::with_originals();
        let half = &full[..full.len() / 2];
        for update in [text.as_str(), half, full, "{}", "7"] {
            conversion.update(update, &mut |_| {});
        }
        conversion.finish(&mut |_| {});
    }
}

//! The conversion of each kind of update, checked against the schemas of both versions.

use std::collections::BTreeSet;

use agent_client_protocol_schema::{v1, v2};
use jsonschema::Validator;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::V2View;
use super::fold::{Fold, bare};
use crate::conversation::Transcript;
use crate::protocol::UpdateKind;
use crate::replay::live_line;

/// Updates of version 1 and their conversions. An empty one means unchanged.
pub(in crate::protocol) const TABLE: [(&str, &str); 38] = [
    (
        r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"t"},"messageId":"a"}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AA==","mimeType":"image/png","uri":null},"messageId":"b","_meta":{"n":1e400}}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"resource_link","name":"n","uri":"file:///u","size":1,"annotations":{"audience":["user"],"priority":0.5}}}"#,
        r#"{"messageId":"rejoin_0_1","sessionUpdate":"agent_thought_chunk","content":{"type":"resource_link","name":"n","uri":"file:///u","size":1,"annotations":{"audience":["user"],"priority":0.5}}}"#,
    ),
    (
        r#"{"sessionUpdate":"user_message_chunk","messageId":null,"content":{"type":"resource","resource":{"uri":"u","text":"t"}}}"#,
        r#"{"sessionUpdate":"user_message_chunk","messageId":"rejoin_0_2","content":{"type":"resource","resource":{"uri":"u","text":"t"}}}"#,
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"audio","data":"AA==","mimeType":"audio/wav"},"messageId":"c"}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"tool_call","toolCallId":"a","title":"T"}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","title":"T"}"#,
    ),
    (
        r#"{"sessionUpdate":"tool_call","toolCallId":"b","title":"T","name":null,"kind":"edit","status":"pending","content":[],"locations":[{"path":"/a","line":0},{"path":"/b","line":3},{"path":"/c","line":null}],"rawInput":null,"rawOutput":[1e400],"_meta":null}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","title":"T","kind":"edit","status":"pending","content":[],"locations":[{"_meta":{"rejoin":{"line":0}},"path":"/a","line":null},{"path":"/b","line":3},{"path":"/c","line":null}],"rawInput":null,"rawOutput":[1e400]}"#,
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","title":null,"kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"t"}}]}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","kind":"read","status":"completed","content":[{"type":"content","content":{"type":"text","text":"t"}}]}"#,
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","kind":null,"locations":null}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a"}"#,
    ),
    (
        r#"{"title":null,"sessionUpdate":"tool_call_update","toolCallId":"never begun"}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"never begun"}"#,
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","content":[{"type":"diff","path":"/w/\u0061","oldText":"1\n2\n","newText":"1\n3\n","_meta":{"k":1.0}}]}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","content":[{"type":"diff","changes":[{"operation":"modify","path":"/w/\u0061","fileType":"text"}],"patch":{"format":"git_patch","text":"diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"},"_meta":{"rejoin":{"oldText":"1\n2\n","newText":"1\n3\n"},"k":1.0}}]}"#,
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","content":[{"type":"diff","path":"/a","oldText":null,"newText":"\ud83d"},{"path":"/b","newText":"","type":"diff","x":1e400},{"type":"diff","path":"/c","oldText":"","newText":""}]}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","content":[{"type":"diff","changes":[{"operation":"add","path":"/a","fileType":"text"}],"patch":{"format":"git_patch","text":"diff --git /a /a\nnew file mode 100644\n--- /dev/null\n+++ /a\n@@ -0,0 +1 @@\n+�\n\\ No newline at end of file\n"},"_meta":{"rejoin":{"oldText":null,"newText":"\ud83d"}}},{"type":"diff","changes":[{"operation":"add","path":"/b","fileType":"text"}],"patch":{"format":"git_patch","text":"diff --git /b /b\nnew file mode 100644\n"},"_meta":{"rejoin":{"newText":""}},"x":1e400},{"type":"diff","changes":[{"operation":"modify","path":"/c","fileType":"text"}],"_meta":{"rejoin":{"oldText":"","newText":""}}}]}"#,
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","content":[{"type":"terminal","terminalId":"t"}]}"#,
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","content":[{"type":"content","content":{"type":"text","text":"[a terminal was shown here]"},"_meta":{"rejoin":{"terminal":{"type":"terminal","terminalId":"t"}}}}]}"#,
    ),
    (
        r#"{"sessionUpdate":"plan","entries":[{"content":"c","priority":"high","status":"pending","_meta":{"n":1e400}}],"_meta":{"a":1}}"#,
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"rejoin_plan","entries":[{"content":"c","priority":"high","status":"pending","_meta":{"n":1e400}}]},"_meta":{"a":1}}"#,
    ),
    (
        r#"{"entries":[],"sessionUpdate":"plan"}"#,
        r#"{"plan":{"type":"items","planId":"rejoin_plan","entries":[]},"sessionUpdate":"plan_update"}"#,
    ),
    (
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"plan_update","plan":{"type":"file","planId":"p","uri":"file:///p"}}"#,
        "",
    ),
    (
        r##"{"sessionUpdate":"plan_update","plan":{"type":"markdown","planId":"p","content":"# P"}}"##,
        "",
    ),
    (r#"{"sessionUpdate":"plan_removed","planId":"p"}"#, ""),
    (
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","description":"d"},{"name":"b","description":"d","input":{"hint":"h","_meta":{"n":1e400}}},{"name":"c","description":"d","input":null}],"_meta":{}}"#,
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command","name":"a","description":"d"},{"type":"command","name":"b","description":"d","input":{"type":"text","hint":"h","_meta":{"n":1e400}}},{"type":"command","name":"c","description":"d","input":null}],"_meta":{}}"#,
    ),
    (
        r#"{"sessionUpdate":"current_mode_update","currentModeId":"code","_meta":{"a":1}}"#,
        r#"{"sessionUpdate":"_rejoin/current_mode_update","currentModeId":"code","_meta":{"a":1}}"#,
    ),
    (
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","name":"M","category":"mode","type":"select","currentValue":"a","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]},{"id":"g","name":"G","type":"select","currentValue":"x","options":[{"group":"h","name":"H","options":[{"value":"x","name":"X"}]}]},{"id":"o","name":"O","description":null,"type":"boolean","currentValue":true,"_meta":{"n":1e400}}]}"#,
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"configId":"m","name":"M","category":"mode","type":"select","currentValue":"a","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]},{"configId":"g","name":"G","type":"select","currentValue":"x","options":[{"groupId":"h","name":"H","options":[{"value":"x","name":"X"}]}]},{"configId":"o","name":"O","description":null,"type":"boolean","currentValue":true,"_meta":{"n":1e400}}]}"#,
    ),
    (
        r#"{"sessionUpdate":"current_mode_update","currentModeId":"b"}"#,
        r#"{"_meta":{"rejoin":{"currentModeId":"b"}},"sessionUpdate":"config_option_update","configOptions":[{"configId":"m","name":"M","category":"mode","type":"select","currentValue":"b","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]},{"configId":"g","name":"G","type":"select","currentValue":"x","options":[{"groupId":"h","name":"H","options":[{"value":"x","name":"X"}]}]},{"configId":"o","name":"O","description":null,"type":"boolean","currentValue":true,"_meta":{"n":1e400}}]}"#,
    ),
    (
        r#"{"sessionUpdate":"session_info_update","title":"t","updatedAt":"2026-11-21T08:30:00Z","_meta":{"a":1}}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"session_info_update","title":null}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.10,"currency":"USD"}}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"notice","severity":"warning","title":"t","description":null}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"in_progress"}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"compaction_summary_chunk","compactionId":"k","content":{"type":"text","text":"t"}}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"compaction_update","compactionId":"k","status":"completed","summary":[{"type":"text","text":"t"}],"error":null}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"subagent_update","sessionId":"sess_2","title":"t","cwd":"/w"}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"session_message","messageId":"x","senderSessionId":"sess_2","content":[{"type":"text","text":"t"}]}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"session_message_chunk","messageId":"x","content":{"type":"text","text":"t"}}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"},"messageId":"b"}"#,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"},"messageId":"b.2"}"#,
    ),
    (
        r#"{"sessionUpdate":"prompt_suggestions_update","suggestions":[{"prompt":[{"type":"text","text":"t"}]}]}"#,
        "",
    ),
    (
        r#"{"sessionUpdate":"cursor_update","cursorId":"k","anchor":{"type":"user_message","messageId":"a","position":"before"},"capabilities":{"fork":{}}}"#,
        "",
    ),
    (r#"{"sessionUpdate":"_moon_phase","phase":1e400}"#, ""),
    (r#"{"sessionUpdate":"of_a_later_version","n":[]}"#, ""),
];

/// Kinds of version 2 that no update of version 1 becomes: the session itself sends them, and the
/// view makes them for subagents.
const OF_THE_SESSION: [&str; 2] = ["state_update", "replay_complete"];

/// Kinds of version 2 that are never sent; the document says why.
const NEVER: [&str; 4] = [
    "user_message",
    "agent_message",
    "agent_thought",
    "tool_call_content_chunk",
];

pub(in crate::protocol) fn schema<T: JsonSchema>() -> (Value, Validator) {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let schema = schema.as_value().clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    (schema, validator)
}

pub(in crate::protocol) fn errors(validator: &Validator, text: &str) -> Vec<String> {
    // Numbers that no program can represent do not matter for a schema.
    let value: Value =
        serde_json::from_str(&text.replace("1e400", "1").replace("\\ud83d", "")).unwrap();
    let errors = validator.iter_errors(&value);
    errors.map(|error| format!("{error} in {text}")).collect()
}

/// The kinds of updates that a schema names.
pub(in crate::protocol) fn kinds(schema: &Value) -> BTreeSet<String> {
    let variants = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| schema[key].as_array());
    let kind = |variant: &Value| {
        let kind = variant["properties"]["sessionUpdate"]["const"].as_str();
        kind.map(str::to_owned)
    };
    variants.unwrap().iter().filter_map(kind).collect()
}

pub(in crate::protocol) fn kind(update: &str) -> String {
    let (_, behind) = update.split_once(r#""sessionUpdate":""#).unwrap();
    behind.split('"').next().unwrap().to_owned()
}

#[test]
fn each_kind_becomes_what_it_should() {
    let (_, v1) = schema::<v1::SessionUpdate>();
    let (_, v2) = schema::<v2::SessionUpdate>();
    let (mut view, mut fold) = (V2View::new(), String::new());
    let mut original = Transcript::default();
    for (update, expected) in TABLE {
        let expected = if expected.is_empty() {
            update
        } else {
            expected
        };
        let (mut line, mut out) = (Vec::new(), Vec::new());
        live_line("s", update, &mut line);
        view.lines(&line, &mut out);
        let out = String::from_utf8(out).unwrap();
        let whole = std::str::from_utf8(&line).unwrap();
        assert_eq!(out, whole.replace(update, expected));
        // Schemas of version 1 before 1.20 had plans in files.
        let is_known = !["moon", "later", "file:///p"]
            .iter()
            .any(|text| update.contains(text));
        if is_known {
            assert_eq!(errors(&v1, update), Vec::<String>::new());
        }
        assert_eq!(errors(&v2, expected), Vec::<String>::new());
        fold.push_str(&out);
        original.update(update);
    }
    assert_eq!(bare(Fold::lines(&fold)), bare(original));
}

#[test]
fn the_table_has_every_kind() {
    let shown = |side: fn(&(&str, &str)) -> String| TABLE.iter().map(side).collect::<BTreeSet<_>>();
    let from = shown(|(update, _)| kind(update));
    let (v1, _) = schema::<v1::SessionUpdate>();
    for name in kinds(&v1) {
        assert!(from.contains(&name), "what becomes of {name}?");
    }
    let becomes = shown(|(update, expected)| {
        kind(if expected.is_empty() {
            update
        } else {
            expected
        })
    });
    let terminals = ["terminal_update", "terminal_output_chunk"].map(str::to_owned);
    let others = OF_THE_SESSION
        .iter()
        .chain(&NEVER)
        .map(|name| (*name).to_owned());
    let made: BTreeSet<_> = becomes.into_iter().chain(terminals).chain(others).collect();
    let (v2, _) = schema::<v2::SessionUpdate>();
    let document = include_str!("../../../../../docs/format.md");
    let same = TABLE.iter().filter(|(_, expected)| expected.is_empty());
    let same: BTreeSet<_> = same.map(|(update, _)| kind(update)).collect();
    for name in kinds(&v2) {
        assert!(made.contains(&name), "where does {name} come from?");
        let is_told = same.contains(&name) || document.contains(&format!("`{name}`"));
        assert!(is_told, "{name} is not in the table of the document");
    }
    for name in kinds(&v1).into_iter().chain(kinds(&v2)) {
        let kind = UpdateKind::of_name(name.as_bytes());
        assert_ne!(kind, UpdateKind::Other, "{name} has no row");
    }
}

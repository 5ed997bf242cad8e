//! The conversion of each kind of update of version 2, checked against the schemas.

use agent_client_protocol_schema::{v1, v2};

use super::*;
use crate::protocol::v2::table::{TABLE as OF_VERSION_1, errors, kind, kinds, schema};

/// Updates of version 2 and what they become. None means the same. Kinds that are the same in both
/// versions are in the other table.
pub(super) const TABLE: [(&str, Option<&[&str]>); 38] = [
    (
        r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command","name":"a","description":"d","input":{"type":"text","hint":"h","n":1e400}}],"_meta":{"a":1}}"#,
        Some(&[
            r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a","description":"d","input":{"hint":"h","n":1e400}}],"_meta":{"a":1}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"config_option_update","configOptions":[{"configId":"m","name":"M","category":"mode","type":"select","currentValue":"a","options":[{"groupId":"g","name":"G","options":[{"value":"a","name":"A"}]}]},{"configId":"o","name":"O","type":"boolean","currentValue":true,"_meta":{"n":1e400}}]}"#,
        Some(&[
            r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","name":"M","category":"mode","type":"select","currentValue":"a","options":[{"group":"g","name":"G","options":[{"value":"a","name":"A"}]}]},{"id":"o","name":"O","type":"boolean","currentValue":true,"_meta":{"n":1e400}}]}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"session_info_update","title":"t","updatedAt":null,"_meta":{"a":null}}"#,
        None,
    ),
    (
        r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":null}"#,
        None,
    ),
    (
        r#"{"sessionUpdate":"state_update","state":"running"}"#,
        Some(&[]),
    ),
    (r#"{"sessionUpdate":"replay_complete"}"#, Some(&[])),
    (
        r#"{"sessionUpdate":"history_truncated","lastMessageId":"u"}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"Hi"},{"type":"image","data":"AA==","mimeType":"image/png"}],"_meta":{"a":1}}"#,
        Some(&[
            r#"{"sessionUpdate":"user_message_chunk","messageId":"u","content":{"type":"text","text":"Hi"},"_meta":{"a":1}}"#,
            r#"{"sessionUpdate":"user_message_chunk","messageId":"u","content":{"type":"image","data":"AA==","mimeType":"image/png"}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"user_message_chunk","messageId":"u","content":{"type":"text","text":" there"}}"#,
        None,
    ),
    (
        r#"{"sessionUpdate":"agent_thought","messageId":"t","content":[{"type":"text","text":"Hm"}]}"#,
        Some(&[
            r#"{"sessionUpdate":"agent_thought_chunk","messageId":"t","content":{"type":"text","text":"Hm"}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"agent_thought_chunk","messageId":"t","content":{"type":"text","text":"m"}}"#,
        None,
    ),
    (
        r#"{"sessionUpdate":"agent_message","messageId":"m","_meta":{"a":1}}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"Let\u0020us"}}"#,
        None,
    ),
    // The beginning is known.
    (
        r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"Let us s\u0065e"},{"type":"text","text":"!","annotations":{"priority":1}}]}"#,
        Some(&[
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":" see"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"!","annotations":{"priority":1}}}"#,
        ]),
    ),
    // All of the message is known.
    (
        r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"Let us see"},{"type":"text","text":"!","annotations":{"priority":1}}]}"#,
        Some(&[]),
    ),
    // The message begins in another way.
    (
        r#"{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"No"}]}"#,
        Some(&[
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"m.2","content":{"type":"text","text":"No"}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"."}}"#,
        Some(&[
            r#"{"sessionUpdate":"agent_message_chunk","messageId":"m.2","content":{"type":"text","text":"."}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"agent_message","messageId":"m","content":null}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","title":"T","kind":"execute","status":"in_progress","name":null,"rawInput":null,"capabilities":{"cancel":{}}}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call","toolCallId":"a","title":"T","kind":"execute","status":"in_progress","rawInput":null,"capabilities":{"cancel":{}}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"paused","kind":"_dance","title":"U","locations":[{"path":"/a","line":3}]}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"in_progress","kind":"other","title":"U","locations":[{"path":"/a","line":3}]}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","title":null,"kind":null,"status":null,"content":null,"locations":null,"rawOutput":null}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","kind":"other","status":"pending","content":[],"locations":[],"rawOutput":null}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"a","content":{"type":"content","content":{"type":"text","text":"1"}}}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"terminal_update","terminalId":"x","command":"make","cwd":"/w"}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"a","content":{"type":"terminal","terminalId":"x"}}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"terminal_output_chunk","terminalId":"x","data":"b2sK"}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"cancelled"}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","content":[{"type":"content","content":{"type":"text","text":"1"}},{"type":"content","content":{"type":"text","text":"ok\n"}}]}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"terminal_update","terminalId":"x","output":{"data":"bm8="},"exitStatus":{"exitCode":1}}"#,
        Some(&[]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"b","status":"completed","content":[{"type":"content","content":{"type":"text","text":"t"}}]}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"a","content":[{"type":"content","content":{"type":"text","text":"1"}},{"type":"content","content":{"type":"text","text":"no"}}]}"#,
            r#"{"sessionUpdate":"tool_call","toolCallId":"b","status":"completed","content":[{"type":"content","content":{"type":"text","text":"t"}}],"title":"Tool call"}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"E","content":[{"type":"diff","changes":[{"operation":"modify","path":"/w/a"},{"operation":"add","path":"/w/b"},{"operation":"delete","path":"/w/c","fileType":"binary"},{"operation":"move","oldPath":"/w/d","path":"/w/e"}],"patch":{"format":"git_patch","text":"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n@@ -9 +9 @@\n-x\n\\ No newline at end of file\n+y\ndiff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+b\n"}}]}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"E","content":[{"type":"diff","path":"/w/a","oldText":"1\n2\n","newText":"1\n3\n"},{"type":"diff","path":"/w/a","oldText":"x","newText":"y\n"},{"type":"diff","path":"/w/b","oldText":null,"newText":"b\n"},{"type":"content","content":{"type":"text","text":"delete: /w/c"}},{"type":"content","content":{"type":"text","text":"move: /w/d → /w/e"}}]}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"d","title":"E","content":[{"type":"diff","changes":[{"operation":"modify","path":"/w/a"}],"_meta":{"rejoin":{"oldText":"1","newText":"2"}}}]}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call","toolCallId":"d","title":"E","content":[{"type":"diff","path":"/w/a","oldText":"1","newText":"2"}]}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"e","title":"E","content":[{"type":"content","content":{"type":"text","text":"[a terminal was shown here]"},"_meta":{"rejoin":{"terminal":{"type":"terminal","terminalId":"t"}}}}],"locations":[{"_meta":{"rejoin":{"line":0}},"path":"/a","line":null}]}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call","toolCallId":"e","title":"E","content":[{"type":"terminal","terminalId":"t"}],"locations":[{"path":"/a","line":0}]}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"tool_call_update","toolCallId":"f","title":"E","content":[{"type":"terminal","terminalId":"t"}],"_meta":{"terminal_info":{"terminal_id":"t"}}}"#,
        Some(&[
            r#"{"sessionUpdate":"tool_call","toolCallId":"f","title":"E","content":[{"type":"terminal","terminalId":"t"}],"_meta":{"terminal_info":{"terminal_id":"t"}}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"c","priority":"high","status":"pending"}]},"_meta":{"a":1}}"#,
        Some(&[
            r#"{"sessionUpdate":"plan","entries":[{"content":"c","priority":"high","status":"pending"}],"_meta":{"a":1}}"#,
        ]),
    ),
    (
        r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"rejoin_plan","entries":[]}}"#,
        Some(&[r#"{"sessionUpdate":"plan","entries":[]}"#]),
    ),
    (
        r##"{"sessionUpdate":"plan_update","plan":{"type":"markdown","planId":"p","content":"# P"}}"##,
        None,
    ),
    (
        r#"{"sessionUpdate":"subagent_update","sessionId":"c9","title":null,"state":{"state":"running"}}"#,
        None,
    ),
    (
        r#"{"sessionUpdate":"_rejoin/current_mode_update","currentModeId":"code","_meta":{"a":1}}"#,
        Some(&[
            r#"{"sessionUpdate":"current_mode_update","currentModeId":"code","_meta":{"a":1}}"#,
        ]),
    ),
    (
        r#"{"_meta":{"rejoin":{"currentModeId":"b"}},"sessionUpdate":"config_option_update","configOptions":[]}"#,
        Some(&[r#"{"sessionUpdate":"current_mode_update","currentModeId":"b"}"#]),
    ),
];

/// The updates of the kinds that are the same in both versions.
fn same_in_both() -> impl Iterator<Item = &'static str> {
    let own: Vec<_> = TABLE.iter().map(|(update, _)| kind(update)).collect();
    let same = OF_VERSION_1
        .into_iter()
        .filter(|(_, expected)| expected.is_empty());
    same.map(|(update, _)| update)
        .filter(move |update| !own.contains(&kind(update)))
}

/// The updates of all kinds of version 2.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .map(|(update, _)| *update)
        .chain(same_in_both())
}

#[test]
fn each_kind_becomes_what_it_should() {
    let (_, v1) = schema::<v1::SessionUpdate>();
    let (_, v2) = schema::<v2::SessionUpdate>();
    let mut conversion = Conversion::new();
    let same = same_in_both().map(|update| (update, None));
    for (update, expected) in TABLE.into_iter().chain(same) {
        let mut shown = Vec::new();
        conversion.update(update, &mut |update| shown.push(update.to_owned()));
        assert_eq!(shown, expected.unwrap_or(&[update]), "{update}");
        assert_eq!(errors(&v2, update), Vec::<String>::new());
        for update in shown {
            let name = kind(&update);
            if UpdateKind::of_name(name.as_bytes()) != UpdateKind::Other {
                assert_eq!(errors(&v1, &update), Vec::<String>::new());
            }
        }
    }
}

#[test]
fn the_table_has_every_kind() {
    let (schema, _) = schema::<v2::SessionUpdate>();
    let known: Vec<_> = all().map(kind).collect();
    for name in kinds(&schema) {
        assert!(known.contains(&name), "what becomes of {name}?");
    }
}

#[test]
fn what_is_held_at_the_end_is_put() {
    let mut conversion = Conversion::with_originals();
    let mut shown = Vec::new();
    let put = &mut |update: &str| shown.push(update.to_owned());
    let chunk = r#"{"sessionUpdate":"tool_call_content_chunk","toolCallId":"a","content":{"type":"content","content":{"type":"text","text":"1"}}}"#;
    conversion.update(chunk, put);
    conversion.flush(put);
    conversion.end_of_turn();
    conversion.update(chunk, put);
    conversion.finish(put);
    let terminal = r#"{"sessionUpdate":"terminal_update","terminalId":"x"}"#;
    conversion.update(terminal, put);
    conversion.finish(put);
    let whole = |kind| {
        let content = r#""content":[{"type":"content","content":{"type":"text","text":"1"}}]"#;
        format!(
            r#"{{"_meta":{{"rejoin":{{"updates":[{chunk}]}}}},"sessionUpdate":"{kind}","toolCallId":"a",{content}}}"#
        )
    };
    let begun = whole(r#"tool_call","title":"Tool call"#);
    let carrier = r#""sessionUpdate":"_rejoin/updates"}"#;
    let carrier = format!(r#"{{"_meta":{{"rejoin":{{"updates":[{terminal}]}}}},{carrier}"#);
    assert_eq!(shown, [begun, whole("tool_call_update"), carrier]);
}

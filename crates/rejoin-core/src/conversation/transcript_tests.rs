//! Tests of the fold, with the rules as data.

use serde_json::json;

use super::*;

fn fold(updates: &[Value]) -> Transcript {
    let mut transcript = Transcript::default();
    for update in updates {
        transcript.update(&update.to_string());
    }
    transcript
}

fn text(kind: &str, id: Option<&str>, text: &str) -> Value {
    let mut update = json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
    if let Some(id) = id {
        update["messageId"] = json!(id);
    }
    update
}

/// Role, id and blocks of the messages of a transcript.
fn messages(transcript: &Transcript) -> Value {
    let messages = transcript.entries.iter().map(|entry| match entry {
        TranscriptEntry::Message {
            role,
            message_id,
            blocks,
            ..
        } => json!([role, message_id, blocks]),
        other => json!(other),
    });
    messages.collect()
}

fn block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn ids_decide_where_a_message_ends() {
    const AGENT: &str = "agent_message_chunk";
    let cases = [
        (
            (Some("a"), Some("a")),
            json!([["agent", "a", [block("12")]]]),
        ),
        ((None, None), json!([["agent", null, [block("12")]]])),
        ((Some("a"), None), json!([["agent", "a", [block("12")]]])),
        ((None, Some("a")), json!([["agent", "a", [block("12")]]])),
        (
            (Some("a"), Some("b")),
            json!([["agent", "a", [block("1")]], ["agent", "b", [block("2")]]]),
        ),
    ];
    for ((first, second), expected) in cases {
        let folded = fold(&[text(AGENT, first, "1"), text(AGENT, second, "2")]);
        assert_eq!(messages(&folded), expected, "{first:?} then {second:?}");
    }
}

#[test]
fn interleaving_is_kept() {
    let folded = fold(&[
        text("agent_thought_chunk", Some("m"), "hm"),
        text("agent_message_chunk", Some("m"), "one"),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}),
        text("agent_message_chunk", Some("m"), "two"),
    ]);
    assert_eq!(
        messages(&folded),
        json!([
            ["thought", "m", [block("hm")]],
            ["agent", "m", [block("one")]],
            {"entry": "tool_call", "id": "t", "call": {"toolCallId": "t", "title": "T"}},
            ["agent", "m", [block("two")]],
        ])
    );
    assert_eq!(
        folded.text(),
        "thought: hm\n\nagent: one\n\ntool: T (pending)\n\nagent: two"
    );
}

#[test]
fn only_blocks_that_are_alike_are_joined() {
    let chunk = |block: Value| json!({"sessionUpdate": "agent_message_chunk", "content": block});
    let marked = |text: &str| json!({"type": "text", "text": text, "annotations": {"priority": 1}});
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let folded = fold(&[
        chunk(block("a")),
        chunk(block("")),
        chunk(marked("b")),
        chunk(marked("c")),
        chunk(block("d")),
        chunk(image.clone()),
        chunk(image.clone()),
        chunk(block("e")),
    ]);
    let blocks = json!([
        block("a"),
        marked("bc"),
        block("d"),
        image,
        image,
        block("e")
    ]);
    assert_eq!(messages(&folded), json!([["agent", null, blocks]]));
}

#[test]
fn a_prompt_folds_as_its_chunks_do() {
    let blocks = json!([
        {"type": "text", "text": "look: "},
        {"type": "resource_link", "name": "x", "uri": "file:///x", "size": 3},
        {"type": "text", "text": "and "},
        {"type": "text", "text": "answer"},
    ]);
    let mut prompt = Transcript::default();
    let params = json!({"prompt": blocks, "_meta": {"a": 1}}).to_string();
    prompt.user_prompt(Some("msg_1"), &params);
    let mut chunks = Transcript::default();
    for block in blocks.as_array().unwrap() {
        let update = json!({
            "sessionUpdate": "user_message_chunk", "content": block, "messageId": "msg_1"
        });
        let params = json!({"sessionId": "s", "update": update});
        let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
        chunks.notification(&line.to_string());
    }
    assert_eq!(prompt, chunks);
    assert_eq!(
        prompt.text(),
        "user: look: \n[resource_link x file:///x]\nand answer"
    );
}

#[test]
fn updates_of_a_tool_call_replace_its_fields() {
    let call = |fields: Value| {
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t"});
        let fields = fields.as_object().unwrap().clone();
        update.as_object_mut().unwrap().extend(fields);
        update
    };
    let folded = fold(&[
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": "read",
               "rawInput": {"a": 1}, "content": [1, 2], "locations": [{"path": "/x"}]}),
        text("agent_message_chunk", None, "between"),
        call(json!({"status": "in_progress", "title": null, "rawInput": null})),
        call(json!({"status": "completed", "content": [3], "locations": null, "_meta": {"b": 2}})),
    ]);
    let expected = json!({"toolCallId": "t", "title": "T", "kind": "read", "rawInput": null,
        "content": [3], "locations": [{"path": "/x"}], "status": "completed", "_meta": {"b": 2}});
    assert_eq!(folded.entries.len(), 2, "the call stays where it was");
    let TranscriptEntry::ToolCall { id, call: fields } = &folded.entries[0] else {
        panic!("no tool call: {folded:?}");
    };
    assert_eq!((id.as_str(), json!(fields)), ("t", expected));
    assert_eq!(
        fold(&[call(json!({"status": "failed"}))]).entries.len(),
        1,
        "an orphan is a call"
    );
}

#[test]
fn plans_stay_snapshots_do_not_and_the_unknown_is_kept() {
    let plan = |content: &str| {
        let entry = json!({"content": content, "priority": "high", "status": "pending"});
        json!({"sessionUpdate": "plan", "entries": [entry]})
    };
    let commands = |n: u32| json!({"sessionUpdate": "available_commands_update", "availableCommands": [], "n": n});
    let odd = json!({"sessionUpdate": "moon_phase", "phase": 1.5, "x": null});
    let folded = fold(&[
        plan("a"),
        commands(1),
        odd.clone(),
        plan("b"),
        commands(2),
        json!({"sessionUpdate": "notice", "severity": "info", "title": "t"}),
        json!({"sessionUpdate": "tool_call", "title": "no id"}),
    ]);
    assert_eq!(
        folded.text(),
        "plan:\n[pending] a\n\n[moon_phase]\n\nplan:\n[pending] b\n\n[tool_call]"
    );
    assert_eq!(folded.entries[1], TranscriptEntry::Other { update: odd });
    assert_eq!(folded.state.len(), 1);
    assert_eq!(folded.state["available_commands_update"]["n"], 2);
}

#[test]
fn what_beside_the_block_a_chunk_says_is_kept() {
    let mut with_meta = text("agent_message_chunk", Some("m"), "a");
    with_meta["_meta"] = json!({"parent": "t1"});
    let folded = fold(&[with_meta, text("agent_message_chunk", Some("m"), "b")]);
    let TranscriptEntry::Message { blocks, extra, .. } = &folded.entries[0] else {
        panic!("no message: {folded:?}");
    };
    assert_eq!(blocks, &[block("ab")]);
    assert_eq!(json!(extra), json!({"_meta": {"parent": "t1"}}));
}

#[test]
fn other_lines_and_broken_ones_change_nothing_or_are_kept_as_text() {
    let mut transcript = Transcript::default();
    for line in [
        "",
        "{",
        "[]",
        r#"{"id":1,"result":{}}"#,
        r#"{"method":"session/update"}"#,
    ] {
        transcript.notification(line);
    }
    transcript.user_prompt(None, "{");
    transcript.user_prompt(None, r#"{"prompt":"text"}"#);
    assert_eq!(transcript, Transcript::default());
    transcript.update("{\"sessionUpdate\"");
    transcript.update(r#"{"sessionUpdate":"agent_message_chunk","content":"\ud83d"#);
    assert_eq!(transcript.entries.len(), 2);
    let mut odd = Transcript::default();
    odd.update(
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}"#,
    );
    assert_eq!(odd.text(), "agent: \u{fffd}");
}

#[test]
fn records_beside_prompts_and_updates_fold_too() {
    let mut transcript = Transcript::default();
    for (kind, payload) in [
        (
            Kind::Update,
            r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"Run","content":[{"type":"terminal","terminalId":"x"}]}"#,
        ),
        (
            Kind::Output,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"content","content":{"type":"text","text":"done"}}]}"#,
        ),
        (
            Kind::Transient,
            r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"again"}}"#,
        ),
        (
            Kind::Info,
            r#"{"sessionUpdate":"session_info_update","title":"T","updatedAt":"x"}"#,
        ),
        (
            Kind::Info,
            r#"{"_meta":{},"update":{"sessionUpdate":"session_info_update","updatedAt":null}}"#,
        ),
        (
            Kind::Info,
            r#"{"sessionUpdate":"current_mode_update","currentModeId":"ask"}"#,
        ),
        (
            Kind::Info,
            r#"{"sessionUpdate":"usage_update","used":5,"size":100}"#,
        ),
        (
            Kind::Info,
            r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"a"},{"name":"b"},7]}"#,
        ),
        (
            Kind::Info,
            r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"model","currentValue":"m"},{"id":"fast","currentValue":true},{}]}"#,
        ),
        (Kind::Info, r#"{"title":"ours"}"#),
        (Kind::Info, "7"),
        (Kind::Ask, r#"{"sessionUpdate":"plan"}"#),
    ] {
        transcript.record(&Record::sample(kind, None, payload));
    }
    assert_eq!(transcript.text(), "tool: Run (pending)\ndone");
    let info = &transcript.state[UpdateKind::SessionInfo.name()];
    assert_eq!(
        (&info["title"], &info["updatedAt"]),
        (&json!("T"), &json!(null))
    );
    assert_eq!(
        transcript.state_text(),
        "commands: /a, /b\noptions: model = m, fast = true\nmode: ask\ntitle: T\n\
         usage: 5 of 100 tokens"
    );
}

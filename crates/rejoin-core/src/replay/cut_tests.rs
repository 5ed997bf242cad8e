//! Tests of truncation: what is too long for a line becomes shorter, stays valid and is marked.

use agent_client_protocol_schema::v1::SessionNotification;
use serde_json::{Value, json};

use crate::record::line::encode;
use crate::record::{Kind, line};
use crate::replay::{Options, Replay};
use crate::sys::Timestamp;

const LIMIT: usize = 16 * 1024;

/// The one line that a record is replayed as.
fn replayed(kind: Kind, payload: &str) -> (String, u64) {
    let mut bytes = Vec::new();
    encode(
        &mut bytes,
        1,
        Timestamp::from_millis(0),
        kind,
        None,
        payload,
    );
    let record = line::decode(bytes.strip_suffix(b"\n").unwrap()).unwrap();
    let options = Options {
        message_limit: LIMIT,
        ..Options::default()
    };
    let (mut replay, mut out) = (Replay::new("s", options), Vec::new());
    replay.record(&record, &mut out);
    replay.finish(&mut out);
    (String::from_utf8(out).unwrap(), replay.cut())
}

/// Replays an update that must be cut, checks what holds for all such updates, and returns its
/// members.
fn cut(kind: Kind, payload: &Value) -> Value {
    let (line, cut) = replayed(kind, &payload.to_string());
    assert_eq!(cut, 1);
    assert!(line.len() <= LIMIT, "{} bytes", line.len());
    assert_eq!(line.find('\n'), Some(line.len() - 1), "one line");
    let message: Value = serde_json::from_str(&line).unwrap();
    let params = &message["params"];
    let note = &params["_meta"]["rejoin"]["cut"]["bytes"];
    let removed = usize::try_from(note.as_u64().unwrap()).unwrap();
    let least = payload.to_string().len().saturating_sub(LIMIT);
    assert!(removed >= least, "{removed} of at least {least} bytes");
    // The protocol's own types leave out what they cannot read and what is empty.
    let typed: SessionNotification = serde_json::from_value(params.clone()).unwrap();
    let typed = serde_json::to_value(typed).unwrap();
    assert_eq!(without_empty(&typed), without_empty(params));
    params["update"].clone()
}

fn without_empty(value: &Value) -> Value {
    let empty = [json!(null), json!([]), json!({})];
    match value {
        Value::Object(members) => {
            let full = members.iter().filter(|(_, value)| !empty.contains(value));
            full.map(|(key, value)| (key.clone(), without_empty(value)))
                .collect()
        }
        Value::Array(list) => list.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

fn long(len: usize) -> String {
    "line of an output\n".chars().cycle().take(len).collect()
}

#[test]
fn the_longest_strings_lose_their_middle() {
    let output = format!("begin{}end", long(100_000));
    let content = json!([
        {"type": "content", "content": {"type": "text", "text": output}},
        {"type": "diff", "path": "/x", "oldText": long(20_000), "newText": "short"},
    ]);
    let update = cut(
        Kind::Update,
        &json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "failed",
                "content": content, "rawOutput": {"a": [long(30_000)], "b": 7}}),
    );
    let text = update["content"][0]["content"]["text"].as_str().unwrap();
    assert!(
        text.starts_with("beginline") && text.ends_with("end"),
        "{text}"
    );
    let (head, behind) = text.split_once("\n[… ").unwrap();
    let (number, tail) = behind
        .split_once(" bytes cut in the replay; the log has all of it]\n")
        .unwrap();
    let escaped = |text: &str| Value::from(text).to_string().len() - 2;
    let missing = escaped(&output) - escaped(head) - escaped(tail);
    assert_eq!(number.replace(',', ""), missing.to_string());
    let old = update["content"][1]["oldText"].as_str().unwrap();
    let raw = update["rawOutput"]["a"][0].as_str().unwrap();
    for other in [old, raw] {
        assert!(
            other.len().abs_diff(text.len()) < 400,
            "all are cut to one length"
        );
    }
    assert_eq!(update["content"][1]["newText"], "short");
    assert_eq!(update["rawOutput"]["b"], 7);
}

#[test]
fn media_give_way_to_words() {
    let data = "A".repeat(50_000);
    let image = json!({"type": "image", "mimeType": "image/png", "data": data, "uri": "file:///i"});
    let blob = json!({"type": "resource", "resource":
        {"uri": "file:///b", "mimeType": "application/x", "blob": data}});
    let small = json!({"type": "image", "mimeType": "image/gif", "data": "AAAA"});
    let words = |update: &Value| update["text"].as_str().unwrap().to_owned();
    let in_message = cut(
        Kind::Update,
        &json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": image}),
    );
    assert_eq!(in_message["content"]["type"], "text");
    assert_eq!(in_message["messageId"], "m");
    assert_eq!(
        words(&in_message["content"]),
        "[image, image/png, file:///i: 50,067 bytes cut in the replay; the log has all of it]"
    );
    let in_prompt = cut(Kind::Prompt, &json!({"prompt": [blob]}));
    assert!(words(&in_prompt["content"]).starts_with("[resource, application/x, file:///b: 50,"));
    let item = |block: &Value| json!({"type": "content", "content": block});
    let in_tool = cut(
        Kind::Update,
        &json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t",
                "content": [item(&image), item(&small)]}),
    );
    assert_eq!(in_tool["content"][0]["type"], "content");
    assert!(words(&in_tool["content"][0]["content"]).starts_with("[image, image/png"));
    assert_eq!(in_tool["content"][1]["content"], small);
}

#[test]
fn a_text_resource_is_cut_and_stays_a_resource() {
    let block = json!({"type": "resource", "resource": {"uri": "file:///t", "text": long(40_000)}});
    let update = cut(Kind::Prompt, &json!({"prompt": [block]}));
    let text = update["content"]["resource"]["text"].as_str().unwrap();
    assert!(text.contains(" bytes cut in the replay; "));
}

#[test]
fn members_that_are_not_long_strings_become_stubs() {
    let numbers: Vec<u32> = (0..10_000).collect();
    let update = cut(
        Kind::Update,
        &json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "kind": "read",
                "rawInput": numbers, "rawOutput": null, "_meta": {"n": numbers},
                "locations": vec![json!({"path": "/x"}); 2000],
                "content": vec![json!({"type": "terminal", "terminalId": "x"}); 2000]}),
    );
    let marker = update["rawInput"].as_str().unwrap();
    assert_eq!(
        marker,
        "[… 48,891 bytes cut in the replay; the log has all of it]"
    );
    assert_eq!(
        (&update["toolCallId"], &update["kind"]),
        (&json!("t"), &json!("read"))
    );
    assert_eq!(update["rawOutput"], Value::Null);
    assert_eq!(
        (&update["_meta"], &update["locations"]),
        (&json!({}), &json!([]))
    );
    assert!(update["content"][0]["content"]["text"].is_string());
    let entry = json!({"content": "c", "priority": "high", "status": "pending"});
    let plan = cut(
        Kind::Update,
        &json!({"sessionUpdate": "plan", "entries": vec![entry; 2000]}),
    );
    assert!(
        plan["entries"][0]["content"]
            .as_str()
            .unwrap()
            .starts_with("[… ")
    );
}

#[test]
fn what_cannot_be_reduced_is_mentioned() {
    let id = "t".repeat(40_000);
    let update = cut(
        Kind::Update,
        &json!({"sessionUpdate": "tool_call", "toolCallId": id, "status": "failed"}),
    );
    assert_eq!(update["sessionUpdate"], "agent_message_chunk");
    assert!(
        update["content"]["text"]
            .as_str()
            .unwrap()
            .starts_with("[… 40,0")
    );
    let many: serde_json::Map<_, _> = (0..5000).map(|i| (i.to_string(), json!(i))).collect();
    let mut many = Value::Object(many);
    many["sessionUpdate"] = json!("moon_phase");
    let update = cut(Kind::Update, &many);
    assert_eq!(update["sessionUpdate"], "agent_message_chunk");
}

#[test]
fn what_stands_beside_the_update_is_cut_as_well() {
    let chunk = json!({"sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "small"}});
    for meta in [
        json!({"note": long(40_000), "a": 1}),
        json!({"list": (0..9000).collect::<Vec<_>>()}),
    ] {
        for payload in [
            json!({"update": chunk, "_meta": meta}),
            json!({"_meta": meta, "update": chunk}),
        ] {
            assert_eq!(cut(Kind::UpdateParams, &payload), chunk);
        }
    }
}

#[test]
fn no_length_and_no_nesting_is_a_panic() {
    for depth in [63, 64, 65, 100_000] {
        let nested = format!(
            "{}\"{}\"{}",
            "[".repeat(depth),
            "x".repeat(20_000),
            "]".repeat(depth)
        );
        let payload = format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","rawInput":{nested}}}"#
        );
        let (line, cut) = replayed(Kind::Update, &payload);
        assert!(line.len() <= LIMIT && cut == 1, "{depth}");
        assert!(line.contains("bytes cut in the replay"), "{depth}");
    }
    let mut cuts = 0;
    for len in LIMIT - 400..LIMIT - 100 {
        let payload =
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x".repeat(len)});
        let (line, cut) = replayed(Kind::Update, &payload.to_string());
        assert!(line.len() <= LIMIT);
        let params: Value = serde_json::from_str::<Value>(&line).unwrap()["params"].take();
        cuts += cut;
        let whole = params["update"] == payload;
        assert_eq!(whole, cut == 0, "{len}");
        assert_eq!(
            whole,
            params["_meta"]["rejoin"].get("cut").is_none(),
            "{len}"
        );
    }
    assert!((1..300).contains(&cuts), "some fit and some do not: {cuts}");
}

#[test]
fn escapes_are_not_cut_apart() {
    for shift in 0..14 {
        let text = "x".repeat(shift) + &"\\ud83d\\ude00\\\\é".repeat(2000);
        let payload = format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","rawOutput":"{text}"}}"#
        );
        let (line, _) = replayed(Kind::Update, &payload);
        let value: Value = serde_json::from_str(&line).unwrap();
        let output = value["params"]["update"]["rawOutput"].as_str().unwrap();
        let (head, _) = output.split_once("\n[… ").unwrap();
        let head = head.trim_start_matches('x');
        assert!(head.replace("😀\\é", "").len() <= "😀\\".len(), "{head}");
    }
}

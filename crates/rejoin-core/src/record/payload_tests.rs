//! Tests of payload validation.

use proptest::prelude::*;

use super::*;

const CHUNK: &str =
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"n":1e400}"#;

fn check(kind: Kind, payload: &str) -> Option<String> {
    let checked = Checker::default().check(kind, payload);
    checked.map(|checked| checked.payload.into_owned())
}

#[track_caller]
fn assert_sound(kind: Kind, payload: &str) {
    assert_eq!(check(kind, payload).as_deref(), Some(payload));
}

#[track_caller]
fn assert_damaged(kind: Kind, payload: &str) {
    assert_eq!(check(kind, payload), None, "{kind:?} {payload}");
}

#[test]
fn payloads_of_every_kind_are_themselves() {
    for kind in [Kind::Update, Kind::Output, Kind::Transient, Kind::Info] {
        for update in [
            CHUNK,
            r#"{"sessionUpdate":"moon_update"}"#,
            r#" { "sessionUpdate" : "plan" , "sessionId" : "s" , "content" : [ ] } "#,
            r#"{"session\u0055pdate":"agent_thought_chunk","content":{}}"#,
            r#"{"sessionUpdate":"a","sessionUpdate":"b","x":"\ud800"}"#,
        ] {
            assert_sound(kind, update);
        }
    }
    for params in [
        r#"{"update":{"sessionUpdate":"x"},"_meta":{"a":1}}"#,
        r#"{ "_meta":null , "update":{"sessionUpdate":"x"},"x":1,"x":2 }"#,
    ] {
        for kind in [Kind::UpdateParams, Kind::UpdateV2, Kind::TransientV2] {
            assert_sound(kind, params);
        }
        assert_sound(Kind::Info, params);
    }
    for own in [
        "{}",
        r#"{"archived":true}"#,
        r#"{"update":{},"sessionId":1}"#,
    ] {
        assert_sound(Kind::Info, own);
    }
    for prompt in [
        r#"{"prompt":[]}"#,
        r#"{"prompt":[{"type":"text"}],"_meta":{}}"#,
    ] {
        assert_sound(Kind::Prompt, prompt);
    }
    for kind in [
        Kind::Session,
        Kind::End,
        Kind::Ask,
        Kind::Answer,
        Kind::Reopen,
        Kind::AgentSessionId,
    ] {
        assert_sound(kind, r#"{"a":[1]}"#);
        assert_damaged(kind, "[1]");
    }
    assert_sound(Kind::Unknown, "7");
}

#[test]
fn what_is_not_one_value_of_the_right_shape_is_damage() {
    let closes =
        format!("{CHUNK}}},\"id\":77,\"method\":\"fs/write_text_file\",\"params\":{{\"a\":1");
    let with_return = CHUNK.replacen(',', ",\r", 1);
    let updates = [
        closes.as_str(),
        &closes[..=CHUNK.len()],
        &format!("{CHUNK}{CHUNK}"),
        &format!("{CHUNK} x"),
        &CHUNK[..CHUNK.len() - 1],
        &with_return,
        "",
        "[]",
        "null",
        "7",
        r#"{"sessionUpdate":7}"#,
        r#"{"sessionUpdate":null}"#,
        r#"{"sessionUpdate":"x","sessionUpdate":7}"#,
        r#"{"sessionUpdate":"agent_message_chunk"}"#,
        r#"{"sessionUpdate":"agent_message\u005fchunk","content":"a"}"#,
        r#"{"sessionUpdate":"user_message_chunk","content":{},"content":[]}"#,
        r#"{"sessionUpdate":"x","a":"\x"}"#,
        r#"{"sessionUpdate":"x","a":01}"#,
        r#"{"sessionUpdate":"x",}"#,
    ];
    for update in updates {
        for kind in [Kind::Update, Kind::Output, Kind::Transient, Kind::Info] {
            assert_damaged(kind, update);
        }
        let params = format!(r#"{{"update":{update}}}"#);
        for kind in [Kind::UpdateParams, Kind::UpdateV2, Kind::TransientV2] {
            assert_damaged(kind, &params);
        }
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        assert_damaged(Kind::SubagentV2, &params);
    }
    for kind in [Kind::Update, Kind::UpdateParams, Kind::Prompt] {
        assert_damaged(kind, "{}");
    }
    assert_damaged(
        Kind::Info,
        r#"{"session\u0055pdate":"x","update":{"sessionUpdate":"y"}}"#,
    );
    for prompt in [
        r#"{"prompt":{}}"#,
        r#"{"prompt":[7]}"#,
        r#"{"prompt":[],"prompt":null}"#,
    ] {
        assert_damaged(Kind::Prompt, prompt);
    }
}

#[test]
fn no_parameters_name_a_session_or_are_read_in_two_ways() {
    for (params, expected) in [
        (
            r#"{"sessionId":"other","update":{"sessionUpdate":"x"},"a" : 1}"#,
            r#"{"update":{"sessionUpdate":"x"},"a" : 1}"#,
        ),
        (
            r#"{"session\u0049d":"other","upd\u0061te":{"sessionUpdate":"x"}}"#,
            r#"{"update":{"sessionUpdate":"x"}}"#,
        ),
        (
            r#"{"update":[],"_meta":{},"update":{"sessionUpdate":"y"},"_meta":7}"#,
            r#"{"update":{"sessionUpdate":"y"},"_meta":7}"#,
        ),
    ] {
        for kind in [Kind::UpdateParams, Kind::Info] {
            assert_eq!(check(kind, params).as_deref(), Some(expected));
        }
        assert_damaged(Kind::UpdateParams, &format!("{params}}}"));
    }
}

proptest! {
    /// A payload is judged independently of what was read before.
    #[test]
    fn what_is_remembered_changes_no_judgement(
        texts in prop::collection::vec("[a\"\\\\{}\r\u{1}é]{0,12}", 1..8),
        around in prop::sample::select(vec![
            ("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"", "\"}}"),
            ("{\"content\":{\"text\":\"", "\"},\"sessionUpdate\":\"plan\"}"),
            ("{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"text\":\"a\"},\"x\":\"", "\"}"),
        ]),
    ) {
        let mut checker = Checker::default();
        for text in texts {
            let payload = format!("{}{text}{}", around.0, around.1);
            let judged = checker.check(Kind::Update, &payload).map(|checked| checked.payload.into_owned());
            prop_assert_eq!(judged, check(Kind::Update, &payload));
        }
    }
}

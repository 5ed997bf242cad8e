//! Payloads that are any text at all: folded, titled, replayed.

use proptest::prelude::*;
use rejoin::conversation::Transcript;
use rejoin::protocol::v2::HEAD_V2;
use rejoin::record::title::title;
use rejoin::record::{Kind, OpenCalls, Record};
use rejoin::replay::{Options, Replay, live_line, live_params_line};

use super::cases;
use super::mutate::{mutated, mutations};

const KINDS: [Kind; 11] = [
    Kind::Update,
    Kind::Output,
    Kind::Transient,
    Kind::Info,
    Kind::UpdateParams,
    Kind::UpdateV2,
    Kind::SubagentV2,
    Kind::Prompt,
    Kind::End,
    Kind::Reopen,
    Kind::Unknown,
];

const PAYLOADS: [&str; 15] = [
    r#"{"update":{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"one\u00e9"}]},"_meta":{}}"#,
    r#"{"update":{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"terminal","terminalId":"x"}}}"#,
    r#"{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c","title":null,"content":[{"type":"diff","changes":[{"path":"/é"}],"patch":{"text":"diff --git a/é b/é\n@@ -1 +1 @@\n-é\n+b\n"}}]}}"#,
    r#"{"sessionId":"t","update":{"sessionUpdate":"terminal_output_chunk","terminalId":"x","data":"AA=="}}"#,
    r#"{"sessionUpdate":"session_info_update","title":"t","_meta":null}"#,
    r#"{"update":{"sessionUpdate":"usage_update","used":1.0},"_meta":{}}"#,
    r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"one\ud83d"}}"#,
    r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"\ude00two"}}"#,
    r#"{"sessionUpdate":"user_message_chunk","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}"#,
    r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"t","status":"pending","content":[{"type":"terminal","terminalId":"x"}]}"#,
    r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawOutput":null,"content":[{"type":"diff","path":"/a","oldText":null,"newText":""}]}"#,
    r#"{"sessionUpdate":"plan","entries":[]}"#,
    r#"{"update":{"sessionUpdate":"plan","entries":[]},"_meta":{"rejoin":{"at":1},"a":[]}}"#,
    r#"{"prompt":[{"type":"text","text":"hello"},{"type":"resource","resource":{"uri":"u","text":"\u0000"}}],"_meta":{}}"#,
    r#"{"stopReason":"end_turn"}"#,
];

/// Any text on one line; most of it is nearly a payload.
fn payload() -> impl Strategy<Value = String> {
    let damaged = (prop::sample::select(&PAYLOADS[..]), mutations())
        .prop_map(|(payload, mutations)| mutated(payload.as_bytes(), &mutations))
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let any = prop_oneof![
        2 => prop::sample::select(&PAYLOADS[..]).prop_map(str::to_owned),
        4 => damaged,
        1 => any::<String>(),
    ];
    any.prop_map(|text| text.replace(['\n', '\r'], " "))
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn any_payload_is_replayed_in_whole_lines(
        payloads in prop::collection::vec((prop::sample::select(&KINDS[..]), payload()), 1..8),
        exact in any::<bool>(),
        text_limit in prop_oneof![Just(1 << 20), 0usize..40],
        message_limit in prop_oneof![Just(1 << 24), 0usize..4000],
        skip_turns in 0u64..3,
        version_2 in any::<bool>(),
    ) {
        let options = Options { exact, text_limit, message_limit, skip_turns, version_2, ..Options::default() };
        let mut replay = Replay::new("sess", options);
        let mut transcript = Transcript::default();
        let mut calls = OpenCalls::default();
        let mut lines = Vec::new();
        for (seq, (kind, payload)) in payloads.iter().enumerate() {
            let record = Record {
                seq: seq as u64,
                at: "2026-11-21T08:30:00.123Z",
                kind: *kind,
                id: Some("msg_1"),
                payload,
                parts: None,
            };
            replay.record(&record, &mut lines);
            transcript.record(&record);
            calls.update(payload);
            title(payload);
        }
        replay.finish(&mut lines);
        calls.close_all("closed");
        serde_json::to_string(&transcript).expect("a transcript is JSON");
        let lines = std::str::from_utf8(&lines).expect("text in, text out");
        let good = payloads.iter().all(|(_, payload)| is_json(payload));
        for line in lines.split_inclusive('\n') {
            let is_ours = line.starts_with(r#"{"jsonrpc":"2.0","method":"session/update""#);
            prop_assert!(is_ours || line.as_bytes().starts_with(HEAD_V2), "{}", line);
            prop_assert!(line.ends_with("}\n"), "{}", line);
            prop_assert!(!good || is_json(line), "{}", line);
        }
    }

    #[test]
    fn any_update_is_sent_live_as_one_line(payload in payload()) {
        let mut line = Vec::new();
        live_line("sess", &payload, &mut line);
        prop_assert_eq!(memchr::memchr_iter(b'\n', &line).count(), 1);
        line.clear();
        live_params_line("sess", &payload, &mut line);
        prop_assert!(memchr::memchr_iter(b'\n', &line).count() <= 1);
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}

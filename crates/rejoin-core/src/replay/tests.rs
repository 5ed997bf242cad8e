//! Tests of the replay: each rule with data, and what must hold for any log.

use serde_json::{Value, json};

use super::*;
use crate::conversation::Transcript;

/// A record of a log: kind, message id, payload.
pub(crate) type Item = (Kind, Option<&'static str>, String);

fn at(seq: usize) -> String {
    format!("2026-11-21T08:30:{:02}.{:03}Z", seq / 1000 % 60, seq % 1000)
}

pub(crate) fn replay(items: &[Item], options: Options) -> String {
    let (mut replay, mut out) = (Replay::new("s", options), Vec::new());
    for (seq, (kind, id, payload)) in items.iter().enumerate() {
        let record = Record {
            seq: seq as u64,
            at: &at(seq),
            kind: *kind,
            id: *id,
            payload,
            parts: None,
        };
        let before = out.len();
        replay.record(&record, &mut out);
        assert!(
            out.len() == before || out.ends_with(b"\n"),
            "whole lines only"
        );
    }
    replay.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// The line that an update is replayed as, in short.
fn line(seq: usize, turn: u64, update: &str) -> String {
    let at = at(seq);
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","_meta":{{"rejoin":{{"at":"{at}","turn":{turn}}}}},"update":{update}}}}}"#
    ) + "\n"
}

pub(crate) fn update(payload: &str) -> Item {
    (Kind::Update, None, payload.to_owned())
}

pub(super) fn text(id: &str, text: &str) -> String {
    format!(
        r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}},"messageId":"{id}"}}"#
    )
}

pub(super) fn chunk(id: &str, words: &str) -> Item {
    update(&text(id, words))
}

pub(crate) fn exact() -> Options {
    Options {
        exact: true,
        ..Options::default()
    }
}

#[test]
fn updates_keep_their_bytes_and_get_their_time_and_turn() {
    let odd = r#"{"sessionUpdate":"moon","n":[1e400,-0,0.10],"a":1,"a":2,"t":"\ud83d \u0000 "}"#;
    let spaced = "{ \"sessionUpdate\" : \"plan\", \"entries\" : [ ] }";
    let items = [
        update(odd),
        (Kind::Prompt, Some("m"), r#"{"prompt":[]}"#.to_owned()),
        update(spaced),
    ];
    let expected = line(0, 0, odd) + &line(2, 1, spaced);
    assert_eq!(replay(&items, Options::default()), expected);
    assert_eq!(replay(&items, exact()), expected);
}

#[test]
fn a_prompt_is_one_chunk_for_each_block() {
    let blocks = [
        r#"{"type":"text","text":"a\u0000"}"#,
        r#"{"type":"image","data":"AA==","mimeType":"image/png","_meta":{"k":1.0}}"#,
        r#"{ "type":"text", "text":"b" , "annotations":{"audience":["user"]}}"#,
        r#"{"type":"resource","resource":{"uri":"u","blob":"AA=="}}"#,
    ];
    let payload = format!(r#"{{"_meta":{{"x":1}},"prompt":[{}]}}"#, blocks.join(", "));
    let user = |block: &str| {
        format!(r#"{{"sessionUpdate":"user_message_chunk","content":{block},"messageId":"msg_1"}}"#)
    };
    let expected: String = blocks
        .iter()
        .map(|block| line(0, 1, &user(block)))
        .collect();
    let items = [(Kind::Prompt, Some("msg_1"), payload.clone())];
    assert_eq!(replay(&items, Options::default()), expected);
    let without_id = replay(&[(Kind::Prompt, None, payload)], Options::default());
    assert_eq!(without_id, expected.replace(r#","messageId":"msg_1""#, ""));
}

#[test]
fn other_parameters_of_a_notification_stay() {
    let params = r#"{"update":{"sessionUpdate":"plan","entries":[]},"_meta":{"a":1.0},"z":null}"#;
    let expected = line(0, 0, "X").replace(
        r#""_meta":{"rejoin":{"at":"2026-11-21T08:30:00.000Z","turn":0}},"update":X"#,
        r#""update":{"sessionUpdate":"plan","entries":[]},"_meta":{"rejoin":{"at":"2026-11-21T08:30:00.000Z","turn":0},"a":1.0},"z":null"#,
    );
    let items = [(Kind::UpdateParams, None, params.to_owned())];
    assert_eq!(replay(&items, Options::default()), expected);
}

#[test]
fn adjacent_chunks_of_one_message_are_one() {
    let items = [
        chunk("m", "a\\\\"),
        chunk("m", ""),
        chunk("m", "\\\"b "),
        update(
            r#"{"messageId":"m","content":{"text":"c","type":"text"},"sessionUpdate":"agent_message_chunk"}"#,
        ),
        chunk("n", "d"),
    ];
    let merged = line(0, 0, &text("m", "a\\\\\\\"b c")) + &line(4, 0, &text("n", "d"));
    assert_eq!(replay(&items, Options::default()), merged);
    let whole: String = items
        .iter()
        .enumerate()
        .map(|(seq, item)| line(seq, 0, &item.2))
        .collect();
    assert_eq!(replay(&items, exact()), whole);
}

#[test]
fn what_stands_between_two_chunks_keeps_them_apart() {
    let thought = text("m", "b").replace("message_chunk", "thought_chunk");
    let without_id = text("m", "b").replace(r#","messageId":"m""#, "");
    let annotated = text("m", "b").replace(r#""text":"b""#, r#""text":"b","annotations":{}"#);
    let with_meta = text("m", "b").replace(r#""messageId""#, r#""_meta":{},"messageId""#);
    let user = text("m", "b").replace("agent_message", "user_message");
    for middle in [&thought, &without_id, &annotated, &with_meta, &user] {
        let items = [
            chunk("m", "a"),
            update(middle),
            update(middle),
            chunk("m", "c"),
        ];
        let joined = middle == &thought || middle == &without_id;
        let twice = middle.replace(r#""text":"b""#, r#""text":"bb""#);
        let middle = if joined {
            line(1, 0, &twice)
        } else {
            line(1, 0, middle) + &line(2, 0, middle)
        };
        let expected = line(0, 0, &text("m", "a")) + &middle + &line(3, 0, &text("m", "c"));
        assert_eq!(replay(&items, Options::default()), expected);
    }
    for silent in [
        Kind::Session,
        Kind::End,
        Kind::Ask,
        Kind::Answer,
        Kind::Info,
        Kind::Reopen,
        Kind::AgentSessionId,
        Kind::Unknown,
    ] {
        let items = [
            chunk("m", "a"),
            (silent, None, "{}".to_owned()),
            chunk("m", "b"),
        ];
        let expected = line(0, 0, &text("m", "a")) + &line(2, 0, &text("m", "b"));
        assert_eq!(replay(&items, Options::default()), expected, "{silent:?}");
    }
}

#[test]
fn halves_of_a_character_do_not_become_one() {
    let items = [
        chunk("m", "a\\ud83d"),
        chunk("m", ""),
        chunk("m", "\\ude00"),
        chunk("m", "\\\\ud83d"),
        chunk("m", "\\udE00"),
    ];
    let expected =
        line(0, 0, &text("m", "a\\ud83d")) + &line(2, 0, &text("m", "\\ude00\\\\ud83d\\udE00"));
    assert_eq!(replay(&items, Options::default()), expected);
}

#[test]
fn joined_text_ends_at_the_limit() {
    let options = Options {
        text_limit: 5,
        ..Options::default()
    };
    let items = [
        chunk("m", "abc"),
        chunk("m", "de"),
        chunk("m", "f"),
        chunk("m", "ghijkl"),
        chunk("m", "m"),
    ];
    let parts = [(0, "abcde"), (2, "f"), (3, "ghijk"), (3, "l"), (4, "m")];
    let expected: String = parts
        .iter()
        .map(|(seq, part)| line(*seq, 0, &text("m", part)))
        .collect();
    assert_eq!(replay(&items, options), expected);
}

#[test]
fn short_chunks_make_no_long_lines() {
    let long = "x".repeat(JOINED + 1);
    let half = "y".repeat(JOINED / 2);
    let items = [
        chunk("m", &long),
        chunk("m", &long),
        chunk("m", &half),
        chunk("m", &half),
        chunk("m", "z"),
    ];
    let parts = [
        (0, &long.repeat(2)),
        (2, &half.repeat(2)),
        (4, &"z".to_owned()),
    ];
    let expected: String = parts
        .iter()
        .map(|(seq, part)| line(*seq, 0, &text("m", part)))
        .collect();
    assert_eq!(replay(&items, Options::default()), expected);
}

#[test]
fn long_text_is_parted_with_all_that_stands_around_it() {
    let words = "é\\n\\ud83d\\ude00x";
    let block = format!(r#"{{"type":"text","text":"{words}","annotations":{{"priority":1.0}}}}"#);
    let prompt = (
        Kind::Prompt,
        Some("u"),
        format!(r#"{{"prompt":[{block}]}}"#),
    );
    let chunk = format!(r#"{{"sessionUpdate":"agent_message_chunk","content":{block}}}"#);
    let params = format!(r#"{{"_meta":{{"k":"v"}},"update":{chunk}}}"#);
    for item in [prompt, update(&chunk), (Kind::UpdateParams, None, params)] {
        let whole = replay(std::slice::from_ref(&item), exact());
        for text_limit in 0..words.len() + 2 {
            let options = Options {
                text_limit,
                ..Options::default()
            };
            let lines = replay(std::slice::from_ref(&item), options);
            let (before, behind) = whole.split_once(words).unwrap();
            let parts = lines.split_inclusive('\n').map(|line| {
                let part = line
                    .strip_prefix(before)
                    .unwrap()
                    .strip_suffix(behind)
                    .unwrap();
                assert!(
                    part.len() <= text_limit || ["é", "\\n", "\\ud83d\\ude00", "x"].contains(&part)
                );
                part
            });
            assert_eq!(parts.collect::<String>(), words, "limit {text_limit}");
        }
    }
}

#[test]
fn text_beyond_a_line_is_parted_also_if_exact() {
    let words = "0123456789".repeat(1000);
    let items = [chunk("m", &words)];
    let options = Options {
        message_limit: 4096,
        ..exact()
    };
    let lines = replay(&items, options);
    assert!(lines.lines().count() == 3 && lines.lines().all(|line| line.len() < 4096));
    assert_eq!(folded(&lines), folded(&replay(&items, exact())));
    assert_eq!(replay(&items, exact()), line(0, 0, &items[0].2));
}

#[test]
fn much_around_a_text_is_not_repeated_for_small_parts() {
    let meta = "m".repeat(100_000);
    let payload = text("m", &"t".repeat(50_000)).replace(
        r#""messageId""#,
        &format!(r#""_meta":{{"k":"{meta}"}},"messageId""#),
    );
    let options = |message_limit| Options {
        message_limit,
        text_limit: 1000,
        ..Options::default()
    };
    let items = [update(&payload)];
    assert_eq!(
        replay(&items, options(1_000_000)),
        line(0, 0, &payload),
        "fits a line"
    );
    let cut = replay(&items, options(120_000));
    assert_eq!(cut.lines().count(), 1);
    assert!(cut.len() <= 120_000 && cut.contains("bytes cut in the replay"));
}

#[test]
fn turns_at_the_beginning_can_be_left_out() {
    let call = |kind: &str, id: &str| {
        update(&format!(
            r#"{{"sessionUpdate":"{kind}","toolCallId":"{id}","title":"T"}}"#
        ))
    };
    let prompt = || {
        (
            Kind::Prompt,
            Some("u"),
            r#"{"prompt":[{"type":"text","text":"p"}]}"#.to_owned(),
        )
    };
    let items = [
        chunk("m", "before"),
        prompt(),
        call("tool_call", "old"),
        chunk("m", "one"),
        prompt(),
        chunk("m", "two"),
        call("tool_call_update", "old"),
        call("tool_call", "new"),
        call("tool_call_update", "new"),
    ];
    let all = replay(&items, Options::default());
    assert_eq!(all.lines().count(), 9);
    for (skip_turns, left) in [
        (0, vec![0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (1, vec![4, 5, 7, 8]),
        (2, vec![]),
    ] {
        let options = Options {
            skip_turns,
            ..Options::default()
        };
        let all: Vec<_> = all.split_inclusive('\n').collect();
        let expected: String = left.iter().map(|at: &usize| all[*at]).collect();
        assert_eq!(replay(&items, options), expected, "without {skip_turns}");
    }
}

#[test]
fn an_update_without_its_call_has_one_before_it() {
    let lost = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"terminal","terminalId":"t"}]}"#;
    let items = [
        update(lost),
        (
            Kind::UpdateParams,
            None,
            format!(r#"{{"x":1,"update":{lost}}}"#),
        ),
    ];
    let note = r#"{"type":"content","content":{"type":"text","text":"[a terminal was shown here; it has ended]"}}"#;
    let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"[the beginning of this tool call is missing]"}"#;
    let shown = lost.replace(r#"{"type":"terminal","terminalId":"t"}"#, note);
    let lines = replay(&items, Options::default());
    let (begin, rest) = lines.split_at(lines.rfind(r#"{"jsonrpc""#).unwrap());
    assert_eq!(begin, line(0, 0, call) + &line(0, 0, &shown));
    assert!(rest.contains(r#""x":1"#) && rest.contains(&shown), "{rest}");
    // Members around the update come with both.
    let lines = replay(&items[1..], Options::default());
    let (first, second) = lines.split_once('\n').unwrap();
    assert!(
        first.contains(r#""x":1"#) && first.contains(call),
        "{first}"
    );
    assert!(
        second.contains(r#""x":1"#) && second.contains(&shown),
        "{second}"
    );
}

#[test]
fn a_call_known_from_a_request_is_shown_unless_the_agent_announces_it_next() {
    let call = |kind: &str, id: &str, more: &str| {
        format!(r#"{{"sessionUpdate":"{kind}","toolCallId":"{id}"{more}}}"#)
    };
    let asked = |id: &str| {
        let update = call("tool_call", id, r#","title":"asked""#);
        [
            (Kind::Output, None, update),
            (Kind::Ask, Some("q"), "{}".to_owned()),
            (Kind::Answer, Some("q"), "{}".to_owned()),
        ]
    };
    let own = |id: &str| update(&call("tool_call", id, r#","title":"own""#));
    let change = |id: &str| update(&call("tool_call_update", id, ""));
    let end = || (Kind::End, None, r#"{"stopReason":"end_turn"}"#.to_owned());
    let titles = |items: Vec<Item>, options| {
        let lines = replay(&items, options);
        let shown = lines.lines().map(|line| {
            let update = &json::tree(line).unwrap_or_default()["params"]["update"];
            let (kind, id) = (&update["sessionUpdate"], &update["toolCallId"]);
            format!("{kind} {id} {}", update["title"]).replace('"', "")
        });
        shown.collect::<Vec<_>>()
    };
    for options in [Options::default(), exact()] {
        let mut items = Vec::from(asked("a"));
        items.extend([own("a"), change("a"), end()]);
        let expected = ["tool_call a own", "tool_call_update a null"];
        assert_eq!(titles(items, options), expected);
        let mut items = Vec::from(asked("a"));
        items.extend(asked("b"));
        items.extend([own("b"), change("a"), end()]);
        let expected = [
            "tool_call b own",
            "tool_call a asked",
            "tool_call_update a null",
        ];
        assert_eq!(titles(items, options), expected);
        let mut items = Vec::from(asked("a"));
        items.extend([chunk("m", "x"), own("a"), end()]);
        let expected = [
            "tool_call a asked",
            "agent_message_chunk null null",
            "tool_call a own",
        ];
        assert_eq!(titles(items, options), expected);
        let mut items = Vec::from(asked("a"));
        items.push(end());
        assert_eq!(titles(items, options), ["tool_call a asked"]);
        assert_eq!(titles(asked("a").into(), options), ["tool_call a asked"]);
    }
}

#[test]
fn dead_terminals_are_not_named() {
    let payload = r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","content":[{"type":"terminal","terminalId":"x"}]}"#;
    let params = format!(r#"{{"update":{payload},"_meta":{{"k":1}}}}"#);
    let items = [update(payload), (Kind::UpdateParams, None, params)];
    let lines = replay(&items, Options::default());
    for (line, meta) in lines.lines().zip([json!(null), json!(1)]) {
        let message: Value = serde_json::from_str(line).unwrap();
        let params = &message["params"];
        assert_eq!(params["update"]["content"][0]["content"]["type"], "text");
        assert_eq!(params["_meta"]["k"], meta);
        assert_eq!(params["_meta"]["rejoin"]["turn"], 0);
    }
    assert!(!lines.contains("terminalId"));
}

#[test]
fn payloads_of_no_known_form_are_no_panic() {
    for payload in [
        "",
        "null",
        "{",
        "[]",
        "{\"prompt\":{}}",
        "{\"prompt\":[1,]}",
        "\"",
        "{\"update\":",
    ] {
        for kind in [
            Kind::Prompt,
            Kind::Update,
            Kind::UpdateParams,
            Kind::Subagent,
            Kind::UpdateV2,
            Kind::SubagentV2,
            Kind::End,
        ] {
            for (exact, version_2) in [(true, true), (false, true), (true, false), (false, false)] {
                let options = Options {
                    exact,
                    version_2,
                    text_limit: 0,
                    message_limit: 0,
                    ..Options::default()
                };
                drop(replay(&[(kind, None, payload.to_owned())], options));
            }
        }
    }
}

pub(super) fn folded(lines: &str) -> Transcript {
    let mut transcript = Transcript::default();
    for line in lines.lines() {
        transcript.notification(line);
    }
    transcript
}

//! Properties of the replay of any log.

use std::collections::HashSet;

use proptest::prelude::*;

use super::tests::{Item, chunk, exact, folded, replay, text, update};
use super::*;
use crate::conversation::{Transcript, TranscriptEntry};
use crate::record::subagents as record;

/// Pieces of escaped text, including every difficult case for joining and splitting.
fn words() -> impl Strategy<Value = String> {
    const ATOMS: [&str; 14] = [
        "a",
        "é",
        "😀",
        "\u{2028}",
        "\\n",
        "\\\\",
        "\\\"",
        "\\u0000",
        "\\ud83d",
        "\\ude00",
        "\\ud83d\\ude00",
        "{}",
        "u",
        "\\/",
    ];
    prop::collection::vec(prop::sample::select(&ATOMS[..]), 0..6).prop_map(|atoms| atoms.concat())
}

fn any_chunk() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(&["agent_message", "agent_thought", "user_message"][..]);
    let id = prop::sample::select(
        &[
            "",
            r#","messageId":"m""#,
            r#","messageId":"n""#,
            r#","messageId":null"#,
        ][..],
    );
    let more = prop::sample::select(
        &[
            "",
            "",
            "",
            r#","annotations":{"priority":1}"#,
            r#","_meta":{"a":1}"#,
        ][..],
    );
    (kind, id, more, words(), 0..3).prop_map(|(kind, id, more, words, layout)| match layout {
        0 => format!(r#"{{"sessionUpdate":"{kind}_chunk","content":{{"type":"text","text":"{words}"{more}}}{id}}}"#),
        1 => format!(r#"{{"sessionUpdate":"{kind}_chunk"{id},"content":{{"text":"{words}","type":"text"{more}}}}}"#),
        _ => format!(r#"{{ "content" : {{"type":"text","text":"{words}"}}{id}{more} ,"sessionUpdate":"{kind}_chunk" }}"#),
    })
}

/// A snapshot in each of the forms in which a log may have it.
fn any_snapshot() -> impl Strategy<Value = Item> {
    let snapshots = UpdateKind::all().filter(|kind| kind.is_snapshot());
    let name = prop::sample::select(snapshots.map(UpdateKind::name).collect::<Vec<_>>());
    let member = prop::sample::select(&["title", "used", "_meta"][..]);
    (name, member, words(), 0..4).prop_map(|(name, member, words, form)| {
        let snapshot = format!(r#"{{"sessionUpdate":"{name}","{member}":"{words}"}}"#);
        let params = format!(r#"{{"_meta":{{"a":1}},"update":{snapshot}}}"#);
        match form {
            0 => (Kind::Info, None, snapshot),
            1 => (Kind::Info, None, params),
            2 => (Kind::Update, None, snapshot),
            _ => (Kind::UpdateParams, None, params),
        }
    })
}

/// The beginning or the end of a subagent.
fn any_announcement() -> impl Strategy<Value = String> {
    let session = prop::sample::select(&["c1", "c2"][..]);
    let more = prop::sample::select(&["", r#","state":{"state":"idle"}"#, r#","title":"n""#][..]);
    (session, more).prop_map(|(session, more)| {
        format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{session}"{more}}}"#)
    })
}

/// The parameters of an update of a subagent, without the session.
fn any_subagent_update() -> impl Strategy<Value = String> {
    let update = prop_oneof![
        4 => any_chunk(),
        1 => any_announcement(),
        1 => words().prop_map(|words| format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"0","title":"{words}"}}"#)),
        1 => Just(r#"{"sessionUpdate":"usage_update","used":1}"#.to_owned()),
    ];
    (update, prop::bool::ANY).prop_map(|(update, more)| {
        let more = if more { r#","_meta":{"c":3}"# } else { "" };
        format!(r#"{{"update":{update}{more}}}"#)
    })
}

pub(crate) fn any_item() -> impl Strategy<Value = Item> {
    let call = (prop::bool::ANY, 0..3, words()).prop_map(|(new, id, words)| {
        let kind = if new { "tool_call" } else { "tool_call_update" };
        format!(
            r#"{{"sessionUpdate":"{kind}","toolCallId":"{id}","title":"{words}","rawInput":null}}"#
        )
    });
    let block = prop_oneof![
        3 => words().prop_map(|words| format!(r#"{{"type":"text","text":"{words}"}}"#)),
        1 => Just(r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#.to_owned()),
    ];
    let blocks = prop::collection::vec(block, 0..3);
    let prompt = blocks.prop_map(|blocks| format!(r#"{{"prompt":[{}]}}"#, blocks.join(",")));
    let silent = prop::sample::select(
        &[
            Kind::End,
            Kind::Unknown,
            Kind::Info,
            Kind::AgentSessionId,
            Kind::Ask,
            Kind::Answer,
        ][..],
    );
    let notice = (prop::bool::ANY, words()).prop_map(|(transient, words)| {
        let kind = if transient {
            Kind::Transient
        } else {
            Kind::Update
        };
        let notice = format!(r#"{{"sessionUpdate":"notice","title":"{words}"}}"#);
        (kind, None, notice)
    });
    let output = (0..3, words()).prop_map(|(id, words)| {
        let output = format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{id}","title":"{words}","content":[]}}"#);
        (Kind::Output, None, output)
    });
    let subagent = (
        prop::sample::select(&["c1", "c2", "x"][..]),
        any_subagent_update(),
    );
    let subagent = subagent
        .prop_map(|(session, params)| (Kind::Subagent, None, record::payload(session, &params)));
    prop_oneof![
        1 => any_announcement().prop_map(|announcement| update(&announcement)),
        3 => subagent,
        8 => any_chunk().prop_map(|chunk| update(&chunk)),
        1 => any_chunk().prop_map(|chunk| {
            (Kind::UpdateParams, None, format!(r#"{{"update":{chunk},"_meta":{{"b":2}}}}"#))
        }),
        1 => call.prop_map(|call| update(&call)),
        1 => words().prop_map(|words| update(&format!(r#"{{"sessionUpdate":"plan","entries":["{words}"]}}"#))),
        1 => words().prop_map(|words| update(&format!(r#"{{"sessionUpdate":"moon","x":"{words}"}}"#))),
        2 => (prompt, prop::sample::select(&["u1", "u2"][..])).prop_map(|(prompt, id)| (Kind::Prompt, Some(id), prompt)),
        1 => silent.prop_map(|kind| (kind, None, "{}".to_owned())),
        1 => notice,
        1 => output,
        2 => any_snapshot(),
    ]
}

/// The updates of calls that the client does not know yet.
fn unknown_calls(lines: &str) -> Vec<String> {
    let mut known = HashSet::new();
    let mut unknown = Vec::new();
    for line in lines.lines() {
        let message = json::tree(line).unwrap_or_default();
        let update = &message["params"]["update"];
        let id = update["toolCallId"].to_string();
        if update["sessionUpdate"] == "tool_call" {
            known.insert(id);
        } else if update["sessionUpdate"] == "tool_call_update" && !known.contains(&id) {
            unknown.push(line.to_owned());
        }
    }
    unknown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_replay_folds_to_what_the_log_says(
        items in prop::collection::vec(any_item(), 0..24),
        text_limit in 0_usize..40,
    ) {
        let mut log = Transcript::default();
        for (kind, id, payload) in &items {
            log.record(&Record::sample(*kind, *id, payload));
        }
        let limited = Options { text_limit, ..Options::default() };
        for options in [Options::default(), exact(), limited] {
            let lines = replay(&items, options);
            for line in lines.split_inclusive('\n') {
                prop_assert!(line.ends_with('\n'));
                let read: Result<&serde_json::value::RawValue, _> = serde_json::from_str(line);
                prop_assert!(read.is_ok(), "{}", line);
            }
            prop_assert_eq!(&folded(&lines), &log);
            prop_assert_eq!(unknown_calls(&lines), Vec::<String>::new());
            let tail = replay(&items, Options { skip_turns: u64::MAX, ..options });
            prop_assert_eq!(folded(&tail).state, log.state.clone());
            prop_assert_eq!(folded(&tail).entries, vec![]);
        }
    }

    #[test]
    fn joined_text_is_the_same_bytes(texts in prop::collection::vec(words(), 1..12)) {
        let items: Vec<_> = texts.iter().map(|text| chunk("m", text)).collect();
        let lines = replay(&items, Options::default());
        let (head, tail) = text("m", "|").split_once('|').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let parts = lines.lines().map(|line| {
            let (_, behind) = line.split_once(&head).unwrap();
            behind.strip_suffix("}}").unwrap().strip_suffix(tail.as_str()).unwrap()
        });
        let parts: Vec<_> = parts.collect();
        prop_assert_eq!(parts.concat(), texts.concat());
        let broken = texts.windows(2).filter(|pair| pair[0].ends_with("\\ud83d")).count();
        prop_assert!(parts.len() <= 1 + broken + texts.iter().filter(|text| text.is_empty()).count());
        let decoded: Vec<_> = folded(&lines).entries.iter().map(|entry| match entry {
            TranscriptEntry::Message { blocks, .. } => blocks[0]["text"].as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }).collect();
        let apart: String = texts.iter().map(|text| json::unescape(text)).collect();
        prop_assert_eq!(decoded, vec![apart]);
    }
}

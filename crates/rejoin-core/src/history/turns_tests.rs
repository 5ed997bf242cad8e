//! Tests of the pages of a session's turns: for any log, the pages together have all of it.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::history::query::{Begin, TurnsParams};
use crate::record::header::Header;
use crate::store::{Durability, Store, Sync};
use crate::sys::sim::SimDisk;
use crate::sys::{SessionId, Sys};

/// A session whose log has these records, all prompts with the same id.
fn session(records: &[(Kind, &str)]) -> (Store, SessionId) {
    let records: Vec<_> = records
        .iter()
        .map(|(kind, payload)| {
            let message = (*kind == Kind::Prompt).then_some("msg_1");
            (*kind, message, *payload)
        })
        .collect();
    session_of(&records)
}

/// A session whose log has these records, with the given ids.
fn session_of(records: &[(Kind, Option<&str>, &str)]) -> (Store, SessionId) {
    let sys = Sys {
        disk: Arc::new(SimDisk::new()),
        ..Sys::real()
    };
    let id = sys.ids.session();
    let store = Store::open(Path::new("/store"), sys, Durability::Os).unwrap();
    let header = Header::new(&id, "/w");
    let mut log = store.create(&id, &header).unwrap();
    for (kind, id, payload) in records {
        log.append(*kind, *id, payload, Sync::Buffered).unwrap();
    }
    (store, id)
}

fn read(store: &Store, id: &SessionId, params: TurnsParams) -> (Vec<Value>, Option<String>) {
    let mut reader = store.read(id).unwrap();
    let query = params.check(id).unwrap();
    let begin = match query.begin {
        Begin::Place(place) => (place, 0),
        Begin::Number(number) => (TurnPosition::START, number),
        Begin::End(back) => {
            let turns = count(&mut store.read(id).unwrap(), &|| false).unwrap();
            (TurnPosition::START, turns.saturating_sub(back))
        }
    };
    let limit = query.limit.unwrap_or(usize::MAX);
    let page = page(&mut reader, begin, limit, LONGEST, String::new(), &|| false).unwrap();
    assert!(page.text.len() <= PAGE + LONGEST);
    let turns: Value = serde_json::from_str(&page.text).unwrap();
    let turns = turns.as_array().unwrap().clone();
    assert!(turns.len() <= limit);
    (turns, page.next.map(|next| next.cursor(id)))
}

/// The longest turn, in bytes.
const LONGEST: usize = 32 * 1024 * 1024;

const RECORDS: [(Kind, &str); 9] = [
    (Kind::Prompt, r#"{"prompt":[{"type":"text","text":"p"}]}"#),
    (Kind::End, r#"{"stopReason":"end_turn"}"#),
    (
        Kind::Update,
        r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"a"}}"#,
    ),
    (
        Kind::Update,
        r#"{"sessionUpdate":"user_message_chunk","messageId":"u1","content":{"type":"text","text":"u"}}"#,
    ),
    (
        Kind::Update,
        r#"{"sessionUpdate":"user_message_chunk","messageId":"u2","content":{"type":"text","text":"v"}}"#,
    ),
    (
        Kind::Update,
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T"}"#,
    ),
    (
        Kind::Update,
        r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#,
    ),
    (Kind::Info, r#"{"mode":"x"}"#),
    (Kind::Update, r#"{"sessionUpdate":"plan","entries":[]}"#),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_pages_together_are_the_session(
        picks in prop::collection::vec(0..RECORDS.len(), 0..25),
        limit in 1usize..5,
        offset in 0usize..30,
    ) {
        let records: Vec<_> = picks.iter().map(|pick| RECORDS[*pick]).collect();
        let (store, id) = session(&records);
        let most = TurnsParams { limit: Some(1000), ..TurnsParams::default() };
        let (all, next) = read(&store, &id, most);
        prop_assert_eq!(next, None);
        // An answer follows every prompt.
        let prompts = records.iter().filter(|(kind, _)| *kind == Kind::Prompt).count();
        let asked = all.iter().filter(|turn| turn["messageId"] == "msg_1").count();
        prop_assert_eq!(asked, prompts);

        let mut turns = Vec::new();
        let mut cursor = None;
        loop {
            let params = TurnsParams { limit: i64::try_from(limit).ok(), cursor, ..TurnsParams::default() };
            let (page, next) = read(&store, &id, params);
            prop_assert!(next.is_none() || !page.is_empty());
            turns.extend(page);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        prop_assert_eq!(&turns, &all);

        let params = TurnsParams {
            limit: i64::try_from(limit).ok(),
            offset: i64::try_from(offset).ok(),
            ..TurnsParams::default()
        };
        let (page, next) = read(&store, &id, params);
        let from = all.len().min(offset);
        let to = all.len().min(from + limit);
        prop_assert_eq!(&page, &all[from..to]);
        prop_assert_eq!(next.is_some(), to < all.len());

        let back = offset + 1;
        let params = TurnsParams {
            offset: i64::try_from(back).ok().map(|back| -back),
            ..TurnsParams::default()
        };
        let (end, next) = read(&store, &id, params);
        prop_assert_eq!(&end, &all[all.len().saturating_sub(back)..]);
        prop_assert_eq!(next, None);
    }
}

#[test]
fn without_a_limit_only_bytes_bound_a_page() {
    let prompt = r#"{"prompt":[{"type":"text","text":"p"}]}"#;
    let turn = [(Kind::Prompt, prompt), RECORDS[1]];
    let (store, id) = session(&turn.repeat(1001));
    let (turns, next) = read(&store, &id, TurnsParams::default());
    assert_eq!((turns.len(), next), (2002, None));
    let none = TurnsParams {
        limit: Some(0),
        ..TurnsParams::default()
    };
    assert_eq!(read(&store, &id, none), (Vec::new(), None));
}

#[test]
fn a_page_is_full_by_its_bytes_too() {
    let text = "x".repeat(3 * 1024 * 1024);
    let prompt = format!(r#"{{"prompt":[{{"type":"text","text":"{text}"}}]}}"#);
    let end = r#"{"stopReason":"end_turn"}"#;
    let turn = [(Kind::Prompt, prompt.as_str()), (Kind::End, end)];
    let (store, id) = session(&turn.repeat(4));
    let (turns, next) = read(&store, &id, TurnsParams::default());
    assert_eq!(turns.len(), 4, "the third prompt does not fit");
    let params = TurnsParams {
        cursor: next,
        ..TurnsParams::default()
    };
    let (rest, next) = read(&store, &id, params);
    assert_eq!((rest.len(), next), (4, None));
}

#[test]
fn a_turn_that_is_longer_than_a_page_comes_alone_and_whole() {
    let data = "x".repeat(20 * 1024 * 1024);
    let prompt =
        format!(r#"{{"prompt":[{{"type":"image","mimeType":"image/png","data":"{data}"}}]}}"#);
    let large = (Kind::Prompt, prompt.as_str());
    let (store, id) = session(&[RECORDS[0], RECORDS[1], large, RECORDS[1], RECORDS[0]]);
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let params = TurnsParams {
            cursor,
            ..TurnsParams::default()
        };
        let (page, next) = read(&store, &id, params);
        pages.push(page);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    let turns: Vec<_> = pages.iter().map(Vec::len).collect();
    assert_eq!(turns, [2, 1, 3]);
    let image = &pages[1][0];
    assert_eq!(image["content"][0]["data"], data.as_str());
    assert!(image.get("truncated").is_none());
}

#[test]
fn a_turn_beyond_the_longest_is_truncated() {
    let text = "x".repeat(20 * 1024 * 1024);
    let chunk = format!(
        r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
    );
    let chunk = (Kind::Update, chunk.as_str());
    let small = (
        Kind::Update,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"end"}}"#,
    );
    let (store, id) = session(&[RECORDS[0], chunk, chunk, small, RECORDS[1]]);
    let params = TurnsParams {
        offset: Some(1),
        ..TurnsParams::default()
    };
    let (turns, _) = read(&store, &id, params);
    assert_eq!(turns[0]["truncated"], true);
    let said = turns[0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(said.len(), text.len() + 3);
    assert_eq!(turns[0]["stopReason"], "end_turn");
}

#[test]
fn reading_can_be_cancelled() {
    let (store, id) = session(&vec![RECORDS[2]; 3000]);
    let mut reader = store.read(&id).unwrap();
    let stopped = page(
        &mut reader,
        (TurnPosition::START, 0),
        1000,
        LONGEST,
        String::new(),
        &|| true,
    );
    assert!(matches!(stopped, Err(TurnsError::Cancelled)));
}

#[test]
fn turns_that_overlap_have_their_own_ends_on_every_page() {
    let says = |text: &str| {
        format!(
            r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
        )
    };
    let end = |reason: &str| format!(r#"{{"stopReason":"{reason}"}}"#);
    let prompt = r#"{"prompt":[]}"#;
    let (one, two, more) = (says("one"), says("two"), says("more"));
    let (ended, refused, cancelled) = (end("end_turn"), end("refusal"), end("cancelled"));
    let (store, id) = session_of(&[
        (Kind::Prompt, Some("a"), prompt),
        (Kind::Update, None, &one),
        (Kind::Prompt, Some("b"), prompt),
        (Kind::Prompt, Some("c"), prompt),
        (Kind::Update, None, &two),
        (Kind::End, Some("b"), &refused),
        (Kind::Update, None, &more),
        (Kind::End, Some("a"), &cancelled),
        (Kind::End, Some("c"), &ended),
        (Kind::Prompt, Some("d"), prompt),
        (Kind::End, None, &ended),
    ]);
    let summary = |turn: &Value| {
        let text = turn["content"][0]["text"].as_str().unwrap_or_default();
        let reason = turn["stopReason"].as_str().unwrap_or_default();
        format!("{} {text} {reason}", turn["role"].as_str().unwrap())
    };
    let expected = [
        "user  ",
        "assistant one cancelled",
        "user  ",
        "assistant  refusal",
        "user  ",
        "assistant twomore end_turn",
        "user  ",
        "assistant  end_turn",
    ];
    for limit in 1..=expected.len() {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let params = TurnsParams {
                limit: i64::try_from(limit).ok(),
                cursor: cursor.take(),
                ..TurnsParams::default()
            };
            let (turns, next) = read(&store, &id, params);
            all.extend(turns.iter().map(summary));
            match next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(all, expected, "pages of {limit}");
    }
}

#[test]
fn updates_of_version_2_are_turns_like_others() {
    let (store, id) = session(&[
        (Kind::Prompt, r#"{"prompt":[{"type":"text","text":"p"}]}"#),
        (
            Kind::UpdateV2,
            r#"{"update":{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"a"}]}}"#,
        ),
        (
            Kind::UpdateV2,
            r#"{"update":{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c","content":{"type":"content","content":{"type":"text","text":"t"}}}}"#,
        ),
        (
            Kind::UpdateV2,
            r#"{"update":{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}}"#,
        ),
        (
            Kind::UpdateV2,
            r#"{"update":{"sessionUpdate":"state_update","state":"idle"}}"#,
        ),
        (Kind::End, r#"{"stopReason":"end_turn"}"#),
        (
            Kind::UpdateV2,
            r#"{"update":{"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"q"}]}}"#,
        ),
        (
            Kind::UpdateV2,
            r#"{"update":{"sessionUpdate":"tool_call_content_chunk","toolCallId":"d","content":{"type":"content","content":{"type":"text","text":"t"}}}}"#,
        ),
    ]);
    let (turns, _) = read(&store, &id, TurnsParams::default());
    let roles: Vec<_> = turns.iter().map(|turn| &turn["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    assert_eq!(turns[1]["content"][0]["text"], "a");
    assert_eq!(turns[1]["toolCalls"][0]["title"], "Tool call");
    assert_eq!(turns[1]["plan"], Value::Array(Vec::new()));
    assert_eq!(turns[1]["stopReason"], "end_turn");
    assert_eq!(turns[2]["messageId"], "u");
    assert_eq!(turns[3]["toolCalls"][0]["toolCallId"], "d");
    assert_eq!(count(&mut store.read(&id).unwrap(), &|| false).unwrap(), 4);
}

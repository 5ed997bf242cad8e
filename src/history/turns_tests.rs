//! Tests of the pages of a session's turns: whatever the log says, the pages together are all of
//! it.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::history::query::TurnsParams;
use crate::record::FORMAT;
use crate::record::header::{Header, Party, Place as Where};
use crate::store::{Durability, Store, Sync};
use crate::sys::sim::SimDisk;
use crate::sys::{SessionId, Sys};

/// A session whose log has these records.
fn session(records: &[(Kind, &str)]) -> (Store, SessionId) {
    let sys = Sys {
        disk: Arc::new(SimDisk::new()),
        ..Sys::real()
    };
    let id = sys.ids.session();
    let store = Store::open(Path::new("/store"), sys, Durability::Os).unwrap();
    let header = Header {
        known_as: None,
        format: FORMAT,
        session_id: id.to_string(),
        place: Where {
            cwd: "/w".to_owned(),
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
        },
        client: None,
        engine: Party {
            name: "local".to_owned(),
            version: None,
        },
        protocol_version: 1,
        forked_from: None,
    };
    let mut log = store.create(&id, &header).unwrap();
    for (kind, payload) in records {
        let message = (*kind == Kind::Prompt).then_some("msg_1");
        log.append(*kind, message, payload, Sync::Buffered).unwrap();
    }
    (store, id)
}

fn read(store: &Store, id: &SessionId, params: TurnsParams) -> (Vec<Value>, Option<String>) {
    let mut reader = store.read(id).unwrap();
    let query = params.check(id).unwrap();
    let page = page(&mut reader, &query, &|| false).unwrap();
    let turns: Value = serde_json::from_str(&page.turns).unwrap();
    let turns = turns.as_array().unwrap().clone();
    assert!(turns.len() <= query.limit);
    (turns, page.next.map(|next| next.cursor(id)))
}

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
        // Every prompt has an answer behind it.
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
    }
}

#[test]
fn a_page_is_full_by_its_bytes_too() {
    let text = "x".repeat(3 * 1024 * 1024);
    let prompt = format!(r#"{{"prompt":[{{"type":"text","text":"{text}"}}]}}"#);
    let end = r#"{"stopReason":"end_turn"}"#;
    let turn = [(Kind::Prompt, prompt.as_str()), (Kind::End, end)];
    let (store, id) = session(&turn.repeat(4));
    let (turns, next) = read(&store, &id, TurnsParams::default());
    assert_eq!(turns.len(), 5, "the third prompt fills it");
    let params = TurnsParams {
        cursor: next,
        ..TurnsParams::default()
    };
    let (rest, next) = read(&store, &id, params);
    assert_eq!((rest.len(), next), (3, None));
}

#[test]
fn a_turn_beyond_the_limit_is_truncated() {
    let text = "x".repeat(5 * 1024 * 1024);
    let chunk = format!(
        r#"{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}}}}"#
    );
    let chunk = (Kind::Update, chunk.as_str());
    let small = (
        Kind::Update,
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"end"}}"#,
    );
    let (store, id) = session(&[RECORDS[0], chunk, chunk, small, RECORDS[1]]);
    let (turns, _) = read(&store, &id, TurnsParams::default());
    assert_eq!(turns[1]["truncated"], true);
    let said = turns[1]["content"][0]["text"].as_str().unwrap();
    assert_eq!(said.len(), text.len() + 3);
    assert_eq!(turns[1]["stopReason"], "end_turn");
}

#[test]
fn reading_can_be_cancelled() {
    let (store, id) = session(&vec![RECORDS[2]; 3000]);
    let mut reader = store.read(&id).unwrap();
    let query = TurnsParams::default().check(&id).unwrap();
    let stopped = page(&mut reader, &query, &|| true);
    assert!(matches!(stopped, Err(Stopped::Cancelled)));
}

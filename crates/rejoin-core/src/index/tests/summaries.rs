//! Tests of the summary of a log: the same in one go and piece by piece.

use serde_json::json;

use super::*;
use crate::record::{FORMAT, Header, Kind};
use crate::store::{Log, Sync};
use crate::sys::sim::SimDisk;

fn header(id: &SessionId) -> Header {
    let header = json!({
        "format": FORMAT, "sessionId": id.as_str(), "cwd": "/w", "engine": {"name": "weaver"},
        "protocolVersion": 1,
    });
    serde_json::from_value(header).unwrap()
}

fn add(log: &mut Log, kind: Kind, payload: &str) {
    let id = (kind == Kind::Prompt).then_some("msg_1");
    log.append(kind, id, payload, Sync::Buffered).unwrap();
}

#[test]
fn titles_are_the_same_in_one_go_and_piece_by_piece() {
    let disk = SimDisk::new();
    let store = Store::open(Path::new("/data"), disk.sys(), Durability::Turn).unwrap();
    let id = SessionId::parse("sess_01902f3c-7b1e-7c3a-8f00-000000000001").unwrap();
    let mut log = store.create(&id, &header(&id)).unwrap();
    let logs = Logs::new(store);
    let prompt = |text: &str| json!({"prompt": [{"type": "text", "text": text}]}).to_string();
    let name = |title: serde_json::Value| {
        json!({"sessionUpdate": "session_info_update", "title": title}).to_string()
    };
    let huge = "x".repeat(100_000);
    let mut before = logs.summarize(&id, None).unwrap();
    for (kind, payload, title) in [
        (Kind::Prompt, prompt(" \n"), None),
        (Kind::Info, name(json!("Named first")), Some("Named first")),
        (Kind::Prompt, prompt("one"), Some("Named first")),
        (Kind::Info, name(json!("Then\nnamed")), Some("Then")),
        (
            Kind::Info,
            r#"{"sessionUpdate":"session_info_update","updatedAt":"x"}"#.to_owned(),
            Some("Then"),
        ),
        (Kind::Prompt, prompt(&huge), Some("Then")),
        (Kind::Info, name(json!(null)), Some("one")),
        (Kind::Prompt, prompt("two"), Some("one")),
        (Kind::Info, name(json!("Last")), Some("Last")),
    ] {
        add(&mut log, kind, &payload);
        let whole = logs.summarize(&id, None).unwrap();
        assert_eq!(whole.title.as_deref(), title, "{payload:.80}");
        before = logs.summarize(&id, Some(&before)).unwrap();
        assert_eq!(before, whole);
    }
}

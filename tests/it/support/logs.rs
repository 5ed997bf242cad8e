//! Writes logs of sessions into a real folder, without the program.
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::fs;
use std::path::Path;

use rejoin::record::{Kind, line};
use rejoin::sys::{Sys, Timestamp};
use serde_json::{Value, json};

use super::systems::FOLDER;

/// A session that was prompted with this, just now; returns its id.
pub(crate) fn session(store: &Path, words: &str) -> String {
    let prompt = json!({ "prompt": [{ "type": "text", "text": words }] });
    let end = json!({ "stopReason": "end_turn" });
    log(
        store,
        &[
            (Kind::Prompt, Some("msg_1"), prompt),
            (Kind::End, None, end),
        ],
    )
}

/// A session with these records behind its header, written just now; returns its id.
pub(crate) fn log(store: &Path, records: &[(Kind, Option<&str>, Value)]) -> String {
    let sys = Sys::real();
    let id = sys.ids.session().to_string();
    let header = json!({ "format": 1, "sessionId": id, "cwd": FOLDER,
        "engine": { "name": "local" }, "protocolVersion": 1 });
    log_of(store, &header, sys.clock.now(), records);
    id
}

/// Writes a session with this header and these records, all of one time.
pub(crate) fn log_of(
    store: &Path,
    header: &Value,
    at: Timestamp,
    records: &[(Kind, Option<&str>, Value)],
) {
    let first = (Kind::Session, None, header.clone());
    let mut log = Vec::new();
    for (seq, (kind, id, payload)) in (0..).zip([&first].into_iter().chain(records)) {
        line::encode(&mut log, seq, at, *kind, *id, &payload.to_string());
    }
    let id = header["sessionId"].as_str().unwrap();
    fs::create_dir_all(store.join("sessions")).unwrap();
    let path = store.join("sessions").join(format!("{id}.jsonl"));
    fs::write(path, log).unwrap();
}

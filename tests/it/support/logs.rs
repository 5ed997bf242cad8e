//! Writes logs of sessions into a real folder, without the program.
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::fs;
use std::path::Path;

use rejoin::record::{Kind, line};
use rejoin::sys::Sys;
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
    let header = (Kind::Session, None, header);
    let mut log = Vec::new();
    for (seq, (kind, id, payload)) in (0..).zip([&header].into_iter().chain(records)) {
        let at = sys.clock.now();
        line::encode(&mut log, seq, at, *kind, *id, &payload.to_string());
    }
    fs::create_dir_all(store.join("sessions")).unwrap();
    let path = store.join("sessions").join(format!("{id}.jsonl"));
    fs::write(path, log).unwrap();
    id
}

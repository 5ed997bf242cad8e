//! Holds the session cursors that a client is sent against the rules for them, also in transcripts that
//! pass over them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// The cursors that one client was sent.
#[derive(Debug, Default)]
pub(super) struct SentCursors {
    /// Those of each session since it was last loaded.
    sent: HashMap<String, HashSet<String>>,
    /// Whether the client has declared that it shows them.
    is_declared: bool,
}

impl SentCursors {
    /// Whether requests by this method matter.
    pub(super) fn heeds(method: &str) -> bool {
        matches!(method, "initialize" | "session/load" | "session/resume")
    }

    /// Takes note of a request of the client.
    pub(super) fn request(&mut self, method: &str, params: &Value) {
        if method == "initialize" {
            let is_v2 = params["protocolVersion"] == 2;
            let declared = &params["clientCapabilities"]["session"]["cursors"];
            self.is_declared = is_v2 || declared.is_object();
        } else {
            // The session may be known by another name, too.
            self.sent.clear();
        }
    }

    /// Checks an update, if it is one of rejoin's own: with its first announcement a cursor has an anchor
    /// and a method that accepts it, and it is announced once for each load.
    pub(super) fn received(&mut self, params: &Value) -> Result<(), String> {
        let update = &params["update"];
        let id = update["cursorId"].as_str().unwrap_or_default();
        if update["sessionUpdate"] != "cursor_update" || !is_own(id) {
            return Ok(());
        }
        if !self.is_declared {
            return Err("a cursor for a client that has not declared them".to_owned());
        }
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let is_new = self.sent.entry(session).or_default().insert(id.to_owned());
        let is_whole = update["anchor"].is_object() && update["capabilities"]["fork"].is_object();
        match (is_new, is_whole) {
            (true, true) => Ok(()),
            // It is withdrawn.
            (false, _) if update["capabilities"].is_null() => Ok(()),
            (true, false) => Err("a cursor without an anchor or a method".to_owned()),
            (false, _) => Err("a cursor that was announced before".to_owned()),
        }
    }
}

/// Whether an id has the form of rejoin's own.
fn is_own(id: &str) -> bool {
    let parts = id
        .strip_prefix(['a', 'b'])
        .and_then(|id| id.split_once('-'));
    parts.is_some_and(|(seq, check)| seq.parse::<u64>().is_ok() && check.len() == 8)
}

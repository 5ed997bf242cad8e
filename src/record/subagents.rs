//! Updates of subagents: sessions of their own that an agent runs within the user's session.
//!
//! The parent announces a subagent with a `subagent_update`, whose `state` also says how it ended.
//! Unstable in the protocol: RFD `subagents`.

use std::borrow::Cow;

use serde_json::json;

use super::open_calls::OpenCalls;
use super::{Kind, Record};
use crate::json;
use crate::protocol::UpdateKind;

/// How the payload of a `subagent` record begins.
const SESSION: &str = "{\"sessionId\":";

/// The payload of a `subagent` record. `params` are the other parameters of the notification: the
/// JSON text of an object with an `update`.
pub fn payload(session: &str, params: &str) -> String {
    let members = params.trim_start().strip_prefix('{').unwrap_or_default();
    format!("{SESSION}{},{members}", json!(session))
}

/// The session in the payload of a `subagent` record, and the other parameters from the first name
/// to the closing brace. `None` if the payload does not begin with a session.
pub fn parse(payload: &str) -> Option<(Cow<'_, str>, &str)> {
    let start = SESSION.len();
    let bytes = payload.strip_prefix(SESSION)?.as_bytes();
    let end = start + json::string_end(bytes, 0)?;
    let rest = payload.get(end..)?.strip_prefix(',')?;
    Some((json::unescaped(payload.get(start + 1..end - 1)?), rest))
}

/// The `update` object if the parameters that [`parse`] returned have no other member.
pub fn only_update(params: &str) -> Option<&str> {
    let update = params.strip_prefix("\"update\":")?.strip_suffix('}')?;
    (json::value_end(update.as_bytes(), 0)? == update.len()).then_some(update)
}

/// Whether a record is of a subagent or may be about one. Nearly all updates are known to be about
/// something else.
pub fn may_be_about_one(record: &Record<'_>) -> bool {
    match record.kind {
        Kind::Subagent | Kind::UpdateParams => true,
        Kind::Update => record
            .parts
            .is_none_or(|parts| parts.kind == UpdateKind::Subagent),
        _ => false,
    }
}

/// Tracks the subagents that have no end, and their open tool calls.
#[derive(Clone, Debug, Default)]
pub struct OpenSubagents {
    /// In the order in which they were announced, so parents come before their own subagents.
    open: Vec<OpenSubagent>,
}

#[derive(Clone, Debug)]
struct OpenSubagent {
    session: String,
    /// The subagent that started it. `None` for the user's session.
    parent: Option<String>,
    calls: OpenCalls,
}

impl OpenSubagents {
    /// Takes the next record of a log.
    pub fn record(&mut self, record: &Record<'_>) {
        if may_be_about_one(record) {
            self.take(record.kind, record.payload);
        }
    }

    /// Takes the payload of a record of this kind.
    pub fn take(&mut self, kind: Kind, payload: &str) {
        match kind {
            Kind::Update => self.announced(None, payload),
            Kind::UpdateParams => {
                let update = json::text_member(payload, "update");
                self.announced(None, update.unwrap_or_default());
            }
            Kind::Subagent if !self.open.is_empty() => self.updated(payload),
            _ => {}
        }
    }

    fn updated(&mut self, payload: &str) {
        let Some((session, _)) = parse(payload) else {
            return;
        };
        if let Some(subagent) = self.open.iter_mut().find(|open| open.session == session) {
            subagent.calls.update(payload);
            let update = json::text_member(payload, "update");
            self.announced(Some(&session), update.unwrap_or_default());
        }
    }

    /// Takes an update of the session `parent`, which may be about one of its subagents.
    fn announced(&mut self, parent: Option<&str>, update: &str) {
        let Some((session, ended)) = announcement(update) else {
            return;
        };
        let known = self.open.iter().position(|open| open.session == session);
        match known {
            Some(known) if ended => {
                self.open.remove(known);
            }
            None if !ended => self.open.push(OpenSubagent {
                session,
                parent: parent.map(str::to_owned),
                calls: OpenCalls::default(),
            }),
            _ => {}
        }
    }

    /// Whether all subagents have ended.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Ends all subagents as `disconnected`, each before its parent, and before that its open tool
    /// calls as failed, with `message` as their content. Returns the kinds and payloads of the
    /// records that say so.
    pub fn close_all(&mut self, message: &str) -> Vec<(Kind, String)> {
        let mut records = Vec::new();
        for mut subagent in std::mem::take(&mut self.open).into_iter().rev() {
            for update in subagent.calls.close_all(message) {
                records.push(update_of(Some(&subagent.session), update));
            }
            let end = json!({
                "sessionUpdate": UpdateKind::Subagent.name(),
                "subagentSessionId": subagent.session,
                "state": "disconnected",
            });
            records.push(update_of(subagent.parent.as_deref(), end.to_string()));
        }
        records
    }
}

/// The record of an update of the user's session, or of a subagent.
fn update_of(subagent: Option<&str>, update: String) -> (Kind, String) {
    match subagent {
        None => (Kind::Update, update),
        Some(session) => (
            Kind::Subagent,
            payload(session, &format!("{{\"update\":{update}}}")),
        ),
    }
}

/// The subagent that an update is about, and whether it says that the subagent has ended.
pub fn announcement(update: &str) -> Option<(String, bool)> {
    if UpdateKind::of(update.as_bytes()) != UpdateKind::Subagent {
        return None;
    }
    let session = json::string_member(update, "subagentSessionId")?;
    let state = json::string_member(update, "state");
    let ended = state.is_some_and(|state| {
        matches!(
            &*state,
            "completed" | "failed" | "cancelled" | "disconnected"
        )
    });
    Some((session, ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(session: &str, state: &str) -> String {
        let update = json!({
            "sessionUpdate": "subagent_update", "subagentSessionId": session, "state": state,
        });
        update.to_string()
    }

    fn within(session: &str, update: &str) -> String {
        payload(session, &format!("{{\"update\":{update}}}"))
    }

    #[test]
    fn payloads_read_back() {
        for session in ["a", "", "a\"\\\n\u{1f600}"] {
            let payload = payload(session, r#" {"update":{"n":[1]}}"#);
            let (read, params) = parse(&payload).unwrap();
            assert_eq!((&*read, params), (session, r#""update":{"n":[1]}}"#));
            assert_eq!(only_update(params), Some(r#"{"n":[1]}"#));
        }
        let more = payload("a", r#"{"update":{},"_meta":{}}"#);
        assert_eq!(only_update(parse(&more).unwrap().1), None);
        for odd in [
            "",
            "{}",
            r#"{"sessionId":7,"update":{}}"#,
            r#"{"sessionId":"a"}"#,
            r#"{"update":{},"sessionId":"a"}"#,
        ] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_a_crash_left_open_ends_children_first() {
        let mut open = OpenSubagents::default();
        open.take(Kind::Update, &about("done", "running"));
        open.take(Kind::Update, &about("a", "running"));
        open.take(Kind::Subagent, &within("a", &about("b", "running")));
        open.take(
            Kind::Subagent,
            &within("b", r#"{"sessionUpdate":"tool_call","toolCallId":"t"}"#),
        );
        let params = format!(
            r#"{{"update":{},"_meta":{{}}}}"#,
            about("done", "completed")
        );
        open.take(Kind::UpdateParams, &params);
        // It was never announced.
        open.take(Kind::Subagent, &within("x", &about("y", "running")));

        let records = open.close_all("gone");
        assert!(open.is_empty());
        let call = records[0].1.clone();
        assert!(call.starts_with(r#"{"sessionId":"b","update":{"#), "{call}");
        assert!(call.contains(r#""toolCallId":"t""#) && call.contains("gone"));
        let ends: Vec<_> = records[1..]
            .iter()
            .map(|(kind, end)| (*kind, &**end))
            .collect();
        let disconnected = |session| about(session, "disconnected");
        assert_eq!(
            ends,
            [
                (Kind::Subagent, &*within("a", &disconnected("b"))),
                (Kind::Update, &*disconnected("a")),
            ]
        );
        assert_eq!(open.close_all("again"), []);
    }

    #[test]
    fn only_an_update_about_a_subagent_announces_one() {
        for update in [
            r#"{"sessionUpdate":"plan","subagentSessionId":"a"}"#,
            r#"{"sessionUpdate":"subagent_update"}"#,
            r#"{"sessionUpdate":"subagent_update","subagentSessionId":7}"#,
            "7",
        ] {
            assert_eq!(announcement(update), None, "{update}");
        }
        let unknown = about("a", "paused");
        assert_eq!(announcement(&unknown), Some(("a".to_owned(), false)));
    }
}

//! Updates of subagents: sessions of their own that an agent runs within the user's session.
//!
//! The parent announces a subagent with a `subagent_update`, whose `state` says what it is doing. The
//! protocol's form (RFD `subagents`, `protocol/v1/subagents`) has the id as `sessionId` and an object
//! as `state`; a subagent may be used again after it was idle. In version 2, a subagent also reports
//! its state itself, with a `state_update`. An earlier draft has the id as
//! `subagentSessionId` and a string as `state`, which says once how the subagent ended.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::json;

use super::open_calls::OpenCalls;
use super::{Kind, Record};
use crate::json;
use crate::protocol::update::{self, UpdateKind};

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
        Kind::Subagent | Kind::SubagentV2 | Kind::UpdateParams | Kind::UpdateV2 => true,
        Kind::Update => record
            .parts
            .is_none_or(|parts| parts.kind == UpdateKind::Subagent),
        _ => false,
    }
}

/// The session of the subagent that a record announces, or is about.
pub fn announced_by(record: &Record<'_>) -> Option<String> {
    static MENTION: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new(UpdateKind::Subagent.name()));
    if !may_be_about_one(record) || MENTION.find(record.payload.as_bytes()).is_none() {
        return None;
    }
    match record.kind {
        Kind::Update => announced(record.payload),
        _ => announced(json::text_member(record.payload, "update")?),
    }
}

/// Tracks the subagents that are at work, as far as is known, and their open tool calls. Of one that
/// is at rest only its name, its parent and the fixed size of the entry are kept.
#[derive(Clone, Debug, Default)]
pub struct OpenSubagents {
    /// By their sessions.
    known: BTreeMap<String, Subagent>,
}

#[derive(Clone, Debug)]
struct Subagent {
    /// How many were announced before it, among them the one that started it.
    place: usize,
    /// The subagent that started it. `None` for the user's session.
    parent: Option<String>,
    form: Form,
    is_active: bool,
    calls: OpenCalls,
}

/// The form of the updates about a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Stable,
    Draft,
}

impl Form {
    /// The update which says that it is not known what the subagent is doing.
    fn lost(self, session: &str) -> String {
        let name = UpdateKind::Subagent.name();
        match self {
            Self::Stable => json!({
                "sessionUpdate": name, "sessionId": session, "state": { "state": "unknown" },
            }),
            Self::Draft => json!({
                "sessionUpdate": name, "subagentSessionId": session, "state": "disconnected",
            }),
        }
        .to_string()
    }
}

impl OpenSubagents {
    /// Applies the next record of a log.
    pub fn apply(&mut self, record: &Record<'_>) {
        if may_be_about_one(record) {
            self.apply_payload(record.kind, record.payload);
        }
    }

    /// Applies the payload of a record of this kind.
    pub fn apply_payload(&mut self, kind: Kind, payload: &str) {
        match kind {
            Kind::Update => self.apply_announcement(None, payload),
            Kind::UpdateParams | Kind::UpdateV2 => {
                let update = json::text_member(payload, "update");
                self.apply_announcement(None, update.unwrap_or_default());
            }
            Kind::Subagent | Kind::SubagentV2 if !self.known.is_empty() => {
                self.apply_update(payload);
            }
            _ => {}
        }
    }

    fn apply_update(&mut self, payload: &str) {
        let Some((session, _)) = parse(payload) else {
            return;
        };
        let Some(subagent) = self.known.get_mut(&*session) else {
            return;
        };
        subagent.calls.update(payload);
        let update = json::text_member(payload, "update").unwrap_or_default();
        if update::name(update.as_bytes()).as_deref() == Some(b"state_update") {
            let state = json::string_member(update, "state");
            subagent.is_active = state.is_some_and(|state| is_active(Form::Stable, &state));
        }
        if !subagent.is_active {
            subagent.calls.forget();
        }
        self.apply_announcement(Some(&session), update);
    }

    /// Applies an update of the session `parent`, which may be about one of its subagents.
    fn apply_announcement(&mut self, parent: Option<&str>, update: &str) {
        let Some((session, form)) = named(update) else {
            return;
        };
        let activity = activity(form, update);
        let place = self.known.len();
        let subagent = self.known.entry(session).or_insert_with(|| Subagent {
            place,
            parent: parent.map(str::to_owned),
            form,
            is_active: form == Form::Draft,
            calls: OpenCalls::default(),
        });
        subagent.is_active = activity.unwrap_or(subagent.is_active);
        if !subagent.is_active {
            subagent.calls.forget();
        }
    }

    /// Whether no subagent is at work, and none has an open tool call.
    pub fn is_empty(&self) -> bool {
        let is_idle = |subagent: &Subagent| !subagent.is_active && subagent.calls.is_empty();
        self.known.values().all(is_idle)
    }

    /// Ends what subagents were doing, since nothing more will be known of it: their open tool calls
    /// as failed, with `message` as their content, and then the state of those at work as unknown.
    /// Subagents come before the ones that started them. Returns the kinds and payloads of the
    /// records that say so.
    pub fn close_all(&mut self, message: &str) -> Vec<(Kind, String)> {
        let mut records = Vec::new();
        let mut known: Vec<_> = self.known.iter_mut().collect();
        known.sort_unstable_by_key(|(_, subagent)| Reverse(subagent.place));
        for (session, subagent) in known {
            for update in subagent.calls.close_all(message) {
                records.push(update_of(Some(session), update));
            }
            if std::mem::take(&mut subagent.is_active) {
                let lost = subagent.form.lost(session);
                records.push(update_of(subagent.parent.as_deref(), lost));
            }
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

/// The session of the subagent that an update is about.
pub fn announced(update: &str) -> Option<String> {
    named(update).map(|(session, _)| session)
}

fn named(update: &str) -> Option<(String, Form)> {
    if UpdateKind::of(update.as_bytes()) != UpdateKind::Subagent {
        return None;
    }
    let stable = json::string_member(update, "sessionId").map(|session| (session, Form::Stable));
    stable.or_else(|| {
        Some((
            json::string_member(update, "subagentSessionId")?,
            Form::Draft,
        ))
    })
}

/// Whether an update says that the subagent is at work; `None` if it says nothing about that.
fn activity(form: Form, update: &str) -> Option<bool> {
    let holder = match form {
        Form::Stable => json::text_member(update, "state")?,
        Form::Draft => update,
    };
    Some(is_active(form, &json::string_member(holder, "state")?))
}

/// Whether a subagent in this state is at work.
fn is_active(form: Form, state: &str) -> bool {
    match form {
        Form::Stable => !matches!(state, "idle" | "unknown"),
        Form::Draft => !matches!(state, "completed" | "failed" | "cancelled" | "disconnected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(session: &str, state: &str) -> String {
        let update = json!({
            "sessionUpdate": "subagent_update", "sessionId": session, "state": { "state": state },
        });
        update.to_string()
    }

    fn draft(session: &str, state: &str) -> String {
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

    fn kinds_and_payloads(records: &[(Kind, String)]) -> Vec<(Kind, &str)> {
        records.iter().map(|(kind, end)| (*kind, &**end)).collect()
    }

    #[test]
    fn what_a_crash_left_at_work_is_unknown_descendants_first() {
        let mut open = OpenSubagents::default();
        open.apply_payload(Kind::Update, &about("idle", "running"));
        open.apply_payload(
            Kind::Update,
            r#"{"sessionUpdate":"subagent_update","sessionId":"quiet"}"#,
        );
        open.apply_payload(Kind::Update, &about("a", "requires_action"));
        open.apply_payload(Kind::Subagent, &within("a", &about("b", "running")));
        open.apply_payload(
            Kind::Subagent,
            &within("b", r#"{"sessionUpdate":"tool_call","toolCallId":"t"}"#),
        );
        let params = format!(r#"{{"update":{},"_meta":{{}}}}"#, about("idle", "idle"));
        open.apply_payload(Kind::UpdateParams, &params);
        // It was never announced.
        open.apply_payload(Kind::Subagent, &within("x", &about("y", "running")));

        assert!(!open.is_empty());
        let records = open.close_all("gone");
        assert!(open.is_empty());
        let call = records[0].1.clone();
        assert!(call.starts_with(r#"{"sessionId":"b","update":{"#), "{call}");
        assert!(call.contains(r#""toolCallId":"t""#) && call.contains("gone"));
        assert_eq!(
            kinds_and_payloads(&records[1..]),
            [
                (Kind::Subagent, &*within("a", &about("b", "unknown"))),
                (Kind::Update, &*about("a", "unknown")),
            ]
        );
        assert_eq!(open.close_all("again"), []);
        // A subagent may be used again.
        open.apply_payload(Kind::Update, &about("idle", "running"));
        assert_eq!(
            kinds_and_payloads(&open.close_all("")),
            [(Kind::Update, &*about("idle", "unknown"))]
        );
    }

    #[test]
    fn a_subagent_may_report_its_state_itself() {
        let report = |state: &str| {
            let update = format!(r#"{{"state":"{state}","sessionUpdate":"state_update"}}"#);
            within("a", &update)
        };
        let mut open = OpenSubagents::default();
        let about_it = r#"{"update":{"sessionUpdate":"subagent_update","sessionId":"a"}}"#;
        open.apply_payload(Kind::UpdateV2, about_it);
        assert!(open.is_empty());
        for (state, is_active) in [
            ("running", true),
            ("idle", false),
            ("requires_action", true),
            ("unknown", false),
            ("_own", true),
        ] {
            open.apply_payload(Kind::SubagentV2, &report(state));
            assert_eq!(open.is_empty(), !is_active, "{state}");
        }
        assert_eq!(
            kinds_and_payloads(&open.close_all("")),
            [(Kind::Update, &*about("a", "unknown"))]
        );
    }

    #[test]
    fn the_calls_of_one_at_rest_are_forgotten() {
        let call = |members: &str| {
            let name = "tool_call_update";
            let update = format!(r#"{{"sessionUpdate":"{name}","toolCallId":"t"{members}}}"#);
            within("a", &update)
        };
        let mut open = OpenSubagents::default();
        open.apply_payload(Kind::Update, &about("a", "running"));
        for (members, is_open) in [
            (r#","status":"completed""#, false),
            // It is known that the call has ended before.
            (r#","title":"T""#, false),
            (r#","status":"in_progress""#, true),
            (r#","title":"T""#, true),
            (r#","status":"failed""#, false),
        ] {
            open.apply_payload(Kind::Update, &about("a", "idle"));
            open.apply_payload(Kind::Subagent, &call(members));
            assert_eq!(open.is_empty(), !is_open, "{members}");
        }
        assert!(!open.known["a"].calls.knows("t"));
    }

    #[test]
    fn the_draft_ends_a_subagent_once() {
        let mut open = OpenSubagents::default();
        open.apply_payload(Kind::Update, &draft("done", "running"));
        open.apply_payload(Kind::Update, &draft("done", "completed"));
        open.apply_payload(
            Kind::Update,
            r#"{"sessionUpdate":"subagent_update","subagentSessionId":"a"}"#,
        );
        assert_eq!(
            kinds_and_payloads(&open.close_all("")),
            [(Kind::Update, &*draft("a", "disconnected"))]
        );
    }

    #[test]
    fn only_an_update_about_a_subagent_announces_one() {
        for update in [
            r#"{"sessionUpdate":"plan","sessionId":"a"}"#,
            r#"{"sessionUpdate":"subagent_update"}"#,
            r#"{"sessionUpdate":"subagent_update","sessionId":7}"#,
            "7",
        ] {
            assert_eq!(announced(update), None, "{update}");
        }
        for update in [about("a", "_own"), draft("a", "paused")] {
            assert_eq!(announced(&update).as_deref(), Some("a"));
        }
    }
}

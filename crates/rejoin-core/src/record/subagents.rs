//! Updates of subagents: sessions of their own that an agent runs within the user's session.
//!
//! The parent announces a subagent with a `subagent_update`, whose `state` says what it is doing. The
//! protocol's form (RFD `subagents`, `protocol/v1/subagents`) has the id as `sessionId` and an object
//! as `state`; a subagent may be used again after it was idle. In version 2, a subagent also reports
//! its state itself, with a `state_update`. An earlier draft has the id as
//! `subagentSessionId` and a string as `state`, which says once how the subagent ended.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::json;

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

/// The form of the updates about a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubagentForm {
    Stable,
    Draft,
}

impl SubagentForm {
    /// The update which says that it is not known what the subagent is doing.
    pub(super) fn lost(self, session: &str) -> String {
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

/// The session of the subagent that an update is about.
pub fn announced(update: &str) -> Option<String> {
    named(update).map(|(session, _)| session)
}

pub(super) fn named(update: &str) -> Option<(String, SubagentForm)> {
    if UpdateKind::of(update.as_bytes()) != UpdateKind::Subagent {
        return None;
    }
    let stable =
        json::string_member(update, "sessionId").map(|session| (session, SubagentForm::Stable));
    stable.or_else(|| {
        Some((
            json::string_member(update, "subagentSessionId")?,
            SubagentForm::Draft,
        ))
    })
}

/// Whether an update says that the subagent is at work; `None` if it says nothing about that.
pub(super) fn activity(form: SubagentForm, update: &str) -> Option<bool> {
    let holder = match form {
        SubagentForm::Stable => json::text_member(update, "state")?,
        SubagentForm::Draft => update,
    };
    Some(is_active(form, &json::string_member(holder, "state")?))
}

/// Whether a subagent in this state is at work.
pub(super) fn is_active(form: SubagentForm, state: &str) -> bool {
    match form {
        SubagentForm::Stable => !matches!(state, "idle" | "unknown"),
        SubagentForm::Draft => {
            !matches!(state, "completed" | "failed" | "cancelled" | "disconnected")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::record) fn about(session: &str, state: &str) -> String {
        let update = json!({
            "sessionUpdate": "subagent_update", "sessionId": session, "state": { "state": state },
        });
        update.to_string()
    }

    pub(in crate::record) fn draft(session: &str, state: &str) -> String {
        let update = json!({
            "sessionUpdate": "subagent_update", "subagentSessionId": session, "state": state,
        });
        update.to_string()
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

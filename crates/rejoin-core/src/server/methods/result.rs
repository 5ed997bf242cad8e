//! The results of requests to sessions, as text: what an engine contributes stays as it is.

use serde_json::{Value, json};

use crate::json::{self, Members, Splice};
use crate::protocol::ProtocolVersion;
use crate::protocol::meta::{REJOIN, add_note};
use crate::server::error;
use crate::session::{Answer, Done, Phase};
use crate::store::DamageReport;

/// The result of what was done to the session that the client knows as `name`.
pub(super) fn result(version: ProtocolVersion, name: &str, answer: Answer) -> String {
    let mut notes = Members::default();
    match answer.done {
        Done::Created(own) => opened(name, own, notes),
        Done::Forked(own) | Done::Loaded(own) | Done::Resumed(own) => {
            if !answer.damage.is_empty() {
                notes.set("damage", damage(&answer.damage));
            }
            if let Some(elsewhere) = answer.elsewhere {
                let name = if elsewhere.attached {
                    "owner"
                } else {
                    "holder"
                };
                notes.set(name, error::holder(elsewhere.holder.as_ref()));
            }
            if let Some(reason) = answer.read_only {
                notes.set("readOnly", Value::from(reason));
            }
            opened(name, own, notes)
        }
        Done::Accepted(message_id) => json!({ "messageId": message_id }).to_string(),
        Done::Repeated { message_id, phase } => repeated(version, &message_id, &phase),
        Done::Stopped(ended) => ended.result(),
        Done::Served(result) => result,
        Done::Titled(title) => json!({ "title": title }).to_string(),
        Done::Status { open: true, phase } if version == ProtocolVersion::V2 => json::Object::new()
            .string("status", "open")
            .raw("state", &phase.state())
            .end(),
        Done::Status { open, .. } => {
            json!({ "status": if open { "open" } else { "saved" } }).to_string()
        }
        Done::RewoundTo(message_id) => json!({ "lastMessageId": message_id }).to_string(),
        Done::Rewound | Done::Archived | Done::Closed | Done::Deleted => "{}".to_owned(),
    }
}

/// The answer to a prompt that was sent before: that of the first one, with what became of it.
fn repeated(version: ProtocolVersion, message_id: &str, phase: &Phase) -> String {
    let message_id = json::quoted(message_id);
    if let (ProtocolVersion::V1, Phase::Idle(Some(end))) = (version, phase) {
        let mut splice = Splice::new(end.as_bytes());
        let note = format!("\"messageId\":{message_id}");
        add_note(&mut splice, 0, note.as_bytes());
        return String::from_utf8_lossy(&splice.into_bytes()).into_owned();
    }
    let state = json::Object::new().raw("state", &phase.state()).end();
    let meta = json::Object::new().raw(REJOIN, &state).end();
    let result = json::Object::new().raw("messageId", &message_id);
    result.raw("_meta", &meta).end()
}

/// The session's id, the engine's own members, and our notes.
fn opened(name: &str, own: Option<String>, mut notes: Members) -> String {
    let mut result = Members::default();
    result.set("sessionId", Value::from(name));
    let mut meta = Members::default();
    for (name, value) in own.iter().flat_map(|own| json::text_members(own)) {
        match name.as_str() {
            "sessionId" => {}
            "_meta" => {
                for (name, value) in json::text_members(value) {
                    if name == "rejoin" {
                        notes.set_all(value);
                    } else {
                        meta.set(&name, value);
                    }
                }
            }
            _ => result.set(&name, value),
        }
    }
    if !notes.is_empty() {
        meta.set("rejoin", notes.text());
    }
    if !meta.is_empty() {
        result.set("_meta", meta.text());
    }
    result.text()
}

/// The damage in a log.
pub(super) fn damage(damage: &[DamageReport]) -> Value {
    json!(damage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_prompt_is_answered_like_the_first() {
        let end = r#"{"stopReason":"end_turn","usage":{"n":1e400},"_meta":{"a":1.0}}"#;
        let ended = Phase::Idle(Some(end.to_owned()));
        assert_eq!(
            repeated(ProtocolVersion::V1, "msg_1", &ended),
            r#"{"stopReason":"end_turn","usage":{"n":1e400},"_meta":{"rejoin":{"messageId":"msg_1"},"a":1.0}}"#
        );
        assert_eq!(
            repeated(ProtocolVersion::V2, "msg_1", &Phase::Running),
            r#"{"messageId":"msg_1","_meta":{"rejoin":{"state":{"state":"running"}}}}"#
        );
    }

    #[test]
    fn the_engines_members_stay_verbatim_beside_ours() {
        let own = r#"{"x":1e400,"sessionId":"inner","_meta":{"a": [ ],"rejoin":{"b":2.0}}}"#;
        let mut notes = Members::default();
        notes.set("readOnly", Value::from("r"));
        assert_eq!(
            opened("s", Some(own.to_owned()), notes),
            r#"{"sessionId":"s","x":1e400,"_meta":{"a":[ ],"rejoin":{"readOnly":"r","b":2.0}}}"#
        );
    }
}

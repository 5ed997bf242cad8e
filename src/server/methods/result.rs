//! The results of requests to sessions, as text: what an engine contributes stays as it is.

use serde_json::{Value, json};

use crate::json;
use crate::protocol::ProtocolVersion;
use crate::server::error;
use crate::session::{Answer, Done};
use crate::store::DamageReport;

/// A JSON object that is put together from members whose values are JSON text.
#[derive(Debug, Default)]
pub(super) struct ResultObject(Vec<(String, String)>);

impl ResultObject {
    /// The members of an object that is given as JSON text.
    pub(super) fn of(object: &str) -> Self {
        let mut members = Self::default();
        for (name, value) in json::text_members(object) {
            members.set(&name, value);
        }
        members
    }

    /// Sets a member to a value: a [`Value`], or JSON text.
    pub(super) fn set(&mut self, name: &str, value: impl ToString) {
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = value.to_string(),
            None => self.0.push((name.to_owned(), value.to_string())),
        }
    }

    /// Sets a member that is absent.
    pub(super) fn set_default(&mut self, name: &str, value: impl ToString) {
        if !self.0.iter().any(|(own, _)| own == name) {
            self.set(name, value);
        }
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(own, _)| own != name);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object as JSON text.
    pub(super) fn text(&self) -> String {
        json::object(self.0.iter().map(|(name, value)| (name.clone(), &**value)))
    }
}

/// The result of what was done to the session that the client knows as `name`.
pub(super) fn result(version: ProtocolVersion, name: &str, answer: Answer) -> String {
    let mut notes = ResultObject::default();
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
        Done::Archived | Done::Closed | Done::Deleted => "{}".to_owned(),
    }
}

/// The session's id, the engine's own members, and our notes.
fn opened(name: &str, own: Option<String>, mut notes: ResultObject) -> String {
    let mut result = ResultObject::default();
    result.set("sessionId", Value::from(name));
    let mut meta = ResultObject::default();
    for (name, value) in own.iter().flat_map(|own| json::text_members(own)) {
        match name.as_str() {
            "sessionId" => {}
            "_meta" => {
                for (name, value) in json::text_members(value) {
                    if name == "rejoin" {
                        for (name, value) in json::text_members(value) {
                            notes.set(&name, value);
                        }
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
    fn the_engines_members_stay_verbatim_beside_ours() {
        let own = r#"{"x":1e400,"sessionId":"inner","_meta":{"a": [ ],"rejoin":{"b":2.0}}}"#;
        let mut notes = ResultObject::default();
        notes.set("readOnly", Value::from("r"));
        assert_eq!(
            opened("s", Some(own.to_owned()), notes),
            r#"{"sessionId":"s","x":1e400,"_meta":{"a":[ ],"rejoin":{"readOnly":"r","b":2.0}}}"#
        );
    }
}

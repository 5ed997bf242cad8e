//! The state of a session, as clients of version 2 see it.

use serde::{Deserialize, Serialize};

use crate::json;
use crate::protocol::error::ErrorKind;
use crate::record::prompt_keys::UNSENT;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// A prompt is being answered.
    Running,
    /// A prompt is being answered, and waits for the user.
    RequiresAction,
    /// The state that the engine has reported: the parameters of its update without the session's
    /// id.
    Reported(String),
    /// Nothing. With the payload of the `end` record if a turn has just ended.
    Idle(Option<String>),
}

impl Phase {
    /// The parameters of the update that reports it, without the session's id. They are not logged.
    pub fn params(&self) -> String {
        if let Self::Reported(params) = self {
            return params.clone();
        }
        let update = json::Object::new().string("sessionUpdate", "state_update");
        let update = self.add_to(update).end();
        json::Object::new().raw("update", &update).end()
    }

    /// Whether nothing is being done.
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Running | Self::RequiresAction => false,
            Self::Reported(params) => {
                let update = json::text_member(params, "update").unwrap_or_default();
                json::string_member(update, "state").as_deref() == Some("idle")
            }
            Self::Idle(_) => true,
        }
    }

    /// Whether it is how a turn has ended.
    pub(super) fn is_end(&self) -> bool {
        !matches!(self, Self::Idle(None)) && self.is_idle()
    }

    /// The state as an object that is not an update.
    pub fn state(&self) -> String {
        self.add_to(json::Object::new()).end()
    }

    fn add_to(&self, object: json::Object) -> json::Object {
        let end = match self {
            Self::Running => return object.string("state", "running"),
            Self::RequiresAction => return object.string("state", "requires_action"),
            Self::Reported(params) => {
                let update = json::text_member(params, "update").unwrap_or("{}");
                return json::text_members(update)
                    .into_iter()
                    .filter(|(name, _)| name != "sessionUpdate")
                    .fold(object, |object, (name, value)| object.raw(&name, value));
            }
            Self::Idle(end) => end.as_deref().unwrap_or("{}"),
        };
        let mut object = object.string("state", "idle");
        for (name, value) in json::text_members(end) {
            object = match name.as_str() {
                "error" => object.string("stopReason", "error").raw("error", value),
                // Text for people. The protocol has no such reason.
                "interrupted" => {
                    let error = ErrorKind::Interrupted.object("the turn was interrupted");
                    object.string("stopReason", "error").raw("error", &error)
                }
                // For the log alone.
                UNSENT => object,
                _ => object.raw(&name, value),
            };
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TURN_INTERRUPTED;

    #[test]
    fn an_end_keeps_its_members() {
        for (end, members) in [
            (
                r#"{"stopReason":"end_turn"}"#,
                r#","stopReason":"end_turn""#,
            ),
            (
                r#"{"stopReason":"_odd", "usage":{"n":1e400},"_meta":{}}"#,
                r#","stopReason":"_odd","usage":{"n":1e400},"_meta":{}"#,
            ),
            (
                r#"{"error":{"code":-1,"message":"m"}}"#,
                r#","stopReason":"error","error":{"code":-1,"message":"m"}"#,
            ),
            (
                TURN_INTERRUPTED,
                r#","stopReason":"error","error":{"code":-32603,"message":"the turn was interrupted","data":{"error":"interrupted","code":"interrupted","details":"the turn was interrupted"}}"#,
            ),
            (
                r#"{"error":{"code":-1,"message":"m"},"unsent":true}"#,
                r#","stopReason":"error","error":{"code":-1,"message":"m"}"#,
            ),
            ("{}", ""),
        ] {
            let head = r#"{"update":{"sessionUpdate":"state_update","state":"idle""#;
            let params = Phase::Idle(Some(end.to_owned())).params();
            assert_eq!(params, format!("{head}{members}}}}}"));
        }
        let running = r#"{"update":{"sessionUpdate":"state_update","state":"running"}}"#;
        assert_eq!(Phase::Running.params(), running);
        assert_eq!(Phase::Idle(None).state(), r#"{"state":"idle"}"#);
    }

    #[test]
    fn what_an_engine_reports_is_not_changed() {
        let params =
            r#"{"_meta":{}, "update":{ "state":"idle","n":1e400,"sessionUpdate":"state_update"}}"#;
        let phase = Phase::Reported(params.to_owned());
        assert_eq!(phase.params(), params);
        assert_eq!(phase.state(), r#"{"state":"idle","n":1e400}"#);
        assert!(phase.is_idle());
        let working = Phase::Reported(params.replace("idle", "running"));
        assert!(!working.is_idle() && !Phase::Running.is_idle());
    }
}

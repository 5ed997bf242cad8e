//! What a session is doing, as clients of version 2 see it.

use crate::json;

/// What a session is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A prompt is being answered.
    Running,
    /// A prompt is being answered, and waits for the user.
    RequiresAction,
    /// Nothing. With the payload of the `end` record if a turn has just ended.
    Idle(Option<String>),
}

impl Phase {
    /// The update that reports it. It is derived from records and is not logged.
    pub fn update(&self) -> String {
        let update = json::Object::new().string("sessionUpdate", "state_update");
        self.add_to(update).end()
    }

    /// The same as an object that is not an update.
    pub fn state(&self) -> String {
        self.add_to(json::Object::new()).end()
    }

    fn add_to(&self, object: json::Object) -> json::Object {
        let end = match self {
            Self::Running => return object.string("state", "running"),
            Self::RequiresAction => return object.string("state", "requires_action"),
            Self::Idle(end) => end.as_deref().unwrap_or("{}"),
        };
        let mut object = object.string("state", "idle");
        for (name, value) in json::text_members(end) {
            if name == "error" {
                object = object.string("stopReason", "error");
            }
            object = object.raw(&name, value);
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("{}", ""),
        ] {
            let head = r#"{"sessionUpdate":"state_update","state":"idle""#;
            let update = Phase::Idle(Some(end.to_owned())).update();
            assert_eq!(update, format!("{head}{members}}}"));
        }
        let running = r#"{"sessionUpdate":"state_update","state":"running"}"#;
        assert_eq!(Phase::Running.update(), running);
        assert_eq!(Phase::Idle(None).state(), r#"{"state":"idle"}"#);
    }
}

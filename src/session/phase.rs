//! What a session is doing, as clients that are told of turns by updates see it.

use crate::json;

/// What a session is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A prompt is being answered.
    Running,
    /// A prompt is being answered, and that waits for the client's user.
    RequiresAction,
    /// Nothing. If that is news, with the payload of the `end` record that says so.
    Idle(Option<String>),
}

impl Phase {
    /// The update that says so. It derives from records and is in no log.
    pub fn update(&self) -> String {
        let state = self.state();
        let members = state.strip_prefix('{').unwrap_or_default();
        format!(r#"{{"sessionUpdate":"state_update",{members}"#)
    }

    /// The same as an object that is no update.
    pub fn state(&self) -> String {
        let mut state = r#"{"state":"#.to_owned();
        match self {
            Self::Running => state.push_str("\"running\""),
            Self::RequiresAction => state.push_str("\"requires_action\""),
            Self::Idle(end) => {
                state.push_str("\"idle\"");
                for (name, value) in json::text_members(end.as_deref().unwrap_or("{}")) {
                    if name == "error" {
                        state.push_str(r#","stopReason":"error""#);
                    }
                    let name = serde_json::Value::from(name);
                    state.extend([",", &name.to_string(), ":", value]);
                }
            }
        }
        state.push('}');
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_its_own_words() {
        for (end, told) in [
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
            assert_eq!(update, format!("{head}{told}}}"));
        }
        let running = r#"{"sessionUpdate":"state_update","state":"running"}"#;
        assert_eq!(Phase::Running.update(), running);
        assert_eq!(Phase::Idle(None).state(), r#"{"state":"idle"}"#);
    }
}

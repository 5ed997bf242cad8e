//! The payload of an `inner` record: which session of which agent it names.

use serde_json::{Value, json};

use crate::json;

/// A session as the agent knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentSessionId {
    /// The agent's name.
    pub agent: String,
    /// The agent's own id.
    pub id: String,
}

impl AgentSessionId {
    /// Reads a payload. `None` if it does not name both.
    pub fn read(payload: &str) -> Option<Self> {
        let payload = json::tree(payload)?;
        Some(Self {
            agent: payload["agent"]["name"].as_str()?.to_owned(),
            id: payload["id"].as_str()?.to_owned(),
        })
    }

    /// The ids that agents with these names have for the session that clients know as `name`, as
    /// the aliases of the protocol; `known` has the oldest first.
    pub fn aliases<'a>(
        known: impl IntoIterator<Item = &'a Self>,
        agents: &[String],
        name: &str,
    ) -> Vec<Value> {
        let known = known.into_iter();
        let theirs = known.filter(|known| agents.contains(&known.agent) && known.id != name);
        theirs
            .map(|known| json!({ "sessionId": known.id }))
            .collect()
    }

    /// A payload without the id, which only names the agent that answers from there on. Used for a
    /// fork, since the id belongs to the session it was copied from.
    pub fn without_id(payload: &str) -> String {
        let members = json::text_members(payload).into_iter();
        json::object(members.filter(|(name, _)| name != "id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_id_it_names_the_agent_only() {
        let payload = r#"{"id":"a","agent":{"name":"n", "version":1e400},"how":"new","id":"b"}"#;
        let without = AgentSessionId::without_id(payload);
        let expected = r#"{"agent":{"name":"n", "version":1e400},"how":"new"}"#;
        assert_eq!(without, expected);
        assert_eq!(AgentSessionId::read(&without), None);
        assert_eq!(AgentSessionId::without_id("7"), "{}");
    }

    #[test]
    fn only_what_names_both_is_one() {
        let read = AgentSessionId::read(
            r#"{"id":"a\"b","agent":{"name":"n","version":null},"how":"new"}"#,
        );
        let expected = AgentSessionId {
            agent: "n".to_owned(),
            id: "a\"b".to_owned(),
        };
        assert_eq!(read, Some(expected));
        for payload in [
            r#"{"id":"a"}"#,
            r#"{"agent":{"name":"n"}}"#,
            r#"{"id":1,"agent":{"name":"n"}}"#,
            "7",
        ] {
            assert_eq!(AgentSessionId::read(payload), None, "{payload}");
        }
    }
}

//! The payload of an `inner` record: which session of which agent it names.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::json::{self, Members};
use crate::protocol::UpdateKind;

/// The member of `_meta` in which agents report aliases until the protocol has them.
const ALIASES_IN_META: &str = "agentclientprotocol.com/aliases";

/// A session as the agent knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

    /// The session for programs: an object with the names of the agent and of the session there.
    pub fn as_json(&self) -> Value {
        json!({ "agent": self.agent, "sessionId": self.id })
    }

    /// The payload for a conversation that was imported from a file of another tool: its own id, the
    /// tool's agent, and the model that answered last.
    pub fn of_tool(id: &str, agent: &str, model: Option<&str>) -> String {
        let mut payload = json!({ "id": id, "agent": { "name": agent }, "how": "import" });
        if let Some(model) = model {
            payload["model"] = model.into();
        }
        payload.to_string()
    }

    /// Whether a payload is such a one. That of a wrapped agent has its version.
    pub fn is_of_tool(payload: &str) -> bool {
        let agent = json::text_member(payload, "agent").unwrap_or_default();
        json::text_member(payload, "how") == Some(r#""import""#)
            && json::text_member(agent, "version").is_none()
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

    /// Further ids of the agent for the same session, in its own update about the session: the
    /// payload of an `info` record, or the parameters of the notification.
    pub fn reported(payload: &str) -> Vec<String> {
        let update = json::text_member(payload, "update").unwrap_or(payload);
        if UpdateKind::of(update.as_bytes()) != UpdateKind::SessionInfo {
            return Vec::new();
        }
        let aliases = json::text_member(update, "aliases").or_else(|| {
            let meta = json::text_member(update, "_meta")?;
            json::text_member(meta, ALIASES_IN_META)
        });
        json::text_elements(aliases.unwrap_or_default())
            .filter_map(|alias| json::string_member(alias, "sessionId"))
            .filter(|id| !id.is_empty())
            .collect()
    }

    /// Adds those to the ids that are known of a session, the last of which is of the agent that
    /// reports them. Returns whether any was new.
    pub fn add_reported(known: &mut Vec<Self>, payload: &str) -> bool {
        let before = known.len();
        for id in Self::reported(payload) {
            let agent = known.last().map(|last| last.agent.clone());
            let reported = agent.map(|agent| Self { agent, id });
            known.extend(reported.filter(|reported| !known.contains(reported)));
        }
        known.len() > before
    }

    /// A payload without the id, which only names the agent that answers from there on. Used for a
    /// fork, since the id belongs to the session it was copied from.
    pub fn without_id(payload: &str) -> String {
        Members::of(payload).without(&["id"]).text()
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
    fn an_agent_may_report_further_ids() {
        let first = AgentSessionId::read(r#"{"id":"a","agent":{"name":"n"}}"#);
        let mut known: Vec<_> = first.into_iter().collect();
        let name = r#""sessionUpdate":"session_info_update""#;
        for (payload, is_new) in [
            (
                format!(r#"{{{name},"aliases":[{{"sessionId":"b"}}]}}"#),
                true,
            ),
            (
                format!(
                    r#"{{"update":{{{name},"_meta":{{"{ALIASES_IN_META}":[{{"sessionId":"b"}},{{"reason":"restart","sessionId":"c"}}]}}}}}}"#
                ),
                true,
            ),
            (
                format!(r#"{{{name},"aliases":[{{"sessionId":"a"}}]}}"#),
                false,
            ),
            (
                format!(r#"{{{name},"aliases":[7,{{}},{{"sessionId":""}}]}}"#),
                false,
            ),
            (format!(r#"{{{name},"aliases":null}}"#), false),
            (r#"{"aliases":[{"sessionId":"d"}]}"#.to_owned(), false),
        ] {
            let added = AgentSessionId::add_reported(&mut known, &payload);
            assert_eq!(added, is_new, "{payload}");
        }
        let ids: Vec<_> = known
            .iter()
            .map(|known| (&*known.agent, &*known.id))
            .collect();
        assert_eq!(ids, [("n", "a"), ("n", "b"), ("n", "c")]);
        let payload = format!(r#"{{{name},"aliases":[{{"sessionId":"b"}}]}}"#);
        assert!(!AgentSessionId::add_reported(&mut Vec::new(), &payload));
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

//! The payload of an `inner` record, as far as it tells which session of which agent is meant.

use super::json;

/// A session as the agent behind the engine knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inner {
    /// The agent's name.
    pub agent: String,
    /// The agent's own id.
    pub id: String,
}

impl Inner {
    /// Reads a payload; nothing if it does not name both.
    pub fn read(payload: &str) -> Option<Self> {
        let payload = json::tree(payload)?;
        Some(Self {
            agent: payload["agent"]["name"].as_str()?.to_owned(),
            id: payload["id"].as_str()?.to_owned(),
        })
    }

    /// A payload without the id: which agent it was that answered from there on. For a session that
    /// began as a copy of another one, whose id it was.
    pub fn without_id(payload: &str) -> String {
        let members = json::text_members(payload).into_iter();
        let kept = members.filter(|(name, _)| name != "id");
        let kept = kept.map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name)));
        format!("{{{}}}", kept.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_id_it_names_the_agent_only() {
        let payload = r#"{"id":"a","agent":{"name":"n", "version":1e400},"how":"new","id":"b"}"#;
        let without = Inner::without_id(payload);
        let expected = r#"{"agent":{"name":"n", "version":1e400},"how":"new"}"#;
        assert_eq!(without, expected);
        assert_eq!(Inner::read(&without), None);
        assert_eq!(Inner::without_id("7"), "{}");
    }

    #[test]
    fn only_what_names_both_is_one() {
        let read = Inner::read(r#"{"id":"a\"b","agent":{"name":"n","version":null},"how":"new"}"#);
        let expected = Inner {
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
            assert_eq!(Inner::read(payload), None, "{payload}");
        }
    }
}

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
}

#[cfg(test)]
mod tests {
    use super::*;

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

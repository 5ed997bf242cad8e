//! Replaces members of a JSON object, as text.

use serde_json::Value;

use crate::json;

/// An object without some of its members, with others appended or replaced.
pub(super) fn with_members(object: &str, without: &[&str], with: &[(&str, &str)]) -> String {
    let kept = json::text_members(object).into_iter();
    let kept = kept.filter(|(name, _)| {
        !without.contains(&name.as_str()) && !with.iter().any(|(new, _)| new == name)
    });
    let with = with
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value));
    json::object(kept.chain(with))
}

/// The parameters of a request, about the session with this id.
pub(super) fn with_session(params: &str, session_id: &str) -> String {
    let id = Value::from(session_id).to_string();
    with_members(params, &[], &[("sessionId", &id)])
}

/// The parameters of a request that has only a session's id.
pub(super) fn of_session(session_id: &str) -> String {
    with_session("{}", session_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_replaced_and_the_rest_is_kept() {
        let object = r#"{ "a" : 1e400, "b":[1, 2],"a":2,"c":{"a":1}}"#;
        assert_eq!(
            with_members(object, &["c"], &[("b", "0"), ("d", "{}")]),
            r#"{"a":1e400,"a":2,"b":0,"d":{}}"#
        );
        assert_eq!(with_members("[]", &[], &[]), "{}");
    }
}

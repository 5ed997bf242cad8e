//! Replaces members of a JSON object, as text.

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

//! What the agent says in error objects and results, read as far as we need it.

use crate::engine::EngineError;
use crate::json;

/// An error object of the agent, as the client is to have it.
pub(super) fn error(object: &str) -> EngineError {
    // The client gets the agent's own words and nothing of ours beside them.
    let mut error = EngineError {
        code: EngineError::INTERNAL,
        message: "the agent answered with an error that is none".to_owned(),
        data: None,
    };
    for (name, value) in json::text_members(object) {
        match name.as_str() {
            "code" => error.code = value.parse().unwrap_or(EngineError::INTERNAL),
            "message" => {
                if let Ok(message) = serde_json::from_str(value) {
                    error.message = message;
                }
            }
            "data" => error.data = Some(value.to_owned()),
            _ => {}
        }
    }
    error
}

/// An object without some of its members, with others put behind the rest.
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
    fn members_are_replaced_and_the_rest_stays() {
        let object = r#"{ "a" : 1e400, "b":[1, 2],"a":2,"c":{"a":1}}"#;
        assert_eq!(
            with_members(object, &["c"], &[("b", "0"), ("d", "{}")]),
            r#"{"a":1e400,"a":2,"b":0,"d":{}}"#
        );
        assert_eq!(with_members("[]", &[], &[]), "{}");
    }

    #[test]
    fn errors_keep_what_they_have() {
        let read = error(r#"{"code":-32000,"message":"sign \"in\"","data":{"n":1e400}}"#);
        assert_eq!(read.code, EngineError::SIGN_IN);
        assert_eq!(read.message, "sign \"in\"");
        assert_eq!(read.data.as_deref(), Some(r#"{"n":1e400}"#));
        assert_eq!(error("7").code, EngineError::INTERNAL);
    }
}

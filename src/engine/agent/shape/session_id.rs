//! The `sessionId` in the text of an object: finds it, replaces it, removes it.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{self, Span};

/// The `sessionId` of some parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The agent's session id.
    pub id: Cow<'a, str>,
    /// The range of its JSON text, quotes included, in the parameters' text.
    pub range: Range<usize>,
}

/// An object's text without its `sessionId` members, otherwise unchanged.
pub(super) fn without_session(object: &str) -> Option<String> {
    let mut rest = String::with_capacity(object.len());
    let mut behind = None;
    let mut kept = false;
    let end = json::walk(object.as_bytes(), 0, |name, quote, at| {
        let end = json::value_end(object.as_bytes(), at)?;
        let before = behind.replace(end).unwrap_or(0);
        if before == 0 {
            rest.push_str(&object[..quote]);
        }
        if name != b"sessionId" {
            if kept {
                rest.push_str(&object[before..quote]);
            }
            kept = true;
            rest.push_str(&object[quote..end]);
        }
        Some(end)
    })?;
    rest.push_str(&object[behind.unwrap_or(1)..end]);
    Some(rest)
}

/// The `sessionId` of an object, such as a request's parameters or its result. `None` if the text
/// is not an object or has no such member.
pub fn session_of(text: &str) -> Option<Named<'_>> {
    let mut found = None;
    json::walk(text.as_bytes(), 0, |name, _, start| {
        let end = json::value_end(text.as_bytes(), start)?;
        if name == b"sessionId" {
            found = Some(Span { start, end });
        }
        Some(end)
    })?;
    let found = found?;
    Some(Named {
        id: found.string(text)?,
        range: found.start..found.end,
    })
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, read};
    use super::*;

    #[test]
    fn the_id_of_a_session_is_exchanged_in_place() {
        let params = r#"{ "sessionId":"inner", "x":"inner", "sessionId" : "in\u006eer" }"#;
        let line = format!(r#"{{"id":1,"params":{params},"method":"m"}}"#);
        let Message::Request {
            session: Some(named),
            ..
        } = read(line.as_bytes())
        else {
            panic!("{line}");
        };
        assert_eq!(session_of(params), Some(named.clone()));
        assert_eq!(named.id, "inner");
        assert_eq!(
            crate::json::with_string(params, &named.range, "a\"b"),
            r#"{ "sessionId":"inner", "x":"inner", "sessionId" : "a\"b" }"#
        );
        for none in [
            "",
            "[]",
            "{}",
            r#"{"sessionId":null}"#,
            r#"{"a":{"sessionId":"s"}}"#,
        ] {
            assert_eq!(session_of(none), None, "{none}");
        }
    }
}

//! Ids of sessions within an update: where one refers to the session itself, to a subagent or to the
//! other end of a message.

use std::ops::Range;

use crate::json::{self, Splice};
use crate::protocol::update::{self, UpdateKind};

/// Replaces ids of sessions that an update, or the tool call of a request for permission, refers to:
/// those for which `rename` returns another. `None` if nothing changes. `object` is its JSON text.
pub fn renamed(object: &str, rename: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let text = object.as_bytes();
    let start = json::skip_space(text, 0);
    let mut splice = Splice::new(text);
    let mut take = |value: Option<Range<usize>>| {
        let value = value?;
        let id = json::string(text, &value)?;
        let new = rename(std::str::from_utf8(&id).ok()?)?;
        splice.replace(value, json::quoted(&new).into_bytes());
        Some(())
    };
    let kind = update::name(text).map(|name| UpdateKind::of_name(&name));
    for member in kind.map_or(&[][..], UpdateKind::session_members) {
        take(json::member(text, start, member));
    }
    if kind.is_none_or(UpdateKind::is_call) {
        let mut content = json::member_elements(text, start, "content");
        while let Some(item) = content.as_mut().and_then(json::Parts::element) {
            let kind = json::member(text, item.start, "type");
            let kind = kind.and_then(|kind| json::string(text, &kind));
            if kind.as_deref() == Some(b"session") {
                take(json::member(text, item.start, "sessionId"));
            }
        }
    }
    if splice.is_empty() {
        return None;
    }
    String::from_utf8(splice.into_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_references_are_renamed() {
        let rename = |id: &str| (id == "a").then(|| "b\"".to_owned());
        for (before, after) in [
            (
                r#"{ "sessionUpdate":"session_message","messageId":"a","senderSessionId":"a","recipientSessionId" : "c"}"#,
                Some(
                    r#"{ "sessionUpdate":"session_message","messageId":"a","senderSessionId":"b\"","recipientSessionId" : "c"}"#,
                ),
            ),
            (
                r#"{"sessionUpdate":"subagent_update","sessionId":"\u0061","title":"a"}"#,
                Some(r#"{"sessionUpdate":"subagent_update","sessionId":"b\"","title":"a"}"#),
            ),
            (
                r#"{"sessionUpdate":"tool_call","toolCallId":"a","rawInput":{"sessionId":"a"},"content":[{"type":"session","sessionId":"c"},{"type":"session","sessionId":"a"},{"type":"x","sessionId":"a"}]}"#,
                Some(
                    r#"{"sessionUpdate":"tool_call","toolCallId":"a","rawInput":{"sessionId":"a"},"content":[{"type":"session","sessionId":"c"},{"type":"session","sessionId":"b\""},{"type":"x","sessionId":"a"}]}"#,
                ),
            ),
            (
                r#"{"toolCallId":"t","content":[{"type":"session","sessionId":"a"}]}"#,
                Some(r#"{"toolCallId":"t","content":[{"type":"session","sessionId":"b\""}]}"#),
            ),
            (
                r#"{"sessionUpdate":"session_message","senderSessionId":null}"#,
                None,
            ),
            (r#"{"sessionUpdate":"plan","sessionId":"a"}"#, None),
            (r#"{"sessionUpdate":"tool_call","content":"a"}"#, None),
            ("[]", None),
        ] {
            assert_eq!(renamed(before, &rename).as_deref(), after, "{before}");
        }
    }
}

//! Finds the text of text blocks, inside its quotes and still escaped.

use std::ops::Range;

use crate::json;

use super::Role;

/// The text of a message chunk whose content is a text block. Other members of the
/// chunk and the block do not matter.
pub fn chunk_text(update: &[u8]) -> Option<Range<usize>> {
    let name = json::member(update, 0, "sessionUpdate")?;
    let name = std::str::from_utf8(&update[json::string_body(update, &name)?]).ok()?;
    Role::of_chunk(name)?;
    let content = json::member(update, 0, "content")?;
    let kind = json::member(update, content.start, "type")?;
    let text = json::member(update, content.start, "text")?;
    (&update[kind] == b"\"text\"").then(|| json::string_body(update, &text))?
}

/// The text of the text block at `at`, if it has no other content.
pub fn plain_text(text: &[u8], at: usize) -> Option<Range<usize>> {
    let mut parts = json::members(text, at)?;
    let (one, other) = (parts.member()?, parts.member()?);
    let (kind, body) = if &text[one.key.clone()] == b"type" {
        (one, other)
    } else {
        (other, one)
    };
    let plain = parts.member().is_none()
        && parts.end().is_some()
        && &text[kind.key] == b"type"
        && &text[kind.value] == b"\"text\""
        && &text[body.key] == b"text";
    plain.then(|| json::string_body(text, &body.value))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_chunk_is_found_wherever_it_stands() {
        for (update, text) in [
            (
                r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a\""}}"#,
                Some("a\\\""),
            ),
            (
                r#"{"content":{"text":"b","_meta":{"text":"x"},"type":"text"},"sessionUpdate":"agent_thought_chunk"}"#,
                Some("b"),
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","text":"a"}}"#,
                None,
            ),
            (
                r#"{"sessionUpdate":"tool_call","content":{"type":"text","text":"a"}}"#,
                None,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":1}}"#,
                None,
            ),
            ("", None),
        ] {
            let found = chunk_text(update.as_bytes()).map(|range| &update[range]);
            assert_eq!(found, text, "{update}");
        }
    }
}

//! Reduces an update to its small members, if shortening strings does not make it fit.

use crate::json;
use crate::protocol::Role;

use super::truncation::{marker, text_block};

/// Members up to this length are kept.
const SMALL: usize = 1024;

/// The update with each large member replaced by a stub, and the number of bytes removed.
pub(super) fn of_update(update: &[u8]) -> (Vec<u8>, usize) {
    let (mut out, mut removed) = (vec![b'{'], 0);
    let Some(mut parts) = json::members(update, 0) else {
        return (update.to_vec(), 0);
    };
    let content = ContentShape::of(update);
    while let Some(member) = parts.member() {
        if out.len() > 1 {
            out.push(b',');
        }
        let value = &update[member.value.clone()];
        out.extend_from_slice(&update[member.key.start - 1..member.value.start]);
        let key = &update[member.key];
        // Other records may refer to an id, and a shortened id would be a different one.
        if value.len() <= SMALL || key.ends_with(b"Id") {
            out.extend_from_slice(value);
        } else {
            removed += value.len();
            out.extend(member_stub(key, value, content));
        }
    }
    out.push(b'}');
    (out, removed)
}

/// The stub of a large member of an update.
pub(super) fn of_member(update: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    member_stub(key, value, ContentShape::of(update))
}

/// The kind of an update's content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentShape {
    Block,
    Blocks,
    /// An item of a tool call's content.
    Item,
    Items,
}

impl ContentShape {
    fn of(update: &[u8]) -> Self {
        let name = json::member(update, 0, "sessionUpdate")
            .and_then(|value| json::string_body(update, &value))
            .and_then(|body| std::str::from_utf8(&update[body]).ok());
        match name.unwrap_or_default() {
            "tool_call_content_chunk" => Self::Item,
            "compaction_summary_chunk" | "session_message_chunk" => Self::Block,
            "session_message" => Self::Blocks,
            name if Role::of_chunk(name).is_some() => Self::Block,
            name if Role::of_message(name).is_some() => Self::Blocks,
            _ => Self::Items,
        }
    }

    /// A content of this form with nothing but a text block.
    fn around(self, block: &[u8]) -> Vec<u8> {
        let (before, behind): (&[u8], &[u8]) = match self {
            Self::Block => (b"", b""),
            Self::Blocks => (b"[", b"]"),
            Self::Item => (b"{\"type\":\"content\",\"content\":", b"}"),
            Self::Items => (b"[{\"type\":\"content\",\"content\":", b"}]"),
        };
        [before, block, behind].concat()
    }
}

/// The smallest value of a member that the protocol's schema accepts and that says what happened.
fn member_stub(key: &[u8], value: &[u8], content: ContentShape) -> Vec<u8> {
    let marker = marker(value.len());
    let block = || text_block(&marker);
    let string = || format!("\"{marker}\"").into_bytes();
    match (key, value.first()) {
        (b"content", Some(b'{')) if content != ContentShape::Items => content.around(&block()),
        (b"content", Some(b'[')) => content.around(&block()),
        (b"summary", Some(b'[')) => [b"[", block().as_slice(), b"]"].concat(),
        (b"entries", Some(b'[')) => {
            format!(r#"[{{"content":"{marker}","priority":"medium","status":"pending"}}]"#).into()
        }
        (b"rawInput" | b"rawOutput", _) | (_, Some(b'"')) => string(),
        (_, Some(b'[')) => b"[]".to_vec(),
        (_, Some(b'{')) => b"{}".to_vec(),
        _ => b"null".to_vec(),
    }
}

//! Reduces an update to its small members, if shortening strings does not make it fit.

use crate::json;
use crate::protocol::UpdateKind;

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

/// What a `content` consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentShape {
    /// A content block, or a list of blocks.
    Blocks,
    /// An item of a tool call's content.
    Item,
    /// The items of a tool call's content.
    Items,
}

impl ContentShape {
    fn of(update: &[u8]) -> Self {
        match UpdateKind::of(update) {
            UpdateKind::ToolCallContent => Self::Item,
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate | UpdateKind::Other => Self::Items,
            _ => Self::Blocks,
        }
    }
}

/// The smallest value of a member that the protocol's schema accepts and that says what happened.
fn member_stub(key: &[u8], value: &[u8], content: ContentShape) -> Vec<u8> {
    let marker = marker(value.len());
    let block = || text_block(&marker);
    let item = || {
        [
            b"{\"type\":\"content\",\"content\":",
            block().as_slice(),
            b"}",
        ]
        .concat()
    };
    let list = |element: Vec<u8>| [b"[", element.as_slice(), b"]"].concat();
    let string = || format!("\"{marker}\"").into_bytes();
    match (key, value.first()) {
        (b"content", Some(b'{')) if content == ContentShape::Blocks => block(),
        (b"content", Some(b'{')) if content == ContentShape::Item => item(),
        (b"content", Some(b'[')) if content == ContentShape::Items => list(item()),
        (b"content" | b"summary", Some(b'[')) => list(block()),
        (b"entries", Some(b'[')) => {
            format!(r#"[{{"content":"{marker}","priority":"medium","status":"pending"}}]"#).into()
        }
        (b"rawInput" | b"rawOutput", _) | (_, Some(b'"')) => string(),
        (_, Some(b'[')) => b"[]".to_vec(),
        (_, Some(b'{')) => b"{}".to_vec(),
        _ => b"null".to_vec(),
    }
}

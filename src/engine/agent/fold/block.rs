//! Describes a content block that is not text: what it is, how large, and where it came from.

use super::node::Node;

/// The longest type or name, in characters.
const WORD: usize = 80;
/// The longest address, in characters.
const ADDRESS: usize = 300;

/// The text of a block, if it is a text block.
pub(super) fn text(block: Node<'_>) -> Option<Node<'_>> {
    let [kind, text] = block.pick(["type", "text"]);
    text.filter(|_| kind.is_some_and(|kind| kind.is("text")))
}

/// A description of the block in a few words.
pub(super) fn name(block: Node<'_>) -> String {
    let kind = block.get("type").and_then(|kind| kind.short(WORD));
    let inner = block.get("resource").unwrap_or(block);
    let word = |key, chars| inner.get(key).and_then(|value| value.short(chars));
    let size = match inner.get("size").map(Node::raw) {
        Some(size) if size.bytes().all(|byte| byte.is_ascii_digit()) => size.parse().ok(),
        _ => size(inner),
    };
    let words = [
        Some(
            kind.unwrap_or_else(|| "something".to_owned())
                .replace('_', " "),
        ),
        word("title", WORD).or_else(|| word("name", WORD)),
        word("mimeType", WORD),
        size.map(|size: usize| format!("{size} bytes")),
        word("uri", ADDRESS),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The size of a medium or a file, in bytes.
fn size(of: Node<'_>) -> Option<usize> {
    let encoded = ["data", "blob"]
        .into_iter()
        .find_map(|key| of.get(key)?.body());
    // Four characters of Base64 encode three bytes.
    let decoded = encoded.map(|base64| {
        base64.trim_end_matches('=').len() / 4 * 3 + base64.trim_end_matches('=').len() % 4 * 3 / 4
    });
    decoded.or_else(|| Some(of.get("text")?.body()?.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_by_type_size_and_address() {
        for (block, expected) in [
            (
                r#"{"type":"image","data":"AAAAAA==","mimeType":"image/png","uri":"file:///a.png"}"#,
                "image, image/png, 4 bytes, file:///a.png",
            ),
            (
                r#"{"type":"audio","data":"","mimeType":"audio/wav"}"#,
                "audio, audio/wav, 0 bytes",
            ),
            (
                r#"{"type":"resource","resource":{"uri":"file:///a.rs","text":"abc"}}"#,
                "resource, 3 bytes, file:///a.rs",
            ),
            (
                r#"{"type":"resource_link","name":"n","title":"t\nu","size":7,"uri":"u"}"#,
                "resource link, t u, 7 bytes, u",
            ),
            (r#"{"type":"hologram"}"#, "hologram"),
            ("7", "something"),
            ("", "something"),
        ] {
            assert_eq!(name(Node::root(block)), expected);
        }
    }
}

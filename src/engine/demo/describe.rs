//! Describes the content of a prompt in a few words.

use serde_json::Value;

use crate::engine::Prompt;

/// How many characters are quoted of a text that is not quoted in full.
const QUOTED: usize = 80;

/// How many blocks of a prompt are named individually.
const NAMED: usize = 8;

/// A text on one line: white space and control characters become single spaces, and everything
/// beyond `most` characters becomes an ellipsis.
pub(super) fn shorten(text: &str, most: usize) -> String {
    let mut short = String::new();
    let mut count = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if count > 0 {
            short.push(' ');
            count += 1;
        }
        for c in word.chars() {
            if count >= most {
                short.truncate(short.trim_end().len());
                short.push('…');
                return short;
            }
            short.push(c);
            count += 1;
        }
    }
    short
}

/// A shortened text in quotation marks.
pub(super) fn quote(text: &str) -> String {
    format!("“{}”", shorten(text, QUOTED))
}

/// The prompt that is being answered: each block with its size.
pub(super) fn in_detail(prompt: &Prompt) -> String {
    let blocks = prompt.blocks();
    let named = blocks.iter().take(NAMED).map(|block| match text_of(block) {
        Some(text) if text.trim().is_empty() => format!("a blank text ({})", characters(text)),
        Some(text) => format!("{} ({})", quote(text), characters(text)),
        None => attachment(block),
    });
    list(named.collect(), blocks.len()).unwrap_or_else(|| "nothing at all".to_owned())
}

/// An earlier prompt: its text, shortened, and its attachments.
pub(super) fn in_brief(prompt: &Prompt) -> String {
    let blocks = prompt.blocks();
    let text = prompt.text();
    let attached: Vec<_> = blocks
        .iter()
        .filter(|block| text_of(block).is_none())
        .collect();
    let named = attached.iter().take(NAMED).map(|block| attachment(block));
    match (
        text.trim().is_empty(),
        list(named.collect(), attached.len()),
    ) {
        (false, None) => quote(&text),
        (false, Some(attachments)) => format!("{} with {attachments}", quote(&text)),
        (true, Some(attachments)) => attachments,
        (true, None) => "nothing but white space".to_owned(),
    }
}

/// A block that is not text.
pub(super) fn attachment(block: &Value) -> String {
    let field = |name: &str| block[name].as_str();
    match field("type") {
        Some(kind @ ("image" | "audio")) => {
            let what = if kind == "image" {
                "an image"
            } else {
                "a sound"
            };
            let mime_type = shorten(field("mimeType").unwrap_or("of no type"), QUOTED);
            let size = decoded_size(field("data").unwrap_or_default());
            format!("{what} ({mime_type}, {size} bytes)")
        }
        Some("resource_link") => {
            let uri = shorten(field("uri").unwrap_or("nowhere"), QUOTED);
            format!("a link to {uri}")
        }
        Some("resource") => {
            let resource = &block["resource"];
            let uri = shorten(resource["uri"].as_str().unwrap_or("nowhere"), QUOTED);
            match (resource["text"].as_str(), resource["blob"].as_str()) {
                (Some(text), _) => format!("the text of {uri} ({})", characters(text)),
                (None, Some(blob)) => {
                    format!("the contents of {uri} ({} bytes)", decoded_size(blob))
                }
                (None, None) => format!("the empty resource {uri}"),
            }
        }
        Some(kind) => format!("a block of the unknown type {}", quote(kind)),
        None => "a block without a type".to_owned(),
    }
}

/// The text of a text block.
pub(super) fn text_of(block: &Value) -> Option<&str> {
    (block["type"] == "text").then(|| block["text"].as_str())?
}

/// The length of a text in characters, in words.
fn characters(text: &str) -> String {
    counted(text.chars().count() as u64, "character")
}

/// A number of things, in words.
pub(super) fn counted(count: u64, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {what}{end}")
}

/// The decoded size of a Base64 text: each character except the padding encodes six bits.
fn decoded_size(base64: &str) -> usize {
    let digits = base64
        .bytes()
        .filter(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte))
        .count();
    digits / 4 * 3 + digits % 4 * 6 / 8
}

/// Some of `total` things as a list in words; `None` if there are none.
fn list(mut named: Vec<String>, total: usize) -> Option<String> {
    if total > named.len() {
        named.push(format!("{} more", total - named.len()));
    }
    let last = named.pop()?;
    Some(if named.is_empty() {
        last
    } else {
        format!("{} and {last}", named.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn prompt(blocks: &Value) -> Prompt {
        Prompt {
            message_id: "msg_1".to_owned(),
            params: json!({ "prompt": blocks }).to_string(),
        }
    }

    #[test]
    fn texts_are_shortened_to_one_line() {
        for (text, expected) in [
            ("", ""),
            (" \r\n\t", ""),
            ("a\r\n b\0c ", "a b c"),
            ("0123456789", "0123456789"),
            ("0123456789a", "0123456789…"),
            ("01234 6789 a", "01234 6789…"),
            ("ééééééééééé", "éééééééééé…"),
            ("0123456789 \n ", "0123456789"),
        ] {
            assert_eq!(shorten(text, 10), expected, "{text:?}");
        }
    }

    #[test]
    fn every_kind_of_block_is_named() {
        let text = json!({"type": "text", "text": "Hello\nthere"});
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        let audio = json!({"type": "audio", "mimeType": "audio/wav", "data": "AAA="});
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let note = json!({"type": "resource", "resource": {"uri": "file:///b", "text": "é"}});
        let blob = json!({"type": "resource", "resource": {"uri": "file:///c", "blob": "AA=="}});
        for (blocks, detail, brief) in [
            (json!([]), "nothing at all", "nothing but white space"),
            (
                json!([{"type": "text", "text": " "}]),
                "a blank text (1 character)",
                "nothing but white space",
            ),
            (
                json!([text]),
                "“Hello there” (11 characters)",
                "“Hello there”",
            ),
            (
                json!([text, image, text]),
                "“Hello there” (11 characters), an image (image/png, 3 bytes) and “Hello there” \
                 (11 characters)",
                "“Hello there Hello there” with an image (image/png, 3 bytes)",
            ),
            (
                json!([audio, link]),
                "a sound (audio/wav, 2 bytes) and a link to file:///a",
                "a sound (audio/wav, 2 bytes) and a link to file:///a",
            ),
            (
                json!([note, blob]),
                "the text of file:///b (1 character) and the contents of file:///c (1 bytes)",
                "the text of file:///b (1 character) and the contents of file:///c (1 bytes)",
            ),
            (
                json!([{"type": "resource"}, {"type": "smell"}, 5]),
                "the empty resource nowhere, a block of the unknown type “smell” and a block \
                 without a type",
                "the empty resource nowhere, a block of the unknown type “smell” and a block \
                 without a type",
            ),
        ] {
            assert_eq!(in_detail(&prompt(&blocks)), detail);
            assert_eq!(in_brief(&prompt(&blocks)), brief);
        }
        let many: Value = std::iter::repeat_n(link, 20).collect();
        assert!(in_detail(&prompt(&many)).ends_with("a link to file:///a and 12 more"));
    }
}

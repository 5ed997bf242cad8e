//! Describes the content of a prompt in a few words.

use agent_client_protocol_schema::v1::{
    ContentBlock, EmbeddedResource, EmbeddedResourceResource as Resource,
};
use serde::Deserialize;
use serde_json::Value;

use crate::engine::Prompt;
use crate::text::shortened;

/// How many characters are quoted of a text that is not quoted in full, with its ellipsis.
const QUOTED: usize = 81;

/// How many blocks of a prompt are named individually.
const NAMED: usize = 8;

/// A shortened text in quotation marks.
pub(super) fn quote(text: &str) -> String {
    format!("“{}”", shortened(text, QUOTED))
}

/// The prompt that is being answered: each block with its size.
pub(super) fn in_detail(prompt: &Prompt) -> String {
    let blocks = prompt.blocks();
    let named = blocks.iter().take(NAMED).map(|block| match text_of(block) {
        Some(text) if text.trim().is_empty() => format!("a blank text ({})", characters(text)),
        Some(text) => format!("{} ({})", quote(text), characters(text)),
        None => attachment(block),
    });
    list(named.collect(), blocks.len()).unwrap_or_else(|| "nothing".to_owned())
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
        (true, None) => "only white space".to_owned(),
    }
}

/// A block that is not text.
pub(super) fn attachment(block: &Value) -> String {
    let file = |what: &str, mime_type: &str, data: &str| {
        let size = counted(decoded_size(data), "byte");
        format!("{what} ({}, {size})", shortened(mime_type, QUOTED))
    };
    match ContentBlock::deserialize(block) {
        Ok(ContentBlock::Image(image)) => file("an image", &image.mime_type, &image.data),
        Ok(ContentBlock::Audio(audio)) => file("audio", &audio.mime_type, &audio.data),
        Ok(ContentBlock::ResourceLink(link)) => {
            format!("a link to {}", shortened(&link.uri, QUOTED))
        }
        Ok(ContentBlock::Resource(EmbeddedResource { resource, .. })) => match resource {
            Resource::TextResourceContents(text) => {
                let uri = shortened(&text.uri, QUOTED);
                format!("the text of {uri} ({})", characters(&text.text))
            }
            Resource::BlobResourceContents(blob) => {
                let size = counted(decoded_size(&blob.blob), "byte");
                format!("the contents of {} ({size})", shortened(&blob.uri, QUOTED))
            }
            _ => "a resource of an unknown kind".to_owned(),
        },
        _ => match block["type"].as_str() {
            Some(kind) => format!("an invalid block of the type {}", quote(kind)),
            None => "a block without a type".to_owned(),
        },
    }
}

/// Whether a block is of a known type and has all members that the protocol requires.
pub(super) fn is_content(block: &Value) -> bool {
    ContentBlock::deserialize(block).is_ok()
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
fn decoded_size(base64: &str) -> u64 {
    let digits = base64
        .bytes()
        .filter(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte))
        .count() as u64;
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
    fn every_kind_of_block_is_named() {
        let text = json!({"type": "text", "text": "Hello\nthere"});
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        let audio = json!({"type": "audio", "mimeType": "audio/wav", "data": "AAA="});
        let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
        let note = json!({"type": "resource", "resource": {"uri": "file:///b", "text": "é"}});
        let blob = json!({"type": "resource", "resource": {"uri": "file:///c", "blob": "AA=="}});
        for (blocks, detail, brief) in [
            (json!([]), "nothing", "only white space"),
            (
                json!([{"type": "text", "text": " "}]),
                "a blank text (1 character)",
                "only white space",
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
                "audio (audio/wav, 2 bytes) and a link to file:///a",
                "audio (audio/wav, 2 bytes) and a link to file:///a",
            ),
            (
                json!([note, blob]),
                "the text of file:///b (1 character) and the contents of file:///c (1 byte)",
                "the text of file:///b (1 character) and the contents of file:///c (1 byte)",
            ),
            (
                json!([{"type": "resource"}, {"type": "smell"}, 5]),
                "an invalid block of the type “resource”, an invalid block of the type “smell” and \
                 a block without a type",
                "an invalid block of the type “resource”, an invalid block of the type “smell” and \
                 a block without a type",
            ),
        ] {
            assert_eq!(in_detail(&prompt(&blocks)), detail);
            assert_eq!(in_brief(&prompt(&blocks)), brief);
        }
        let many: Value = std::iter::repeat_n(link, 20).collect();
        assert!(in_detail(&prompt(&many)).ends_with("a link to file:///a and 12 more"));
    }
}

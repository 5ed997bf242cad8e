//! The result of an MCP tool as the content of a tool call.

use serde_json::{Value, json};

use crate::engine::demo::sample::text;

/// The content of a tool call that had this result. MCP's content blocks have the form of ACP's;
/// anything else is shown as its JSON. If the result has nothing but structured content, that is
/// shown.
pub(super) fn content(result: &Value) -> Vec<Value> {
    let blocks = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let mut content: Vec<Value> = blocks.iter().map(shown).collect();
    let structured = &result["structuredContent"];
    if content.is_empty() && !structured.is_null() {
        content.push(text(&format!("```json\n{structured:#}\n```")));
    }
    content
}

/// Whether the tool itself reports an error.
pub(super) fn has_failed(result: &Value) -> bool {
    result["isError"] == true
}

fn shown(block: &Value) -> Value {
    let is_text = |name: &str| block[name].is_string();
    let resource = &block["resource"];
    let known = match block["type"].as_str() {
        Some("text") => is_text("text"),
        Some("image" | "audio") => is_text("data") && is_text("mimeType"),
        Some("resource_link") => is_text("uri") && is_text("name"),
        Some("resource") => {
            resource["uri"].is_string()
                && (resource["text"].is_string() || resource["blob"].is_string())
        }
        _ => false,
    };
    if known {
        json!({ "type": "content", "content": block })
    } else {
        text(&block.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_block_is_shown() {
        let known = [
            json!({"type":"text","text":"a","annotations":{"audience":["user"]}}),
            json!({"type":"image","data":"AA==","mimeType":"image/png"}),
            json!({"type":"audio","data":"AA==","mimeType":"audio/wav"}),
            json!({"type":"resource_link","uri":"file:///a","name":"a","size":3}),
            json!({"type":"resource","resource":{"uri":"file:///a","text":"b"}}),
            json!({"type":"resource","resource":{"uri":"file:///a","blob":"AA=="}}),
        ];
        for block in known {
            let expected = json!([{ "type": "content", "content": block }]);
            assert_eq!(json!(content(&json!({ "content": [block] }))), expected);
        }
        for block in [json!({"type":"smell"}), json!({"type":"text"}), json!(5)] {
            let expected = json!([text(&block.to_string())]);
            assert_eq!(json!(content(&json!({ "content": [block] }))), expected);
        }
    }

    #[test]
    fn structured_content_is_shown_if_nothing_else_is() {
        let structured = json!({ "n": 1 });
        let alone = content(&json!({ "content": [], "structuredContent": structured }));
        assert_eq!(alone, [text("```json\n{\n  \"n\": 1\n}\n```")]);
        let block = json!({ "type": "text", "text": "1" });
        let both = content(&json!({ "content": [block], "structuredContent": structured }));
        assert_eq!(both, [text("1")]);
        assert_eq!(content(&json!({})), Vec::<Value>::new());
    }
}

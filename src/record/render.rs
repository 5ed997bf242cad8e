//! A transcript as plain text, for people and for tests.

use serde_json::Value;

use super::transcript::{Entry, Role, Transcript};

impl Transcript {
    /// The conversation as plain text: one paragraph for each entry, in order.
    pub fn text(&self) -> String {
        let paragraphs: Vec<_> = self.entries.iter().map(entry).collect();
        paragraphs.join("\n\n")
    }
}

fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Message { role, blocks, .. } => {
            let role = match role {
                Role::User => "user",
                Role::Agent => "agent",
                Role::Thought => "thought",
            };
            let blocks: Vec<_> = blocks.iter().map(block).collect();
            format!("{role}: {}", blocks.join("\n"))
        }
        Entry::ToolCall { id, call } => {
            let title = call.get("title").and_then(Value::as_str).unwrap_or(id);
            let status = call.get("status").and_then(Value::as_str);
            let head = format!("tool: {title} ({})", status.unwrap_or("pending"));
            let content = call.get("content").and_then(Value::as_array);
            let lines = content.into_iter().flatten().map(tool_content);
            std::iter::once(head)
                .chain(lines)
                .collect::<Vec<_>>()
                .join("\n")
        }
        Entry::Plan { plan } => {
            let entries = plan.get("entries").and_then(Value::as_array);
            let lines = entries.into_iter().flatten().map(|entry| {
                let member = |key| entry.get(key).and_then(Value::as_str).unwrap_or("?");
                format!("[{}] {}", member("status"), member("content"))
            });
            let head = std::iter::once("plan:".to_owned());
            head.chain(lines).collect::<Vec<_>>().join("\n")
        }
        Entry::Other { update } => {
            let name = update.get("sessionUpdate").and_then(Value::as_str);
            format!("[{}]", name.unwrap_or("unknown update"))
        }
    }
}

fn block(block: &Value) -> String {
    if let Some(text) = block.get("text").and_then(Value::as_str) {
        return text.to_owned();
    }
    let resource = block.get("resource").unwrap_or(block);
    let words = [
        block.get("type"),
        block.get("name"),
        resource.get("mimeType"),
        resource.get("uri"),
    ];
    let words: Vec<_> = words
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    format!("[{}]", words.join(" "))
}

fn tool_content(item: &Value) -> String {
    let member = |key| item.get(key).and_then(Value::as_str).unwrap_or("?");
    match member("type") {
        "content" => item.get("content").map(block).unwrap_or_default(),
        "diff" => format!("[diff {}]", member("path")),
        "terminal" => format!("[terminal {}]", member("terminalId")),
        other => format!("[{other}]"),
    }
}

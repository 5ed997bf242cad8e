//! Renders a transcript as plain text, for tests.

use serde_json::Value;

use super::transcript::{Transcript, TranscriptEntry};
use crate::protocol::{Role, UpdateKind};

impl Transcript {
    /// The conversation as plain text: one paragraph for each entry, in order. What subagents do is
    /// no part of it.
    pub fn text(&self) -> String {
        let is_about_subagent = |entry: &&TranscriptEntry| {
            let TranscriptEntry::Other { update } = entry else {
                return false;
            };
            update["sessionUpdate"] == UpdateKind::Subagent.name()
        };
        let own = self
            .entries
            .iter()
            .filter(|entry| !is_about_subagent(entry));
        let paragraphs: Vec<_> = own.map(entry).collect();
        paragraphs.join("\n\n")
    }

    /// The current state as plain text: one line for each snapshot with information. Empty without
    /// such snapshots.
    pub fn state_text(&self) -> String {
        let lines = self.state.iter().filter_map(|(name, snapshot)| {
            let value = |key| snapshot.get(key).map(plain);
            match name.as_str() {
                "available_commands_update" => {
                    let commands = snapshot.get("availableCommands")?.as_array()?.iter();
                    let names: Vec<_> = commands
                        .filter_map(|command| Some(format!("/{}", command.get("name")?.as_str()?)))
                        .collect();
                    (!names.is_empty()).then(|| format!("commands: {}", names.join(", ")))
                }
                "config_option_update" => {
                    let options = snapshot.get("configOptions")?.as_array()?.iter();
                    let values: Vec<_> = options
                        .filter_map(|option| {
                            let id = option.get("id")?.as_str()?;
                            Some(format!("{id} = {}", plain(option.get("currentValue")?)))
                        })
                        .collect();
                    (!values.is_empty()).then(|| format!("options: {}", values.join(", ")))
                }
                "current_mode_update" => Some(format!("mode: {}", value("currentModeId")?)),
                "usage_update" => Some(format!(
                    "usage: {} of {} tokens",
                    value("used")?,
                    value("size")?
                )),
                "session_info_update" => {
                    Some(format!("title: {}", snapshot.get("title")?.as_str()?))
                }
                other => Some(format!("[{other}]")),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A value for people: strings without quotes.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn entry(entry: &TranscriptEntry) -> String {
    match entry {
        TranscriptEntry::Message { role, blocks, .. } => {
            let role = match role {
                Role::User => "user",
                Role::Agent => "agent",
                Role::Thought => "thought",
            };
            let blocks: Vec<_> = blocks.iter().map(block).collect();
            format!("{role}: {}", blocks.join("\n"))
        }
        TranscriptEntry::ToolCall { id, call } => {
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
        TranscriptEntry::Plan { plan } => {
            let entries = plan.get("entries").and_then(Value::as_array);
            let lines = entries.into_iter().flatten().map(|entry| {
                let member = |key| entry.get(key).and_then(Value::as_str).unwrap_or("?");
                format!("[{}] {}", member("status"), member("content"))
            });
            let head = std::iter::once("plan:".to_owned());
            head.chain(lines).collect::<Vec<_>>().join("\n")
        }
        TranscriptEntry::Other { update } => {
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

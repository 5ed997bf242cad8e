//! Amp: one file of JSON for each thread, `threads/ID.json`, as its versions before the spring of 2026
//! kept them. Later ones keep threads on its server.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::blocks::BlockReader;
use super::content::{self, as_text};
use super::conversation::ToolConversation;
use super::damage::{self, DamagedPlace};
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, has_extension};

/// `amp/threads` in `$XDG_DATA_HOME` or `~/.local/share`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places
        .folder("XDG_DATA_HOME", ".local/share")
        .join("amp/threads")
}

/// `ID.json`.
pub(super) fn is_conversation(path: &Path) -> bool {
    matches!(super::parts(path)[..], [name] if has_extension(name, &["json"]))
}

pub(super) fn read(found: &FoundConversation, bytes: &[u8], _: Wanted<'_>) -> ToolConversation {
    let (thread, kind) = damage::value_or_null(&String::from_utf8_lossy(bytes));
    let tree = &thread["env"]["initial"]["trees"][0];
    let cwd = tree["uri"].as_str().and_then(content::path_of);
    let mut reader = AmpReader {
        messages: BlockReader::default(),
        ledger: thread["usageLedger"]["events"].as_array().cloned(),
    };
    let builder = &mut reader.messages.builder;
    builder.folder(cwd.as_deref());
    let branch = as_text(&tree["repository"]["ref"]);
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(&branch);
    builder.state(&branch.into(), &Value::Null);
    builder.title(&as_text(&thread["title"]));
    // Early versions have no other time.
    let created = thread["created"].as_i64().map(Timestamp::from_millis);
    builder.at(Some(created.unwrap_or(found.modified)));
    for message in thread["messages"].as_array().into_iter().flatten() {
        reader.message(message);
    }
    let stem = || found.path.file_stem()?.to_str();
    let id = thread["id"].as_str().or_else(stem).map(str::to_owned);
    let damage = kind.map(|kind| DamagedPlace::of(1, kind));
    let conversation = reader.messages.builder.finish(id, cwd);
    conversation.damaged(damage.into_iter().collect())
}

#[derive(Debug)]
struct AmpReader {
    messages: BlockReader,
    /// What messages have cost, in versions that do not say that in the message.
    ledger: Option<Vec<Value>>,
}

impl AmpReader {
    fn message(&mut self, message: &Value) {
        let usage = &message["usage"];
        let sent = message["meta"]["sentAt"]
            .as_i64()
            .map(Timestamp::from_millis);
        let answered = usage["timestamp"].as_str().and_then(Timestamp::parse);
        let builder = &mut self.messages.builder;
        let at = builder.at(sent.or(answered));
        let number = message["messageId"].as_u64();
        let id = number.map(|number| number.to_string());
        let role = message["role"].as_str().unwrap_or_default();
        if !matches!(role, "user" | "assistant") {
            return builder.unknown(Some(role));
        }
        let content = message["content"].as_array().into_iter().flatten();
        let content: Vec<Value> = content.map(as_block).collect();
        let messages = &mut self.messages;
        messages.message(at, id.as_deref(), role, &content.into());
        if message["state"]["type"] == "cancelled" {
            messages.builder.cancel();
        }
        if usage.is_object() {
            messages.builder.state(&Value::Null, &usage["model"]);
            messages.builder.spent(id.as_deref(), spent(usage));
            return;
        }
        let events = self.ledger.iter().flatten().enumerate();
        let events = events.filter(|(_, event)| event["toMessageId"].as_u64() == number);
        for (at, event) in events.filter(|_| number.is_some()) {
            let key = format!("event {at}");
            let tokens = &event["tokens"];
            messages.builder.state(&Value::Null, &event["model"]);
            messages.builder.spent(Some(&key), spent(tokens));
        }
    }
}

/// A block as the API of Anthropic has it. Results have a form of Amp's own.
fn as_block(block: &Value) -> Value {
    let run = &block["run"];
    if block["type"] != "tool_result" || !run.is_object() {
        return block.clone();
    }
    let result = &run["result"];
    let names = ["output", "content", "diff"];
    let shown = names.iter().map(|name| &result[*name]);
    let shown = shown.into_iter().find(|shown| !shown.is_null());
    let error = &run["error"];
    let error = error.get("message").unwrap_or(error);
    let has_exited = result["exitCode"].as_i64().unwrap_or(0) == 0;
    let ok = run["status"] == "done" && has_exited;
    json!({
        "type": "tool_result",
        "tool_use_id": block["toolUseID"],
        "is_error": !ok,
        "content": if error.is_null() { shown.unwrap_or(result) } else { error },
    })
}

/// What an answer has cost, with the names that messages or those that events have.
fn spent(usage: &Value) -> Spent {
    let either = |names: [&str; 2]| {
        let numbers = names.map(|name| number(&usage[name]));
        numbers[0].max(numbers[1])
    };
    Spent {
        input: either(["inputTokens", "input"]),
        output: either(["outputTokens", "output"]),
        cached_read: number(&usage["cacheReadInputTokens"]),
        cached_write: number(&usage["cacheCreationInputTokens"]),
        ..Spent::default()
    }
}

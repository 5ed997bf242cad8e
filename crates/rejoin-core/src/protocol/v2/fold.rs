//! Folds lines of version 2 to what a client shows after all updates, in the form of version 1.
//!
//! Each update is converted back to version 1 and folded as such. That is what a client of version
//! 2 shows only if ids are used as that version requires, which is checked on the way: a chunk
//! belongs to the last entry or begins a new message, and no field is cleared by mistake.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use crate::conversation::{Transcript, TranscriptEntry};
use crate::json;
use crate::protocol::Role;

use super::{modes, plan};

/// The fold of lines of version 2.
#[derive(Debug, Default)]
pub(super) struct Fold {
    pub(super) transcript: Transcript,
    messages: HashSet<String>,
    calls: HashSet<String>,
    /// The folds of announced subagents, by their sessions.
    subagents: BTreeMap<String, Self>,
}

impl Fold {
    /// Takes whole lines.
    pub(super) fn lines(lines: &str) -> Transcript {
        let mut fold = Self::default();
        for line in lines.lines() {
            fold.line(line);
        }
        let mut transcript = fold.transcript;
        for (session, subagent) in fold.subagents {
            let mut done = subagent.transcript;
            done.subagents.clear();
            transcript.subagents.insert(session, done);
        }
        transcript
    }

    fn line(&mut self, line: &str) {
        let message = json::tree(line).unwrap_or_else(|| panic!("not JSON: {line}"));
        let params = &message["params"];
        let Value::Object(update) = params["update"].clone() else {
            return;
        };
        let session = params["sessionId"].as_str().unwrap_or_default();
        match self.subagents.get_mut(session) {
            Some(subagent) => subagent.take(&update),
            None => self.take(&update),
        }
        if let Some(announced) = update.get("sessionId").and_then(Value::as_str)
            && update["sessionUpdate"] == "subagent_update"
        {
            self.subagents.entry(announced.to_owned()).or_default();
        }
    }

    fn take(&mut self, update: &Map<String, Value>) {
        let name = update["sessionUpdate"].as_str().unwrap_or_default();
        if let Some(role) = Role::of_chunk(name)
            && let Some(id) = update["messageId"].as_str()
        {
            self.chunk(role, id);
        }
        if let Some(update) = self.turned_back(name, update.clone()) {
            self.transcript.update(&Value::Object(update).to_string());
        }
    }

    fn chunk(&mut self, role: Role, id: &str) {
        if self.messages.insert(id.to_owned()) {
            return;
        }
        let last = self.transcript.entries.last();
        let goes_on = matches!(last, Some(TranscriptEntry::Message { role: last, message_id: Some(last_id), .. })
            if *last == role && last_id == id);
        assert!(goes_on, "{id} stands further up");
    }

    fn turned_back(
        &mut self,
        name: &str,
        mut update: Map<String, Value>,
    ) -> Option<Map<String, Value>> {
        match name {
            "terminal_update" | "terminal_output_chunk" | "state_update" => return None,
            "tool_call_update" => {
                for (key, value) in &update {
                    let is_raw = key == "rawInput" || key == "rawOutput";
                    assert!(is_raw || !value.is_null(), "{key} is cleared");
                }
                if let Some(id) = update["toolCallId"].as_str()
                    && self.calls.insert(id.to_owned())
                {
                    update["sessionUpdate"] = json!("tool_call");
                }
                for item in list(update.get_mut("content")) {
                    content_back(item);
                }
                for place in list(update.get_mut("locations")) {
                    if let Some(note) = note_out_of(place) {
                        place["line"] = note["line"].clone();
                    }
                }
            }
            "plan_update" if update["plan"]["planId"] == plan::ID => {
                let Some(Value::Object(mut plan)) = update.remove("plan") else {
                    panic!("a plan that is none");
                };
                update.insert("entries".to_owned(), plan.remove("entries")?);
                update["sessionUpdate"] = json!("plan");
            }
            "available_commands_update" => {
                for command in list(update.get_mut("availableCommands")) {
                    without(command, "type");
                    if let Some(input) = command.get_mut("input") {
                        without(input, "type");
                    }
                }
            }
            modes::CHANGED => update["sessionUpdate"] = json!("current_mode_update"),
            "config_option_update" => {
                let mut whole = Value::Object(update);
                let note = note_out_of(&mut whole);
                let Value::Object(back) = whole else {
                    return None;
                };
                update = back;
                if let Some(note) = note {
                    update.remove("configOptions");
                    update["sessionUpdate"] = json!("current_mode_update");
                    update.insert("currentModeId".to_owned(), note["currentModeId"].clone());
                } else {
                    for option in list(update.get_mut("configOptions")) {
                        rename(option, "configId", "id");
                        for value in list(option.get_mut("options")) {
                            rename(value, "groupId", "group");
                        }
                    }
                }
            }
            _ => {}
        }
        Some(update)
    }
}

fn content_back(item: &mut Value) {
    let note = note_out_of(item);
    match (item["type"].as_str(), note) {
        (Some("diff"), Some(Value::Object(texts))) => {
            let path = item["changes"][0]["path"].clone();
            without(item, "changes");
            without(item, "patch");
            item["path"] = path;
            for (key, text) in texts {
                item[key] = text;
            }
        }
        (Some("content"), Some(note)) => *item = note["terminal"].clone(),
        _ => {}
    }
}

/// Removes our note from the `_meta` of an object, and the `_meta` too if it is then empty.
fn note_out_of(object: &mut Value) -> Option<Value> {
    let meta = object.get_mut("_meta")?.as_object_mut()?;
    let note = meta.remove("rejoin")?;
    if meta.is_empty() {
        without(object, "_meta");
    }
    Some(note)
}

fn list(value: Option<&mut Value>) -> &mut [Value] {
    match value {
        Some(Value::Array(items)) => items,
        _ => &mut [],
    }
}

fn without(object: &mut Value, key: &str) {
    if let Value::Object(members) = object {
        members.remove(key);
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Value::Object(members) = object
        && let Some(value) = members.remove(from)
    {
        members.insert(to.to_owned(), value);
    }
}

/// A transcript without what differs between the versions: the ids of messages, and fields of tool
/// calls without information.
pub(in crate::protocol) fn bare(mut transcript: Transcript) -> Value {
    strip(&mut transcript);
    serde_json::to_value(transcript).unwrap()
}

fn strip(transcript: &mut Transcript) {
    transcript.subagents.values_mut().for_each(strip);
    for entry in &mut transcript.entries {
        match entry {
            TranscriptEntry::Message { message_id, .. } => *message_id = None,
            TranscriptEntry::ToolCall { call, .. } => call
                .retain(|key, value| !value.is_null() || key == "rawInput" || key == "rawOutput"),
            _ => {}
        }
    }
}

//! Antigravity CLI: one folder for each conversation, `brain/ID`, in which
//! `.system_generated/logs/transcript.jsonl` has the steps that the user saw as JSON lines. A database
//! beside it has the same for the program, in a form that is not public.
//!
//! Calls of tools have no ids: results follow them in their order.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use memchr::memmem;
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::tool::CallsById;
use super::{FoundConversation, ToolFolders, Wanted, lines};

/// `.gemini/antigravity-cli/brain` in the home folder.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places.home.join(".gemini/antigravity-cli/brain")
}

/// `ID/.system_generated/logs/transcript.jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    matches!(
        super::parts(path)[..],
        [_, ".system_generated", "logs", "transcript.jsonl"]
    )
}

pub(super) fn read(found: &FoundConversation, bytes: &[u8], _: Wanted<'_>) -> ToolConversation {
    let lines = lines::objects(bytes);
    let id = found.path.ancestors().nth(3).and_then(Path::file_name);
    let id = id.and_then(|name| name.to_str());
    let cwd = id.and_then(|id| workspace(found, id));
    let cwd = cwd.or_else(|| lines.objects.iter().find_map(folder_of));
    let mut reader = AntigravityReader::default();
    reader.builder.folder(cwd.as_deref());
    for step in &lines.objects {
        reader.step(step);
    }
    let conversation = reader.builder.finish(id.map(str::to_owned), cwd);
    conversation.damaged(lines.damage)
}

/// The history of prompts, which names the folder of each conversation.
fn history(found: &FoundConversation) -> PathBuf {
    found.root.with_file_name("history.jsonl")
}

/// The folder of a conversation.
fn workspace(found: &FoundConversation, id: &str) -> Option<String> {
    let bytes = super::bytes(&history(found)).ok()?;
    memmem::find_iter(&bytes, id.as_bytes()).find_map(|at| {
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |line| line + 1);
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
        let line = lines::objects(&bytes[start..end]).objects.pop()?;
        let folder = line["workspace"]
            .as_str()
            .filter(|_| line["conversationId"] == id);
        folder
            .filter(|folder| !folder.is_empty())
            .map(str::to_owned)
    })
}

/// The folder in which a step has run a command, if it is not that of the program.
fn folder_of(step: &Value) -> Option<String> {
    let mut calls = step["tool_calls"].as_array()?.iter();
    calls.find_map(|call| {
        let folder = plain(&call["args"]["Cwd"]);
        let folder = folder.as_str()?;
        let is_own = folder.contains(".gemini/antigravity");
        (!is_own && !folder.is_empty()).then(|| folder.to_owned())
    })
}

#[derive(Debug, Default)]
struct AntigravityReader {
    builder: ConversationBuilder,
    calls: CallsById,
    /// The calls without a result.
    waiting: VecDeque<String>,
}

impl AntigravityReader {
    fn step(&mut self, step: &Value) {
        let at = self.builder.time(step["created_at"].as_str());
        let number = step["step_index"].to_string();
        let id = Some(number.as_str());
        let said = step["content"].as_str().unwrap_or_default();
        match (step["type"].as_str(), step["source"].as_str()) {
            (Some("USER_INPUT"), _) => {
                self.waiting.clear();
                if let Some(model) = model(said) {
                    self.builder.state(&Value::Null, &model.into());
                }
                let typed = typed(said);
                let blocks = (!typed.is_empty()).then(|| text(typed));
                self.builder.user(at, id, blocks.into_iter().collect());
            }
            (Some("PLANNER_RESPONSE"), _) => {
                let thought = as_text(&step["thinking"]);
                self.builder.thought_of(at, id, &thought);
                self.builder.agent(at, id, text(said));
                let calls = step["tool_calls"].as_array().into_iter().flatten();
                for (place, call) in calls.enumerate() {
                    self.call(at, format!("{number}-{place}"), call);
                }
            }
            (Some("ERROR_MESSAGE"), _) => {
                let message = said.strip_prefix("Error: ").unwrap_or(said);
                self.builder.error(at, id, message);
            }
            // What is for the model.
            (
                Some(
                    "EPHEMERAL_MESSAGE" | "CONVERSATION_HISTORY" | "CHECKPOINT" | "SYSTEM_MESSAGE",
                ),
                _,
            ) => {}
            // Each other step of the model is what its call has brought.
            (Some(_), Some("MODEL")) if !self.waiting.is_empty() => self.result(at, step, said),
            (kind, _) => self.builder.unknown(kind),
        }
    }

    fn call(&mut self, at: Timestamp, id: String, call: &Value) {
        let Some(name) = call["name"].as_str() else {
            return;
        };
        let mut input = call["args"].clone();
        for (_, value) in input.as_object_mut().into_iter().flatten() {
            *value = plain(value);
        }
        let title = input["toolAction"].as_str().map(str::to_owned);
        self.calls
            .begin(&mut self.builder, at, &id, name, input, title.as_deref());
        self.waiting.push_back(id);
    }

    fn result(&mut self, at: Timestamp, step: &Value, said: &str) {
        let call = self.waiting.pop_front().unwrap_or_default();
        let has_failed = said.contains("The command failed")
            || matches!(step["status"].as_str(), Some("ERROR" | "CANCELED"));
        let output = output(said).into();
        self.calls
            .end(&mut self.builder, at, &call, !has_failed, &output, None);
    }
}

/// An argument, which is JSON in a string.
fn plain(argument: &Value) -> Value {
    let parsed = argument
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| argument.clone())
}

/// What a tool has brought, without the times around it.
fn output(said: &str) -> String {
    let lines = said.lines().filter(|line| {
        let is_time = ["Created At: ", "Completed At: "];
        !is_time.iter().any(|start| line.starts_with(start))
    });
    let lines: Vec<&str> = lines.map(|line| line.trim_start_matches('\t')).collect();
    lines.join("\n").trim().to_owned()
}

/// What the user typed, without the program's notes.
fn typed(said: &str) -> &str {
    if let Some((_, rest)) = said.split_once("<USER_REQUEST>") {
        return rest.split("</USER_REQUEST>").next().unwrap_or(rest).trim();
    }
    let ends = ["<ADDITIONAL_METADATA>", "<USER_SETTINGS_CHANGE>"];
    let end = ends.iter().filter_map(|end| said.find(end)).min();
    said[..end.unwrap_or(said.len())].trim()
}

/// The model that the user has chosen with a prompt.
fn model(said: &str) -> Option<&str> {
    let (_, change) = said.split_once("`Model Selection` from ")?;
    let (_, model) = change.lines().next()?.split_once(" to ")?;
    let model = model.split(". ").next()?.trim_end_matches('.');
    Some(model.trim()).filter(|model| !model.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_what_was_typed() {
        let whole = "<USER_REQUEST>\nSay ok.\n</USER_REQUEST>\n<ADDITIONAL_METADATA>\nNow.\n\
            </ADDITIONAL_METADATA>\n<USER_SETTINGS_CHANGE>\nThe user changed setting `Model \
            Selection` from None to Gemini 3.1 Pro (Low). No need to comment.";
        assert_eq!(typed(whole), "Say ok.");
        assert_eq!(model(whole), Some("Gemini 3.1 Pro (Low)"));
        assert_eq!(typed("Plain.\n<ADDITIONAL_METADATA>x"), "Plain.");
        assert_eq!((typed(""), model("Plain.")), ("", None));
    }

    #[test]
    fn output_is_without_times_and_indentation() {
        let whole = "Created At: x\nCompleted At: y\n\n\t\t\t\tOutput:\n\t\t\t\thello\n\n";
        assert_eq!(output(whole), "Output:\nhello");
    }
}

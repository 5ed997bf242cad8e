//! OpenHands: one folder for each conversation, `conversations/ID`, with a file of JSON for each
//! event in `events`, and the state in `base_state.json`.

use std::path::{Path, PathBuf};

use chrono::{Local, NaiveDateTime};
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::damage::{self, DamagedPlace};
use super::tool::{CallsById, arguments};
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, has_extension};

/// `$OPENHANDS_CONVERSATIONS_DIR`, or `conversations` in `$OPENHANDS_PERSISTENCE_DIR` or
/// `~/.openhands`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    let named = places.variables.get("OPENHANDS_CONVERSATIONS_DIR");
    named.cloned().unwrap_or_else(|| {
        places
            .folder("OPENHANDS_PERSISTENCE_DIR", ".openhands")
            .join("conversations")
    })
}

/// `ID/base_state.json`.
pub(super) fn is_conversation(path: &Path) -> bool {
    matches!(super::parts(path)[..], [_, "base_state.json"])
}

/// The folder with the events, which changes with each.
pub(super) fn state(path: &Path) -> PathBuf {
    path.with_file_name("events")
}

/// The files of the events, in their order.
pub(super) fn others(found: &FoundConversation) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state(&found.path)).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| has_extension(path, &["json"]))
        .collect();
    paths.sort_by_key(|path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // Numbers have at least five digits, and may have more.
        let number = name
            .split('-')
            .nth(1)
            .and_then(|number| number.parse::<u64>().ok());
        (number, name)
    });
    paths
}

pub(super) fn read(found: &FoundConversation, bytes: &[u8], _: Wanted<'_>) -> ToolConversation {
    let (base, kind) = value(bytes);
    let mut damage: Vec<DamagedPlace> = kind
        .map(|kind| DamagedPlace::of(1, kind))
        .into_iter()
        .collect();
    let cwd = base["workspace"]["working_dir"].as_str().map(str::to_owned);
    let mut reader = OpenHandsReader::default();
    reader.builder.folder(cwd.as_deref());
    reader
        .builder
        .state(&Value::Null, &base["agent"]["llm"]["model"]);
    for (number, path) in (1..).zip(others(found)) {
        let (event, kind) = value(&super::bytes(&path).unwrap_or_default());
        damage.extend(kind.map(|kind| DamagedPlace::of(number, kind)));
        if !event.is_null() {
            reader.event(&event);
        }
    }
    // OpenHands knows only the sums of a conversation: they are those of its last turn.
    reader
        .builder
        .spent(None, spent(&base["stats"]["usage_to_metrics"]));
    let folder = found
        .path
        .parent()
        .and_then(|folder| folder.file_name()?.to_str());
    let id = base["id"].as_str().or(folder);
    reader
        .builder
        .finish(id.map(str::to_owned), cwd)
        .damaged(damage)
}

fn value(bytes: &[u8]) -> (Value, Option<damage::DamageKind>) {
    damage::value_or_null(&String::from_utf8_lossy(bytes))
}

/// What the models have cost, each for its use.
fn spent(uses: &Value) -> Spent {
    let mut sum = Spent::default();
    for (_, metrics) in uses.as_object().into_iter().flatten() {
        let usage = &metrics["accumulated_token_usage"];
        let (read, written) = (
            number(&usage["cache_read_tokens"]),
            number(&usage["cache_write_tokens"]),
        );
        let thought = number(&usage["reasoning_tokens"]);
        sum.add(&Spent {
            input: number(&usage["prompt_tokens"]).saturating_sub(read + written),
            output: number(&usage["completion_tokens"]).saturating_sub(thought),
            thought,
            cached_read: read,
            cached_write: written,
            cost: metrics["accumulated_cost"].as_f64().unwrap_or(0.0),
        });
    }
    sum
}

/// A time without a zone, which is that of the machine.
fn time(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text).or_else(|| {
        let local = text.parse::<NaiveDateTime>().ok()?;
        let time = local.and_local_timezone(Local).earliest()?;
        Some(Timestamp::from_millis(time.timestamp_millis()))
    })
}

#[derive(Debug, Default)]
struct OpenHandsReader {
    builder: ConversationBuilder,
    calls: CallsById,
}

impl OpenHandsReader {
    fn event(&mut self, event: &Value) {
        let at = event["timestamp"].as_str().and_then(time);
        let at = self.builder.at(at);
        let id = event["id"].as_str();
        match event["kind"].as_str() {
            Some("MessageEvent") => self.message(at, id, event),
            Some("ActionEvent") => self.action(at, id, event),
            Some("ObservationEvent") => {
                let observation = &event["observation"];
                let ok = observation["is_error"] != true;
                self.result(at, event, ok, observation);
            }
            Some("UserRejectObservation") => {
                self.result(at, event, false, &event["rejection_reason"]);
            }
            Some("AgentErrorEvent") => self.result(at, event, false, &event["error"]),
            Some("ConversationErrorEvent") => {
                let error = as_text(&event["detail"]);
                self.builder.error(at, id, &error);
            }
            Some("Condensation") => {
                self.builder.thought(at, id, &as_text(&event["summary"]));
            }
            Some("InterruptEvent" | "PauseEvent") => self.builder.cancel(),
            Some(
                "SystemPromptEvent"
                | "ConversationStateUpdateEvent"
                | "CondensationRequest"
                | "CondensationSummaryEvent"
                | "HookExecutionEvent"
                | "LLMCompletionLogEvent"
                | "StreamingDeltaEvent"
                | "TokenEvent",
            ) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn message(&mut self, at: Timestamp, id: Option<&str>, event: &Value) {
        let message = &event["llm_message"];
        let blocks: Vec<Value> = blocks(&message["content"]).collect();
        if message["role"] == "user" {
            // A hook or another agent may speak as the user does.
            if event["source"] != "environment" {
                self.builder.user(at, id, blocks);
            }
            return;
        }
        self.thoughts(at, id, message);
        for block in blocks {
            self.builder.agent(at, id, block);
        }
    }

    fn thoughts(&mut self, at: Timestamp, id: Option<&str>, message: &Value) {
        let thinking = message["thinking_blocks"].as_array().into_iter().flatten();
        let thinking: Vec<&str> = thinking
            .filter_map(|block| block["thinking"].as_str())
            .collect();
        let thought = message["reasoning_content"].as_str();
        let thought = thought.map_or_else(|| thinking.join("\n"), str::to_owned);
        self.builder.thought_of(at, id, &thought);
    }

    fn action(&mut self, at: Timestamp, id: Option<&str>, event: &Value) {
        self.thoughts(at, id, event);
        for block in blocks(&event["thought"]) {
            self.builder.agent(at, id, block);
        }
        let name = as_text(&event["tool_name"]);
        let action = &event["action"];
        // The last answer is a call of a tool.
        if name == "finish" {
            let said = as_text(&action["message"]);
            return self.builder.agent(at, id, text(&said));
        }
        if name == "think" {
            return self.builder.thought(at, None, &as_text(&action["thought"]));
        }
        if name == "task_tracker"
            && let Some(plan) = content::plan(&action["task_list"], "title")
        {
            return self.builder.update(at, &plan);
        }
        let given = arguments(&event["tool_call"]["arguments"]);
        let input = if given.is_object() {
            given
        } else {
            action.clone()
        };
        if let Some(call) = event["tool_call_id"].as_str() {
            let title = event["summary"].as_str();
            self.calls
                .begin(&mut self.builder, at, call, &name, input, title);
        }
    }

    fn result(&mut self, at: Timestamp, event: &Value, ok: bool, result: &Value) {
        let call = as_text(&event["tool_call_id"]);
        let parts: Vec<Value> = blocks(&result["content"]).collect();
        let texts = parts.iter().filter_map(|part| part["text"].as_str());
        let mut output = texts.collect::<Vec<_>>().join("\n");
        if output.is_empty() {
            let whole = result.as_str().or(result["output"].as_str());
            whole.unwrap_or_default().clone_into(&mut output);
        }
        let images = parts.into_iter().filter(|part| part["type"] == "image");
        self.calls
            .end(&mut self.builder, at, &call, ok, &output.into(), images);
    }
}

/// The texts and images of a message.
fn blocks(content: &Value) -> impl Iterator<Item = Value> {
    let parts = content.as_array().into_iter().flatten();
    parts.flat_map(|part| {
        let said = part["text"].as_str().filter(|said| !said.is_empty());
        let images = part["image_urls"].as_array().into_iter().flatten();
        let images = images.filter_map(|url| content::data_image(url.as_str()?));
        said.map(text).into_iter().chain(images).collect::<Vec<_>>()
    })
}

//! The records of Claude Code as updates of the protocol.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::record::title;
use crate::sys::Timestamp;

use super::super::branch::{blocks, message_id};
use super::super::content::{self, as_text};
use super::super::conversation::ConversationBuilder;
use super::super::usage::{Spent, number};
use super::tools;

/// Reads records in the order of the file.
#[derive(Debug)]
pub(super) struct ClaudeCodeReader {
    builder: ConversationBuilder,
    /// The tools of calls: what a result looks like depends on it.
    calls: HashMap<String, (String, Value)>,
    /// The tasks of a plan by their ids.
    tasks: BTreeMap<u64, Value>,
    titles: TitleCandidates,
    /// Whether there was a prompt that is no command.
    prompted: bool,
}

/// Titles, by how much they count.
#[derive(Debug, Default)]
struct TitleCandidates {
    custom: Option<String>,
    generated: Option<String>,
    /// The first prompt, if commands came before it: they would be the title.
    prompt: Option<String>,
}

/// The beginnings of texts in the user's records that no user wrote.
const NOT_PROMPTS: [&str; 8] = [
    "<local-command-caveat>",
    "Caveat: The messages below",
    "Base directory for this skill",
    "<task-notification>",
    "<system-reminder>",
    "<local-command-stderr>",
    "<user-memory-input>",
    "<bash-stderr>",
];

/// Records that are no part of a conversation.
const SKIPPED: [&str; 29] = [
    "progress",
    "file-history-snapshot",
    "file-history-delta",
    "queue-operation",
    "mode",
    "permission-mode",
    "last-prompt",
    "atis-latch",
    "bridge-session",
    "pr-link",
    "relocated",
    "worktree-state",
    "frame-link",
    "agent-name",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "api-request-resumed",
    "content-replacement",
    "derived-from",
    "ended-by-model",
    "fork-context-ref",
    "history-suppression",
    "host-row",
    "observer-ref",
    "resume-head-vouch",
    "tools-used",
    "tag",
    "summary",
];

impl ClaudeCodeReader {
    pub(super) fn new(builder: ConversationBuilder) -> Self {
        Self {
            builder,
            calls: HashMap::new(),
            tasks: BTreeMap::new(),
            titles: TitleCandidates::default(),
            prompted: false,
        }
    }

    /// The conversation that was read.
    pub(super) fn finish(mut self) -> ConversationBuilder {
        let titles = self.titles;
        if let Some(title) = titles.custom.or(titles.generated).or(titles.prompt) {
            self.builder.title(&title);
        }
        self.builder
    }

    pub(super) fn record(&mut self, record: &Value) {
        let at = self.builder.time(record["timestamp"].as_str());
        let model = &record["message"]["model"];
        self.builder.state(&record["gitBranch"], model);
        self.builder.folder(record["cwd"].as_str());
        match record["type"].as_str() {
            Some("user") => self.user(at, record),
            Some("assistant") => self.assistant(at, record),
            Some("system") => self.system(at, record),
            Some("attachment") => self.attachment(at, record),
            Some("custom-title") => set(&mut self.titles.custom, &record["customTitle"]),
            Some("cost-state") => {
                if let Some(total) = record["totalCostUSD"].as_f64() {
                    self.builder.total_cost(total);
                }
            }
            Some("ai-title") => set(&mut self.titles.generated, &record["aiTitle"]),
            Some(kind) if SKIPPED.contains(&kind) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn user(&mut self, at: Timestamp, record: &Value) {
        let content = &record["message"]["content"];
        if record["isCompactSummary"] == true {
            return self.compaction(at, record);
        }
        let id = record["uuid"].as_str();
        if let Some(text) = content.as_str() {
            if record["isMeta"] != true {
                self.user_text(at, id, text);
            }
            return;
        }
        let mut prompt = Vec::new();
        for block in blocks(record) {
            match block["type"].as_str() {
                Some("tool_result") => self.result(at, block, &record["toolUseResult"]),
                Some("text") if record["isMeta"] != true => {
                    let text = block["text"].as_str().unwrap_or_default();
                    match shown(text) {
                        UserText::Prompt(text) => {
                            self.prompted(text);
                            prompt.push(content::text(text));
                        }
                        UserText::Interrupted => self.builder.cancel(),
                        UserText::Command(command) => prompt.push(content::text(&command)),
                        UserText::Output(output) => self.output(at, id, &output),
                        UserText::Nothing => {}
                    }
                }
                Some("image") => prompt.extend(image(block)),
                Some("document") => prompt.push(content::text("[document]")),
                // What the program adds for the model.
                Some("text") => {}
                kind => self.builder.unknown(kind),
            }
        }
        self.builder.user(at, id, prompt);
    }

    fn user_text(&mut self, at: Timestamp, id: Option<&str>, text: &str) {
        match shown(text) {
            UserText::Prompt(text) => {
                self.prompted(text);
                self.builder.user(at, id, vec![content::text(text)]);
            }
            UserText::Command(text) => self.builder.user(at, id, vec![content::text(&text)]),
            UserText::Output(output) => self.output(at, id, &output),
            UserText::Interrupted => self.builder.cancel(),
            UserText::Nothing => {}
        }
    }

    /// Notes a prompt for the title.
    fn prompted(&mut self, text: &str) {
        let is_first = !std::mem::replace(&mut self.prompted, true);
        if is_first && self.builder.has_prompt() {
            self.titles.prompt = title::of_text(text);
        }
    }

    /// The output of a command of the user.
    fn output(&mut self, at: Timestamp, id: Option<&str>, output: &str) {
        if let Some(block) = content::console(&without_escapes(output)) {
            self.builder.agent(at, id, block["content"].clone());
        }
    }

    fn assistant(&mut self, at: Timestamp, record: &Value) {
        let id = message_id(record).or(record["uuid"].as_str());
        let usage = &record["message"]["usage"];
        let spent = Spent {
            input: number(&usage["input_tokens"]),
            output: number(&usage["output_tokens"]),
            cached_read: number(&usage["cache_read_input_tokens"]),
            cached_write: number(&usage["cache_creation_input_tokens"]),
            thought: 0,
            cost: record["costUSD"].as_f64().unwrap_or(0.0),
        };
        self.builder.spent(id, spent);
        if let Some(text) = record["message"]["content"].as_str() {
            self.builder.agent(at, id, content::text(text));
        }
        for block in blocks(record) {
            match block["type"].as_str() {
                Some("text") => {
                    let text = block["text"].as_str().unwrap_or_default();
                    self.builder.agent(at, id, content::text(text));
                }
                Some("thinking") => {
                    let thinking = block["thinking"].as_str().unwrap_or_default();
                    self.builder.thought_of(at, id, thinking);
                }
                Some("tool_use" | "server_tool_use") => self.call(at, block),
                Some("redacted_thinking") => {}
                kind => self.builder.unknown(kind),
            }
        }
    }

    fn call(&mut self, at: Timestamp, block: &Value) {
        let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) else {
            return;
        };
        let input = &block["input"];
        match name {
            "TodoWrite" => {
                if let Some(plan) = content::plan(&input["todos"], "content") {
                    self.builder.update(at, &plan);
                }
            }
            "TaskCreate" | "TaskUpdate" | "TaskList" | "TaskGet" => {}
            _ => self.builder.call(at, tools::call(id, name, input)),
        }
        let known = (name.to_owned(), input.clone());
        self.calls.insert(id.to_owned(), known);
    }

    fn result(&mut self, at: Timestamp, block: &Value, structured: &Value) {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let Some((name, input)) = self.calls.get(id) else {
            return;
        };
        let ok = block["is_error"] != true;
        if ok && matches!(name.as_str(), "TaskCreate" | "TaskUpdate") {
            return self.task(at, id, structured);
        }
        let update = tools::result(name, input, block, structured, ok);
        self.builder.result(at, id, ok, update);
    }

    /// A change of one task of the plan.
    fn task(&mut self, at: Timestamp, call: &str, structured: &Value) {
        let Some((_, input)) = self.calls.get(call) else {
            return;
        };
        let number = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        };
        let id = number(&structured["task"]["id"]).or_else(|| number(&input["taskId"]));
        let Some(id) = id else { return };
        if input["status"] == "deleted" {
            self.tasks.remove(&id);
        } else {
            let task = self.tasks.entry(id).or_insert_with(|| json!({}));
            for (from, to) in [("subject", "content"), ("status", "status")] {
                if !input[from].is_null() {
                    task[to] = input[from].clone();
                }
            }
        }
        let steps: Value = self.tasks.values().cloned().collect();
        if let Some(plan) = content::plan(&steps, "content") {
            self.builder.update(at, &plan);
        }
    }

    fn system(&mut self, at: Timestamp, record: &Value) {
        let id = record["uuid"].as_str();
        let text = record["content"].as_str().unwrap_or_default();
        match record["subtype"].as_str() {
            Some("local_command") => self.user_text(at, id, text),
            Some("informational" | "api_refusal") => {
                self.builder.agent(at, id, content::text(text));
            }
            Some("api_error") => {
                let error = &record["error"];
                let message = [&error["error"]["error"]["message"], &error["message"]];
                let message = message.into_iter().find_map(Value::as_str);
                let text = message.map(|message| format!("The API returned an error: {message}"));
                self.builder
                    .agent(at, id, content::text(&text.unwrap_or_default()));
            }
            _ => {}
        }
    }

    /// A prompt that was typed while the agent worked is recorded only here.
    fn attachment(&mut self, at: Timestamp, record: &Value) {
        let attachment = &record["attachment"];
        if attachment["type"] != "queued_command" {
            return;
        }
        let id = record["uuid"].as_str();
        match &attachment["prompt"] {
            Value::String(text) => self.user_text(at, id, text),
            Value::Array(blocks) => {
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                let mut prompt: Vec<Value> = texts.map(content::text).collect();
                prompt.extend(blocks.iter().filter_map(image));
                self.builder.user(at, id, prompt);
            }
            _ => {}
        }
    }

    /// The summary of what came before, which the agent goes on with.
    fn compaction(&mut self, at: Timestamp, record: &Value) {
        let content = &record["message"]["content"];
        let parts = blocks(record).iter().map(|block| as_text(&block["text"]));
        let text = content.as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| parts.collect());
        let id = record["uuid"].as_str().map(|id| format!("{id}-summary"));
        self.builder.thought(at, id.as_deref(), &text);
    }
}

fn set(title: &mut Option<String>, value: &Value) {
    let text = value.as_str().filter(|text| !text.trim().is_empty());
    if let Some(text) = text {
        *title = Some(text.to_owned());
    }
}

/// The kind of text in a user's record.
enum UserText<'a> {
    Prompt(&'a str),
    /// A slash command or a shell command that the user typed.
    Command(String),
    /// The output of such a command.
    Output(String),
    Interrupted,
    Nothing,
}

fn shown(text: &str) -> UserText<'_> {
    let text = without_editor_notes(text);
    if text.starts_with("[Request interrupted by user") {
        return UserText::Interrupted;
    }
    if let Some(name) = tag(text, "command-name") {
        let args = tag(text, "command-args").unwrap_or_default();
        return UserText::Command(format!("{name} {args}").trim_end().to_owned());
    }
    if let Some(command) = tag(text, "bash-input") {
        return UserText::Command(format!("!{command}"));
    }
    let output = tag(text, "local-command-stdout").or_else(|| tag(text, "bash-stdout"));
    if let Some(output) = output {
        let errors = tag(text, "bash-stderr").unwrap_or_default();
        return UserText::Output(format!("{output}{errors}"));
    }
    let is_other = NOT_PROMPTS.iter().any(|start| text.starts_with(start));
    if is_other || text.trim().is_empty() {
        return UserText::Nothing;
    }
    UserText::Prompt(text)
}

/// The text after the notes about open files that an editor puts before a prompt.
fn without_editor_notes(mut text: &str) -> &str {
    for name in ["ide_opened_file", "ide_selection"] {
        let start = format!("<{name}>");
        let end = format!("</{name}>");
        while let Some((_, rest)) = text
            .strip_prefix(&start)
            .and_then(|rest| rest.split_once(&end))
        {
            text = rest.trim_start();
        }
    }
    text
}

/// The text in the first element of this name.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

fn image(block: &Value) -> Option<Value> {
    let source = &block["source"];
    let data = source["data"].as_str()?;
    Some(content::image(source["media_type"].as_str()?, data))
}

/// Text without the sequences that colour it in a terminal.
fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if rest.next() == Some('[') {
            rest.by_ref().find(|c| ('@'..='~').contains(c));
        }
    }
    plain
}

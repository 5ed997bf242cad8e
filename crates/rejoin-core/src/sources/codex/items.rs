//! The lines of a rollout as updates of the protocol.
//!
//! Most of a conversation is in the file twice: as events for the interface, and as items for the
//! model. Events are what the user saw, so of each kind they are preferred; tool calls are taken from
//! the items, with the longer of the results.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::super::content::{self, as_text, console, of_call, text};
use super::super::conversation::{ConversationBuilder, NewCall, ToolConversation};
use super::super::tool::arguments;
use super::super::usage::{Spent, number};
use super::tool::CodexTool;
use super::{command, patch};

/// Reads records in the order of the file.
#[derive(Debug)]
pub(super) struct CodexReader<'a> {
    builder: ConversationBuilder,
    id: Option<String>,
    cwd: Option<String>,
    is_subagent: bool,
    /// Whether there are events of prompts, answers, thoughts and searches, so that their items are skipped.
    events: [bool; 4],
    /// The outputs of tool calls, by their ids.
    outputs: HashMap<&'a str, &'a Value>,
    /// The kinds of tool calls, by their ids.
    calls: HashMap<&'a str, CodexTool>,
    /// The calls of commands that go on, by the number of their terminal, with the output so far.
    running: HashMap<String, (&'a str, String)>,
    /// The threads of subagents, with the calls that started them.
    threads: Vec<(String, String)>,
    unknown: usize,
    /// The tokens that the thread has used: input, that from a cache, output, that of thoughts.
    used: [u64; 4],
    /// How many times they were counted.
    counts: usize,
}

const EVENTS: [&str; 4] = [
    "user_message",
    "agent_message",
    "agent_reasoning",
    "web_search_end",
];

/// The beginnings of the user's texts that no user wrote.
const NOT_PROMPTS: [&str; 6] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<turn_aborted>",
    "# AGENTS.md instructions",
    "<skill>",
];

impl<'a> CodexReader<'a> {
    pub(super) fn new(builder: ConversationBuilder, records: &'a [Value]) -> Self {
        let mut events = [false; 4];
        let mut outputs = HashMap::new();
        for record in records {
            let (kind, payload) = parts(record);
            let is = payload["type"].as_str().unwrap_or_default();
            if kind == "event_msg" {
                for (known, name) in events.iter_mut().zip(EVENTS) {
                    *known |= is == name;
                }
            } else if is.ends_with("_call_output")
                && let Some(call) = payload["call_id"].as_str()
            {
                outputs.insert(call, &payload["output"]);
            }
        }
        Self {
            builder,
            id: None,
            cwd: None,
            is_subagent: false,
            events,
            outputs,
            calls: HashMap::new(),
            running: HashMap::new(),
            threads: Vec::new(),
            unknown: 0,
            used: [0; 4],
            counts: 0,
        }
    }

    /// The conversation; an empty one if it is a subagent's, which is a part of another one.
    pub(super) fn finish(self) -> ToolConversation {
        let id = self.id.filter(|_| !self.is_subagent);
        self.builder.finish(id, self.cwd).counted(self.unknown, 0)
    }

    /// The conversation that was read, if it is a subagent's.
    pub(super) fn of_subagent(self) -> Option<ConversationBuilder> {
        self.is_subagent.then_some(self.builder)
    }

    /// The threads of subagents, with the calls that started them.
    pub(super) fn threads(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.threads)
    }

    pub(super) fn record(&mut self, record: &'a Value) {
        let at = self.builder.time(record["timestamp"].as_str());
        let (kind, payload) = parts(record);
        match kind {
            "session_meta" => self.head(payload),
            "response_item" => self.item(at, payload),
            "event_msg" => self.event(at, payload),
            "compacted" => {
                let summary = payload["message"].as_str().unwrap_or_default();
                self.builder.thought(at, None, summary);
            }
            "turn_context" => self.builder.state(&Value::Null, &payload["model"]),
            "world_state"
            | "inter_agent_communication"
            | "inter_agent_communication_metadata"
            | "token_usage_record" => {}
            _ => self.unknown += 1,
        }
    }

    /// The head of the file. Further ones are those of threads that this one was forked from.
    fn head(&mut self, head: &Value) {
        if self.id.is_some() {
            return;
        }
        self.id = head["id"].as_str().map(str::to_owned);
        self.cwd = head["cwd"].as_str().map(str::to_owned);
        self.is_subagent = !head["source"]["subagent"].is_null();
        self.builder.state(&head["git"]["branch"], &Value::Null);
    }

    fn item(&mut self, at: Timestamp, item: &'a Value) {
        let [prompts, answers, thoughts, searches] = self.events;
        match item["type"].as_str() {
            Some("message") => match item["role"].as_str() {
                Some("user") if !prompts => self.prompt(at, &blocks(item)),
                Some("assistant") if !answers => {
                    for block in blocks(item) {
                        self.builder.agent(at, item["id"].as_str(), block);
                    }
                }
                _ => {}
            },
            Some("reasoning") if !thoughts => {
                let parts = [&item["summary"], &item["content"]].into_iter();
                let parts = parts.filter_map(Value::as_array).flatten();
                let parts = parts.filter_map(|part| part["text"].as_str());
                let thought = parts.collect::<Vec<_>>().join("\n\n");
                self.builder.thought(at, item["id"].as_str(), &thought);
            }
            Some(
                "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call",
            ) => {
                self.call(at, item);
            }
            Some(kind) if kind.ends_with("_call_output") || kind == "tool_search_output" => {
                self.output(at, item);
            }
            Some("web_search_call") if !searches => self.search(at, item),
            Some(
                "reasoning"
                | "web_search_call"
                | "ghost_snapshot"
                | "agent_message"
                | "image_generation_call"
                | "compaction"
                | "compaction_trigger",
            ) => {}
            _ => self.unknown += 1,
        }
    }

    fn prompt(&mut self, at: Timestamp, blocks: &[Value]) {
        let is_prompt = |block: &&Value| {
            let text = block["text"].as_str();
            text.is_none_or(|text| !NOT_PROMPTS.iter().any(|start| text.starts_with(start)))
        };
        let blocks: Vec<Value> = blocks.iter().filter(is_prompt).cloned().collect();
        self.builder.user(at, None, blocks);
    }

    fn call(&mut self, at: Timestamp, item: &'a Value) {
        let Some(id) = item["call_id"].as_str() else {
            return;
        };
        let name = item["name"].as_str().unwrap_or_default();
        let given = ["arguments", "input", "action"].map(|name| &item[name]);
        let given = given.into_iter().find(|value| !value.is_null());
        let given = given.unwrap_or(&Value::Null);
        let input = arguments(given);
        if name == "update_plan" {
            if let Some(plan) = content::plan(&input["plan"], "step") {
                self.builder.update(at, &plan);
            }
            return;
        }
        if matches!(name, "write_stdin" | "wait") && input["session_id"].is_number() {
            self.calls.insert(id, CodexTool::Input);
            let session = input["session_id"].to_string();
            if let Some(output) = self.outputs.get(id) {
                self.continued(at, &session, &command::output(output));
            }
            return;
        }
        let tool = CodexTool::of(name, item, &input);
        self.calls.insert(id, tool);
        let mut call = tool.call(id, name, &input);
        if let Some(cwd) = &self.cwd {
            call.resolve(cwd);
        }
        self.builder.call(at, call);
    }

    /// Notes the thread of a subagent that a call started.
    fn thread(&mut self, call: &str, thread: &Value) {
        let thread = thread.as_str().map(str::to_owned);
        if let Some(thread) = thread
            && !self.threads.iter().any(|(known, _)| *known == thread)
        {
            self.threads.push((thread, call.to_owned()));
        }
    }

    /// Adds the result of a tool call that the model was given.
    fn output(&mut self, at: Timestamp, item: &'a Value) {
        let Some(id) = item["call_id"].as_str() else {
            return;
        };
        let given = arguments(&item["output"]);
        for name in ["agent_id", "thread_id"] {
            self.thread(id, &given[name]);
        }
        let output = command::output(&item["output"]);
        match self.calls.get(id) {
            Some(CodexTool::Command) => {
                if let Some(session) = &output.running {
                    let running = (id, output.text.clone());
                    self.running.insert(session.clone(), running);
                } else {
                    let ok = !output.failed && output.exit.is_none_or(|code| code == 0);
                    self.end_command(at, id, ok, &output.text);
                }
            }
            // An event has the changes.
            Some(CodexTool::Patch) => {
                let failed = output.failed || output.exit.is_some_and(|code| code != 0);
                let update = if failed {
                    let content: Vec<Value> = console(&output.text).into_iter().collect();
                    json!({ "content": content })
                } else {
                    json!({})
                };
                self.builder.result(at, id, !failed, update);
            }
            Some(CodexTool::Other) => {
                let mut content = Vec::new();
                if !output.text.is_empty() {
                    content.push(of_call(text(&output.text)));
                }
                let images = item["output"].as_array().into_iter().flatten();
                content.extend(images.filter_map(image).map(of_call));
                self.builder
                    .result(at, id, !output.failed, json!({ "content": content }));
            }
            Some(CodexTool::Input) | None => {}
        }
    }

    /// More output of a command that goes on.
    fn continued(&mut self, at: Timestamp, session: &str, output: &command::CommandOutput) {
        let Some((id, so_far)) = self.running.get_mut(session) else {
            return;
        };
        so_far.push_str(&output.text);
        if output.running.is_none()
            && let Some(code) = output.exit
        {
            let (id, text) = (*id, std::mem::take(so_far));
            self.running.remove(session);
            self.end_command(at, id, code == 0, &text);
        }
    }

    fn end_command(&mut self, at: Timestamp, id: &str, ok: bool, output: &str) {
        let content: Vec<Value> = console(output).into_iter().collect();
        self.builder
            .result(at, id, ok, json!({ "content": content }));
    }

    fn event(&mut self, at: Timestamp, event: &'a Value) {
        let id = event["call_id"].as_str();
        match event["type"].as_str() {
            Some("user_message") => {
                let mut blocks = vec![text(event["message"].as_str().unwrap_or_default())];
                let images = event["images"].as_array().into_iter().flatten();
                blocks.extend(images.filter_map(|url| content::data_image(url.as_str()?)));
                let local = event["local_images"].as_array().into_iter().flatten();
                let local = local.filter_map(Value::as_str);
                blocks.extend(local.map(|path| text(&format!("[image {path}]"))));
                self.prompt(at, &blocks);
            }
            Some("agent_message") => {
                let said = event["message"].as_str().unwrap_or_default();
                self.builder.agent(at, None, text(said));
            }
            Some("agent_reasoning") => {
                let thought = event["text"].as_str().unwrap_or_default();
                self.builder.thought(at, None, thought);
            }
            Some("exec_command_end") => {
                let Some(id) = id else { return };
                let seen = self.outputs.get(id).map(|output| command::output(output));
                let seen = seen.map(|output| output.text).unwrap_or_default();
                // The event's output is cut off, the model's may be only the beginning.
                let whole = as_text(&event["aggregated_output"]);
                let output = if whole.len() >= seen.len() {
                    &whole
                } else {
                    &seen
                };
                self.running.retain(|_, (call, _)| *call != id);
                self.end_command(at, id, event["exit_code"].as_i64() == Some(0), output);
            }
            Some("patch_apply_end") => {
                let Some(id) = id else { return };
                let ok = event["success"] != false;
                let mut content = patch::applied(&event["changes"]);
                if !ok {
                    content.extend(console(&as_text(&event["stderr"])));
                }
                self.builder
                    .result(at, id, ok, json!({ "content": content }));
            }
            Some("collab_agent_spawn_end") => {
                self.thread(id.unwrap_or_default(), &event["new_thread_id"]);
            }
            Some("mcp_tool_call_end") => self.mcp(at, event),
            Some("web_search_end") => self.search(at, event),
            Some("turn_aborted") => self.builder.cancel(),
            Some("error") => {
                let message = as_text(&event["message"]);
                if !message.is_empty() {
                    self.builder.error(at, None, &message);
                }
            }
            Some("thread_rolled_back") => {
                let turns = event["num_turns"].as_u64().unwrap_or(0);
                self.builder.remove_turns(turns);
            }
            Some("thread_name_updated") => {
                self.builder.title(&as_text(&event["thread_name"]));
            }
            Some("token_count") => {
                let info = &event["info"];
                let used = info["last_token_usage"]["total_tokens"].as_u64();
                let size = info["model_context_window"].as_u64();
                if let (Some(used), Some(size)) = (used, size) {
                    self.builder.usage(used, size);
                }
                self.spent(&info["total_token_usage"]);
            }
            // Others are about the state of the program, or repeat what the items have.
            _ => {}
        }
    }

    /// Adds what a thread has used since it was last counted. The same count may be repeated, and an
    /// event may have none.
    fn spent(&mut self, total: &Value) {
        if !total.is_object() {
            return;
        }
        let names = [
            "input_tokens",
            "cached_input_tokens",
            "output_tokens",
            "reasoning_output_tokens",
        ];
        let now = names.map(|name| number(&total[name]));
        let before = std::mem::replace(&mut self.used, now);
        // A forked thread may count from the beginning.
        let is_new = now.iter().zip(before).any(|(now, before)| *now < before);
        let since = |at: usize| now[at] - if is_new { 0 } else { before[at] };
        let [input, cached_read, output, thought] = [since(0), since(1), since(2), since(3)];
        let spent = Spent {
            input: input.saturating_sub(cached_read),
            output: output.saturating_sub(thought),
            thought,
            cached_read,
            ..Spent::default()
        };
        self.counts += 1;
        self.builder.spent(Some(&self.counts.to_string()), spent);
    }

    /// A call of an MCP server's tool, which older versions have no item of.
    fn mcp(&mut self, at: Timestamp, event: &Value) {
        let Some(id) = event["call_id"].as_str() else {
            return;
        };
        let invocation = &event["invocation"];
        if !self.builder.is_open(id) {
            let names = [&invocation["server"], &invocation["tool"]];
            let call = NewCall {
                id,
                title: names.map(as_text).join(": "),
                kind: "other",
                input: &invocation["arguments"],
                locations: Vec::new(),
                content: Vec::new(),
            };
            self.builder.call(at, call);
        }
        let result = &event["result"]["Ok"];
        let blocks = result["content"].as_array().into_iter().flatten();
        let mut content: Vec<Value> = blocks.cloned().map(of_call).collect();
        let error = event["result"]["Err"].as_str();
        content.extend(error.map(|error| of_call(text(error))));
        let ok = error.is_none() && result["isError"] != true;
        self.builder
            .result(at, id, ok, json!({ "content": content }));
    }

    fn search(&mut self, at: Timestamp, item: &Value) {
        let mut ids = ["call_id", "id"].into_iter();
        let id = ids.find_map(|name| item[name].as_str());
        let action = &item["action"];
        let whats = [&item["query"], &action["query"], &action["url"]].into_iter();
        let what = whats
            .filter_map(Value::as_str)
            .find(|what| !what.is_empty());
        let what = what.unwrap_or("the web");
        let id = id.map_or_else(|| format!("search-{}", at.as_millis()), str::to_owned);
        let call = NewCall {
            id: &id,
            title: format!("Search {what}"),
            kind: "fetch",
            input: action,
            locations: Vec::new(),
            content: Vec::new(),
        };
        self.builder.call(at, call);
        self.builder.result(at, &id, true, json!({}));
    }
}

/// The type and the content of a line. Early versions wrote the items by themselves, after a head
/// without a type.
fn parts(record: &Value) -> (&str, &Value) {
    let kind = record["type"].as_str();
    match kind {
        Some(kind) if record["payload"].is_object() => (kind, &record["payload"]),
        Some(_) => ("response_item", record),
        None if record["id"].is_string() => ("session_meta", record),
        None if record["record_type"].is_string() => ("world_state", record),
        None => ("", record),
    }
}

/// The blocks of a message.
fn blocks(item: &Value) -> Vec<Value> {
    let blocks = item["content"].as_array().into_iter().flatten();
    let blocks = blocks.filter_map(|block| {
        let said = block["text"].as_str();
        said.map(text).or_else(|| image(block))
    });
    blocks.collect()
}

fn image(block: &Value) -> Option<Value> {
    content::data_image(block["image_url"].as_str()?)
}

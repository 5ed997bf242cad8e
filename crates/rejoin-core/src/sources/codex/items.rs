//! The lines of a rollout as updates of the protocol.
//!
//! Most of a conversation is in the file two or three times: as items for the model, and for the
//! interface as events (in older versions), as completed items (in newer ones), or as both. What is
//! for the interface is what the user saw, so in each turn it is preferred for each kind of text;
//! tool calls are taken from the items for the model where these have them, with the longer of the
//! results.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
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
    shown: InterfaceReader<'a>,
    /// The outputs of tool calls, by their ids.
    outputs: HashMap<&'a str, &'a Value>,
    /// The ends of commands as the interface got them, by the ids of the calls.
    ends: HashMap<&'a str, &'a Value>,
    /// The kinds of tool calls, by their ids.
    calls: HashMap<&'a str, CodexTool>,
    /// The calls of commands that go on, by the number of their terminal, with the output so far.
    running: HashMap<String, (&'a str, String)>,
    /// The threads of subagents, with the calls that started them.
    threads: Vec<(String, String)>,
    tokens: TokenCount,
}

/// What the interface got, while records are read.
#[derive(Debug)]
struct InterfaceReader<'a> {
    /// What the interface got in each turn. A turn begins with a prompt that it got.
    turns: Vec<Interface>,
    /// The turn that is being read.
    turn: usize,
    /// How many prompts for the model at the beginning of the file are the user's: those of versions
    /// that recorded nothing for the interface.
    old_prompts: usize,
    /// The id of the turn that begins, until it has a prompt.
    turn_id: Option<&'a str>,
    /// The images that the model got with the prompt.
    images: Vec<Value>,
    /// The last prompt that the interface got, until the agent says something; and what the agent
    /// said in the turn: with how many more times as events than as completed items.
    asked: Option<(String, i64)>,
    said: HashMap<(Said, String), i64>,
}

/// The tokens that a thread has used so far.
#[derive(Debug, Default)]
struct TokenCount {
    /// Input, that from a cache, output, that of thoughts.
    used: [u64; 4],
    /// How many times they were counted.
    times: usize,
}

/// Which kinds of text the interface got in a turn, so that those for the model are skipped.
#[derive(Clone, Copy, Debug, Default)]
struct Interface {
    answers: bool,
    thoughts: bool,
    searches: bool,
}

/// A kind of text that the interface got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Said {
    Prompt,
    Answer,
    Thought,
    Search,
}

impl Said {
    /// The kind of text that an event or a completed item has.
    fn of(event: &Value) -> Option<Self> {
        let kind = event["type"].as_str()?;
        Some(match kind {
            "user_message" => Self::Prompt,
            "agent_message" => Self::Answer,
            "agent_reasoning" => Self::Thought,
            "web_search_end" => Self::Search,
            "item_completed" => match event["item"]["type"].as_str()? {
                "UserMessage" => Self::Prompt,
                "AgentMessage" => Self::Answer,
                "Reasoning" => Self::Thought,
                "WebSearch" => Self::Search,
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// The beginnings of the user's texts that no user wrote.
const NOT_PROMPTS: [&str; 18] = [
    "<apps_instructions>",
    "<codex_internal_context",
    "<collaboration_mode",
    "<environment_context>",
    "<goal_context>",
    "<hook_prompt",
    "<image name=",
    "</image>",
    "<model_switch",
    "<permissions",
    "<personality_spec",
    "<recommended_plugins>",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
    "# AGENTS.md instructions",
];

impl<'a> CodexReader<'a> {
    pub(super) fn new(builder: ConversationBuilder, records: &'a [Value]) -> Self {
        let mut turns = vec![Interface::default()];
        let (mut outputs, mut ends) = (HashMap::new(), HashMap::new());
        // The prompts so far, and those with something of the agent behind them.
        let (mut prompts, mut old_prompts) = (0, 0);
        for record in records {
            let (kind, payload) = parts(record);
            let is = payload["type"].as_str().unwrap_or_default();
            if kind == "event_msg" {
                let said = Said::of(payload);
                if said == Some(Said::Prompt) {
                    turns.push(Interface::default());
                }
                if let Some(turn) = turns.last_mut() {
                    turn.answers |= said == Some(Said::Answer);
                    turn.thoughts |= said == Some(Said::Thought);
                    turn.searches |= said == Some(Said::Search);
                }
                let (call, end) = match payload["item"]["type"].as_str() {
                    Some("CommandExecution") => (&payload["item"]["id"], &payload["item"]),
                    _ if is == "exec_command_end" => (&payload["call_id"], payload),
                    _ => continue,
                };
                ends.extend(call.as_str().map(|call| (call, end)));
            } else if kind == "response_item" && turns.len() == 1 {
                if payload["role"] == "user" {
                    prompts += 1;
                } else if payload["role"] == "assistant" || payload["call_id"].is_string() {
                    old_prompts = prompts;
                }
            }
            if is.ends_with("_call_output")
                && let Some(call) = payload["call_id"].as_str()
            {
                outputs.insert(call, &payload["output"]);
            }
        }
        if turns.len() == 1 {
            old_prompts = usize::MAX;
        }
        Self {
            builder,
            id: None,
            cwd: None,
            is_subagent: false,
            shown: InterfaceReader {
                turns,
                turn: 0,
                old_prompts,
                turn_id: None,
                images: Vec::new(),
                asked: None,
                said: HashMap::new(),
            },
            outputs,
            ends,
            calls: HashMap::new(),
            running: HashMap::new(),
            threads: Vec::new(),
            tokens: TokenCount::default(),
        }
    }

    /// The id of the thread, if it is a conversation of its own that has a prompt.
    pub(super) fn id(&self) -> Option<&str> {
        let is_own = !self.is_subagent && self.builder.has_prompt();
        self.id.as_deref().filter(|_| is_own)
    }

    /// The conversation with the name that the user has given to it; an empty one if it is a
    /// subagent's, which is a part of another one.
    pub(super) fn finish(mut self, name: Option<&str>, is_archived: bool) -> ToolConversation {
        let id = self.id.filter(|_| !self.is_subagent);
        if let Some(name) = name {
            self.builder.title(name);
        }
        if is_archived {
            self.builder.archive();
        }
        self.builder.finish(id, self.cwd)
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
            "turn_context" => {
                self.builder.state(&Value::Null, &payload["model"]);
                self.shown.turn_id = payload["turn_id"].as_str();
                self.folder(&payload["cwd"]);
            }
            "world_state"
            | "inter_agent_communication"
            | "inter_agent_communication_metadata"
            | "token_usage_record" => {}
            kind => self.builder.unknown(Some(kind)),
        }
    }

    /// Passes over a record that is a copy of another thread's.
    pub(super) fn skip(&mut self, record: &Value) {
        let (_, event) = parts(record);
        if event["type"] == "token_count" {
            self.tokens.used =
                counted(&event["info"]["total_token_usage"]).unwrap_or(self.tokens.used);
        }
    }

    /// Notes the folder of a turn. One below that of the thread is of a command.
    fn folder(&mut self, folder: &Value) {
        let Some(folder) = folder.as_str().map(plain_path) else {
            return;
        };
        self.builder.folder(Some(&folder));
        let is_other = |cwd: &String| !std::path::Path::new(&folder).starts_with(cwd);
        if self.cwd.as_ref().is_none_or(is_other) {
            self.cwd = Some(folder);
        }
    }

    /// The head of the file. Further ones are those of threads that this one was forked from.
    fn head(&mut self, head: &Value) {
        if self.id.is_some() {
            return;
        }
        self.id = head["id"].as_str().map(str::to_owned);
        self.folder(&head["cwd"]);
        self.is_subagent = !head["source"]["subagent"].is_null();
        self.builder.state(&head["git"]["branch"], &Value::Null);
    }

    fn item(&mut self, at: Timestamp, item: &'a Value) {
        let shown = self
            .shown
            .turns
            .get(self.shown.turn)
            .copied()
            .unwrap_or_default();
        match item["type"].as_str() {
            Some("message") => match item["role"].as_str() {
                Some("user") if self.shown.old_prompts > 0 => {
                    self.shown.old_prompts -= 1;
                    self.prompt(at, blocks(item));
                }
                Some("user") => {
                    let images: Vec<Value> = blocks(item).into_iter().filter(is_image).collect();
                    if !images.is_empty() {
                        self.shown.images = images;
                    }
                }
                Some("assistant") if !shown.answers => {
                    for block in blocks(item) {
                        self.builder.agent(at, item["id"].as_str(), block);
                    }
                }
                _ => {}
            },
            Some("reasoning") if !shown.thoughts => {
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
            Some("web_search_call") if !shown.searches => self.search(at, item),
            Some("image_generation_call") => self.generated(at, &item["id"], item),
            Some(
                "reasoning" | "web_search_call" | "ghost_snapshot" | "agent_message" | "compaction"
                | "compaction_trigger",
            ) => {}
            kind => self.builder.unknown(kind),
        }
    }

    /// Adds a prompt, without what the program has put there.
    fn prompt(&mut self, at: Timestamp, mut blocks: Vec<Value>) {
        blocks.retain(|block| {
            let text = block["text"].as_str();
            text.is_none_or(|text| !NOT_PROMPTS.iter().any(|start| text.starts_with(start)))
        });
        if !blocks.is_empty() {
            let id = self.shown.turn_id.take();
            self.builder.user(at, id, blocks);
        }
    }

    /// Whether a text of the agent that the interface got is new: an event and a completed item may
    /// both have it.
    fn is_new(&mut self, kind: Said, text: &str, is_event: bool) -> bool {
        self.shown.asked = None;
        let known = self.shown.said.entry((kind, text.to_owned())).or_default();
        is_first(known, is_event)
    }

    /// Adds a prompt that the interface got. Of files, the model got the data.
    fn asked(&mut self, at: Timestamp, parts: &[UserInput<'_>], is_event: bool) {
        self.shown.turn += 1;
        let words: String = parts.iter().filter_map(UserInput::text).collect();
        let known = self.shown.asked.take().filter(|(known, _)| *known == words);
        let (_, mut count) = known.unwrap_or_default();
        let is_new = is_first(&mut count, is_event);
        self.shown.asked = Some((words, count));
        if !is_new {
            return;
        }
        self.shown.said.clear();
        let mut given = std::mem::take(&mut self.shown.images);
        for image in parts.iter().filter_map(UserInput::image) {
            if let Some(at) = given.iter().position(|known| *known == image) {
                given.remove(at);
            }
        }
        let mut given = given.into_iter();
        let blocks = parts.iter().map(|part| match part {
            UserInput::Text(said) => text(said),
            UserInput::Image(url) => part
                .image()
                .unwrap_or_else(|| text(&format!("[image {url}]"))),
            UserInput::File(path) => given
                .next()
                .unwrap_or_else(|| text(&format!("[image {path}]"))),
        });
        self.prompt(at, blocks.collect());
    }

    /// Adds an answer or a thought that the interface got.
    fn said(&mut self, at: Timestamp, kind: Said, id: Option<&str>, said: &str, is_event: bool) {
        if !self.is_new(kind, said, is_event) {
            return;
        }
        match kind {
            Said::Thought => self.builder.thought(at, id, said),
            _ => self.builder.agent(at, id, text(said)),
        }
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
        self.builder.call(at, tool.call(id, name, &input));
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
                    self.command_ended(at, id, &output);
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
                self.result(at, id, !output.failed, content);
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
        self.result(at, id, ok, console(output).into_iter().collect());
    }

    /// Ends a call with its content, which may have images.
    fn result(&mut self, at: Timestamp, id: &str, ok: bool, content: Vec<Value>) {
        // A macro would copy it.
        let mut update = json!({});
        update["content"] = content.into();
        self.builder.result(at, id, ok, update);
    }

    /// Ends a command with what the model got of it, and what the interface got.
    fn command_ended(&mut self, at: Timestamp, id: &str, output: &command::CommandOutput) {
        let Some(end) = self.ends.get(id).copied() else {
            let ok = !output.failed && output.exit.is_none_or(|code| code == 0);
            return self.end_command(at, id, ok, &output.text);
        };
        self.running.retain(|_, (call, _)| *call != id);
        // The output for the interface is cut off, the model's may be only the beginning.
        let whole = as_text(&end["aggregated_output"]);
        let shown = if whole.trim_end().len() >= output.text.trim_end().len() {
            &whole
        } else {
            &output.text
        };
        let exit = end["exit_code"].as_i64().or(output.exit);
        let ok = match end["status"].as_str() {
            Some("failed" | "declined") => false,
            _ => !output.failed && exit.is_none_or(|code| code == 0),
        };
        self.end_command(at, id, ok, shown);
    }

    fn event(&mut self, at: Timestamp, event: &'a Value) {
        let id = event["call_id"].as_str();
        match event["type"].as_str() {
            Some("user_message") => {
                let mut parts = vec![UserInput::Text(
                    event["message"].as_str().unwrap_or_default(),
                )];
                let images = event["images"].as_array().into_iter().flatten();
                parts.extend(images.filter_map(|url| Some(UserInput::Image(url.as_str()?))));
                let local = event["local_images"].as_array().into_iter().flatten();
                parts.extend(local.filter_map(|path| Some(UserInput::File(path.as_str()?))));
                self.asked(at, &parts, true);
            }
            Some("agent_message") => {
                let said = event["message"].as_str().unwrap_or_default();
                self.said(at, Said::Answer, None, said, true);
            }
            Some("agent_reasoning") => {
                let thought = event["text"].as_str().unwrap_or_default();
                self.said(at, Said::Thought, None, thought, true);
            }
            Some("item_completed") => self.completed(at, &event["item"]),
            Some("task_started" | "turn_started") => {
                self.shown.turn_id = event["turn_id"].as_str().or(self.shown.turn_id);
            }
            Some("image_generation_end") => self.generated(at, &event["call_id"], event),
            Some("exec_command_end") => {
                let Some(id) = id else { return };
                let seen = self.outputs.get(id).map(|output| command::output(output));
                self.command_ended(at, id, &seen.unwrap_or_default());
            }
            Some("patch_apply_end") => {
                let Some(id) = id else { return };
                let ok = event["success"] != false;
                let mut content = patch::applied(&event["changes"]);
                if !ok {
                    content.extend(console(&as_text(&event["stderr"])));
                }
                self.result(at, id, ok, content);
            }
            Some("collab_agent_spawn_end") => {
                self.thread(id.unwrap_or_default(), &event["new_thread_id"]);
            }
            Some("mcp_tool_call_end") => self.mcp(
                at,
                &event["call_id"],
                &event["invocation"],
                &event["result"]["Ok"],
                event["result"]["Err"].as_str(),
            ),
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

    /// Adds what was completed, as the interface got it.
    fn completed(&mut self, at: Timestamp, item: &'a Value) {
        let id = item["id"].as_str();
        match item["type"].as_str() {
            Some("UserMessage") => {
                let parts = item["content"].as_array().into_iter().flatten();
                let parts = parts.filter_map(UserInput::of).collect::<Vec<_>>();
                self.asked(at, &parts, false);
            }
            Some("AgentMessage") => {
                let parts = item["content"].as_array().into_iter().flatten();
                let said: String = parts.filter_map(|part| part["text"].as_str()).collect();
                self.said(at, Said::Answer, id, &said, false);
            }
            Some("Reasoning") => {
                let summary = item["summary_text"]
                    .as_array()
                    .filter(|parts| !parts.is_empty());
                let parts = summary.or(item["raw_content"].as_array());
                for thought in parts.into_iter().flatten().filter_map(Value::as_str) {
                    self.said(at, Said::Thought, id, thought, false);
                }
            }
            Some("Plan") => self.builder.agent(at, id, text(&as_text(&item["text"]))),
            Some("CommandExecution") => {
                let Some(id) = id else { return };
                let input = || json!({ "command": item["command"] });
                self.begin_completed(at, id, CodexTool::Command, "exec_command", input);
                let seen = self.outputs.get(id).map(|output| command::output(output));
                self.command_ended(at, id, &seen.unwrap_or_default());
            }
            Some("FileChange") => {
                let Some(id) = id else { return };
                let ok = !matches!(item["status"].as_str(), Some("failed" | "declined"));
                let mut content = patch::applied(&item["changes"]);
                if !self.calls.contains_key(id) {
                    self.calls.insert(id, CodexTool::Patch);
                    let call = CodexTool::change(id, &item["changes"], content.clone());
                    self.builder.call(at, call);
                }
                if !ok {
                    content.extend(console(&as_text(&item["stderr"])));
                }
                self.result(at, id, ok, content);
            }
            Some("McpToolCall") => {
                let error = item["error"]["message"].as_str();
                self.mcp(at, &item["id"], item, &item["result"], error);
            }
            Some("WebSearch") => self.search(at, item),
            Some("ImageGeneration") => self.generated(at, &item["id"], item),
            Some("ImageView") => {
                let Some(id) = id else { return };
                let input = || json!({ "path": plain_path(&as_text(&item["path"])) });
                if self.begin_completed(at, id, CodexTool::Other, "view_image", input) {
                    self.builder.result(at, id, true, json!({}));
                }
            }
            Some("DynamicToolCall") => {
                let Some(id) = id else { return };
                let name = item["tool"].as_str().unwrap_or_default();
                let input = || item["arguments"].clone();
                if self.begin_completed(at, id, CodexTool::Other, name, input) {
                    let given = item["content_items"].as_array().into_iter().flatten();
                    let mut content: Vec<Value> = given.filter_map(shown).map(of_call).collect();
                    content.extend(item["error"].as_str().map(|error| of_call(text(error))));
                    let ok = item["success"] != false && item["status"] != "failed";
                    self.result(at, id, ok, content);
                }
            }
            Some("CollabAgentToolCall") => {
                let Some(id) = id else { return };
                let threads = item["receiver_thread_ids"].as_array().into_iter().flatten();
                for thread in threads.filter(|_| item["tool"] == "spawnAgent") {
                    self.thread(id, thread);
                }
                let input = || json!({ "prompt": item["prompt"] });
                if self.begin_completed(at, id, CodexTool::Other, "spawn_agent", input) {
                    self.builder
                        .result(at, id, item["status"] != "failed", json!({}));
                }
            }
            Some("ContextCompaction" | "HookPrompt" | "Sleep" | "SubAgentActivity") => {}
            kind => self.builder.unknown(kind),
        }
    }

    /// Begins a tool call that only the interface got, and is completed. Returns whether it is new.
    fn begin_completed(
        &mut self,
        at: Timestamp,
        id: &'a str,
        tool: CodexTool,
        name: &str,
        input: impl FnOnce() -> Value,
    ) -> bool {
        if self.calls.contains_key(id) {
            return false;
        }
        self.calls.insert(id, tool);
        self.builder.call(at, tool.call(id, name, &input()));
        true
    }

    /// Adds an image that was made, which may be recorded three times.
    fn generated(&mut self, at: Timestamp, id: &'a Value, made: &Value) {
        let Some(id) = id.as_str().filter(|id| !self.calls.contains_key(id)) else {
            return;
        };
        self.calls.insert(id, CodexTool::Other);
        let prompt = as_text(&made["revised_prompt"]);
        let input = json!({ "prompt": prompt });
        let call = NewCall {
            id,
            title: format!("Generate an image: {prompt}"),
            kind: "other",
            input: &input,
            locations: Vec::new(),
            content: Vec::new(),
        };
        self.builder.call(at, call);
        let image = made["result"].as_str().and_then(content::image_of);
        let content: Vec<Value> = image.map(of_call).into_iter().collect();
        let ok = made["status"] != "failed";
        self.result(at, id, ok, content);
    }

    /// Adds what a thread has used since it was last counted. The same count may be repeated, and an
    /// event may have none.
    fn spent(&mut self, total: &Value) {
        let Some(now) = counted(total) else {
            return;
        };
        let before = std::mem::replace(&mut self.tokens.used, now);
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
        self.tokens.times += 1;
        self.builder
            .spent(Some(&self.tokens.times.to_string()), spent);
    }

    /// A call of an MCP server's tool, of which the model may have no item.
    fn mcp(
        &mut self,
        at: Timestamp,
        id: &'a Value,
        called: &Value,
        result: &Value,
        error: Option<&str>,
    ) {
        let Some(id) = id.as_str() else {
            return;
        };
        if !self.builder.is_open(id) {
            if self.calls.insert(id, CodexTool::Other).is_some() {
                return;
            }
            let names = [&called["server"], &called["tool"]];
            let call = NewCall {
                id,
                title: names.map(as_text).join(": "),
                kind: "other",
                input: &called["arguments"],
                locations: Vec::new(),
                content: Vec::new(),
            };
            self.builder.call(at, call);
        }
        let blocks = result["content"].as_array().into_iter().flatten();
        let mut content: Vec<Value> = blocks.cloned().map(of_call).collect();
        content.extend(error.map(|error| of_call(text(error))));
        let ok = error.is_none() && result["isError"] != true;
        self.result(at, id, ok, content);
    }

    fn search(&mut self, at: Timestamp, item: &'a Value) {
        let mut ids = ["call_id", "id"].into_iter();
        let id = ids.find_map(|name| item[name].as_str());
        if id.is_some_and(|id| self.calls.insert(id, CodexTool::Other).is_some()) {
            return;
        }
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

/// The tokens that an event counts: input, that from a cache, output, that of thoughts.
fn counted(total: &Value) -> Option<[u64; 4]> {
    let names = [
        "input_tokens",
        "cached_input_tokens",
        "output_tokens",
        "reasoning_output_tokens",
    ];
    total
        .is_object()
        .then(|| names.map(|name| number(&total[name])))
}

/// Counts a text that may come as an event and as a completed item; returns whether it comes first.
fn is_first(known: &mut i64, is_event: bool) -> bool {
    let step = if is_event { 1 } else { -1 };
    *known += step;
    *known * step > 0
}

/// A path, which newer versions may write as a URL.
fn plain_path(path: &str) -> String {
    match path.strip_prefix("file://") {
        Some(path) => percent_decode_str(path).decode_utf8_lossy().into_owned(),
        None => path.to_owned(),
    }
}

/// A part of a prompt as the interface got it.
#[derive(Clone, Copy, Debug)]
enum UserInput<'a> {
    Text(&'a str),
    /// The URL of an image, which may have its data.
    Image(&'a str),
    /// The path of an image.
    File(&'a str),
}

impl<'a> UserInput<'a> {
    /// A part of a completed item.
    fn of(part: &'a Value) -> Option<Self> {
        match part["type"].as_str()? {
            "text" => part["text"].as_str().map(Self::Text),
            "image" => part["image_url"].as_str().map(Self::Image),
            "local_image" => part["path"].as_str().map(Self::File),
            _ => None,
        }
    }

    fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn image(&self) -> Option<Value> {
        match self {
            Self::Image(url) => content::data_image(url),
            _ => None,
        }
    }
}

/// The blocks of a message.
fn blocks(item: &Value) -> Vec<Value> {
    let blocks = item["content"].as_array().into_iter().flatten();
    blocks.filter_map(shown).collect()
}

/// A text or an image for the model, as a block.
fn shown(part: &Value) -> Option<Value> {
    part["text"].as_str().map(text).or_else(|| image(part))
}

fn image(block: &Value) -> Option<Value> {
    content::data_image(block["image_url"].as_str()?)
}

fn is_image(block: &Value) -> bool {
    block["type"] == "image"
}

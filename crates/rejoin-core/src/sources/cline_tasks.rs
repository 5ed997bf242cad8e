//! The tasks of Cline and its relatives, Roo Code and Kilo Code, as extensions of editors: one folder
//! for each, `tasks/ID`, with what the user saw in `ui_messages.json` and what the model got in
//! `api_conversation_history.json`.

use std::path::{Path, PathBuf};

use memchr::memmem;
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, as_text, diff, text};
use super::conversation::{ConversationBuilder, ToolConversation, UNNAMED};
use super::damage::{self, DamagedPlace};
use super::updates::link;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, tool};

/// The folders with the tasks of an extension with this id, in each editor.
pub(super) fn roots(places: &ToolFolders, extension: &str) -> Vec<PathBuf> {
    let editors = places.editors().into_iter();
    let roots = editors.map(|user| user.join("globalStorage").join(extension).join("tasks"));
    roots.collect()
}

const MESSAGES: &str = "ui_messages.json";

/// `ID/ui_messages.json`.
pub(super) fn is_conversation(path: &Path) -> bool {
    matches!(super::parts(path)[..], [_, MESSAGES])
}

pub(super) fn read(found: &FoundConversation, bytes: &[u8], _: Wanted<'_>) -> ToolConversation {
    let (messages, kind) = damage::value_or_null(&String::from_utf8_lossy(bytes));
    let folder = found.path.parent().unwrap_or(&found.root);
    let id = folder.file_name().and_then(|name| name.to_str());
    let item = history_item(folder, id.unwrap_or_default());
    let names = ["workspace", "cwdOnTaskInitialization"];
    let recorded = names.iter().find_map(|name| item[*name].as_str());
    let cwd = recorded.map(str::to_owned);
    let cwd = cwd.or_else(|| named_folder(&super::bytes(&folder.join(HISTORY)).ok()?));
    let mut reader = TaskReader::default();
    reader.builder.folder(cwd.as_deref());
    reader.builder.state(&Value::Null, &item["modelId"]);
    for message in messages.as_array().into_iter().flatten() {
        reader.message(message);
    }
    let at = reader.builder.at(None);
    reader.end_command(at, true);
    let conversation = reader.builder.finish(id.map(str::to_owned), cwd);
    let damage = kind.map(|kind| DamagedPlace::of(1, kind));
    conversation.damaged(damage.into_iter().collect())
}

/// The files that may have the folder that relative paths are below.
pub(super) fn others(found: &FoundConversation) -> Vec<PathBuf> {
    let folder = found.path.parent().unwrap_or(&found.root);
    let list = folder.ancestors().nth(2).map(|all| all.join(TASKS));
    let beside = [ITEM, HISTORY].map(|name| folder.join(name));
    list.into_iter().chain(beside).collect()
}

/// The list of all tasks, and the entry of one.
const TASKS: &str = "state/taskHistory.json";
const ITEM: &str = "history_item.json";
const HISTORY: &str = "api_conversation_history.json";

/// What the list of tasks has of one: a file beside the task's, or an entry in the list of all.
fn history_item(folder: &Path, id: &str) -> Value {
    let own = super::json_file(&folder.join(ITEM));
    if own.is_object() {
        return own;
    }
    let all = folder.ancestors().nth(2);
    let all = all.map(|all| super::json_file(&all.join(TASKS)));
    let mut items = all.unwrap_or_default();
    let items = items.as_array_mut().map(std::mem::take);
    let mut items = items.unwrap_or_default().into_iter();
    items.find(|item| item["id"] == id).unwrap_or_default()
}

/// The tasks in this folder that the list has as favorites.
pub(super) fn favorites(tasks: PathBuf) -> impl Iterator<Item = String> {
    let mut all = super::json_file(&tasks.with_file_name(TASKS));
    let items = all.as_array_mut().map(std::mem::take).unwrap_or_default();
    let favorites = items.into_iter().filter(|item| item["isFavorited"] == true);
    favorites.filter_map(|item| item["id"].as_str().map(str::to_owned))
}

/// The folder of which the model was notified.
fn named_folder(history: &[u8]) -> Option<String> {
    let names = [
        "Current Working Directory (",
        "Current Workspace Directory (",
    ];
    let start = names.iter().find_map(|name| {
        let at = memmem::find(history, name.as_bytes())?;
        Some(at + name.len())
    })?;
    let rest = &history[start..];
    let end = rest.iter().take(4096).position(|byte| *byte == b')')?;
    // As it is in a string of JSON.
    let quoted = format!("\"{}\"", str::from_utf8(&rest[..end]).ok()?);
    serde_json::from_str(&quoted).ok()
}

#[derive(Debug, Default)]
struct TaskReader {
    builder: ConversationBuilder,
    has_task: bool,
    /// The call of the command that is running, and its output so far.
    command: Option<(String, String)>,
}

/// The messages that are only for the user's interface.
const SKIPPED: [&str; 33] = [
    "api_req_finished",
    "api_req_retried",
    "api_req_retry_delayed",
    "api_req_rate_limit_wait",
    "api_req_deleted",
    "deleted_api_reqs",
    "api_req_failed",
    "resume_task",
    "resume_completed_task",
    "mistake_limit_reached",
    "auto_approval_max_req_reached",
    "shell_integration_warning",
    "shell_integration_warning_with_suggestion",
    "checkpoint_saved",
    "checkpoint_created",
    "mcp_server_request_started",
    "mcp_notification",
    "too_many_tools_warning",
    "condense_context_error",
    "sliding_window_truncation",
    "load_mcp_documentation",
    "info",
    "task_progress",
    "hook_status",
    "hook_output_stream",
    "subagent",
    "subagent_usage",
    "conditional_rules_applied",
    "compaction",
    "browser_action_launch",
    "command_permission_denied",
    "report_bug",
    "user_edit_todos",
];

impl TaskReader {
    fn message(&mut self, message: &Value) {
        let at = message["ts"].as_i64().map(Timestamp::from_millis);
        let at = self.builder.at(at);
        let id = message["ts"]
            .as_i64()
            .map(|ts| format!("{UNNAMED}message_{ts}"));
        let id = id.as_deref();
        let said = message["text"].as_str().unwrap_or_default();
        let kind = message[message["type"].as_str().unwrap_or("say")].as_str();
        let kind = kind.unwrap_or_default();
        if kind != "command_output" && kind != "shell_integration_warning" {
            self.end_command(at, true);
        }
        match kind {
            "task" | "user_feedback" => self.user(at, id, message),
            "text" if !self.has_task => self.user(at, id, message),
            "user_feedback_diff" => {
                let change: Value = serde_json::from_str(said).unwrap_or_default();
                let prompt = format!("```diff\n{}\n```", as_text(&change["diff"]));
                self.builder.user(at, id, vec![text(&prompt)]);
            }
            "text" | "completion_result" | "plan_completion_result" => {
                // The flag is for a button of the extension.
                let said = said.trim_end_matches("HAS_CHANGES");
                self.builder.agent(at, id, text(said));
                for image in images(message) {
                    self.builder.agent(at, id, image);
                }
            }
            "followup" | "plan_mode_respond" | "act_mode_respond" => {
                self.builder.agent(at, id, text(&question(said)));
            }
            "reasoning" => self.builder.thought(at, id, said),
            "condense_context" => {
                let summary = as_text(&message["contextCondense"]["summary"]);
                self.builder.thought(at, id, &summary);
            }
            "error" | "diff_error" | "clineignore_error" | "rooignore_error" => {
                self.builder.error(at, id, said);
            }
            "api_req_started" => self.request(id, said),
            "command" => self.command(at, id, said),
            "command_output" => {
                if let Some((_, output)) = &mut self.command {
                    if !output.is_empty() {
                        output.push('\n');
                    }
                    output.push_str(said);
                }
            }
            "tool" | "use_mcp_server" | "browser_action" | "new_task" | "use_subagents"
            | "condense" | "summarize_task" => self.tool(at, id, kind, said),
            "mcp_server_response"
            | "browser_action_result"
            | "codebase_search_result"
            | "subtask_result" => {
                self.builder.agent(at, id, text(said));
            }
            kind if SKIPPED.contains(&kind) => {}
            kind => self.builder.unknown(Some(kind)),
        }
    }

    fn user(&mut self, at: Timestamp, id: Option<&str>, message: &Value) {
        self.has_task = true;
        let said = message["text"].as_str().unwrap_or_default();
        let mut blocks = Vec::new();
        if !said.is_empty() {
            blocks.push(text(said));
        }
        blocks.extend(images(message));
        let files = message["files"].as_array().into_iter().flatten();
        blocks.extend(files.filter_map(|file| Some(link(file.as_str()?))));
        self.builder.user(at, id, blocks);
    }

    /// Notes what a request has cost.
    fn request(&mut self, id: Option<&str>, said: &str) {
        let request: Value = serde_json::from_str(said).unwrap_or_default();
        let spent = Spent {
            input: number(&request["tokensIn"]),
            output: number(&request["tokensOut"]),
            cached_read: number(&request["cacheReads"]),
            cached_write: number(&request["cacheWrites"]),
            thought: 0,
            cost: request["cost"].as_f64().unwrap_or(0.0),
        };
        self.builder.spent(id, spent);
        if request["cancelReason"] == "user_cancelled" {
            self.builder.cancel();
        }
    }

    fn command(&mut self, at: Timestamp, id: Option<&str>, said: &str) {
        // The output may be behind the command.
        let (command, output) = match said.split_once("\nOutput:") {
            Some((command, output)) => (command, output.trim_start_matches('\n')),
            None => (said, ""),
        };
        let id = call_id(id);
        let input =
            serde_json::json!({ "command": command.trim_end_matches("REQ_APP").trim_end() });
        let call = tool::call(&id, "execute_command", "Command", &input);
        self.builder.call(at, call);
        self.command = Some((id, output.to_owned()));
    }

    /// Ends the command that is running.
    fn end_command(&mut self, at: Timestamp, ok: bool) {
        if let Some((id, output)) = self.command.take() {
            let content = content::console(&output).into_iter().collect();
            self.builder.result(at, &id, ok, content::outcome(content));
        }
    }

    /// A call of a tool, which is recorded when it has ended, or the user is asked for it.
    fn tool(&mut self, at: Timestamp, id: Option<&str>, kind: &str, said: &str) {
        let input: Value = serde_json::from_str(said).unwrap_or_else(|_| said.into());
        let name = ["tool", "toolName", "action"].iter();
        let name = name.copied().find_map(|name| input[name].as_str());
        let name = name.unwrap_or(kind).to_owned();
        let id = call_id(id);
        let call = tool::call(&id, &name, &name, &input);
        let path = input["path"].as_str().unwrap_or_default();
        let change = input["diff"]
            .as_str()
            .and_then(|change| change_of(path, change));
        let mut content: Vec<Value> = change.into_iter().collect();
        if content.is_empty() {
            content = tool::changes(&name, &input);
        }
        if content.is_empty()
            && let Some(output) = input["content"].as_str()
            && !output.trim().is_empty()
        {
            content.push(content::of_call(text(output)));
        }
        self.builder.call(at, call);
        self.builder
            .result(at, &id, true, content::outcome(content));
    }
}

/// The id of the call that a message is about.
fn call_id(message: Option<&str>) -> String {
    let number = message.and_then(|id| id.strip_prefix(UNNAMED));
    number.unwrap_or_default().replacen("message", "call", 1)
}

/// The images of a message, which are addresses with data.
fn images(message: &Value) -> impl Iterator<Item = Value> {
    let images = message["images"].as_array().into_iter().flatten();
    images.filter_map(|image| content::data_image(image.as_str()?))
}

/// A question to the user: a text, or an object with it and what may be answered.
fn question(said: &str) -> String {
    let asked: Value = serde_json::from_str(said).unwrap_or_default();
    let names = ["question", "response"];
    let Some(question) = names.iter().find_map(|name| asked[*name].as_str()) else {
        return said.to_owned();
    };
    let options = ["options", "suggest"]
        .iter()
        .find_map(|name| asked[*name].as_array());
    let options = options.into_iter().flatten().map(|option| {
        let answer = option.as_str().or(option["answer"].as_str());
        format!("\n- {}", answer.unwrap_or_default())
    });
    format!("{question}{}", options.collect::<String>())
}

/// A change of a file: a unified diff, or blocks of what is looked for and what is put there.
fn change_of(path: &str, change: &str) -> Option<Value> {
    if path.is_empty() || change.is_empty() {
        return None;
    }
    let starts = |line: &str, marks: [&str; 2]| marks.iter().any(|mark| line.starts_with(mark));
    let (mut old, mut new) = (String::new(), String::new());
    let mut side = None;
    let mut has_blocks = false;
    for line in change.lines() {
        if starts(line, ["<<<<<<< SEARCH", "------- SEARCH"]) {
            side = Some(false);
            has_blocks = true;
        } else if side.is_some() && line.starts_with("=======") {
            side = Some(true);
        } else if starts(line, [">>>>>>> REPLACE", "+++++++ REPLACE"]) {
            side = None;
        } else if let Some(is_new) = side {
            // What Roo Code puts in front of a block says where it is.
            let is_head = !is_new && (line.starts_with(":start_line:") || line == "-------");
            if !is_head {
                let text = if is_new { &mut new } else { &mut old };
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    if !has_blocks {
        (old, new) =
            content::sides_of_hunks(change.lines().skip_while(|line| !line.starts_with("@@")));
        if old.is_empty() && new.is_empty() {
            return None;
        }
    }
    Some(diff(path, Some(&old), &new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_diff_or_blocks() {
        let blocks = "<<<<<<< SEARCH\n:start_line:3\n-------\na\n=======\nb\n>>>>>>> REPLACE\n";
        assert_eq!(change_of("f", blocks), Some(diff("f", Some("a\n"), "b\n")));
        let hunks = "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b";
        assert_eq!(change_of("f", hunks), Some(diff("f", Some("a\n"), "b\n")));
        assert_eq!(change_of("f", "a"), None);
        assert_eq!(change_of("", blocks), None);
    }

    #[test]
    fn the_folder_is_in_what_the_model_got() {
        let history = br##"[{"text":"# Current Workspace Directory (C:\\a b) Files"}]"##;
        assert_eq!(named_folder(history).as_deref(), Some("C:\\a b"));
        assert_eq!(named_folder(b"[]"), None);
    }
}

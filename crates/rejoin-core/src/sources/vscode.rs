//! The chat of Visual Studio Code, which is Copilot's: one file for each session, `ID.jsonl`, with
//! changes of one object as lines, or `ID.json` with that object in earlier versions; below
//! `workspaceStorage/WORKSPACE/chatSessions`, or for windows without a folder below
//! `globalStorage/emptyWindowChatSessions`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use serde_json::Value;

use crate::sys::Timestamp;

use super::content::{self, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::damage::{self, DamagedPlace};
use super::updates::link;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, database, has_extension, lines, tool};

/// Both folders in each editor.
pub(super) fn roots(places: &ToolFolders) -> Vec<PathBuf> {
    let folders = ["workspaceStorage", "globalStorage/emptyWindowChatSessions"];
    let editors = places.editors().into_iter();
    let roots = editors.flat_map(|user| folders.map(|folder| user.join(folder)));
    roots.collect()
}

/// The chats that the user has pinned, by what the window of each workspace remembers of its list.
pub(super) fn pins(places: &ToolFolders) -> HashSet<String> {
    let storages = places.editors().into_iter();
    let storages = storages.filter_map(|user| fs::read_dir(user.join("workspaceStorage")).ok());
    let workspaces = storages.flatten().flatten().map(|entry| entry.path());
    // A window without a folder has its chats elsewhere.
    let has_chats = |path: &PathBuf| {
        path.join("chatSessions").is_dir() || !path.join("workspace.json").is_file()
    };
    let pinned = workspaces.filter(has_chats).filter_map(|workspace| {
        let database = database::open(&workspace.join("state.vscdb")).ok()?;
        let sql =
            "SELECT CAST(value AS TEXT) FROM ItemTable WHERE key = 'agentSessions.state.cache'";
        let states: String = database.query_row(sql, [], |row| row.get(0)).ok()?;
        let states: Vec<Value> = serde_json::from_str(&states).ok()?;
        Some(states.into_iter().filter(|state| state["pinned"] == true))
    });
    let ids = pinned
        .flatten()
        .filter_map(|state| chat_id(state["resource"].as_str()?));
    ids.collect()
}

/// The id of a chat in the address by which a list of chats names it.
fn chat_id(address: &str) -> Option<String> {
    let id = address.strip_prefix("vscode-chat-session://local/")?;
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(id).ok()?).ok()
}

/// `WORKSPACE/chatSessions/ID.jsonl`, or `ID.jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    let ([_, "chatSessions", name] | [name]) = super::parts(path)[..] else {
        return false;
    };
    has_extension(name, &["json", "jsonl"])
}

pub(super) fn read(found: &FoundConversation, bytes: &[u8], _: Wanted<'_>) -> ToolConversation {
    let (session, damage) = session(found, bytes);
    let cwd = cwd(found);
    let mut reader = VsCodeReader::default();
    reader.builder.folder(cwd.as_deref());
    let began = session["creationDate"].as_i64();
    reader
        .builder
        .at(Some(began.map_or(found.modified, Timestamp::from_millis)));
    for request in session["requests"].as_array().into_iter().flatten() {
        reader.request(request);
    }
    let title = session["customTitle"].as_str().unwrap_or_default();
    reader.builder.title(title);
    let name = found.path.file_stem().and_then(|stem| stem.to_str());
    let id = session["sessionId"].as_str().or(name);
    reader
        .builder
        .finish(id.map(str::to_owned), cwd)
        .damaged(damage)
}

/// The session in a file.
fn session(found: &FoundConversation, bytes: &[u8]) -> (Value, Vec<DamagedPlace>) {
    if has_extension(&found.path, &["jsonl"]) {
        let lines = lines::objects(bytes);
        let mut session = Value::Null;
        for line in lines.objects {
            change(&mut session, line);
        }
        return (session, lines.damage);
    }
    let (session, kind) = damage::value_or_null(&String::from_utf8_lossy(bytes));
    let damage = kind.map(|kind| DamagedPlace::of(1, kind));
    (session, damage.into_iter().collect())
}

/// The longest list that a change may make, in items.
const LONGEST: u64 = 1 << 20;

/// Makes a change: sets all (0) or a member (1), puts items at the end of a list behind the first
/// ones that stay (2), or removes a member (3).
fn change(session: &mut Value, mut change: Value) {
    let value = change["v"].take();
    let kind = change["kind"].as_u64();
    if kind == Some(0) {
        *session = value;
        return;
    }
    let mut place = session;
    for key in change["k"].as_array().into_iter().flatten() {
        let next = match (key.as_str(), key.as_u64()) {
            (Some(name), _) if place.is_object() => &mut place[name],
            (_, Some(number)) => {
                let Some(list) = place.as_array_mut() else {
                    return;
                };
                let number = usize::try_from(number.min(LONGEST)).unwrap_or(0);
                if number > list.len() {
                    return;
                }
                if number == list.len() {
                    list.push(Value::Null);
                }
                &mut list[number]
            }
            _ => return,
        };
        place = next;
    }
    match kind {
        Some(1) => *place = value,
        Some(2) => {
            if place.is_null() {
                *place = Value::Array(Vec::new());
            }
            if let Some(list) = place.as_array_mut() {
                if let Some(kept) = change["i"].as_u64() {
                    list.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
                }
                list.extend(value.as_array().into_iter().flatten().cloned());
            }
        }
        Some(3) => *place = Value::Null,
        _ => {}
    }
}

/// The file that names the folder of a workspace, beside its chats.
pub(super) fn workspace(found: &FoundConversation) -> Option<PathBuf> {
    Some(found.path.parent()?.with_file_name("workspace.json"))
}

/// The folder of a workspace.
fn cwd(found: &FoundConversation) -> Option<String> {
    let workspace = super::json_file(&workspace(found)?);
    let named = workspace["folder"].as_str();
    if let Some(folder) = named.and_then(content::path_of) {
        return Some(folder);
    }
    // A file with several folders is in one of them, or above.
    let file = content::path_of(workspace["workspace"].as_str()?)?;
    Path::new(&file).parent()?.to_str().map(str::to_owned)
}

#[derive(Debug, Default)]
struct VsCodeReader {
    builder: ConversationBuilder,
}

impl VsCodeReader {
    /// A prompt, and the answer to it.
    fn request(&mut self, request: &Value) {
        let at = request["timestamp"].as_i64().map(Timestamp::from_millis);
        let at = self.builder.at(at);
        let id = request["requestId"].as_str();
        let said = request["message"]["text"].as_str();
        let said = said.or(request["message"].as_str()).unwrap_or_default();
        let mut blocks = Vec::new();
        if !said.is_empty() {
            blocks.push(text(said));
        }
        let variables = request["variableData"]["variables"].as_array();
        blocks.extend(variables.into_iter().flatten().filter_map(attached));
        self.builder.user(at, id, blocks);
        self.builder.state(&Value::Null, &request["modelId"]);
        let result = &request["result"];
        let calls = Calls::of(&result["metadata"]);
        // An answer has one time, that of its end.
        let took = result["timings"]["totalElapsed"].as_i64().unwrap_or(0);
        let end = Timestamp::from_millis(at.as_millis().saturating_add(took.max(0)));
        let end = self.builder.at(Some(end));
        let answer = request["responseId"].as_str();
        for (number, part) in (0..).zip(request["response"].as_array().into_iter().flatten()) {
            self.part(end, answer, number, part, &calls);
        }
        if let Some(error) = result["errorDetails"]["message"].as_str()
            && request["isCanceled"] != true
        {
            self.builder.error(end, None, error);
        }
        if request["isCanceled"] == true {
            self.builder.cancel();
        }
        let metadata = &result["metadata"];
        let spent = Spent {
            input: number(&metadata["promptTokens"]),
            output: number(&metadata["outputTokens"]),
            ..Spent::default()
        };
        self.builder.spent(id, spent);
    }

    fn part(
        &mut self,
        at: Timestamp,
        id: Option<&str>,
        number: usize,
        part: &Value,
        calls: &Calls<'_>,
    ) {
        let value = part["value"].as_str();
        let about = part["content"]["value"]
            .as_str()
            .or(part["content"].as_str());
        match part["kind"].as_str() {
            None => self.builder.agent(at, id, text(value.unwrap_or_default())),
            Some("markdownContent" | "warning" | "progressMessage") => {
                self.builder
                    .agent(at, id, text(about.or(value).unwrap_or_default()));
            }
            Some("thinking") => {
                let parts = part["value"].as_array().into_iter().flatten();
                let parts: Vec<&str> = parts.filter_map(Value::as_str).collect();
                let thought = value.map_or_else(|| parts.join(""), str::to_owned);
                self.builder.thought_of(at, id, &thought);
            }
            Some("inlineReference") => {
                let reference = &part["inlineReference"];
                let path = path_in(reference).or_else(|| path_in(&reference["uri"]));
                let name = part["name"].as_str().or(path).unwrap_or_default();
                self.builder.agent(at, id, text(&format!("`{name}`")));
            }
            Some("toolInvocationSerialized") => self.call(at, number, part, calls),
            Some("textEditGroup") => self.edits(at, number, part),
            Some(
                "undoStop"
                | "codeblockUri"
                | "prepareToolInvocation"
                | "references"
                | "codeCitation"
                | "mcpServersStarting"
                | "progressTask"
                | "progressTaskSerialized"
                | "confirmation"
                | "elicitationSerialized"
                | "treeData"
                | "multiDiffData"
                | "notebookEditGroup"
                | "pullRequest"
                | "command"
                | "extensions"
                | "todoList"
                | "elicitation2"
                | "hook"
                | "questionCarousel",
            ) => {}
            kind => self.builder.unknown(kind),
        }
    }

    fn call(&mut self, at: Timestamp, number: usize, part: &Value, calls: &Calls<'_>) {
        let id = part["toolCallId"].as_str().unwrap_or_default();
        let id = if id.is_empty() {
            format!("call_{}_{number}", at.as_millis())
        } else {
            id.to_owned()
        };
        let special = &part["toolSpecificData"];
        let name = part["toolId"].as_str().unwrap_or("tool");
        let name = name.strip_prefix("copilot_").unwrap_or(name);
        let mut input = calls
            .input(&id)
            .unwrap_or_else(|| special["rawInput"].clone());
        let lines = &special["commandLine"];
        let command = lines["userEdited"].as_str().or(lines["original"].as_str());
        if let Some(command) = command.or(special["command"].as_str()) {
            input = serde_json::json!({ "command": command });
        }
        let title = ["pastTenseMessage", "invocationMessage"]
            .iter()
            .find_map(|name| {
                let message = &part[*name];
                message["value"].as_str().or(message.as_str())
            });
        let mut call = tool::call(&id, name, name, &input);
        if let Some(title) = title.filter(|_| call.title == name) {
            title.clone_into(&mut call.title);
        }
        if command.is_some() {
            call.kind = "execute";
        }
        self.builder.call(at, call);
        let details = &part["resultDetails"];
        let shown = details["output"].as_array().into_iter().flatten();
        let shown = shown
            .filter_map(|part| part["value"].as_str())
            .collect::<Vec<_>>();
        let terminal = special["terminalCommandOutput"]["text"].as_str();
        let output = terminal.map(str::to_owned).or_else(|| calls.output(&id));
        let output = output.unwrap_or_else(|| shown.join("\n"));
        let ok = details["isError"] != true;
        let outcome = tool::outcome(name, &input, ok, &output.into());
        self.builder.result(at, &id, ok, outcome);
    }

    /// Changes of a file that the answer has made.
    fn edits(&mut self, at: Timestamp, number: usize, part: &Value) {
        let Some(path) = path_in(&part["uri"]) else {
            return;
        };
        let groups = part["edits"].as_array().into_iter().flatten();
        let edits = groups.flat_map(|group| group.as_array().into_iter().flatten());
        let changes: Vec<Value> = edits
            .filter_map(|edit| edit["text"].as_str())
            .filter(|new| !new.is_empty())
            .map(|new| content::diff(path, Some(""), new))
            .collect();
        if changes.is_empty() {
            return;
        }
        let id = format!("edit_{}_{number}", at.as_millis());
        let input = serde_json::json!({ "path": path });
        self.builder
            .call(at, tool::call(&id, "edit", "Edit", &input));
        self.builder
            .result(at, &id, true, content::outcome(changes));
    }
}

/// What the extension has recorded of the calls of an answer, beside what is shown of them.
struct Calls<'a> {
    inputs: HashMap<&'a str, &'a Value>,
    results: &'a Value,
}

impl<'a> Calls<'a> {
    fn of(metadata: &'a Value) -> Self {
        let rounds = metadata["toolCallRounds"].as_array().into_iter().flatten();
        let calls = rounds.flat_map(|round| round["toolCalls"].as_array().into_iter().flatten());
        let inputs = calls.filter_map(|call| Some((call["id"].as_str()?, &call["arguments"])));
        Self {
            inputs: inputs.collect(),
            results: &metadata["toolCallResults"],
        }
    }

    fn input(&self, id: &str) -> Option<Value> {
        self.inputs.get(id).map(|given| tool::arguments(given))
    }

    fn output(&self, id: &str) -> Option<String> {
        let parts = self.results.get(id)?["content"].as_array()?.iter();
        let texts: Vec<&str> = parts.filter_map(|part| part["value"].as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

/// A file that is attached to a prompt.
fn attached(variable: &Value) -> Option<Value> {
    let value = &variable["value"];
    let path = path_in(value).or_else(|| path_in(&value["uri"]))?;
    Some(link(path))
}

/// The path in an address as it is serialized.
fn path_in(uri: &Value) -> Option<&str> {
    uri["fsPath"].as_str().or(uri["path"].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_make_a_session() {
        let mut session = Value::Null;
        for line in [
            json!({"kind": 0, "v": {"requests": [], "title": "a"}}),
            json!({"kind": 2, "k": ["requests"], "v": [{"id": 1}, {"id": 2}, {"id": 3}]}),
            json!({"kind": 1, "k": ["requests", 1, "done"], "v": true}),
            json!({"kind": 2, "k": ["requests"], "i": 2, "v": [{"id": 4}]}),
            json!({"kind": 3, "k": ["title"]}),
            json!({"kind": 1, "k": ["requests", 9, "id"], "v": 9}),
            json!({"kind": 1, "k": ["requests", "x"], "v": 9}),
            json!({"kind": 9}),
        ] {
            change(&mut session, line);
        }
        let requests = json!([{"id": 1}, {"id": 2, "done": true}, {"id": 4}]);
        assert_eq!(session, json!({"requests": requests, "title": null}));
    }

    #[test]
    fn addresses_have_paths() {
        for (uri, expected) in [
            ("file:///srv/a%20b", Some("/srv/a b")),
            ("file:///c%3A/Users/ada", Some("c:\\Users\\ada")),
            (
                "vscode-remote://ssh-remote%2Bhost/srv/app",
                Some("/srv/app"),
            ),
            ("vscode-remote://nothing", None),
            ("untitled:x", None),
        ] {
            assert_eq!(content::path_of(uri).as_deref(), expected, "{uri}");
        }
    }
}

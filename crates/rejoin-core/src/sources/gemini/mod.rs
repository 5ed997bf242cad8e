//! Gemini CLI: one file for each session, `tmp/PROJECT/chats/session-….json`, which is one object,
//! or `.jsonl` in newer versions, with changes of that object as lines.

mod messages;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::conversation::{ConversationBuilder, ToolConversation};
use super::damage::{self, DamagedPlace};
use super::deletion::{DAY, DeletionRule, SettingsFiles, ToolSettings};
use super::subagents::SourceSubagent;
use super::{FoundConversation, ToolFolders, Wanted, has_any, has_extension, lines};

/// `.gemini` in `$GEMINI_CLI_HOME`, else in the home folder.
fn own(places: &ToolFolders) -> PathBuf {
    let home = places.variables.get("GEMINI_CLI_HOME");
    home.unwrap_or(&places.home).join(".gemini")
}

pub(super) fn root(places: &ToolFolders) -> PathBuf {
    own(places).join("tmp")
}

/// The variables with the files of settings that are for every user of the machine: those that count most,
/// and those that count least.
pub(super) const SYSTEM_SETTINGS: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
pub(super) const SYSTEM_DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";

/// Sessions of a project are deleted by `general.sessionRetention` when it is started there: by their age,
/// 30 days unless settings say otherwise, and by their number. The settings of a project count as if the
/// user trusted its folder.
pub(super) fn deletion_rule(
    places: &ToolFolders,
    project: Option<&Path>,
    files: &mut SettingsFiles,
) -> DeletionRule {
    let system = |variable: &str, name: &str| {
        let named = places.variables.get(variable).cloned();
        named.or_else(|| {
            let folders = [
                "etc/gemini-cli",
                "Library/Application Support/GeminiCli",
                "ProgramData/gemini-cli",
            ];
            places.of_system(folders, name)
        })
    };
    let name = "settings.json";
    let layers = [
        system(SYSTEM_SETTINGS, name),
        project.map(|project| project.join(".gemini").join(name)),
        Some(own(places).join(name)),
        system(SYSTEM_DEFAULTS, "system-defaults.json"),
    ];
    let settings = ToolSettings::read(files, layers.into_iter().flatten());
    let value = |key: &str| settings.value(&format!("/general/sessionRetention/{key}"));
    if settings.are_broken() || value("enabled").is_some_and(|enabled| *enabled != true) {
        return DeletionRule::default();
    }
    let age = value("maxAge").map_or(Some("30d"), Value::as_str);
    let least = value("minRetention").and_then(Value::as_str);
    let least = least.and_then(period).unwrap_or(DAY);
    let most = value("maxCount").map(Value::as_u64);
    let most = most.map(|most| most.and_then(|most| usize::try_from(most).ok()));
    // What it takes for a mistake keeps it from deleting anything.
    let (age, most) = match (age.map(period), most) {
        (Some(None), _) | (_, Some(None | Some(0))) => (None, None),
        (Some(Some(age)), _) if age < least => (None, None),
        (age, most) => (age.flatten(), most.flatten()),
    };
    DeletionRule { age, most }
}

/// A period such as `30d` in milliseconds; a month has 30 days.
fn period(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "h" => DAY / 24,
        "d" => DAY,
        "w" => 7 * DAY,
        "m" => 30 * DAY,
        _ => return None,
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<i64>().ok().filter(|_| is_number)?;
    number.checked_mul(unit).filter(|period| *period > 0)
}

/// `PROJECT/chats/session-….json` or `.jsonl`. Those of subagents are further down.
pub(super) fn is_conversation(path: &Path) -> bool {
    let [_, "chats", name] = super::parts(path)[..] else {
        return false;
    };
    name.starts_with("session-") && has_extension(name, &["json", "jsonl"])
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let (chat, damage) = chat(&found.path, bytes);
    let cwd = cwd(found, &chat);
    if let Some(wanted) = wanted.filter(|_| has_any(bytes, &[SUBAGENT])) {
        wanted.extend(subagents(found, &chat, cwd.as_deref()));
    }
    let mut builder = messages(&chat, cwd.as_deref());
    builder.title(chat["summary"].as_str().unwrap_or_default());
    let id = chat["sessionId"]
        .as_str()
        .filter(|_| chat["kind"] != "subagent");
    let conversation = builder.finish(id.map(str::to_owned), cwd);
    conversation.damaged(damage)
}

/// The conversation in a file, and where the file is damaged.
fn chat(path: &Path, bytes: &[u8]) -> (Value, Vec<DamagedPlace>) {
    if has_extension(path, &["jsonl"]) {
        let lines = lines::objects(bytes);
        return (folded(lines.objects), lines.damage);
    }
    let (chat, kind) = damage::value_or_null(&String::from_utf8_lossy(bytes));
    let damage = kind.map(|kind| DamagedPlace::of(1, kind));
    (chat, damage.into_iter().collect())
}

/// The messages of a chat about this folder.
fn messages(chat: &Value, cwd: Option<&str>) -> ConversationBuilder {
    let mut builder = ConversationBuilder::default();
    builder.folder(cwd);
    let mut reader = messages::GeminiReader::new(builder);
    for message in chat["messages"].as_array().into_iter().flatten() {
        reader.message(message);
    }
    reader.finish()
}

/// The name of a member that shows that the model has started subagents.
const SUBAGENT: &str = "isSubagentProgress";

/// With subagents, or output in pieces of one colour, words are put together from parts.
pub(super) const MARKS: [&str; 2] = [SUBAGENT, "\"inverse\""];

/// See [`MARKS`].
pub(super) fn others(_: &FoundConversation, _: &[u8], is_marked: bool) -> Option<Vec<PathBuf>> {
    (!is_marked).then(Vec::new)
}

/// The subagents: files in a folder that has the session's id as its name. They do not name the
/// calls that started them, but are in the same order.
fn subagents(found: &FoundConversation, chat: &Value, cwd: Option<&str>) -> Vec<SourceSubagent> {
    let id = chat["sessionId"]
        .as_str()
        .filter(|id| !id.contains(['/', '\\']));
    let folder = id.and_then(|id| fs::read_dir(found.path.with_file_name(id)).ok());
    let files = folder.into_iter().flatten().flatten();
    let files = files.filter_map(|entry| {
        let path = entry.path();
        let bytes = has_extension(&path, &["json", "jsonl"]).then(|| super::bytes(&path).ok());
        let (chat, damage) = self::chat(&path, &bytes.flatten()?);
        let began = chat["startTime"].as_str()?.to_owned();
        Some((began, path, chat, damage))
    });
    let mut chats: Vec<(String, PathBuf, Value, Vec<DamagedPlace>)> = files.collect();
    chats.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    let all = chat["messages"].as_array().into_iter().flatten();
    let calls = all.flat_map(|message| message["toolCalls"].as_array().into_iter().flatten());
    let calls = calls.filter(|call| call["resultDisplay"]["isSubagentProgress"] == true);
    let calls: Vec<Option<&str>> = calls.map(|call| call["id"].as_str()).collect();
    // With another number of them, one has ended without a trace.
    let is_paired = calls.len() == chats.len();
    let agents = chats
        .into_iter()
        .enumerate()
        .filter_map(|(at, (_, path, chat, damage))| {
            let call = calls.get(at).filter(|_| is_paired).copied().flatten();
            let name = path.file_stem()?.to_str()?;
            let call = call.map(str::to_owned);
            let subagent = SourceSubagent::new(name, call, messages(&chat, cwd));
            Some(subagent.damaged(damage))
        });
    agents.collect()
}

/// The chat that lines with its changes describe: its head, messages, of which a later one replaces
/// one with the same id, `$set` with other members, and `$rewindTo` a message, which goes, too.
fn folded(lines: Vec<Value>) -> Value {
    let mut chat = Value::Object(serde_json::Map::default());
    let mut messages: Vec<Value> = Vec::new();
    for line in lines {
        if let Some(Value::Object(members)) = line.get("$set") {
            for (name, value) in members {
                match value {
                    Value::Array(all) if name == "messages" => messages.clone_from(all),
                    value => chat[name.as_str()] = value.clone(),
                }
            }
        } else if let Some(id) = line.get("$rewindTo") {
            let at = messages.iter().position(|message| message["id"] == *id);
            messages.truncate(at.unwrap_or(0));
        } else if line.get("type").is_some() {
            let is_same = |known: &&mut Value| known["id"].is_string() && known["id"] == line["id"];
            match messages.iter_mut().find(is_same) {
                Some(known) => *known = line,
                None => messages.push(line),
            }
        } else if let Value::Object(members) = line {
            for (name, value) in members {
                chat[name.as_str()] = value;
            }
        }
    }
    if !messages.is_empty() || chat.get("messages").is_none() {
        chat["messages"] = messages.into();
    }
    chat
}

/// The folder of the project, which is not in the chat.
fn cwd(found: &FoundConversation, chat: &Value) -> Option<String> {
    let project = found.path.parent()?.parent()?;
    let named = super::bytes(&project.join(".project_root")).ok();
    let named = named.and_then(|path| Some(str::from_utf8(&path).ok()?.trim().to_owned()));
    let listed = || {
        let projects = super::json_file(&found.root.parent()?.join("projects.json"));
        let slug = project.file_name()?.to_str()?;
        let mut paths = projects["projects"].as_object()?.iter();
        let path = paths.find(|(_, name)| name.as_str() == Some(slug));
        path.map(|(path, _)| path.clone())
    };
    let directory = || chat["directories"][0].as_str().map(str::to_owned);
    let absolute = |path: &String| Path::new(path).is_absolute();
    named.or_else(listed).or_else(directory).filter(absolute)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_fold_to_a_chat() {
        let lines = vec![
            json!({"sessionId": "s", "kind": "main"}),
            json!({"id": "a", "type": "user", "content": "1"}),
            json!({"id": "b", "type": "gemini", "content": "2"}),
            json!({"id": "a", "type": "user", "content": "3"}),
            json!({"$set": {"summary": "t"}}),
            json!({"id": "c", "type": "user"}),
            json!({"$rewindTo": "c"}),
        ];
        let chat = folded(lines);
        assert_eq!(chat["summary"], "t");
        assert_eq!(chat["messages"][0]["content"], "3");
        assert_eq!(chat["messages"].as_array().unwrap().len(), 2);
        let cleared = folded(vec![
            json!({"id": "a", "type": "user"}),
            json!({"$rewindTo": "x"}),
        ]);
        assert_eq!(cleared["messages"], json!([]));
    }
}

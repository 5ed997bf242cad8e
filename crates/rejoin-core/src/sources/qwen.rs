//! Qwen Code: one file of JSON lines for each session, `projects/FOLDER/chats/ID.jsonl`, in older
//! versions below `tmp`; `chats/archive` has those that the user has put away. Records name their
//! parents; a rewind leaves a branch behind.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sys::Timestamp;

use super::content::{self, as_text, diff, text};
use super::conversation::{ConversationBuilder, ToolConversation};
use super::subagents::SourceSubagent;
use super::usage::{Spent, number};
use super::{
    FoundConversation, RecordLinks, ToolFolders, Wanted, branch, has_extension, json_file, lines,
    tool,
};

/// `$QWEN_RUNTIME_DIR`, else `$QWEN_HOME`, or `~/.qwen`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    let runtime = places.variables.get("QWEN_RUNTIME_DIR").cloned();
    runtime.unwrap_or_else(|| places.folder("QWEN_HOME", ".qwen"))
}

/// The sessions that the user has pinned, in `projects/FOLDER/session-organization.v1.json`.
pub(super) fn pins(places: &ToolFolders) -> HashSet<String> {
    let projects = fs::read_dir(root(places).join("projects"));
    let projects = projects.into_iter().flatten().flatten();
    let pinned = projects.flat_map(|project| {
        let known = json_file(&project.path().join("session-organization.v1.json"));
        let sessions = known["sessions"].as_object().into_iter().flatten();
        let pinned = sessions.filter(|(_, session)| session["pinnedAt"].is_string());
        pinned.map(|(id, _)| id.clone()).collect::<Vec<_>>()
    });
    pinned.collect()
}

const ARCHIVE: &str = "archive";

/// `projects/FOLDER/chats/ID.jsonl`, also in the archive there, or the same below `tmp`. Files with longer
/// endings, such as `ID.ledger.jsonl`, are no conversations.
pub(super) fn is_conversation(path: &Path) -> bool {
    let (["projects" | "tmp", _, "chats", name] | ["projects", _, "chats", ARCHIVE, name]) =
        super::parts(path)[..]
    else {
        return false;
    };
    let id = name.strip_suffix(".jsonl");
    id.is_some_and(|id| !id.contains('.'))
}

/// Whether the user has put a conversation away.
fn is_archived(path: &Path) -> bool {
    path.parent()
        .is_some_and(|folder| folder.ends_with(ARCHIVE))
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    if let Some(wanted) = wanted {
        wanted.extend(subagents(found));
    }
    let lines = lines::objects(bytes);
    let shown = branch::shown(&lines.objects, branch::SameId::Fragments);
    let mut builder = ConversationBuilder::default();
    if is_archived(&found.path) {
        builder.archive();
    }
    for (record, shown) in lines.objects.iter().zip(shown) {
        if shown {
            add(&mut builder, record);
        }
    }
    let texts = |name| {
        lines
            .objects
            .iter()
            .filter_map(move |record| record[name].as_str())
    };
    let stem = || found.path.file_stem()?.to_str();
    let id = texts("sessionId").next().or_else(stem).map(str::to_owned);
    let cwd = texts("cwd").next().map(str::to_owned);
    builder.finish(id, cwd).damaged(lines.damage)
}

/// How records follow from each other.
pub(super) const LINKS: RecordLinks = RecordLinks {
    names: |record, names| {
        names.extend(record["uuid"].as_str());
        names.extend(parts(record).filter_map(|part| part["functionCall"]["id"].as_str()));
    },
    needs: |record, needed| {
        branch::parents(record, needed);
        needed.extend(parts(record).filter_map(|part| part["functionResponse"]["id"].as_str()));
        true
    },
};

/// The files of subagents.
pub(super) fn others(found: &FoundConversation, _: &[u8], _: bool) -> Option<Vec<PathBuf>> {
    let depth = if is_archived(&found.path) { 3 } else { 2 };
    let project = found.path.ancestors().nth(depth)?;
    let folder = project.join("subagents").join(found.path.file_stem()?);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    Some(files.map(|entry| entry.path()).collect())
}

/// The subagents, each with a file of its own in `subagents/ID` beside `chats`, and another one that
/// says which call has started it.
fn subagents(found: &FoundConversation) -> Vec<SourceSubagent> {
    let mut files = others(found, b"", false).unwrap_or_default();
    files.retain(|path| has_extension(path, &["jsonl"]));
    files.sort();
    let read = files.into_iter().filter_map(|path| {
        let bytes = super::bytes(&path).ok()?;
        let mut builder = ConversationBuilder::default();
        let lines = lines::objects(&bytes);
        for record in &lines.objects {
            add(&mut builder, record);
        }
        let about = super::json_file(&path.with_extension("meta.json"));
        let call = about["toolUseId"].as_str().map(str::to_owned);
        let subagent = SourceSubagent::new(path.file_stem()?.to_str()?, call, builder);
        let mut subagent = subagent.damaged(lines.damage);
        subagent.title = about["description"].as_str().map(str::to_owned);
        Some(subagent)
    });
    read.collect()
}

/// The subtype of a prompt that the user typed while the agent worked.
const MID_TURN: &str = "mid_turn_user_message";

/// Adds a record.
fn add(builder: &mut ConversationBuilder, record: &Value) {
    let at = builder.time(record["timestamp"].as_str());
    let id = record["uuid"].as_str();
    builder.state(&record["gitBranch"], &record["model"]);
    builder.folder(record["cwd"].as_str());
    match record["type"].as_str() {
        Some("user") if record["subtype"] == MID_TURN => builder.user(at, id, prompt(record)),
        // The notice that a background task has ended, for instance.
        Some("user") if record["subtype"].is_string() => {}
        Some("user") => builder.user(at, id, prompt(record)),
        Some("assistant") => assistant(builder, at, record),
        Some("tool_result") => result(builder, at, record),
        Some("system") => match record["subtype"].as_str() {
            Some("custom_title") => {
                let titles = ["customTitle", "title"].map(|name| &record["systemPayload"][name]);
                let title = titles.into_iter().find_map(Value::as_str);
                builder.title(title.unwrap_or_default());
            }
            Some(MID_TURN) => builder.user(at, id, prompt(record)),
            _ => {}
        },
        kind => builder.unknown(kind),
    }
}

fn parts(record: &Value) -> impl Iterator<Item = &Value> {
    record["message"]["parts"].as_array().into_iter().flatten()
}

/// The text that the user typed, without what hooks have added.
fn prompt(record: &Value) -> Vec<Value> {
    let clean = record["systemPayload"]["displayText"].as_str();
    let typed = parts(record).filter_map(|part| part["text"].as_str());
    let typed = typed.filter(|text| !text.starts_with('<')).map(text);
    let mut blocks: Vec<Value> = match clean {
        Some(clean) => vec![text(clean)],
        None => typed.collect(),
    };
    blocks.extend(parts(record).filter_map(content::inline_image));
    blocks
}

fn assistant(builder: &mut ConversationBuilder, at: Timestamp, record: &Value) {
    let id = record["uuid"].as_str();
    for part in parts(record) {
        if let Some(said) = part["text"].as_str() {
            if part["thought"] == true {
                builder.thought_of(at, id, said);
            } else {
                builder.agent(at, id, text(said));
            }
        }
        let call = &part["functionCall"];
        let (Some(id), Some(name)) = (call["id"].as_str(), call["name"].as_str()) else {
            continue;
        };
        if name == "todo_write" {
            if let Some(plan) = content::plan(&call["args"]["todos"], "content") {
                builder.update(at, &plan);
            }
        } else {
            builder.call(at, tool::call(id, name, name, &call["args"]));
        }
    }
    let tokens = &record["usageMetadata"];
    let [prompt, cached_read, thought] = [
        "promptTokenCount",
        "cachedContentTokenCount",
        "thoughtsTokenCount",
    ]
    .map(|name| number(&tokens[name]));
    // The tokens of thoughts are not always part of the answer's.
    let answer = number(&tokens["totalTokenCount"]).checked_sub(prompt + thought);
    let spent = Spent {
        input: prompt.saturating_sub(cached_read),
        output: answer.unwrap_or_else(|| number(&tokens["candidatesTokenCount"])),
        thought,
        cached_read,
        ..Spent::default()
    };
    builder.spent(id, spent);
    let used = record["usageMetadata"]["totalTokenCount"].as_u64();
    if let (Some(used), Some(size)) = (used, record["contextWindowSize"].as_u64()) {
        builder.usage(used, size);
    }
}

fn result(builder: &mut ConversationBuilder, at: Timestamp, record: &Value) {
    let shown = &record["toolCallResult"];
    for part in parts(record) {
        let response = &part["functionResponse"];
        let id = response["id"].as_str().or(shown["callId"].as_str());
        let Some(id) = id else { continue };
        let ok = response["response"]["error"].is_null() && shown["status"] != "error";
        let display = &shown["resultDisplay"];
        let mut update = if let (Some(new), true) = (display["newContent"].as_str(), ok) {
            let paths = [&display["filePath"], &display["fileName"]];
            let path = paths
                .into_iter()
                .find_map(Value::as_str)
                .unwrap_or_default();
            let old = display["originalContent"].as_str();
            json!({ "content": [diff(path, old, new)] })
        } else {
            let given = ["output", "error"].map(|name| as_text(&response["response"][name]));
            let name = response["name"].as_str().unwrap_or_default();
            let shown = display
                .as_str()
                .filter(|_| tool::kind(name) == "execute" && ok);
            let given = shown.map_or_else(|| given.concat(), str::to_owned);
            tool::outcome(name, &Value::Null, ok, &given.into())
        };
        let media = response["parts"].as_array().into_iter().flatten();
        content::attach(&mut update, media.filter_map(content::inline_image));
        builder.result(at, id, ok, update);
    }
}

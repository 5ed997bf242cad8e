//! Cursor: a transcript of JSON lines for each agent, `projects/PROJECT/agent-transcripts/ID/ID.jsonl`,
//! without times. A database beside them, `chats/HASH/ID/store.db`, has the title and when it began.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension;
use serde_json::Value;

use crate::sys::Timestamp;

use super::blocks::BlockReader;
use super::conversation::ToolConversation;
use super::damage::DamagedPlace;
use super::database::open;
use super::subagents::SourceSubagent;
use super::{FoundConversation, ToolFolders, Wanted, has_extension, lines};

/// `~/.cursor/projects`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places.home.join(".cursor/projects")
}

/// `PROJECT/agent-transcripts/ID/ID.jsonl`, or without the inner folder. Those of subagents are
/// further down.
pub(super) fn is_conversation(path: &Path) -> bool {
    match super::parts(path)[..] {
        [_, "agent-transcripts", id, name] => name.strip_suffix(".jsonl") == Some(id),
        [_, "agent-transcripts", name] => has_extension(name, &["jsonl"]),
        _ => false,
    }
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let inside = found.path.strip_prefix(&found.root).unwrap_or(&found.path);
    let project = inside.iter().next().and_then(|name| name.to_str());
    let cwd = project.and_then(|project| folder(project, Path::new("/")));
    let id = found.path.file_stem().and_then(|stem| stem.to_str());
    let about = id.map(|id| about(&found.root, id)).unwrap_or_default();
    let began = about["createdAt"].as_i64().map(Timestamp::from_millis);
    let times = (began.unwrap_or(found.modified), found.modified);
    let (mut reader, damage) = transcript(bytes, cwd.as_deref(), times);
    reader.builder.state(&Value::Null, &about["lastUsedModel"]);
    reader
        .builder
        .title(about["name"].as_str().unwrap_or_default());
    if let Some(wanted) = wanted {
        wanted.extend(others(found).iter().filter_map(|path| {
            let bytes = super::bytes(path).ok()?;
            let (reader, damage) = transcript(&bytes, cwd.as_deref(), times);
            let name = path.file_stem()?.to_str()?;
            Some(SourceSubagent::new(name, None, reader.builder).damaged(damage))
        }));
    }
    let conversation = reader.builder.finish(id.map(str::to_owned), cwd);
    conversation.damaged(damage)
}

/// The files of subagents, in a folder beside the transcript.
fn others(found: &FoundConversation) -> Vec<PathBuf> {
    let entries = fs::read_dir(found.path.with_file_name("subagents"));
    let paths = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| has_extension(path, &["jsonl"]))
        .collect();
    paths.sort();
    paths
}

/// Reads a transcript that began and was changed at these times.
fn transcript(
    bytes: &[u8],
    cwd: Option<&str>,
    times: (Timestamp, Timestamp),
) -> (BlockReader, Vec<DamagedPlace>) {
    let lines = lines::objects(bytes);
    let mut reader = BlockReader::typed(typed);
    reader.builder.folder(cwd);
    reader.builder.at(Some(times.0));
    let last = lines.objects.len().saturating_sub(1);
    for (number, line) in lines.objects.iter().enumerate() {
        let at = reader.builder.at((number == last).then_some(times.1));
        if let Some(role) = line["role"].as_str() {
            // Most transcripts have no results: what follows says that there was one.
            if line["message"]["content"][0]["type"] == "text" {
                reader.end_waiting(at);
            }
            reader.message(at, None, role, &line["message"]["content"]);
        } else if line["type"] == "turn_ended" {
            reader.end_waiting(at);
            if matches!(line["status"].as_str(), Some("aborted" | "cancelled")) {
                reader.builder.cancel();
            }
        } else {
            reader.builder.unknown(line["type"].as_str());
        }
    }
    (reader, lines.damage)
}

/// What the user typed, without the tag around it and what the editor put in front.
fn typed(said: &str) -> Option<String> {
    let inside = said.split_once("<user_query>");
    let inside = inside.and_then(|(_, rest)| rest.rsplit_once("</user_query>"));
    let typed = inside.map_or(said, |(inside, _)| inside).trim();
    (!typed.is_empty()).then(|| typed.to_owned())
}

/// What the database beside the transcripts has of an agent: its name, and when it began.
fn about(root: &Path, id: &str) -> Value {
    let chats = root.with_file_name("chats");
    let entries = fs::read_dir(chats).into_iter().flatten().flatten();
    let mut paths = entries.map(|entry| entry.path().join(id).join("store.db"));
    let Some(path) = paths.find(|path| path.is_file()) else {
        return Value::Null;
    };
    let value = open(&path).ok().and_then(|database| {
        let query = "SELECT value FROM meta WHERE key = '0'";
        let value = database.query_row(query, [], |row| row.get::<_, String>(0));
        value.optional().ok().flatten()
    });
    let json = value.and_then(|digits| of_hex(&digits));
    json.and_then(|json| serde_json::from_slice(&json).ok())
        .unwrap_or_default()
}

/// The bytes that hexadecimal digits are of.
fn of_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect()
}

/// The folder below `above` that a project's name is made of, if there is exactly one: the name has
/// a hyphen for each character that is no letter or digit.
fn folder(name: &str, above: &Path) -> Option<String> {
    let mut found = Vec::new();
    look_for(name.trim_start_matches('-'), above, &mut found);
    match found.as_slice() {
        [one] => Some(one.to_str()?.to_owned()),
        _ => None,
    }
}

fn look_for(name: &str, above: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let own = entry.file_name();
        let Some(own) = own.to_str() else { continue };
        let plain = own.trim_start_matches('.');
        let hyphened: String = plain
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let Some(rest) = name.strip_prefix(hyphened.as_str()) else {
            continue;
        };
        if hyphened.is_empty() || found.len() > 1 || !entry.path().is_dir() {
            continue;
        }
        match rest.strip_prefix('-') {
            Some(rest) => look_for(rest.trim_start_matches('-'), &entry.path(), found),
            None if rest.is_empty() => found.push(entry.path()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_found_by_its_name_with_hyphens() {
        let above = tempfile::tempdir().unwrap();
        for folder in [
            "srv/my.app",
            "srv/other",
            "srv/two-a",
            "srv/two/a",
            "srv/.hid",
        ] {
            fs::create_dir_all(above.path().join(folder)).unwrap();
        }
        let found = |name: &str| {
            let found = folder(name, above.path())?;
            Some(found.strip_prefix(above.path().to_str()?)?.to_owned())
        };
        assert_eq!(found("srv-my-app").as_deref(), Some("/srv/my.app"));
        assert_eq!(found("srv-other").as_deref(), Some("/srv/other"));
        assert_eq!(found("srv-hid").as_deref(), Some("/srv/.hid"));
        for none in ["srv-two-a", "srv-gone", "", "srv-other-"] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}

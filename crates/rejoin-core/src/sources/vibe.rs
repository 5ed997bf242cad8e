//! Mistral Vibe: one folder for each session, `logs/session/session_TIME_ID`, with its messages as
//! JSON lines in `messages.jsonl` and its title, folder and numbers in `meta.json`. Messages have no
//! times.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::sys::Timestamp;

use super::chat::ChatReader;
use super::content;
use super::conversation::ToolConversation;
use super::damage::DamagedPlace;
use super::subagents::SourceSubagent;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, lines};

/// `$VIBE_HOME/logs/session`, or that in `~/.vibe`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places.folder("VIBE_HOME", ".vibe").join("logs/session")
}

const MESSAGES: &str = "messages.jsonl";

/// `session_TIME_ID/messages.jsonl`. Those of subagents are further down.
pub(super) fn is_conversation(path: &Path) -> bool {
    matches!(super::parts(path)[..], [_, MESSAGES])
}

/// `session_TIME_ID/meta.json`.
pub(super) fn state(path: &Path) -> PathBuf {
    path.with_file_name("meta.json")
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let (mut reader, meta, damage) = session(&found.path, bytes, found.modified);
    reader
        .builder
        .title(meta["title"].as_str().unwrap_or_default());
    if let Some(wanted) = wanted {
        wanted.extend(agents(found).iter().filter_map(|path| {
            let bytes = super::bytes(path).ok()?;
            let (reader, meta, damage) = session(path, &bytes, found.modified);
            let id = meta["session_id"].as_str()?.to_owned();
            Some(SourceSubagent::new(id, None, reader.builder).damaged(damage))
        }));
    }
    let folder = found
        .path
        .parent()
        .and_then(|folder| folder.file_name()?.to_str());
    let id = meta["session_id"].as_str().or(folder);
    let cwd = meta["environment"]["working_directory"].as_str();
    let cwd = cwd.map(str::to_owned);
    let conversation = reader.builder.finish(id.map(str::to_owned), cwd);
    conversation.damaged(damage)
}

/// The files of subagents, and those with the folders that relative paths are below.
pub(super) fn others(found: &FoundConversation) -> Vec<PathBuf> {
    let mut paths = agents(found);
    paths.extend(paths.clone().iter().map(|path| state(path)));
    paths.push(state(&found.path));
    paths
}

/// The files of subagents, which are sessions within that of the user.
fn agents(found: &FoundConversation) -> Vec<PathBuf> {
    let folder = found.path.with_file_name("agents");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path().join(MESSAGES)).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}

/// Reads a session's file, and what is beside it.
fn session(
    path: &Path,
    bytes: &[u8],
    modified: Timestamp,
) -> (ChatReader, Value, Vec<DamagedPlace>) {
    let meta = super::json_file(&state(path));
    let time = |name: &str| meta[name].as_str().and_then(Timestamp::parse);
    let lines = lines::objects(bytes);
    let mut reader = ChatReader::default();
    let cwd = meta["environment"]["working_directory"].as_str();
    reader.builder.folder(cwd);
    reader
        .builder
        .state(&meta["git_branch"], &meta["config"]["active_model"]);
    reader
        .builder
        .at(Some(time("start_time").unwrap_or(modified)));
    let last = lines.objects.len().saturating_sub(1);
    for (number, message) in lines.objects.iter().enumerate() {
        let end = time("end_time").unwrap_or(modified);
        let at = reader.builder.at((number == last).then_some(end));
        // What the program adds for the model.
        if message["injected"] == true {
            continue;
        }
        let images = message["images"].as_array().into_iter().flatten();
        let id = message["message_id"].as_str();
        reader.message(at, id, message, images.filter_map(image));
    }
    let stats = &meta["stats"];
    let price = |tokens: &str, price: &str| {
        let millions = stats[tokens].as_f64().unwrap_or(0.0) / 1e6;
        millions * stats[price].as_f64().unwrap_or(0.0)
    };
    let names = ["session_prompt_tokens", "session_completion_tokens"];
    let spent = Spent {
        input: number(&stats[names[0]]),
        output: number(&stats[names[1]]),
        cost: price(names[0], "input_price_per_million")
            + price(names[1], "output_price_per_million"),
        ..Spent::default()
    };
    // Vibe knows only the sums of a session: they are those of its last turn.
    reader.builder.spent(None, spent);
    (reader, meta, lines.damage)
}

/// An image of a prompt: its data, or a file.
fn image(image: &Value) -> Option<Value> {
    let source = image.get("source").unwrap_or(image);
    let mime_type = image["mime_type"].as_str().unwrap_or("image/png");
    if let Some(data) = source["data"].as_str() {
        return Some(content::image(mime_type, data));
    }
    let bytes = super::bytes(Path::new(source["path"].as_str()?)).ok()?;
    Some(content::image(mime_type, &BASE64_STANDARD.encode(bytes)))
}

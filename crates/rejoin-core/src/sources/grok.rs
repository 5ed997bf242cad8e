//! Grok Build: one folder for each session, `sessions/FOLDER/ID`, with the updates of the protocol as
//! it sent them in `updates.jsonl`, and the session's title and folder in `summary.json`.
//!
//! Beside the protocol's updates there are those of an extension of its own
//! (`_x.ai/session/update`), such as the end of a turn with its cost, and a mark where the user went
//! back.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::protocol::Role;
use crate::sys::Timestamp;

use super::content::{as_text, text};
use super::conversation::ToolConversation;
use super::damage::DamagedPlace;
use super::deletion::{DeletionRule, SettingsFiles, toml_integer};
use super::subagents::SourceSubagent;
use super::updates::UpdateReader;
use super::usage::{Spent, number};
use super::{FoundConversation, ToolFolders, Wanted, has_any, lines};

/// `$GROK_HOME`, or `~/.grok`.
fn own(places: &ToolFolders) -> PathBuf {
    places.folder("GROK_HOME", ".grok")
}

pub(super) fn root(places: &ToolFolders) -> PathBuf {
    own(places).join("sessions")
}

/// The days after which it deletes a session, unless settings say otherwise.
const DAYS: i64 = 30;

/// Files of sessions are deleted by their times, after `cleanup_ttl_days` of `[storage]`.
pub(super) fn deletion_rule(
    places: &ToolFolders,
    _: Option<&Path>,
    files: &mut SettingsFiles,
) -> DeletionRule {
    let own = own(places);
    let of_system = |name| places.of_system(["etc/grok", "etc/grok", ""], name);
    let layers = [
        of_system("requirements.toml").filter(|_| cfg!(unix)),
        Some(own.join("requirements.toml")),
        Some(own.join("config.toml")),
        Some(own.join("managed_config.toml")),
        of_system("managed_config.toml").filter(|_| cfg!(unix)),
    ];
    let mut texts = layers
        .into_iter()
        .flatten()
        .filter_map(|path| files.text(path));
    let days = texts.find_map(|text| toml_integer(&text, "storage", "cleanup_ttl_days"));
    let days = days.filter(|days| *days > 0).unwrap_or(DAYS);
    DeletionRule::after_days(Some(days))
}

const UPDATES: &str = "updates.jsonl";

/// `FOLDER/ID/updates.jsonl`.
pub(super) fn is_conversation(path: &Path) -> bool {
    matches!(super::parts(path)[..], [_, _, UPDATES])
}

/// `FOLDER/ID/summary.json`.
pub(super) fn state(path: &Path) -> PathBuf {
    path.with_file_name("summary.json")
}

/// The name of the update that announces a subagent.
const SPAWNED: &str = "subagent_spawned";

/// How many units of cost are a dollar.
const TICKS: f64 = 1e10;

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let summary = super::json_file(&state(&found.path));
    // Sessions of subagents lie beside those of the user.
    let kind = summary["session_kind"].as_str().unwrap_or_default();
    if kind.starts_with("subagent") || summary["hidden"] == true {
        return ToolConversation::default();
    }
    let folder = found.path.parent().unwrap_or(&found.root);
    let cwd = summary["info"]["cwd"].as_str().map(str::to_owned);
    let cwd = cwd.or_else(|| folder_of(folder.parent()?));
    let (mut reader, damage) = GrokReader::of(bytes, cwd.as_deref());
    if let Some(wanted) = wanted.filter(|_| has_any(bytes, &[SPAWNED])) {
        wanted.extend(
            reader
                .spawned
                .iter()
                .filter_map(|spawned| spawned.read(folder)),
        );
    }
    let builder = &mut reader.updates.builder;
    builder.state(&summary["head_branch"], &summary["current_model_id"]);
    let titles = ["generated_title", "session_summary"].map(|name| as_text(&summary[name]));
    if let Some(title) = titles.iter().find(|title| !title.is_empty()) {
        builder.title(title);
    }
    let id = folder.file_name().and_then(|name| name.to_str());
    let conversation = reader.updates.builder.finish(id.map(str::to_owned), cwd);
    conversation.damaged(damage)
}

/// The folder that a group of sessions is about: its name has it in the encoding of URLs, or a file
/// in it if that would be too long.
fn folder_of(group: &Path) -> Option<String> {
    let name = group.file_name()?.to_str()?;
    let decoded = percent_decode_str(name).decode_utf8().ok();
    let is_path = |path: &str| Path::new(path).is_absolute() || path.get(1..2) == Some(":");
    let path = decoded.filter(|path| is_path(path));
    path.map(Cow::into_owned).or_else(|| {
        let bytes = super::bytes(&group.join(".cwd")).ok()?;
        Some(str::from_utf8(&bytes).ok()?.trim().to_owned())
    })
}

/// A subagent that a session has started.
#[derive(Debug)]
struct Spawned {
    session: String,
    title: Option<String>,
}

impl Spawned {
    /// Reads its conversation, which is a session beside that in `folder`.
    fn read(&self, folder: &Path) -> Option<SourceSubagent> {
        let is_name = !self.session.is_empty() && !self.session.contains(['/', '\\']);
        let path = folder.with_file_name(&self.session).join(UPDATES);
        let bytes = super::bytes(&path).ok().filter(|_| is_name)?;
        let (reader, damage) = GrokReader::of(&bytes, None);
        let mut subagent = SourceSubagent::new(&self.session, None, reader.updates.builder);
        subagent.title.clone_from(&self.title);
        Some(subagent.damaged(damage))
    }
}

#[derive(Debug, Default)]
struct GrokReader {
    updates: UpdateReader,
    spawned: Vec<Spawned>,
    /// The number of the prompt whose chunks are coming, if they have one.
    prompt: Option<u64>,
    /// Of each prompt, whether it counts where the user goes back to a number: in files that number
    /// prompts, those without a number were said while the agent worked.
    counts: Vec<bool>,
    has_numbers: bool,
}

impl GrokReader {
    /// Reads a file of updates about this folder.
    fn of(bytes: &[u8], cwd: Option<&str>) -> (Self, Vec<DamagedPlace>) {
        let lines = lines::objects(bytes);
        let mut reader = Self::default();
        reader.updates.builder.folder(cwd);
        for line in &lines.objects {
            reader.line(line);
        }
        (reader, lines.damage)
    }

    fn line(&mut self, line: &Value) {
        // Early versions have the parameters alone.
        let params = if line["method"].is_string() {
            &line["params"]
        } else {
            line
        };
        let update = &params["update"];
        let millis = params["_meta"]["agentTimestampMs"].as_i64();
        let seconds = || Some(line["timestamp"].as_i64()?.saturating_mul(1000));
        let at = millis.or_else(seconds).map(Timestamp::from_millis);
        let at = self.updates.builder.at(at);
        if line["method"] == "_x.ai/session/update" {
            return self.extension(at, update);
        }
        if update["sessionUpdate"] == "user_message_chunk" {
            return self.user(at, update);
        }
        self.updates.update(at, update);
    }

    fn user(&mut self, at: Timestamp, update: &Value) {
        let meta = &update["_meta"];
        // A turn of the program's own.
        if meta["hostTurn"] == true {
            return self.updates.end_message();
        }
        let number = meta["promptIndex"].as_u64();
        if number != self.prompt {
            self.updates.end_message();
            self.prompt = number;
        }
        if !self.updates.goes_on(Role::User) {
            let has_numbers = self.has_numbers || number.is_some();
            self.has_numbers = has_numbers;
            self.counts.push(number.is_some() || !has_numbers);
        }
        let said = update["content"]["text"].as_str();
        let Some(plain) = said.and_then(without_context) else {
            return self.updates.update(at, update);
        };
        let mut update = update.clone();
        update["content"] = text(&plain);
        self.updates.update(at, &update);
    }

    /// Removes the prompts from this number on.
    fn go_back(&mut self, target: usize) {
        self.updates.end_message();
        let mut counted = (0..self.counts.len()).filter(|at| self.counts[*at]);
        if let Some(kept) = counted.nth(target) {
            self.updates
                .builder
                .remove_turns((self.counts.len() - kept) as u64);
            self.counts.truncate(kept);
        }
    }

    fn extension(&mut self, at: Timestamp, update: &Value) {
        match update["sessionUpdate"].as_str() {
            Some("rewind_marker") => {
                let target = number(&update["target_prompt_index"]);
                self.go_back(usize::try_from(target).unwrap_or(usize::MAX));
            }
            Some("turn_completed") => {
                let usage = &update["usage"];
                let (read, written) = (
                    number(&usage["cachedReadTokens"]),
                    number(&usage["cacheCreationTokens"]),
                );
                let thought = number(&usage["reasoningTokens"]);
                let spent = Spent {
                    input: number(&usage["inputTokens"]).saturating_sub(read + written),
                    output: number(&usage["outputTokens"]).saturating_sub(thought),
                    thought,
                    cached_read: read,
                    cached_write: written,
                    cost: usage["costUsdTicks"].as_f64().unwrap_or(0.0) / TICKS,
                };
                self.updates
                    .builder
                    .spent(update["prompt_id"].as_str(), spent);
                self.updates.stopped(&update["stop_reason"]);
            }
            Some(SPAWNED) => self.spawned.push(Spawned {
                session: as_text(&update["child_session_id"]),
                title: update["description"].as_str().map(str::to_owned),
            }),
            Some("session_summary_generated") => {
                let title = as_text(&update["session_summary"]);
                self.updates.builder.title(&title);
            }
            Some("auto_compact_completed") => {
                let summary = as_text(&update["summary_preview"]);
                self.updates.builder.thought(at, None, &summary);
            }
            Some("model_changed") => {
                self.updates
                    .builder
                    .state(&Value::Null, &update["model_id"]);
            }
            // The others are about the program, or what the protocol's updates say, too.
            _ => {}
        }
    }
}

/// A prompt without the context that is put in front of it for a subagent, if it has one.
fn without_context(said: &str) -> Option<String> {
    let tags = ["fork-context", "resume-context"];
    tags.iter().find_map(|tag| {
        let (before, rest) = said.split_once(&format!("<{tag}>"))?;
        let (_, behind) = rest.split_once(&format!("</{tag}>"))?;
        Some(format!("{before}{}", behind.trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_decoded() {
        for (name, expected) in [
            ("c%3A%2Fsrv%2Fa%20b", Some("c:/srv/a b")),
            ("c%3A%zz%2f%", Some("c:%zz/%")),
            ("plain", None),
            ("c%3A%ff", None),
        ] {
            assert_eq!(folder_of(Path::new(name)).as_deref(), expected, "{name}");
        }
    }
}

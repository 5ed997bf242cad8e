//! Claude Code: one file of JSON lines for each session, below `projects/`, in a folder for each
//! working directory. The folder's name does not tell the directory; the records do.

mod agents;
mod records;
mod tools;

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json;
use crate::sys::Timestamp;

use super::conversation::{ConversationBuilder, ToolConversation};
use super::deletion::{DeletionRule, SettingsFiles, ToolSettings};
use super::prompts::HistoryPrompt;
use super::{
    FoundConversation, RecordLinks, ToolFolders, Wanted, branch, has_any, has_extension, lines,
};

/// `$CLAUDE_CONFIG_DIR`, or `~/.claude`.
fn own(places: &ToolFolders) -> PathBuf {
    places.folder("CLAUDE_CONFIG_DIR", ".claude")
}

pub(super) fn root(places: &ToolFolders) -> PathBuf {
    own(places).join("projects")
}

/// `projects` of OpenClaude, which is made from it: in `$OPENCLAUDE_CONFIG_DIR`, or in `~/.openclaude`.
pub(super) fn open_claude_root(places: &ToolFolders) -> PathBuf {
    places
        .folder("OPENCLAUDE_CONFIG_DIR", ".openclaude")
        .join("projects")
}

/// The rule of OpenClaude, by the user's settings alone.
pub(super) fn open_claude_rule(
    places: &ToolFolders,
    _: Option<&Path>,
    files: &mut SettingsFiles,
) -> DeletionRule {
    let folder = places.folder("OPENCLAUDE_CONFIG_DIR", ".openclaude");
    let managed = ToolSettings::read(files, []);
    let settings = ToolSettings::read(files, [folder.join("settings.json")]);
    rule(&managed, &settings)
}

/// The days after which it deletes a session, unless settings say otherwise.
const DAYS: i64 = 30;

/// The setting of the days after which a session is deleted, and that for sessions of the desktop program.
const DAYS_KEPT: &str = "/cleanupPeriodDays";
const DESKTOP_DAYS_KEPT: &str = "/desktopSessionCleanupPeriodDays";

/// Sessions are deleted by the time of their files, after `cleanupPeriodDays`, in all projects at once.
/// A number that is not valid, or settings that cannot be read, keep it from deleting anything.
pub(super) fn deletion_rule(
    places: &ToolFolders,
    project: Option<&Path>,
    files: &mut SettingsFiles,
) -> DeletionRule {
    let managed = ToolSettings::read(files, managed_settings(places));
    rule(&managed, &settings(places, project, files))
}

fn rule(managed: &ToolSettings, settings: &ToolSettings) -> DeletionRule {
    let days = match (managed.value(DAYS_KEPT), settings.value(DAYS_KEPT)) {
        (Some(days), _) => days.as_i64(),
        _ if managed.are_broken() || settings.are_broken() => None,
        (None, Some(days)) => days.as_i64(),
        (None, None) => Some(DAYS),
    };
    DeletionRule::after_days(days.filter(|days| *days > 0))
}

/// Sessions that were begun or last continued in the desktop program are kept at any age as long as they are
/// there, or for `desktopSessionCleanupPeriodDays` if that is longer than the rule for all: unless the
/// organization sets that rule.
pub(super) fn deletion_rule_of_file(
    places: &ToolFolders,
    project: Option<&Path>,
    file: &Path,
    files: &mut SettingsFiles,
) -> Option<DeletionRule> {
    let managed = ToolSettings::read(files, managed_settings(places));
    let is_released = file.with_extension("desktop-released.json").exists();
    if managed.value(DAYS_KEPT).is_some() || is_released || !is_of_desktop(file) {
        return None;
    }
    let own = managed.value(DESKTOP_DAYS_KEPT).cloned();
    let own = own.or_else(|| {
        let settings = settings(places, project, files);
        settings.value(DESKTOP_DAYS_KEPT).cloned()
    });
    let days = own.and_then(|days| days.as_i64()).filter(|days| *days > 0);
    let own = DeletionRule::after_days(days);
    let usual = deletion_rule(places, project, files);
    Some(DeletionRule {
        age: own.age.and_then(|own| Some(own.max(usual.age?))),
        ..own
    })
}

/// The settings of the project and of the user.
fn settings(
    places: &ToolFolders,
    project: Option<&Path>,
    files: &mut SettingsFiles,
) -> ToolSettings {
    let of_project = project.map(|project| {
        let names = ["settings.local.json", "settings.json"];
        names.map(|name| project.join(".claude").join(name))
    });
    let users = own(places).join("settings.json");
    ToolSettings::read(files, of_project.into_iter().flatten().chain([users]))
}

/// How records name the desktop program, and its Cowork.
const DESKTOP: [&str; 2] = ["claude-desktop", "local-agent"];
/// How much is read at the beginning and at the end of a file for that, in bytes.
const ENDS: u64 = 64 * 1024;

/// Whether a session was begun or last continued in the desktop program. Files that cannot be read were not.
fn is_of_desktop(file: &Path) -> bool {
    let [head, tail] = ends(file, ENDS).unwrap_or_default();
    // Most files do not name it anywhere.
    if !DESKTOP
        .iter()
        .any(|name| head.contains(name) || tail.contains(name))
    {
        return false;
    }
    let [mut first, mut last] = [&head, &tail].map(|text| {
        let lines = text.lines();
        lines.filter_map(|line| json::string_member(line, "entrypoint"))
    });
    let of_desktop = |name: String| DESKTOP.contains(&&*name);
    first.next().is_some_and(of_desktop) || last.next_back().is_some_and(of_desktop)
}

/// The beginning and the end of a file, each of so many bytes.
fn ends(file: &Path, bytes: u64) -> std::io::Result<[String; 2]> {
    let mut file = std::fs::File::open(file)?;
    let length = file.metadata()?.len();
    let mut read = |from: u64| {
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.by_ref().take(bytes).read_to_end(&mut text)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&text).into_owned())
    };
    Ok([read(0)?, read(length.saturating_sub(bytes))?])
}

/// The settings of the organization, the most important first: of the parts, those with later names.
fn managed_settings(places: &ToolFolders) -> Vec<PathBuf> {
    let folders = [
        "etc/claude-code",
        "Library/Application Support/ClaudeCode",
        "Program Files/ClaudeCode",
    ];
    let whole = places.of_system(folders, "managed-settings.json");
    let parts = places.of_system(folders, "managed-settings.d");
    let parts = parts.and_then(|parts| std::fs::read_dir(parts).ok());
    let parts = parts.into_iter().flatten().flatten();
    let mut parts: Vec<_> = parts
        .map(|part| part.path())
        .filter(|part| has_extension(part, &["json"]))
        .collect();
    parts.sort();
    whole.into_iter().chain(parts).rev().collect()
}

/// The history of prompts, in which those of earlier versions do not name their session.
pub(super) fn prompt_history(places: &ToolFolders) -> PathBuf {
    own(places).join("history.jsonl")
}

pub(super) fn history_prompt(line: &Value) -> Option<HistoryPrompt> {
    Some(HistoryPrompt {
        conversation: line["sessionId"].as_str()?.to_owned(),
        at: Timestamp::from_millis(line["timestamp"].as_i64()?),
        cwd: line["project"].as_str().map(str::to_owned),
        text: line["display"].as_str()?.to_owned(),
    })
}

/// `FOLDER/ID.jsonl`. Others are subagents, in the same folder or further down.
pub(super) fn is_conversation(path: &Path) -> bool {
    let [_, name] = super::parts(path)[..] else {
        return false;
    };
    has_extension(name, &["jsonl"]) && !name.starts_with("agent-")
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let lines = lines::objects(bytes);
    let id = found.path.file_stem().and_then(|name| name.to_str());
    let kept = branch::shown(&lines.objects, branch::SameId::Copies);
    let mut reader = records::ClaudeCodeReader::new(ConversationBuilder::default());
    let shown = lines.objects.iter().zip(kept).filter(|(_, kept)| *kept);
    for (record, _) in shown {
        reader.record(record);
    }
    let cwd = folder(&lines.objects).map(str::to_owned);
    let conversation = reader.finish().finish(id.map(str::to_owned), cwd);
    let may_have_subagents = || has_any(bytes, &MARKS) || agents::folder(found).exists();
    if let Some(wanted) = wanted.filter(|_| may_have_subagents()) {
        wanted.extend(agents::read(found, &lines.objects));
    }
    conversation.damaged(lines.damage)
}

/// How records follow from each other. A record of the cost has that of the whole session.
pub(super) const LINKS: RecordLinks = RecordLinks {
    names: |record, names| {
        names.extend(record["uuid"].as_str());
        let blocks = branch::blocks(record).iter();
        names.extend(blocks.filter_map(|block| block["id"].as_str()));
    },
    needs: |record, needed| {
        branch::parents(record, needed);
        let blocks = branch::blocks(record).iter();
        needed.extend(blocks.filter_map(|block| block["tool_use_id"].as_str()));
        record["type"] != "cost-state"
    },
};

/// The folder of a session: the last one that is not below the first one. Records within that are of
/// commands that went into a folder of the project; else the project was moved, or left.
fn folder(records: &[Value]) -> Option<&str> {
    let mut folders = records.iter().filter_map(|record| record["cwd"].as_str());
    let first = folders.next()?;
    let last = folders.next_back();
    Some(
        last.filter(|last| !Path::new(last).starts_with(first))
            .unwrap_or(first),
    )
}

/// The name of the member with a subagent's id.
const AGENT_ID: &str = "agentId";

/// A session with subagents has one of these, or a folder for them.
pub(super) const MARKS: [&str; 3] = ["isSidechain\":true", "isSidechain\": true", AGENT_ID];

/// The files of subagents, and all those beside the session that any session may have.
pub(super) fn others(found: &FoundConversation, bytes: &[u8], is_marked: bool) -> Vec<PathBuf> {
    if !is_marked && !agents::folder(found).exists() {
        return Vec::new();
    }
    let names_agents = has_any(bytes, &[AGENT_ID]);
    let beside = found.path.parent().filter(|_| names_agents);
    let beside = beside.map(agents::inside).unwrap_or_default();
    agents::files(found, beside)
}

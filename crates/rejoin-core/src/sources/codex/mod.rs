//! Codex: one file of JSON lines for each thread, its "rollout", below `sessions/YEAR/MONTH/DAY/`, or
//! in `archived_sessions/`.

mod agents;
mod command;
mod items;
mod patch;
mod rollouts;
mod threads;
mod tool;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;

use crate::sys::Timestamp;

use super::conversation::{ConversationBuilder, ToolConversation};
use super::damage::{DamageKind, DamagedPlace};
use super::prompts::HistoryPrompt;
use super::{FoundConversation, RecordLinks, ToolFolders, Wanted, has_any, has_extension, lines};

/// `$CODEX_HOME`, or `~/.codex`.
pub(super) fn root(places: &ToolFolders) -> PathBuf {
    places.folder("CODEX_HOME", ".codex")
}

/// The history of prompts.
pub(super) fn prompt_history(places: &ToolFolders) -> PathBuf {
    root(places).join("history.jsonl")
}

pub(super) fn history_prompt(line: &Value) -> Option<HistoryPrompt> {
    Some(HistoryPrompt {
        conversation: line["session_id"].as_str()?.to_owned(),
        at: Timestamp::from_millis(line["ts"].as_i64()?.checked_mul(1000)?),
        cwd: None,
        text: line["text"].as_str()?.to_owned(),
    })
}

/// The threads that the user has pinned.
pub(super) fn pins(places: &ToolFolders) -> HashSet<String> {
    let threads = threads::of(&root(places));
    let pinned = threads.iter().filter(|(_, state)| state.is_pinned);
    pinned.map(|(id, _)| id.clone()).collect()
}

/// The folder of the threads that the user has put away.
const ARCHIVE: &str = "archived_sessions";

/// How many times as long as a compressed file its content may be, beyond these bytes. Rollouts are
/// ten to thirty times as long; what is far beyond that was made to fill the memory.
const LARGEST_RATIO: u64 = 200;
const LARGEST_SMALL: u64 = 16 << 20;

/// `sessions/YEAR/MONTH/DAY/rollout-….jsonl` or `archived_sessions/rollout-….jsonl`, or the same
/// compressed, as `.jsonl.zst`.
pub(super) fn is_conversation(path: &Path) -> bool {
    let parts = super::parts(path);
    let ["sessions" | ARCHIVE, .., name] = parts[..] else {
        return false;
    };
    let name_of_plain = name.strip_suffix(".zst").unwrap_or(name);
    name.starts_with("rollout-") && has_extension(name_of_plain, &["jsonl"])
}

/// Leaves the last rollout of each thread, and of one that is also compressed, the plain one. A thread that
/// was rewound has several: the first one is named after the thread, the others after the thread and
/// themselves, with ids that grow with time.
pub(super) fn choose(found: &mut Vec<FoundConversation>) {
    let plain = found.iter().filter(|found| !is_compressed(&found.path));
    let plain: HashSet<OsString> = plain
        .filter_map(|found| Some(found.path.file_name()?.to_owned()))
        .collect();
    found.retain(|found| {
        let name = found
            .path
            .file_stem()
            .filter(|_| is_compressed(&found.path));
        name.is_none_or(|name| !plain.contains(name))
    });
    let mut last: HashMap<String, String> = HashMap::new();
    for (thread, rollout) in found.iter().filter_map(|found| ids(&found.path)) {
        if let Some(rollout) = rollout {
            let known = last.entry(thread.to_owned()).or_default();
            if known.as_str() < rollout {
                rollout.clone_into(known);
            }
        }
    }
    if !last.is_empty() {
        found.retain(|found| {
            let ids = ids(&found.path);
            let known = ids.and_then(|(thread, rollout)| Some((last.get(thread)?, rollout)));
            known.is_none_or(|(last, rollout)| rollout == Some(last))
        });
    }
}

/// The id of the thread in a rollout's name, and that of the rollout if the thread was rewound.
fn ids(path: &Path) -> Option<(&str, Option<&str>)> {
    const ID: usize = 36;
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let name = name.strip_suffix(".jsonl")?;
    let (name, rollout) = match name.rsplit_once('_') {
        Some((name, rollout)) => (name, Some(rollout)),
        None => (name, None),
    };
    let thread = name.get(name.len().checked_sub(ID)?..)?;
    Some((thread, rollout))
}

pub(super) fn read(
    found: &FoundConversation,
    bytes: &[u8],
    wanted: Wanted<'_>,
) -> ToolConversation {
    let (bytes, is_whole) = plain(&found.path, bytes);
    let lines = lines::objects(&bytes);
    let mut records = lines.objects;
    let goes_on = rollouts::may_inherit(&bytes);
    if let Some(head) = records.first().filter(|_| goes_on) {
        let before = rollouts::inherited(found, head, wanted.is_some());
        records.splice(1..1, before);
    }
    let mut reader = items::CodexReader::new(ConversationBuilder::default(), &records);
    for record in &records {
        reader.record(record);
    }
    if let Some(wanted) = wanted.filter(|_| goes_on || has_any(&bytes, &MARKS)) {
        wanted.extend(agents::read(found, reader.threads(), &records));
    }
    let mut damage = lines.damage;
    if !is_whole {
        let last = memchr::memchr_iter(b'\n', &bytes).count();
        damage.push(DamagedPlace::of(last + 1, DamageKind::Torn));
    }
    let id = reader.id();
    let state = id.and_then(|id| threads::of(&found.root).get(id).cloned());
    let state = state.unwrap_or_default();
    let is_put_away = found
        .path
        .parent()
        .is_some_and(|folder| folder.ends_with(ARCHIVE));
    let conversation = reader.finish(state.name.as_deref(), is_put_away || state.is_archived);
    conversation.damaged(damage)
}

/// How records follow from each other. A rollback takes turns back, and what is typed into a terminal may be
/// for a command of long ago.
pub(super) const LINKS: RecordLinks = RecordLinks {
    names: |record, names| {
        let payload = &record["payload"];
        let is_output = |kind: &str| kind.ends_with("_output");
        if !payload["type"].as_str().is_some_and(is_output) {
            names.extend(payload["call_id"].as_str());
        }
    },
    needs: |record, needed| {
        let payload = &record["payload"];
        needed.extend(
            payload["call_id"]
                .as_str()
                .filter(|_| payload["output"] != Value::Null),
        );
        let is_typed = matches!(payload["name"].as_str(), Some("write_stdin" | "wait"));
        !is_typed && payload["type"] != "thread_rolled_back" && record["type"] != "session_meta"
    },
};

/// All ways to start a subagent have one of these in their names.
pub(super) const MARKS: [&str; 3] = ["spawn_", "_spawn", "spawnAgent"];

/// The files of subagents; none if one of the files is compressed, or if the thread goes on from the
/// history of another one.
pub(super) fn others(
    found: &FoundConversation,
    bytes: &[u8],
    is_marked: bool,
) -> Option<Vec<PathBuf>> {
    if is_compressed(&found.path) || rollouts::may_inherit(bytes) {
        return None;
    }
    if is_marked {
        return agents::others(found, bytes);
    }
    Some(Vec::new())
}

/// Whether a file is compressed.
pub(super) fn is_compressed(path: &Path) -> bool {
    has_extension(path, &["zst"])
}

/// The content of a file, decompressed as far as possible, and whether that is all of it.
pub(super) fn plain<'a>(path: &Path, bytes: &'a [u8]) -> (Cow<'a, [u8]>, bool) {
    if !is_compressed(path) {
        return (Cow::Borrowed(bytes), true);
    }
    let mut plain = Vec::new();
    let largest = LARGEST_SMALL + LARGEST_RATIO * bytes.len() as u64;
    let decoder = StreamingDecoder::new(bytes);
    let decoded = decoder.map(|decoder| decoder.take(largest).read_to_end(&mut plain));
    let is_whole = decoded.is_ok_and(|read| read.is_ok_and(|len| (len as u64) < largest));
    (Cow::Owned(plain), is_whole)
}

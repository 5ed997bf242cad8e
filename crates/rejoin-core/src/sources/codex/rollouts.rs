//! Other rollouts than the one that is read, and the history that a rollout goes on from and does not
//! repeat: that of the thread it was forked from, or of its own thread up to where that was rewound
//! (Codex since 0.153).
//!
//! The head of such a rollout names another one and the number of the first record there that does not
//! count. That one may go on from a further one.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memmem;
use serde_json::Value;

use crate::sys::Timestamp;

use super::super::{FoundConversation, lines};
use super::{is_compressed, plain};

/// The most rollouts that one goes on from, one after the other.
const MOST: usize = 64;
/// How much of each is read for an entry of a list, in bytes.
const GLANCE: u64 = 64 << 10;
/// The member that names the other rollout.
const MARK: &[u8] = b"\"history_base\":{";

/// Whether a rollout with these bytes may go on from another one.
pub(super) fn may_inherit(bytes: &[u8]) -> bool {
    let head = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    memmem::find(&bytes[..head], MARK).is_some()
}

/// The records that count before those of a rollout, whose first record is `head`: the oldest first,
/// without the heads of the rollouts they are in. Only the beginning of each is read unless it is the
/// `whole` history that is wanted.
pub(super) fn inherited(found: &FoundConversation, head: &Value, whole: bool) -> Vec<Value> {
    let mut parts: Vec<Vec<Value>> = Vec::new();
    let mut base = head["payload"]["history_base"].clone();
    let mut known: Vec<PathBuf> = vec![found.path.clone()];
    while let (Some(thread), Some(end)) = (
        base["thread_id"].as_str(),
        base["end_ordinal_exclusive"].as_u64(),
    ) {
        let path = file(found, thread);
        let Some(path) = path.filter(|path| !known.contains(path) && known.len() <= MOST) else {
            tracing::info!(path = %found.path.display(), "the history before it is not there");
            break;
        };
        let Ok(bytes) = read(&path, whole) else {
            tracing::info!(path = %path.display(), "the history of another thread cannot be read");
            break;
        };
        let (bytes, _) = plain(&path, &bytes);
        let mut records = lines::objects(&bytes).objects;
        let is_head = |record: &Value| record["type"] == "session_meta";
        base = records
            .iter()
            .find(|record| is_head(record))
            .map_or(Value::Null, |head| head["payload"]["history_base"].clone());
        records.retain(|record| {
            let is_before = record["ordinal"].as_u64().is_some_and(|at| at < end);
            is_before && !is_head(record)
        });
        parts.push(records);
        known.push(path);
    }
    parts.into_iter().rev().flatten().collect()
}

/// A file's bytes: all of them, or those at its beginning.
fn read(path: &Path, whole: bool) -> std::io::Result<Vec<u8>> {
    if whole || is_compressed(path) {
        return super::super::bytes(path);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(GLANCE).read_to_end(&mut bytes)?;
    let complete = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    bytes.truncate(complete);
    Ok(bytes)
}

/// The rollout with this id, which is that of its thread unless the thread was rewound. The id has the
/// time of its beginning, and so the day of its folder, give or take one.
pub(super) fn file(found: &FoundConversation, thread: &str) -> Option<PathBuf> {
    let digits: String = thread.chars().filter(|c| *c != '-').take(12).collect();
    let began = i64::from_str_radix(&digits, 16).ok()?;
    let days = [0, -1, 1].map(|days| {
        let day = Timestamp::from_millis(began + days * 24 * 60 * 60 * 1000).to_string();
        let day = day.split('T').next().unwrap_or_default().replace('-', "/");
        found.root.join("sessions").join(day)
    });
    let archive = [found.root.join("archived_sessions")];
    let folders = found
        .path
        .parent()
        .map(PathBuf::from)
        .into_iter()
        .chain(days)
        .chain(archive);
    let ends = ["-", "_"].map(|before| format!("{before}{thread}.jsonl"));
    let is_of_thread = |name: &str| {
        let plain = name.strip_suffix(".zst").unwrap_or(name);
        ends.iter().any(|end| plain.ends_with(end))
    };
    for folder in folders {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        files.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(is_of_thread) && path.is_file()
        });
        // The plain one comes first.
        files.sort();
        if let Some(path) = files.into_iter().next() {
            return Some(path);
        }
    }
    None
}

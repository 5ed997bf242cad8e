//! The subagents of a thread: threads of their own, whose rollouts are beside others.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;

use memchr::memmem;
use serde_json::Value;

use crate::sys::Timestamp;

use super::super::conversation::ConversationBuilder;
use super::super::subagents::SourceSubagent;
use super::super::{FoundConversation, lines};
use super::{is_compressed, items, plain};

/// The most subagents of a thread, with theirs.
const MOST: usize = 1000;

/// The subagents with these threads, of a thread with these records, and theirs.
pub(super) fn read(
    found: &FoundConversation,
    mut threads: Vec<(String, String)>,
    records: &[Value],
) -> Vec<SourceSubagent> {
    let mut turns: HashSet<String> = turns(records).map(str::to_owned).collect();
    let mut known: HashSet<String> = HashSet::new();
    let mut subagents = Vec::new();
    while let Some((thread, call)) = threads.pop() {
        if known.len() > MOST || !known.insert(thread.clone()) {
            continue;
        }
        let Some(path) = file(found, &thread) else {
            continue;
        };
        let Ok(bytes) = super::super::bytes(&path) else {
            tracing::info!(path = %path.display(), "a subagent could not be read");
            continue;
        };
        let (bytes, _) = plain(&path, &bytes);
        let lines = lines::objects(&bytes);
        let records = lines.objects;
        // The file may begin with a copy of the records of the thread that started the subagent.
        let is_copied = |record: &Value| turn(record).is_some_and(|turn| turns.contains(turn));
        let copied = records.iter().rposition(is_copied);
        let own = copied.and_then(|copied| {
            let next = records[copied..]
                .iter()
                .position(|record| turn(record).is_some_and(|turn| !turns.contains(turn)));
            next.map(|next| copied + next)
        });
        let own = own.unwrap_or(if copied.is_some() { records.len() } else { 0 });
        let (copy, own) = records.split_at(own);
        let mut reader = items::CodexReader::new(ConversationBuilder::default(), own);
        if let Some(head) = copy.first() {
            reader.record(head);
        }
        for record in copy {
            reader.skip(record);
        }
        for record in own {
            reader.record(record);
        }
        turns.extend(self::turns(&records).map(str::to_owned));
        threads.extend(reader.threads());
        if let Some(read) = reader.of_subagent() {
            let subagent = SourceSubagent::new(thread, Some(call), read);
            subagents.push(subagent.damaged(lines.damage));
        }
    }
    subagents
}

/// The rollouts of the subagents of a thread with these records, and of theirs, and perhaps others;
/// none if one is compressed or cannot be read.
pub(super) fn others(found: &FoundConversation, bytes: &[u8]) -> Option<Vec<PathBuf>> {
    let mut threads = named_threads(bytes)?;
    let mut known: HashSet<String> = HashSet::new();
    let mut others = Vec::new();
    while let Some(thread) = threads.pop() {
        if known.len() > MOST || !known.insert(thread.clone()) {
            continue;
        }
        if let Some(path) = file(found, &thread) {
            let bytes = super::super::bytes(&path).ok();
            let bytes = bytes.filter(|_| !is_compressed(&path))?;
            threads.extend(named_threads(&bytes)?);
            others.push(path);
        }
    }
    Some(others)
}

/// The threads that are named in a rollout; none if one may be written with escapes.
fn named_threads(bytes: &[u8]) -> Option<Vec<String>> {
    let mut threads = BTreeSet::new();
    for name in ["agent_id", "thread_id"] {
        for at in memmem::find_iter(bytes, name) {
            let behind = &bytes[at + name.len()..];
            // The object may be in a string.
            let start = behind.iter().position(|byte| !b"\\\": ".contains(byte));
            let behind = &behind[start.unwrap_or(behind.len())..];
            let end = behind.iter().position(|byte| b"\\\" ,".contains(byte));
            let (thread, rest) = behind.split_at(end.unwrap_or(behind.len()));
            let after = rest.iter().find(|byte| **byte != b'\\');
            if thread.starts_with(b"u") || rest.starts_with(b"\\") && after == Some(&b'u') {
                return None;
            }
            threads.insert(String::from_utf8_lossy(thread).into_owned());
        }
    }
    Some(threads.into_iter().collect())
}

/// The turn that a record begins.
fn turn(record: &Value) -> Option<&str> {
    let is_turn = record["type"] == "turn_context";
    record["payload"]["turn_id"].as_str().filter(|_| is_turn)
}

fn turns(records: &[Value]) -> impl Iterator<Item = &str> {
    records.iter().filter_map(turn)
}

/// The rollout of a thread. Its id has the time of its beginning, and so the day of its folder, give
/// or take one.
fn file(found: &FoundConversation, thread: &str) -> Option<PathBuf> {
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
    let ends = [format!("-{thread}.jsonl"), format!("-{thread}.jsonl.zst")];
    for folder in folders {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        files.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| ends.iter().any(|end| name.ends_with(end))) && path.is_file()
        });
        // The plain one comes first.
        files.sort();
        if let Some(path) = files.into_iter().next() {
            return Some(path);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_without_reading_records() {
        let bytes = br#"{"thread_id":"0190-a"} {"output":"{\"agent_id\": \"0190-b\"}"} no thread_id, "agent_id":null"#;
        let found = named_threads(bytes).unwrap();
        assert_eq!(found, ["", "0190-a", "0190-b", "null"]);
        for escaped in [r#""agent_id":"\u0030""#, r#""agent_id":"01\u0030""#] {
            assert_eq!(named_threads(escaped.as_bytes()), None);
        }
    }
}

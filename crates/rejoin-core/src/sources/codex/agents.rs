//! The subagents of a thread: threads of their own, whose rollouts are beside others.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use memchr::memmem;
use serde_json::Value;

use super::super::conversation::ConversationBuilder;
use super::super::subagents::SourceSubagent;
use super::super::{FoundConversation, lines};
use super::{is_compressed, items, plain, rollouts};

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
        let Some(path) = rollouts::file(found, &thread) else {
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
        if let Some(path) = rollouts::file(found, &thread) {
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

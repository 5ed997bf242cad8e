//! The subagents of a thread: threads of their own, whose rollouts are beside others.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::sys::Timestamp;

use super::super::conversation::Builder;
use super::super::subagents::Subagent;
use super::super::{Found, lines};
use super::{items, plain};

/// The most subagents of a thread, with theirs.
const MOST: usize = 1000;

/// The subagents with these threads, of a thread with these records, and theirs.
pub(super) fn read(
    found: &Found,
    mut threads: Vec<(String, String)>,
    records: &[Value],
) -> Vec<Subagent> {
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
        let records = lines::objects(&bytes).objects;
        // It may begin with a copy of the records of the thread that started it.
        let is_copied = |record: &Value| turn(record).is_some_and(|turn| turns.contains(turn));
        let copied = records.iter().rposition(is_copied);
        let own = copied.and_then(|copied| {
            let next = records[copied..]
                .iter()
                .position(|record| turn(record).is_some_and(|turn| !turns.contains(turn)));
            next.map(|next| copied + next)
        });
        let mut reader = items::Reader::new(Builder::default(), &records);
        if let (Some(head), Some(_)) = (records.first(), copied) {
            reader.record(head);
        }
        let own = own.unwrap_or(if copied.is_some() { records.len() } else { 0 });
        for record in &records[own..] {
            reader.record(record);
        }
        turns.extend(self::turns(&records).map(str::to_owned));
        threads.extend(reader.threads());
        if let Some(read) = reader.of_subagent() {
            subagents.push(Subagent::new(thread, Some(call), read));
        }
    }
    subagents
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
fn file(found: &Found, thread: &str) -> Option<PathBuf> {
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

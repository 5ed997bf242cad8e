//! The subagents of pi and Oh My Pi: sessions of their own in a folder of the session's name, of whose
//! calls the results name them. Of those without a file there, a transcript may be in a folder beside the
//! session.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::conversation::ConversationBuilder;
use super::super::subagents::SourceSubagent;
use super::super::{FoundConversation, has_extension, lines};
use super::PiReader;

/// The most subagents of a session, with theirs.
const MOST: usize = 1000;

/// How many folders deep they are: those of a run, of each of its steps, and of what these start.
const DEPTH: usize = 8;

/// The folder with transcripts, beside the sessions of a project, and how the names of these end.
const TRANSCRIPTS: &str = "subagent-artifacts";
const TRANSCRIPT: &str = "_transcript.jsonl";

/// The result of a call that has started subagents.
struct SubagentResult<'a> {
    call: &'a str,
    details: &'a Value,
    /// The details as text.
    text: String,
}

impl<'a> SubagentResult<'a> {
    /// The results in a session with these entries.
    fn of(entries: &'a [Value]) -> Vec<Self> {
        let results = entries.iter().filter_map(|entry| {
            let message = &entry["message"];
            let details = &message["details"];
            let is_result = message["role"] == "toolResult" && details.is_object();
            Some(Self {
                call: message["toolCallId"].as_str().filter(|_| is_result)?,
                details,
                text: details.to_string(),
            })
        });
        results.collect()
    }

    /// Whether it names the subagent in this file, or the runs in whose folders that is.
    fn names(&self, inside: &Path) -> bool {
        let names = super::super::parts(inside);
        let Some((file, folders)) = names.split_last() else {
            return false;
        };
        let own = file.strip_suffix(".jsonl").filter(|own| is_own_name(own));
        let mut runs = folders.iter().filter(|name| is_own_name(name)).peekable();
        own.is_some_and(|own| self.has_word(own))
            || runs.peek().is_some() && runs.all(|run| self.has_word(run))
    }

    /// Whether it has a name as a whole word.
    fn has_word(&self, name: &str) -> bool {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        self.text.match_indices(name).any(|(at, _)| {
            let (before, after) = (&self.text[..at], &self.text[at + name.len()..]);
            !before.ends_with(is_word) && !after.starts_with(is_word)
        })
    }

    /// The name of the agent that it says was in this file, or is the only one.
    fn agent(&self, inside: &Path) -> Option<&str> {
        let results = self.details["results"].as_array()?;
        let is_it = |result: &&Value| {
            let file = result["sessionFile"].as_str();
            file.is_some_and(|file| Path::new(file).ends_with(inside))
        };
        let only = results.first().filter(|_| results.len() == 1);
        results.iter().find(is_it).or(only)?["agent"].as_str()
    }
}

/// Whether this is the name of one run or subagent, and not one that is in each of them.
fn is_own_name(name: &str) -> bool {
    let common = ["run-", "forks", "session", "parallel-", "dynamic-"];
    name.len() > 3 && !common.iter().any(|common| name.starts_with(common))
}

/// The subagents of a session with these entries.
pub(super) fn read(found: &FoundConversation, entries: &[Value]) -> Vec<SourceSubagent> {
    let folder = found.path.with_extension("");
    let files = files(&folder);
    let transcripts_of_all = found.path.with_file_name(TRANSCRIPTS);
    if files.is_empty() && !transcripts_of_all.is_dir() {
        return Vec::new();
    }
    let results = SubagentResult::of(entries);
    // A fork begins with a copy of the session.
    let mut known: HashSet<String> = ids(entries).map(str::to_owned).collect();
    let mut subagents: Vec<SourceSubagent> = Vec::new();
    let mut add = |path: &Path, inside: &Path| {
        let Ok(bytes) = super::super::bytes(path) else {
            return tracing::info!(path = %path.display(), "a subagent could not be read");
        };
        let lines = lines::objects(&bytes);
        let own = entries_of(lines.objects);
        let head = own.iter().find(|entry| entry["type"] == "session");
        let id = head.and_then(|head| head["id"].as_str());
        let id = id.map_or_else(
            || inside.with_extension("").to_string_lossy().into(),
            str::to_owned,
        );
        if subagents.len() >= MOST || subagents.iter().any(|subagent| subagent.id == id) {
            return;
        }
        let result = results.iter().find(|result| result.names(inside));
        let init = own.iter().find(|entry| entry["type"] == "session_init");
        let agent = result.and_then(|result| result.agent(inside));
        let agent = agent.or_else(|| init?["agent"].as_str()).map(str::to_owned);
        let call = result.map(|result| result.call.to_owned());
        let cwd = head.and_then(|head| head["cwd"].as_str());
        let mut builder = ConversationBuilder::default();
        builder.folder(cwd);
        let mut reader = PiReader::new(found, builder);
        reader.branch(&own, |id| !known.contains(id));
        known.extend(ids(&own).map(str::to_owned));
        let subagent = SourceSubagent::new(id, call, reader.builder);
        let mut subagent = subagent.damaged(lines.damage);
        subagent.title = agent;
        subagents.push(subagent);
    };
    for inside in &files {
        add(&folder.join(inside), inside);
    }
    for (path, run) in transcripts(&transcripts_of_all, &results) {
        let is_there = files
            .iter()
            .any(|file| file.iter().any(|part| part == OsStr::new(&run)));
        if !is_there && let Some(name) = path.file_name() {
            add(&path, &Path::new(&run).join(name));
        }
    }
    subagents
}

/// The ids of entries.
fn ids(entries: &[Value]) -> impl Iterator<Item = &str> {
    let entries = entries.iter().filter(|entry| entry["type"] != "session");
    entries.filter_map(|entry| entry["id"].as_str())
}

/// The entries of a session, or what a transcript has as such.
fn entries_of(mut records: Vec<Value>) -> Vec<Value> {
    for record in &mut records {
        if record["recordType"] == "message" {
            *record = json!({ "type": "message", "timestamp": record["timestamp"],
                "message": record["message"].take() });
        }
    }
    // The others of a transcript are what messages have, too.
    records.retain(|record| record["recordType"].is_null());
    records
}

/// The files of subagents and of theirs, as paths from the session's folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![(PathBuf::new(), DEPTH)];
    while let Some((inside, depth)) = folders.pop() {
        let entries = fs::read_dir(folder.join(&inside)).into_iter().flatten();
        for entry in entries.flatten() {
            let path = inside.join(entry.file_name());
            // A link may lead to a folder above.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth > 0 {
                folders.push((path, depth - 1));
            } else if !is_folder && has_extension(&path, &["jsonl"]) && files.len() < MOST {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The transcripts of the runs that results name, with the runs.
fn transcripts(folder: &Path, results: &[SubagentResult<'_>]) -> Vec<(PathBuf, String)> {
    let files = fs::read_dir(folder).into_iter().flatten();
    let files = files.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?.strip_suffix(TRANSCRIPT)?;
        let run = name.split_once('_')?.0;
        let is_ours = results.iter().any(|result| result.has_word(run));
        (is_ours && is_own_name(run)).then(|| (entry.path(), run.to_owned()))
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// The files with words of subagents.
pub(in crate::sources) fn others(found: &FoundConversation, bytes: &[u8]) -> Vec<PathBuf> {
    let folder = found.path.with_extension("");
    let mut others: Vec<PathBuf> = files(&folder)
        .iter()
        .map(|file| folder.join(file))
        .collect();
    if super::super::has_any(bytes, &[DETAILS]) {
        let entries = lines::objects(bytes).objects;
        let all = found.path.with_file_name(TRANSCRIPTS);
        let transcripts = transcripts(&all, &SubagentResult::of(&entries));
        others.extend(transcripts.into_iter().map(|(path, _)| path));
    }
    others
}

/// The name of a member of the results that name runs.
const DETAILS: &str = "\"runId\"";

//! The subagents of Claude Code. Their records are in the session's own file (up to 1.0), in files
//! beside it (2.0), or in `subagents` in a folder of the session's name.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::branch::blocks;
use super::super::conversation::ConversationBuilder;
use super::super::subagents::SourceSubagent;
use super::super::{FoundConversation, has_extension, lines};
use super::records::ClaudeCodeReader;

/// The calls that started subagents, from the session's records.
#[derive(Debug, Default)]
struct SubagentCalls<'a> {
    /// By the agents' ids, from the results.
    by_agent: HashMap<&'a str, &'a str>,
    /// By the prompts, which several may have.
    by_prompt: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> SubagentCalls<'a> {
    fn of(records: &'a [Value]) -> Self {
        let mut calls = Self::default();
        for record in records {
            for block in blocks(record) {
                let agent = record["toolUseResult"]["agentId"].as_str();
                if let (Some(agent), Some(call)) = (agent, block["tool_use_id"].as_str()) {
                    calls.by_agent.insert(agent, call);
                }
                let prompt = block["input"]["prompt"].as_str();
                if let (Some(prompt), Some(call)) = (prompt, block["id"].as_str()) {
                    calls.by_prompt.entry(prompt.trim()).or_default().push(call);
                }
            }
        }
        for calls in calls.by_prompt.values_mut() {
            calls.reverse();
        }
        calls
    }

    /// The call of a subagent that was given this prompt. The next one with it gets the next call.
    fn of_prompt(&mut self, first: &Value) -> Option<String> {
        let content = &first["message"]["content"];
        let prompt = content.as_str().or(content[0]["text"].as_str())?;
        let call = self.by_prompt.get_mut(prompt.trim())?.pop()?;
        Some(call.to_owned())
    }
}

/// The subagents of a session that has these records.
pub(super) fn read(found: &FoundConversation, records: &[Value]) -> Vec<SourceSubagent> {
    let mut calls = SubagentCalls::of(records);
    let mut subagents = Vec::new();
    for branch in sidechains(records) {
        let agent = branch[0]["agentId"].as_str();
        let agent = agent.map(|agent| format!("agent-{agent}"));
        let id = agent.or_else(|| branch[0]["uuid"].as_str().map(str::to_owned));
        let Some(id) = id else {
            continue;
        };
        let call = calls.of_prompt(branch[0]);
        subagents.push(SourceSubagent::new(id, call, builder(branch.into_iter())));
    }
    let agents = calls.by_agent.keys();
    let beside = agents.map(|agent| found.path.with_file_name(format!("agent-{agent}.jsonl")));
    for path in files(found, beside.collect()) {
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        if subagents.iter().any(|known| known.id == name) {
            continue;
        }
        let Ok(bytes) = super::super::bytes(&path) else {
            tracing::info!(path = %path.display(), "a subagent could not be read");
            continue;
        };
        let lines = lines::objects(&bytes);
        let records = lines.objects;
        let about = super::super::json_file(&path.with_extension("meta.json"));
        let agent = name.strip_prefix("agent-").unwrap_or(name);
        let call = calls.by_agent.get(agent).copied();
        let call = call.or(about["toolUseId"].as_str()).map(str::to_owned);
        let call = call.or_else(|| calls.of_prompt(records.first()?));
        let subagent = SourceSubagent::new(name, call, builder(records.iter()));
        let mut subagent = subagent.damaged(lines.damage);
        subagent.title = about["agentType"].as_str().map(str::to_owned);
        subagents.push(subagent);
    }
    subagents
}

fn builder<'a>(records: impl Iterator<Item = &'a Value>) -> ConversationBuilder {
    let mut reader = ClaudeCodeReader::new(ConversationBuilder::default());
    for record in records {
        reader.record(record);
    }
    reader.finish()
}

/// The records of the subagents in the session's own file, each with those that follow from its
/// first one.
fn sidechains(records: &[Value]) -> Vec<Vec<&Value>> {
    let mut branches: Vec<Vec<&Value>> = Vec::new();
    let mut of_record: HashMap<&str, usize> = HashMap::new();
    for record in records
        .iter()
        .filter(|record| record["isSidechain"] == true)
    {
        let parent = record["parentUuid"].as_str();
        let branch = parent.and_then(|parent| of_record.get(parent).copied());
        let branch = branch.unwrap_or_else(|| {
            branches.push(Vec::new());
            branches.len() - 1
        });
        branches[branch].push(record);
        if let Some(id) = record["uuid"].as_str() {
            of_record.insert(id, branch);
        }
    }
    branches
}

/// The folder of the session's subagents.
pub(super) fn folder(found: &FoundConversation) -> PathBuf {
    found.path.with_extension("").join("subagents")
}

/// The paths in a folder.
pub(super) fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The files of the session's subagents, in the order of their names, with those beside the session.
pub(super) fn files(found: &FoundConversation, beside: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_one = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("agent-")) && has_extension(path, &["jsonl"])
    };
    let own = folder(found);
    let mut files = inside(&own);
    files.extend(
        inside(&own.join("workflows"))
            .iter()
            .flat_map(|folder| inside(folder)),
    );
    files.extend(beside);
    files.retain(|path| is_one(path) && path.is_file());
    files.sort();
    files
}

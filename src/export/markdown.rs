//! The export as Markdown: turns as headings, tool calls as short paragraphs with their output.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::json;
use crate::protocol::Role;
use crate::record::transcript::{Entry, Transcript};
use crate::store::{Reader, StoreError};

use super::conversation::{Event, Options, read, session};
use super::plain::plain;

/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;

/// A turn: its number, when it began, and the index of its first entry.
type Turn = (u64, String, usize);

pub(super) fn write<E: From<StoreError>>(
    reader: &mut Reader,
    options: Options,
    put: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let session = session(reader, options)?;
    let mut transcript = Transcript::default();
    let mut turns: Vec<Turn> = Vec::new();
    let mut ends = HashMap::new();
    read(reader, options, &mut |event| {
        match event {
            Event::Update(params) => {
                let note = json::text_member(params, "_meta")
                    .and_then(|meta| json::text_member(meta, "rejoin"))
                    .unwrap_or_default();
                let turn = json::text_member(note, "turn").and_then(|turn| turn.parse().ok());
                let turn: u64 = turn.unwrap_or_default();
                if turn > 0 && turns.last().is_none_or(|(last, ..)| *last < turn) {
                    let at = json::string_member(note, "at").unwrap_or_default();
                    turns.push((turn, at, transcript.entries.len()));
                }
                let line = format!("{{\"method\":\"session/update\",\"params\":{params}}}");
                transcript.notification(&line);
            }
            Event::Turn(turn) => {
                let turn = json::tree(turn).unwrap_or_default();
                ends.insert(turn["turn"].as_u64().unwrap_or_default(), turn);
            }
        }
        Ok::<(), E>(())
    })?;
    put(&head(&session))?;
    let mut out = String::new();
    let mut writer = Writer {
        transcript: &transcript,
        depth: 0,
    };
    let first = turns
        .first()
        .map_or(transcript.entries.len(), |turn| turn.2);
    writer.entries(&transcript.entries[..first], &mut out);
    for (at, (turn, began, from)) in turns.iter().enumerate() {
        let to = turns.get(at + 1);
        let to = to.map_or(transcript.entries.len(), |(.., next)| *next);
        paragraph(&format!("## {turn}. {}", minute(began)), &mut out);
        writer.entries(&transcript.entries[*from..to], &mut out);
        if let Some(how) = ends.get(turn).and_then(how_it_ended) {
            paragraph(&format!("*{how}*"), &mut out);
        }
        put(&out)?;
        out.clear();
    }
    put(&out)
}

/// The title and what is known of the session.
fn head(session: &Value) -> String {
    let text = |name: &str| session[name].as_str().map(one_line);
    let mut out = format!("# {}\n\n", text("title").unwrap_or_default());
    let cost = &session["cost"];
    let cost = cost["amount"].as_f64().map(|amount| {
        let currency = cost["currency"].as_str().unwrap_or_default();
        one_line(&format!("{amount:.2} {currency}"))
    });
    let rows = [
        ("Session", text("sessionId").map(|id| code(&id))),
        ("Agent", text("agent")),
        ("Model", text("model")),
        ("Folder", text("cwd").map(|cwd| code(&cwd))),
        ("Created", text("createdAt").map(|at| minute(&at))),
        (
            "Turns",
            session["turns"].as_u64().map(|turns| turns.to_string()),
        ),
        ("Cost", cost),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            // Writing to a string does not fail.
            writeln!(out, "- {name}: {value}").ok();
        }
    }
    for damage in session["damage"].as_array().into_iter().flatten() {
        let damage = one_line(damage.as_str().unwrap_or_default());
        writeln!(out, "- Damage: {damage}").ok();
    }
    out
}

struct Writer<'a> {
    transcript: &'a Transcript,
    /// How many subagents are around what is written.
    depth: usize,
}

impl Writer<'_> {
    fn entries(&mut self, entries: &[Entry], out: &mut String) {
        let mut speaker = None;
        for entry in entries {
            match entry {
                Entry::Message { role, blocks, .. } => {
                    let text: Vec<_> = blocks.iter().map(block).collect();
                    let text = text.join("\n\n");
                    if *role == Role::Thought {
                        paragraph(&quoted(&format!("*Thought:* {text}")), out);
                        continue;
                    }
                    if speaker.replace(*role) != Some(*role) {
                        let name = if *role == Role::User { "User" } else { "Agent" };
                        paragraph(&format!("**{name}**"), out);
                    }
                    paragraph(text.trim(), out);
                }
                Entry::ToolCall { call, .. } => paragraph(&tool_call(call), out),
                Entry::Plan { plan } => paragraph(&self::plan(plan), out),
                Entry::Other { update } => self.other(update, out),
            }
        }
    }

    fn other(&mut self, update: &Value, out: &mut String) {
        let name = update["sessionUpdate"].as_str().unwrap_or_default();
        if name != "subagent_update" {
            let summary = content(&update["summary"]);
            return paragraph(format!("*{}*\n\n{summary}", one_line(name)).trim(), out);
        }
        let id = ["sessionId", "subagentSessionId"];
        let id = id.iter().find_map(|name| update[*name].as_str());
        let subagent = id.and_then(|id| self.transcript.subagents.get(id));
        // Only the first update about a subagent has a title.
        let (Some(subagent), Some(title)) = (subagent, update["title"].as_str()) else {
            return;
        };
        let mut inner = String::new();
        paragraph(&format!("**Subagent: {}**", one_line(title)), &mut inner);
        // A subagent may announce itself.
        if self.depth < 8 {
            self.depth += 1;
            self.entries(&subagent.entries, &mut inner);
            self.depth -= 1;
        }
        paragraph(&quoted(inner.trim()), out);
    }
}

fn paragraph(text: &str, out: &mut String) {
    if !text.is_empty() {
        out.extend(["\n", text, "\n"]);
    }
}

fn tool_call(call: &Map<String, Value>) -> String {
    let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    let kind = if kind.is_empty() { "tool" } else { kind };
    let mut out = format!("**{}** {}", one_line(kind), code(&one_line(text("title"))));
    match text("status") {
        "completed" => {}
        "" => out.push_str(" (not finished)"),
        status => {
            write!(out, " ({})", one_line(&status.replace('_', " "))).ok();
        }
    }
    for part in call
        .get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let part = match part["type"].as_str() {
            Some("diff") => diff(part),
            Some("content") => match part["content"]["text"].as_str() {
                Some(text) => output(text),
                None => block(&part["content"]),
            },
            _ => continue,
        };
        write!(out, "\n\n{part}").ok();
    }
    out
}

/// A tool's output, in a fence unless it has its own.
fn output(text: &str) -> String {
    let text = plain(text);
    let text = text.trim_end();
    let opening = text.lines().next().unwrap_or_default();
    let fence = &opening[..opening.len() - opening.trim_start_matches('`').len()];
    let inner = text.get(opening.len()..text.len().saturating_sub(fence.len()));
    let is_fenced = fence.len() >= 3
        && text.ends_with(&format!("\n{fence}"))
        && inner.is_some_and(|inner| !inner.contains(fence));
    if is_fenced {
        return text.to_owned();
    }
    fenced("", text)
}

/// Lines in a fence that none of them ends.
fn fenced(language: &str, text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    format!(
        "{fence}{language}\n{}\n{fence}",
        text.trim_end_matches('\n')
    )
}

fn diff(part: &Value) -> String {
    let text = |name: &str| part[name].as_str().map(plain).unwrap_or_default();
    let (old, new) = (text("oldText"), text("newText"));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let before = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev());
    let after = after.take_while(same).count();
    let (old_end, new_end) = (old.len() - after, new.len() - after);
    let mut lines = vec![format!("--- {0}\n+++ {0}", one_line(&text("path")))];
    let mut add = |sign: &str, more: &[&str]| {
        lines.extend(more.iter().map(|line| format!("{sign}{line}")));
    };
    add(" ", &old[before.saturating_sub(CONTEXT)..before]);
    add("-", &old[before..old_end]);
    add("+", &new[before..new_end]);
    add(" ", &old[old_end..old.len().min(old_end + CONTEXT)]);
    fenced("diff", &lines.join("\n"))
}

fn plan(plan: &Map<String, Value>) -> String {
    let mut lines = vec!["**Plan**\n".to_owned()];
    let entries = plan.get("entries").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let mark = match entry["status"].as_str() {
            Some("completed") => "x",
            _ => " ",
        };
        let content = one_line(entry["content"].as_str().unwrap_or_default());
        let now = entry["status"] == "in_progress";
        let now = if now { " *(in progress)*" } else { "" };
        lines.push(format!("- [{mark}] {content}{now}"));
    }
    lines.join("\n")
}

fn content(blocks: &Value) -> String {
    let blocks = blocks.as_array().into_iter().flatten().map(block);
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// A content block. What is not text is named.
fn block(block: &Value) -> String {
    let text = |name: &str| block[name].as_str().map(one_line).unwrap_or_default();
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(plain).unwrap_or_default(),
        Some("resource_link") => format!("[{}]({})", text("name"), text("uri")),
        Some("resource") => {
            let uri = block["resource"]["uri"].as_str().unwrap_or_default();
            let text = block["resource"]["text"].as_str().unwrap_or_default();
            format!("{}\n\n{}", code(&one_line(uri)), fenced("", &plain(text)))
        }
        Some(kind) => format!("*[{} {}]*", one_line(kind), text("mimeType")),
        None => String::new(),
    }
}

/// How a turn ended, if not as usual.
pub(super) fn how_it_ended(turn: &Value) -> Option<String> {
    let end = &turn["end"];
    if end.is_null() {
        return Some("The turn has no end in the log.".to_owned());
    }
    if let Some(why) = end["interrupted"].as_str() {
        return Some(format!("The turn was interrupted: {}", one_line(why)));
    }
    if let Some(message) = end["error"]["message"].as_str() {
        return Some(format!("The turn failed: {}", one_line(message)));
    }
    match end["stopReason"].as_str()? {
        "end_turn" => None,
        "cancelled" => Some("The turn was cancelled.".to_owned()),
        "refusal" => Some("The agent refused to continue.".to_owned()),
        "max_tokens" => Some("The turn ended at the limit of tokens.".to_owned()),
        "max_turn_requests" => Some("The turn ended at the limit of requests.".to_owned()),
        other => Some(format!("The turn ended: {}", one_line(other))),
    }
}

fn quoted(text: &str) -> String {
    let lines = text.lines().map(|line| format!("> {line}"));
    let lines = lines.map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn code(text: &str) -> String {
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ").trim().to_owned()
}

/// A time to the minute.
fn minute(at: &str) -> String {
    at.get(..16).unwrap_or(at).replace('T', " ")
}

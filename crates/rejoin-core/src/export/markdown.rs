//! The export as Markdown: turns as headings, tool calls as short paragraphs with their output.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::conversation::{PermissionRequest, TranscriptEntry};
use crate::protocol::{Role, UpdateKind};
use crate::store::{LogReader, StoreError};

use super::conversation::Options;
use super::diff;
use super::parts::{self, ConversationPart, PartEntries, PartOptions};
use super::plain::{one_line, plain};

pub(super) fn write<E: From<StoreError>>(
    reader: &mut LogReader,
    options: Options<'_>,
    put: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let mut titles = HashMap::new();
    let choice = PartOptions {
        options,
        ..PartOptions::default()
    };
    parts::read(reader, choice, &mut |part| {
        let mut out = String::new();
        match part {
            ConversationPart::Session(session) => out = head(session, options),
            ConversationPart::Turn(turn, at) => {
                paragraph(&format!("## {turn}. {}", minute(at)), &mut out);
            }
            ConversationPart::Said(said) => MarkdownWriter::new(said, &mut titles).said(&mut out),
            ConversationPart::Permission(asked) => {
                let title = asked.title.as_deref().unwrap_or("Permission");
                let what = code(&one_line(title));
                paragraph(
                    &format!("**permission** {what}\n\n{}", permission(asked)),
                    &mut out,
                );
            }
            ConversationPart::Ended(how) => paragraph(&format!("*{how}*"), &mut out),
            // The head has all of it.
            ConversationPart::Damage(_) => {}
        }
        put(&out)
    })
    .map(drop)
}

/// The title and what is known of the session.
fn head(session: &Value, options: Options<'_>) -> String {
    let text = |name: &str| session[name].as_str().map(one_line);
    let mut out = format!("# {}\n\n", text("title").unwrap_or_default());
    let cost = &session["cost"];
    let cost = cost["amount"].as_f64().map(|amount| {
        let currency = cost["currency"].as_str().unwrap_or_default();
        one_line(&format!("{amount:.2} {currency}"))
    });
    let rows = [
        ("Session", text("sessionId").map(|id| code(&id))),
        (
            "Agent",
            text("agent").map(|agent| options.title_of(&agent).to_owned()),
        ),
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

struct MarkdownWriter<'a> {
    said: PartEntries<'a>,
    /// The titles of the subagents so far, by their ids.
    titles: &'a mut HashMap<String, String>,
    /// The subagents that were written.
    written: HashSet<&'a str>,
    /// How many subagents are around what is written.
    depth: usize,
    /// The id of the innermost of them.
    subagent: Option<&'a str>,
}

impl<'a> MarkdownWriter<'a> {
    fn new(said: PartEntries<'a>, titles: &'a mut HashMap<String, String>) -> Self {
        Self {
            said,
            titles,
            written: HashSet::new(),
            depth: 0,
            subagent: None,
        }
    }

    fn said(&mut self, out: &mut String) {
        self.entries(self.said.entries, out);
        for (id, subagent) in self.said.subagents {
            // A subagent that was announced in an earlier part.
            if !subagent.entries.is_empty() && !self.written.contains(id.as_str()) {
                let title = self.titles.get(id).map_or("", String::as_str);
                let title = format!("{title} (continued)");
                self.subagent(id, &title, out);
            }
        }
    }

    fn entries(&mut self, entries: &[TranscriptEntry], out: &mut String) {
        let mut speaker = None;
        for entry in entries {
            match entry {
                TranscriptEntry::Message { role, blocks, .. } => {
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
                TranscriptEntry::ToolCall { id, call } => {
                    paragraph(&tool_call(call), out);
                    let asked = self.said.asked(self.subagent, id).map(permission);
                    let asked: Vec<_> = asked.collect();
                    paragraph(&asked.join("\n\n"), out);
                }
                TranscriptEntry::Plan { plan } => paragraph(&self::plan(plan), out),
                TranscriptEntry::Other { update } => self.other(update, out),
            }
        }
    }

    fn other(&mut self, update: &Value, out: &mut String) {
        let name = update["sessionUpdate"].as_str().unwrap_or_default();
        if name != UpdateKind::Subagent.name() {
            let text = TranscriptEntry::text_blocks(update);
            let text: Vec<_> = text.iter().map(|content| block(content)).collect();
            let text = format!("*{}*\n\n{}", one_line(name), text.join("\n\n"));
            return paragraph(text.trim(), out);
        }
        let id = ["sessionId", "subagentSessionId"];
        let id = id.iter().find_map(|name| update[*name].as_str());
        // Only the first update about a subagent has a title.
        if let (Some(id), Some(title)) = (id, update["title"].as_str())
            && self.said.subagents.contains_key(id)
        {
            self.titles.insert(id.to_owned(), title.to_owned());
            self.subagent(id, title, out);
        }
    }

    fn subagent(&mut self, id: &str, title: &str, out: &mut String) {
        let Some((id, subagent)) = self.said.subagents.get_key_value(id) else {
            return;
        };
        if !self.written.insert(id) {
            return;
        }
        let mut inner = String::new();
        paragraph(&format!("**Subagent: {}**", one_line(title)), &mut inner);
        // A subagent may announce itself.
        if self.depth < 8 {
            self.depth += 1;
            let around = self.subagent.replace(id);
            self.entries(&subagent.entries, &mut inner);
            self.subagent = around;
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

/// A request for permission and what became of it.
fn permission(asked: &PermissionRequest) -> String {
    format!("*{}*", one_line(&asked.sentence(minute)))
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
            Some("diff") => change(part),
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

fn change(part: &Value) -> String {
    let text = |name: &str| part[name].as_str().map(plain).unwrap_or_default();
    let (old, new) = (text("oldText"), text("newText"));
    let mut lines = vec![format!("--- {0}\n+++ {0}", one_line(&text("path")))];
    let changed = diff::lines(&old, &new).into_iter();
    lines.extend(changed.map(|(sign, line)| format!("{sign}{line}")));
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

/// A time to the minute.
fn minute(at: &str) -> String {
    at.get(..16).unwrap_or(at).replace('T', " ")
}

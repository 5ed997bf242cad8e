//! Paints a conversation: parts in, lines out.

use std::collections::{BTreeSet, HashMap};

use anstyle::Style;
use serde_json::{Map, Value};

use crate::cli::sessions::named::UNTITLED;
use crate::cli::term::{
    AGENT, BAD, FAINT, GOOD, ID, Look, PLAIN, STRONG, StyledLine, USER, WAITING, count, markdown,
    of_decision, of_sign, width, wrap,
};
use rejoin::conversation::{PermissionRequest, TranscriptEntry};
use rejoin::engine::known::title as title_of;
use rejoin::export::diff;
use rejoin::export::parts::{ConversationPart, PartEntries};
use rejoin::export::plain::{one_line, plain};
use rejoin::protocol::{Role, UpdateKind};
use rejoin::sys::Timestamp;

/// Prose is not wider than this: long lines are hard to read.
const WIDEST: usize = 100;
/// Of a longer output in a terminal, the first and the last lines are shown.
const LONGEST_OUTPUT: usize = 30;
const FIRST: usize = 20;
const LAST: usize = 8;
/// A subagent may announce itself.
const DEEPEST: usize = 8;

/// The lines of a conversation, as far as it was read.
pub(in crate::cli) struct ConversationPainter<'a> {
    look: &'a Look,
    id: String,
    lines: Vec<StyledLine>,
    /// How many subagents are around what is painted.
    depth: usize,
    /// The id of the innermost of them.
    subagent: Option<String>,
    /// Who spoke last: the user or the agent.
    speaker: Option<Role>,
    /// Whether the last line is a tool call without anything below it.
    bare_call: bool,
    /// The states of the steps in the last plan.
    steps: HashMap<String, String>,
    /// The titles of subagents, by their ids.
    titles: HashMap<String, String>,
}

impl<'a> ConversationPainter<'a> {
    /// Nothing is painted yet.
    pub(in crate::cli) fn new(look: &'a Look) -> Self {
        Self {
            look,
            id: String::new(),
            lines: Vec::new(),
            depth: 0,
            subagent: None,
            speaker: None,
            bare_call: false,
            steps: HashMap::new(),
            titles: HashMap::new(),
        }
    }

    /// The lines of the next part.
    pub(in crate::cli) fn part(&mut self, part: ConversationPart<'_>) -> Vec<StyledLine> {
        match part {
            ConversationPart::Session(session) => self.head(session),
            ConversationPart::Turn(turn, at) => self.turn(turn, at),
            ConversationPart::Said(said) => self.said(said),
            ConversationPart::Permission(asked) => self.asked(asked),
            ConversationPart::Ended(how) => self.note(WAITING, how),
            ConversationPart::Damage(report) => self.note(BAD, &format!("Damage: {report}")),
        }
        std::mem::take(&mut self.lines)
    }

    /// Whether lines are laid out for a person, not for a program.
    fn is_page(&self) -> bool {
        self.look.terminal || self.look.colour
    }

    /// How wide text may be, if that matters.
    fn room(&self) -> Option<usize> {
        let room = self.look.width.min(WIDEST).saturating_sub(self.depth * 2);
        self.is_page().then_some(room.max(20))
    }

    fn head(&mut self, session: &Value) {
        let text = |name: &str| session[name].as_str().map(one_line);
        self.id = text("sessionId").unwrap_or_default();
        let title = text("title").unwrap_or_else(|| UNTITLED.to_owned());
        self.wrapped(STRONG, &title);
        let name = text("agent").map(|name| title_of(&name).to_owned());
        let agent = [name, text("model")].into_iter().flatten();
        let agent = agent.collect::<Vec<_>>().join(", ");
        let folder = text("cwd").map(|cwd| self.look.folder(&cwd));
        let turns = session["turns"].as_u64().unwrap_or_default();
        let time = |name: &str| text(name).map(|at| self.minute(&at));
        let when = match (time("createdAt"), time("updatedAt")) {
            (Some(from), Some(to)) if from != to => {
                let same_day = to.get(..10) == from.get(..10);
                let to = if same_day {
                    to.get(11..).unwrap_or_default()
                } else {
                    &to
                };
                Some(format!("{from} to {to}"))
            }
            (from, to) => from.or(to),
        };
        let cost = &session["cost"];
        let cost = cost["amount"].as_f64().map(|amount| {
            let currency = cost["currency"].as_str().unwrap_or_default();
            one_line(&format!("{amount:.2} {currency}"))
        });
        let turns = count(usize::try_from(turns).unwrap_or(usize::MAX), "turn");
        for row in [vec![Some(agent), folder], vec![Some(turns), when, cost]] {
            let row = row.into_iter().flatten().collect::<Vec<_>>();
            self.wrapped(FAINT, &row.join(" · "));
        }
        let id = self.id.clone();
        self.line(StyledLine::new(ID, &id));
    }

    fn turn(&mut self, turn: u64, at: &str) {
        self.speaker = None;
        self.bare_call = false;
        let text = format!("── {turn} ── {} ", self.minute(at));
        let room = self.room().unwrap_or(60);
        let rest = "─".repeat(room.saturating_sub(width(&text)));
        self.blank();
        self.line(StyledLine::new(FAINT, &format!("{text}{rest}")));
    }

    fn minute(&self, at: &str) -> String {
        Timestamp::parse(at).map_or_else(|| one_line(at), |at| self.look.minute(at))
    }

    fn note(&mut self, style: Style, text: &str) {
        self.blank();
        self.wrapped(style, text);
    }

    fn said(&mut self, said: PartEntries<'_>) {
        let mut painted = BTreeSet::new();
        self.entries(said.entries, said, &mut painted);
        for (id, subagent) in said.subagents {
            // A subagent that was announced in an earlier part.
            if !subagent.entries.is_empty() && !painted.contains(id.as_str()) {
                let title = self.titles.get(id).cloned().unwrap_or_default();
                self.subagent(id, &format!("{title} (continued)"), said, &mut painted);
            }
        }
    }

    fn entries<'b>(
        &mut self,
        entries: &[TranscriptEntry],
        said: PartEntries<'b>,
        painted: &mut BTreeSet<&'b str>,
    ) {
        for entry in entries {
            match entry {
                TranscriptEntry::Message { role, blocks, .. } => {
                    let blocks: Vec<_> = blocks.iter().map(block).collect();
                    self.message(*role, &blocks.join("\n\n"));
                }
                TranscriptEntry::ToolCall { id, call } => self.call(id, call, said),
                TranscriptEntry::Plan { plan } => self.plan(plan),
                TranscriptEntry::Other { update } => self.other(update, said, painted),
            }
        }
    }

    /// Begins the words of this speaker, unless they go on.
    fn speaks(&mut self, role: Role) {
        self.blank();
        if self.speaker.replace(role) == Some(role) {
            return;
        }
        let (style, name) = match (role, self.depth) {
            (Role::User, 0) => (USER, "You"),
            (Role::User, _) => (USER, "Task"),
            (_, 0) => (AGENT, "Agent"),
            (..) => (AGENT, "Subagent"),
        };
        self.line(StyledLine::new(style, name));
    }

    fn message(&mut self, role: Role, text: &str) {
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }
        self.bare_call = false;
        match role {
            Role::User => {
                self.speaks(Role::User);
                self.wrapped(PLAIN, text);
            }
            Role::Agent => {
                self.speaks(Role::Agent);
                match self.room() {
                    Some(room) => markdown(text, room)
                        .into_iter()
                        .for_each(|line| self.line(line)),
                    None => self.wrapped(PLAIN, text),
                }
            }
            Role::Thought => {
                self.speaks(Role::Agent);
                self.wrapped(FAINT, &format!("Thought: {text}"));
            }
        }
    }

    fn call(&mut self, id: &str, call: &Map<String, Value>, said: PartEntries<'_>) {
        let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
        let content = call.get("content").and_then(Value::as_array);
        let mut body = Vec::new();
        for part in content.into_iter().flatten() {
            self.content(part, said, &mut body);
        }
        let subagent = self.subagent.clone();
        let asked: Vec<_> = said.asked(subagent.as_deref(), id).collect();
        let is_bare = body.is_empty() && asked.is_empty();
        let follows = std::mem::replace(&mut self.bare_call, is_bare);
        if !(follows && self.speaker == Some(Role::Agent)) {
            self.speaks(Role::Agent);
        }
        let title = [text("title"), text("kind"), "tool"].map(one_line);
        let title = title.iter().find(|title| !title.is_empty());
        let (style, mark, state) = match text("status") {
            "completed" => (GOOD, "✓ ", String::new()),
            "failed" => (BAD, "✗ ", " (failed)".to_owned()),
            "" | "pending" | "in_progress" => (WAITING, "○ ", " (not finished)".to_owned()),
            other => (WAITING, "○ ", format!(" ({})", one_line(other))),
        };
        let spans = [(STRONG, title.cloned().unwrap_or_default()), (style, state)];
        let room = self.room().map(|room| room - 2);
        for (at, line) in wrap(&spans, room).into_iter().enumerate() {
            let mark = if at == 0 { mark } else { "  " };
            self.line(StyledLine::of(line).behind(StyledLine::new(style, mark)));
        }
        for asked in asked {
            self.permission(asked);
        }
        let room = self.room().map(|room| room - 4);
        for (style, text) in body {
            for line in wrap(&[(style, text)], room) {
                self.line(StyledLine::of(line).behind(StyledLine::new(FAINT, "  │ ")));
            }
        }
    }

    /// What became of a request for permission.
    fn permission(&mut self, asked: &PermissionRequest) {
        let style = of_decision(&asked.decision);
        let text = one_line(&asked.sentence(|at| self.minute(at)));
        let room = self.room().map(|room| room - 2);
        for line in wrap(&[(style, text)], room) {
            self.line(StyledLine::of(line).behind(StyledLine::new(PLAIN, "  ")));
        }
    }

    /// A request for permission about no tool call.
    fn asked(&mut self, asked: &PermissionRequest) {
        self.bare_call = false;
        self.speaks(Role::Agent);
        let title = asked.title.as_deref().unwrap_or("Permission");
        self.wrapped(STRONG, &one_line(title));
        self.permission(asked);
    }

    /// The lines of one part of a tool call's content.
    fn content(&self, part: &Value, said: PartEntries<'_>, body: &mut Vec<(Style, String)>) {
        let text = |name: &str| part[name].as_str().map(plain).unwrap_or_default();
        match part["type"].as_str() {
            Some("diff") => {
                body.push((STRONG, one_line(&text("path"))));
                let (old, new) = (text("oldText"), text("newText"));
                let lines = diff::lines(&old, &new);
                let lines = lines.into_iter();
                body.extend(lines.map(|(sign, line)| (of_sign(sign), format!("{sign}{line}"))));
            }
            Some("content") => self.output(&plain(&block(&part["content"])), body),
            Some("terminal") => {
                let id = part["terminalId"].as_str().unwrap_or_default();
                if let Some(text) = said.terminals.get(id) {
                    self.output(&plain(text), body);
                }
            }
            _ => {}
        }
    }

    /// The lines of an output. Those in the middle of a long one are left out for people.
    fn output(&self, text: &str, body: &mut Vec<(Style, String)>) {
        let lines: Vec<&str> = unfenced(text).collect();
        let put = |lines: &[&str], body: &mut Vec<(Style, String)>| {
            body.extend(lines.iter().map(|line| (PLAIN, (*line).to_owned())));
        };
        if !self.is_page() || lines.len() <= LONGEST_OUTPUT {
            return put(&lines, body);
        }
        put(&lines[..FIRST], body);
        let left_out = lines.len() - FIRST - LAST;
        body.push((
            FAINT,
            format!(
                "… {left_out} lines left out; `rejoin export {}` has them",
                self.id
            ),
        ));
        put(&lines[lines.len() - LAST..], body);
    }

    /// The steps that differ from those of the plan before.
    fn plan(&mut self, plan: &Map<String, Value>) {
        let entries = plan.get("entries").and_then(Value::as_array);
        let mut steps = HashMap::new();
        let mut lines = Vec::new();
        for entry in entries.into_iter().flatten() {
            let text = |name: &str| entry[name].as_str().map(one_line).unwrap_or_default();
            let (step, state) = (text("content"), text("status"));
            if self.steps.get(&step) != Some(&state) {
                let (style, mark, more) = match state.as_str() {
                    "completed" => (GOOD, "✓ ", ""),
                    "in_progress" => (WAITING, "▸ ", " (in progress)"),
                    _ => (FAINT, "○ ", ""),
                };
                lines.push((style, mark, format!("{step}{more}")));
            }
            steps.insert(step, state);
        }
        let mut gone: Vec<_> = self
            .steps
            .keys()
            .filter(|step| !steps.contains_key(*step))
            .collect();
        gone.sort();
        lines.extend(
            gone.into_iter()
                .map(|step| (FAINT, "- ", format!("{step} (removed)"))),
        );
        self.steps = steps;
        if lines.is_empty() {
            return;
        }
        self.bare_call = false;
        self.speaks(Role::Agent);
        self.line(StyledLine::new(STRONG, "Plan"));
        let room = self.room().map(|room| room - 2);
        for (style, mark, text) in lines {
            for (at, line) in wrap(&[(PLAIN, text)], room).into_iter().enumerate() {
                let mark = if at == 0 { mark } else { "  " };
                self.line(StyledLine::of(line).behind(StyledLine::new(style, mark)));
            }
        }
    }

    fn other<'b>(
        &mut self,
        update: &Value,
        said: PartEntries<'b>,
        painted: &mut BTreeSet<&'b str>,
    ) {
        let name = update["sessionUpdate"].as_str().unwrap_or_default();
        if name != UpdateKind::Subagent.name() {
            self.bare_call = false;
            self.speaks(Role::Agent);
            self.wrapped(FAINT, &format!("[{}]", one_line(name)));
            let text = TranscriptEntry::text_blocks(update);
            let text: Vec<_> = text.iter().map(|content| block(content)).collect();
            if !text.is_empty() {
                self.wrapped(FAINT, &text.join("\n\n"));
            }
            return;
        }
        let id = ["sessionId", "subagentSessionId"];
        let id = id.iter().find_map(|name| update[*name].as_str());
        // Only the first update about a subagent has a title.
        if let (Some(id), Some(title)) = (id, update["title"].as_str()) {
            self.titles.insert(id.to_owned(), title.to_owned());
            self.subagent(id, title, said, painted);
        }
    }

    fn subagent<'b>(
        &mut self,
        id: &str,
        title: &str,
        said: PartEntries<'b>,
        painted: &mut BTreeSet<&'b str>,
    ) {
        let Some((id, subagent)) = said.subagents.get_key_value(id) else {
            return;
        };
        if !painted.insert(id) || self.depth >= DEEPEST {
            return;
        }
        self.bare_call = false;
        self.speaks(Role::Agent);
        self.speaker = None;
        let steps = std::mem::take(&mut self.steps);
        self.wrapped(AGENT, &format!("Subagent: {}", one_line(title)));
        self.depth += 1;
        let around = self.subagent.replace(id.clone());
        self.entries(&subagent.entries, said, painted);
        self.subagent = around;
        self.depth -= 1;
        self.bare_call = false;
        self.speaker = Some(Role::Agent);
        self.steps = steps;
    }

    /// A blank line, unless there is one already or nothing before it.
    fn blank(&mut self) {
        self.line(StyledLine::default());
    }

    fn wrapped(&mut self, style: Style, text: &str) {
        for line in wrap(&[(style, text.to_owned())], self.room()) {
            self.line(StyledLine::of(line));
        }
    }

    fn line(&mut self, line: StyledLine) {
        let around = "│ ".repeat(self.depth);
        self.lines
            .push(line.behind(StyledLine::new(FAINT, &around)));
    }
}

/// A content block as text. What is not text is named.
fn block(block: &Value) -> String {
    let text = |name: &str| block[name].as_str().map(one_line).unwrap_or_default();
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("resource_link") => format!("[{}] {}", text("name"), text("uri")),
        Some("resource") => {
            let resource = &block["resource"];
            let uri = one_line(resource["uri"].as_str().unwrap_or_default());
            match resource["text"].as_str() {
                Some(text) => format!("[{uri}, {}]", count(text.lines().count(), "line")),
                None => format!("[{uri}]"),
            }
        }
        Some(kind) => format!(
            "[{}]",
            format!("{} {}", one_line(kind), text("mimeType")).trim()
        ),
        None => String::new(),
    }
}

/// The lines of an output, without the fences around it or a part of it.
fn unfenced(text: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    text.trim_matches('\n').lines().filter(move |line| {
        let run = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if *line == open => {
                fence = None;
                false
            }
            None if run.len() >= 3 && !line[run.len()..].contains('`') => {
                fence = Some(run);
                false
            }
            _ => true,
        }
    })
}

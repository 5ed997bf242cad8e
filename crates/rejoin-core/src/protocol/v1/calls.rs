//! Converts tool calls: version 1 has an update that begins one, and no way to add to its content.
//!
//! Additions to the content, and to the output of a terminal that is part of it, are held until
//! something else follows. Then one update has the whole content.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::json::{self, Members, Object, remade};
use crate::protocol::{Id, IdSet, UpdateKind};

use super::ConvertedUpdate;
use super::diff;
use super::members::{elements, note, without_note};
use super::terminal::V1Terminals;

/// The title of a tool call that has neither a title nor a name. Version 1 requires one.
const TITLE: &str = "\"Tool call\"";

/// The tool calls of one session so far.
#[derive(Debug, Default)]
pub(super) struct V1Calls {
    /// Calls that have begun.
    begun: IdSet,
    /// The content of the calls of the running turns, item by item, in the form of version 2.
    content: HashMap<Id, Vec<String>>,
    /// The calls that have a terminal in their content, by their ids.
    shown_in: HashMap<Id, Vec<String>>,
    /// Calls with content not yet sent, and whether their first update is still due.
    due: Vec<(String, bool)>,
    terminals: V1Terminals,
    /// Terminals for display only, which a tool call describes in the way of version 1.
    display: HashSet<Id>,
}

impl V1Calls {
    /// Converts an update of a tool call.
    pub(super) fn update<'a>(&mut self, update: &'a str) -> ConvertedUpdate<'a> {
        let Some(id) = json::string_member(update, "toolCallId") else {
            return ConvertedUpdate::same(update);
        };
        let begins = self.begun.add(Id::of(id.as_bytes()));
        let string = |name| json::text_member(update, name).filter(|text| text.starts_with('"'));
        let has_title = string("title").is_some();
        if let Some(terminal) = displayed(update) {
            self.display.insert(terminal);
        }
        if let Some(content) = json::text_member(update, "content") {
            self.content.insert(Id::of(id.as_bytes()), Vec::new());
            for item in json::text_elements(content) {
                self.add(&id, item);
            }
        }
        let is_text = |item: &str| json::string_member(item, "type").as_deref() == Some("content");
        let content = json::text_member(update, "content").unwrap_or_default();
        let mut is_exact = json::text_elements(content).all(is_text);
        let shown = remade(update, |name, value| {
            let shown = match (name, value) {
                ("sessionUpdate", _) if begins => {
                    return Some(Cow::Owned(json::quoted(UpdateKind::ToolCall.name())));
                }
                ("rawInput" | "rawOutput", _) => Some(value.into()),
                ("kind", "null") if !begins => Some("\"other\"".into()),
                ("status", "null") if !begins => Some("\"pending\"".into()),
                ("content" | "locations", "null") if !begins => Some("[]".into()),
                (_, "null") => None,
                ("kind", value) => Some(kind(value).into()),
                ("status", value) => Some(status(value).into()),
                ("content", value) => Some(elements(value, |item| self.item(item)).into()),
                ("locations", value) => Some(elements(value, place).into()),
                (_, value) => Some(value.into()),
            };
            // The view changes some of these, too.
            is_exact &= shown.as_deref() == Some(value) && !matches!(name, "_meta" | "locations");
            shown
        });
        if begins && !has_title {
            let title = string("name").unwrap_or(TITLE);
            return ConvertedUpdate::roughly(Members::of(&shown).with("title", title).text());
        }
        ConvertedUpdate {
            updates: vec![shown.into()],
            is_exact,
        }
    }

    /// Takes a part of the content of a tool call.
    pub(super) fn content_chunk(&mut self, update: &str) {
        let (Some(id), Some(item)) = (
            json::string_member(update, "toolCallId"),
            json::text_member(update, "content"),
        ) else {
            return;
        };
        let begins = self.begun.add(Id::of(id.as_bytes()));
        self.add(&id, item);
        self.is_due(id, begins);
    }

    fn is_due(&mut self, id: String, begins: bool) {
        if !self.due.iter().any(|(known, _)| *known == id) {
            self.due.push((id, begins));
        }
    }

    /// Adds an item to the content of a tool call.
    fn add(&mut self, call: &str, item: &str) {
        if let Some(terminal) = terminal_of(item) {
            let calls = self.shown_in.entry(terminal).or_default();
            if !calls.iter().any(|known| known == call) {
                calls.push(call.to_owned());
            }
        }
        let content = self.content.entry(Id::of(call.as_bytes())).or_default();
        content.push(item.to_owned());
    }

    /// Takes an update of a terminal. The output is shown in the tool calls that have it in their
    /// content.
    pub(super) fn terminal(&mut self, update: &str) {
        let changed = self.terminals.update(update);
        let calls = changed.and_then(|terminal| self.shown_in.get(&terminal));
        for call in calls.cloned().unwrap_or_default() {
            self.is_due(call, false);
        }
    }

    /// The updates with the content that is due.
    pub(super) fn flush(&mut self) -> Vec<String> {
        let due = std::mem::take(&mut self.due);
        let shown = due.iter().filter_map(|(id, begins)| {
            let content = self.content.get(&Id::of(id.as_bytes()))?;
            let items = content.iter().map(|item| self.item(item));
            let items: Vec<_> = items.filter(|item| !item.is_empty()).collect();
            let update = if *begins {
                UpdateKind::ToolCall.object().raw("title", TITLE)
            } else {
                UpdateKind::ToolCallUpdate.object()
            };
            let update = update.string("toolCallId", id);
            let content = format!("[{}]", items.join(","));
            Some(update.raw("content", &content).end())
        });
        shown.collect()
    }

    /// Forgets the content of all calls.
    pub(super) fn forget_content(&mut self) {
        self.content.clear();
        self.shown_in.clear();
        self.terminals.clear();
    }

    /// An item of a content in version 1, as text that may hold several items, or none.
    fn item<'a>(&self, item: &'a str) -> Cow<'a, str> {
        let kind = json::string_member(item, "type").unwrap_or_default();
        match kind.as_str() {
            "content" => match note(item).and_then(|note| json::text_member(note, "terminal")) {
                Some(terminal) => terminal.into(),
                None => item.into(),
            },
            "diff" => diff::shown(item).map_or(item.into(), Cow::Owned),
            "terminal" => match terminal_of(item).filter(|id| !self.display.contains(id)) {
                Some(id) => {
                    let text = self.terminals.text(id);
                    let block = Object::new().string("type", "text").string("text", &text);
                    let item = Object::new().string("type", "content");
                    item.raw("content", &block.end()).end().into()
                }
                None => item.into(),
            },
            _ => item.into(),
        }
    }
}

/// The terminal that an item of a content shows.
fn terminal_of(item: &str) -> Option<Id> {
    let is_terminal = json::string_member(item, "type").as_deref() == Some("terminal");
    let id = is_terminal.then(|| json::string_member(item, "terminalId"));
    Some(Id::of(id??.as_bytes()))
}

/// The terminal that a tool call describes in its `_meta`.
fn displayed(update: &str) -> Option<Id> {
    let info = json::text_member(json::text_member(update, "_meta")?, "terminal_info")?;
    Some(Id::of(json::string_member(info, "terminal_id")?.as_bytes()))
}

/// A status that version 1 has.
fn status(status: &str) -> &str {
    match status {
        "\"pending\"" | "\"in_progress\"" | "\"completed\"" | "\"failed\"" => status,
        "\"cancelled\"" => "\"failed\"",
        _ => "\"in_progress\"",
    }
}

/// A kind that version 1 has.
fn kind(kind: &str) -> &str {
    match kind.trim_matches('"') {
        "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch"
        | "switch_mode" | "other" => kind,
        _ => "\"other\"",
    }
}

/// A location. One with line 0 in version 1 has it in our note.
fn place(place: &str) -> Cow<'_, str> {
    let Some(line) = note(place).and_then(|note| json::text_member(note, "line")) else {
        return place.into();
    };
    let shown = remade(place, |name, value| match name {
        "line" => Some(line.into()),
        "_meta" => without_note(value),
        _ => Some(value.into()),
    });
    shown.into()
}

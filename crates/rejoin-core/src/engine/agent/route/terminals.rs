//! Records the output of the client's terminals that tool calls show.
//!
//! A terminal belongs to the client and no longer exists when its session is loaded again. So when
//! a terminal has ended, each call that shows it gets an update that only replays send: the same
//! content with text in place of the terminal. A display-only terminal, which has
//! `_meta.terminal_info`, is created again in a replay by its updates, so it is kept.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use crate::engine::terminal_text::{self, Exit};
use crate::json;
use crate::protocol::UpdateKind;

use crate::engine::agent::ids::NormalizedUpdate;
use crate::engine::agent::parse::Payload;

/// The most bytes of terminal output that are kept for calls that show a terminal later.
const KEPT_LIMIT: usize = 8 * 1024 * 1024;

/// The terminals of one session, as its tool calls show them.
#[derive(Debug, Default)]
pub(in crate::engine::agent) struct AgentTerminals {
    /// Calls whose content has terminals, in the order of their first terminal.
    calls: Vec<TerminalCall>,
    /// Terminals that have ended and the items that replace them, the oldest first.
    ended: VecDeque<(String, String)>,
    /// The number of bytes in `ended`.
    kept: usize,
    /// Terminals whose command has ended, so that their output is complete.
    complete: HashSet<String>,
    /// Display-only terminals.
    display: HashSet<String>,
}

#[derive(Debug)]
struct TerminalCall {
    id: String,
    /// Its latest content, an array.
    content: String,
    /// The ranges and ids of the terminals in its content.
    places: Vec<(Range<usize>, String)>,
    /// Whether a replacement is due: it shows a terminal that has ended.
    due: bool,
}

impl AgentTerminals {
    /// Handles an update that was logged.
    pub(super) fn update(&mut self, update: &NormalizedUpdate<'_>) {
        let mentions = || memchr::memmem::find(update.payload.as_bytes(), b"terminal").is_some();
        if update.is_call && (!self.calls.is_empty() || mentions()) {
            self.call(update);
        }
    }

    fn call(&mut self, update: &NormalizedUpdate<'_>) -> Option<()> {
        let payload = Payload::of_record(update.kind, &update.payload)?;
        let (update, fields) = (payload.update(), &payload.fields);
        if let Some(id) = display_terminal(update) {
            self.display.insert(id);
        }
        let id = string(payload.text(), &fields.call?.range())?;
        let content = fields.content?.of(payload.text());
        let mut items = json::elements(content.as_bytes(), 0)?;
        let mut places = Vec::new();
        while let Some(item) = items.element() {
            if let Some(terminal) = terminal(content, &item)
                && !self.display.contains(&terminal)
            {
                places.push((item, terminal));
            }
        }
        let known = self.calls.iter().position(|call| call.id == id);
        if places.is_empty() {
            if let Some(known) = known {
                self.calls.remove(known);
            }
            return None;
        }
        let due = places.iter().any(|(_, id)| self.shown(id).is_some());
        let call = TerminalCall {
            id,
            content: content.to_owned(),
            places,
            due,
        };
        match known.and_then(|known| self.calls.get_mut(known)) {
            Some(known) => *known = call,
            None => self.calls.push(call),
        }
        Some(())
    }

    /// A terminal's command has ended. Returns false if that was known.
    pub(in crate::engine::agent) fn command_ends(&mut self, terminal: &str) -> bool {
        self.complete.insert(terminal.to_owned())
    }

    /// Forgets a terminal that is released. Returns whether its command had ended before.
    pub(in crate::engine::agent) fn released(&mut self, terminal: &str) -> bool {
        self.complete.remove(terminal)
    }

    /// A terminal has ended, or is about to be released, with this output. Returns the updates for the
    /// calls that show it, and those of [`flush`](Self::flush).
    pub(in crate::engine::agent) fn ended(
        &mut self,
        terminal_id: &str,
        output: &str,
        truncated: bool,
        exit: Option<&Exit>,
    ) -> Vec<String> {
        let item = terminal_text::item(output, truncated, exit);
        self.forget(|id| id != terminal_id);
        self.kept += item.len();
        self.ended.push_back((terminal_id.to_owned(), item));
        for call in &mut self.calls {
            call.due |= call.places.iter().any(|(_, id)| id == terminal_id);
        }
        let updates = self.flush();
        while self.kept > KEPT_LIMIT
            && let Some((_, item)) = self.ended.pop_front()
        {
            self.kept -= item.len();
        }
        updates
    }

    /// The updates for calls that show a terminal which had already ended. Each is a
    /// `tool_call_update` object, for a record of kind `output`.
    pub(super) fn flush(&mut self) -> Vec<String> {
        let mut updates = Vec::new();
        for call in self.calls.iter().filter(|call| call.due) {
            updates.push(self.replaced(call));
        }
        for call in &mut self.calls {
            call.due = false;
        }
        updates
    }

    /// The turn has ended: calls whose terminals have all ended need no further updates.
    pub(super) fn turn_ends(&mut self) {
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain(|call| {
            let runs = |(_, id): &(_, String)| self.shown(id).is_none();
            call.due || call.places.iter().any(runs)
        });
        let named: HashSet<&str> = calls.iter().flat_map(TerminalCall::terminals).collect();
        self.forget(|id| named.contains(id));
        self.calls = calls;
    }

    /// Drops the output of all other terminals.
    fn forget(&mut self, keeps: impl Fn(&str) -> bool) {
        self.ended.retain(|(id, _)| keeps(id));
        self.kept = self.ended.iter().map(|(_, item)| item.len()).sum();
    }

    fn shown(&self, terminal: &str) -> Option<&str> {
        let found = self.ended.iter().find(|(id, _)| id == terminal);
        found.map(|(_, item)| item.as_str())
    }

    fn replaced(&self, call: &TerminalCall) -> String {
        let mut content = String::new();
        let mut copied = 0;
        for (place, terminal) in &call.places {
            if let Some(item) = self.shown(terminal) {
                content.push_str(&call.content[copied..place.start]);
                content.push_str(item);
                copied = place.end;
            }
        }
        content.push_str(&call.content[copied..]);
        let update = UpdateKind::ToolCallUpdate.object();
        let update = update.string("toolCallId", &call.id);
        update.raw("content", &content).end()
    }
}

impl TerminalCall {
    fn terminals(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(_, id)| id.as_str())
    }
}

fn string(text: &str, value: &Range<usize>) -> Option<String> {
    let body = json::string_body(text.as_bytes(), value)?;
    Some(json::unescape(&text[body]))
}

/// The id of the terminal, if the content item is one.
fn terminal(content: &str, item: &Range<usize>) -> Option<String> {
    let bytes = content.as_bytes();
    let kind = json::member(bytes, item.start, "type")?;
    if &bytes[kind] != b"\"terminal\"" {
        return None;
    }
    string(content, &json::member(bytes, item.start, "terminalId")?)
}

fn display_terminal(update: &str) -> Option<String> {
    let bytes = update.as_bytes();
    let meta = json::member(bytes, 0, "_meta")?;
    let info = json::member(bytes, meta.start, "terminal_info")?;
    string(update, &json::member(bytes, info.start, "terminal_id")?)
}

#[cfg(test)]
#[path = "terminals_tests.rs"]
mod tests;

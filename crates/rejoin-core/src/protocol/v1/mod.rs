//! Converts the updates of a session from version 2 to version 1.
//!
//! The log of a session with an agent of version 2 has its updates in that form. A client of version
//! 1 gets them converted, and so does whatever folds a log: the rest of the program knows the form
//! of version 1. `docs/format.md` has the table of conversions; [`v2`] has the opposite
//! direction.

mod calls;
mod diff;
mod members;
mod messages;
mod permission;
mod settings;
mod terminal;

use std::borrow::Cow;

use crate::json::{self, Object, Splice, remade};

use super::meta::{self, add_note};
use super::update::{self, UpdateKind};
use super::v2;

use calls::V1Calls;
use messages::V1Messages;

pub use permission::permission;
pub use settings::answer_of;

/// An update without content, sent only to carry originals in `_meta.rejoin.updates`.
const CARRIER: &str = "_rejoin/updates";
/// How much is carried to the next update at most, in bytes.
const CARRIED: usize = 1024 * 1024;

/// Converts a session's updates of version 2 into the form of version 1.
///
/// The conversion of an update depends on those before it.
#[derive(Debug, Default)]
pub struct Conversion {
    /// Whether the updates of version 2 are kept in the notes of what they become.
    keeps: bool,
    messages: V1Messages,
    calls: V1Calls,
    /// Updates of version 2 that the next note has to contain.
    carried: Vec<String>,
}

/// The conversion of an update.
#[derive(Debug, Default)]
struct ConvertedUpdate<'a> {
    /// The updates of version 1, in order.
    updates: Vec<Cow<'a, str>>,
    /// Whether converting it back to version 2 gives exactly the original.
    is_exact: bool,
}

impl<'a> ConvertedUpdate<'a> {
    /// An update that is the same in both versions.
    fn same(update: &'a str) -> Self {
        Self::exactly(update)
    }

    fn exactly(update: impl Into<Cow<'a, str>>) -> Self {
        Self {
            updates: vec![update.into()],
            is_exact: true,
        }
    }

    fn roughly(update: impl Into<Cow<'a, str>>) -> Self {
        Self {
            updates: vec![update.into()],
            is_exact: false,
        }
    }
}

impl Conversion {
    /// The conversion of a session of which nothing was converted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The conversion of a session of which nothing was converted yet, that loses nothing: where an
    /// update changes, or is not shown, the original is in `_meta.rejoin.updates` of the update
    /// that replaces it, or of the next one.
    pub fn with_originals() -> Self {
        Self {
            keeps: true,
            ..Self::default()
        }
    }

    /// Takes the next update and calls `put` with each update of version 1. Some are held until
    /// what follows them is known, see [`flush`](Self::flush).
    pub fn update(&mut self, update: &str, put: &mut dyn FnMut(&str)) {
        let kind = UpdateKind::of(update.as_bytes());
        match kind {
            UpdateKind::SessionState
            | UpdateKind::ReplayComplete
            | UpdateKind::HistoryTruncated => return,
            UpdateKind::ToolCallContent => {
                self.messages.pause();
                self.calls.content_chunk(update);
                return self.carry(update, put);
            }
            UpdateKind::Terminal | UpdateKind::TerminalOutput => {
                self.messages.pause();
                self.calls.terminal(update);
                return self.carry(update, put);
            }
            _ => self.flush(put),
        }
        if !matches!(kind, UpdateKind::Chunk(_) | UpdateKind::Message(_)) {
            self.messages.pause();
        }
        let shown = match kind {
            UpdateKind::Chunk(role) => self.messages.chunk(role, update),
            UpdateKind::Message(role) => self.messages.whole(role, update),
            UpdateKind::ToolCallUpdate => self.calls.update(update),
            UpdateKind::PlanUpdate => plan(update),
            UpdateKind::AvailableCommands => settings::commands(update),
            UpdateKind::ConfigOptions => settings::options(update),
            UpdateKind::Other if is_mode(update) => settings::mode(update),
            // The other kinds have the same form in both versions.
            _ => ConvertedUpdate::same(update),
        };
        self.put(update, &shown, put);
    }

    /// Puts what is held. To be called before anything else follows the updates.
    pub fn flush(&mut self, put: &mut dyn FnMut(&str)) {
        for update in self.calls.flush() {
            put(&self.noted(&update));
        }
    }

    /// Puts what is held, since nothing follows.
    pub fn finish(&mut self, put: &mut dyn FnMut(&str)) {
        self.flush(put);
        if !self.carried.is_empty() {
            let carrier = Object::new().string("sessionUpdate", CARRIER).end();
            put(&self.noted(&carrier));
        }
    }

    /// No turn is open: the content of tool calls is no longer needed.
    pub fn end_of_turn(&mut self) {
        self.calls.forget_content();
    }

    fn put(&mut self, original: &str, shown: &ConvertedUpdate<'_>, put: &mut dyn FnMut(&str)) {
        if !self.keeps || shown.is_exact && self.carried.is_empty() {
            return shown.updates.iter().for_each(|update| put(update));
        }
        self.carry(original, put);
        for update in &shown.updates {
            put(&self.noted(update));
        }
    }

    fn carry(&mut self, original: &str, put: &mut dyn FnMut(&str)) {
        if self.keeps {
            self.carried.push(original.to_owned());
            if self.carried.iter().map(String::len).sum::<usize>() > CARRIED {
                self.finish(put);
            }
        }
    }

    /// An update with what is carried in its note: what the view of version 2 makes of it.
    fn noted(&mut self, update: &str) -> String {
        if !self.keeps {
            return update.to_owned();
        }
        let originals = std::mem::take(&mut self.carried).join(",");
        let mut splice = Splice::new(update.as_bytes());
        let note = format!("\"{}\":[{originals}]", meta::UPDATES);
        add_note(&mut splice, 0, note.as_bytes());
        String::from_utf8(splice.into_bytes()).unwrap_or_default()
    }
}

/// Whether an update is our own kind of a change of the mode.
fn is_mode(update: &str) -> bool {
    update::name(update.as_bytes()).as_deref() == Some(v2::MODE_CHANGED.as_bytes())
}

/// A plan with items is the plan of version 1, which has one. Other plans stay what they are.
fn plan(update: &str) -> ConvertedUpdate<'_> {
    let plan = json::text_member(update, "plan").unwrap_or_default();
    let is_list = json::string_member(plan, "type").as_deref() == Some("items");
    let entries = json::text_member(plan, "entries").filter(|entries| entries.starts_with('['));
    let (true, Some(entries)) = (is_list, entries) else {
        return ConvertedUpdate::same(update);
    };
    let is_ours = json::string_member(plan, "planId").as_deref() == Some(v2::PLAN_ID);
    let is_exact = is_ours && json::text_members(plan).len() == 3;
    let others = remade(update, |name, value| {
        (!matches!(name, "sessionUpdate" | "plan")).then_some(Cow::Borrowed(value))
    });
    let others = json::text_members(&others);
    let shown = UpdateKind::Plan.object().raw("entries", entries);
    let shown = others
        .into_iter()
        .fold(shown, |shown, (name, value)| shown.raw(&name, value));
    ConvertedUpdate {
        updates: vec![shown.end().into()],
        is_exact,
    }
}

#[cfg(test)]
pub(crate) mod properties;
#[cfg(test)]
mod tests;

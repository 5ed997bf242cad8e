//! Converts the updates of a session from version 1 to version 2.
//!
//! Nearly every log has the form of version 1. A client of version 2 gets a view of it, made where
//! lines leave, for live and replayed lines alike. Most lines are the same in both versions and are
//! copied; in the others, single places change. Updates of an agent of version 2 have that form in
//! the log: their lines begin with [`HEAD_V2`] and pass through. `docs/format.md` has the table of
//! conversions.

mod line;
mod messages;
mod chunk_layout;
mod answer;
pub mod patch;
mod diff;
mod initialize;
mod terminal;
mod call;
mod plan;
mod commands;
mod settings;
mod modes;
mod permission;
mod workspace;
mod subagents;

pub use answer::answer;
pub use initialize::{initialize_params, initialize_params_of_both, initialize_result};
pub use line::HEAD_V2;
pub use modes::CHANGED as MODE_CHANGED;
pub use permission::{permission, permission_outcome};
pub use plan::ID as PLAN_ID;
pub use settings::{config_options, mode_config_id};
pub use workspace::workspace_params;

use crate::json::{self, Member, Splice};
use crate::protocol::meta::{REJOIN, UPDATES};
use crate::protocol::{Id, IdSet, Role, UpdateClass, UpdateKind};

use chunk_layout::ChunkLayoutCache;
use line::UpdateLine;
use messages::V2Messages;
use modes::Modes;
use subagents::{AnnouncedSubagent, Subagents};
use terminal::V2Terminals;

/// Converts a session's lines of version 1 into the form of version 2.
///
/// The conversion of a line depends on the lines before it. So each session needs one view on each
/// connection, first for its replay and then for live lines.
#[derive(Debug, Default)]
pub struct V2View {
    messages: V2Messages,
    /// The last chunk, of the session or of a subagent.
    alike: ChunkLayoutCache,
    /// The tool calls that have begun.
    calls: IdSet,
    terminals: V2Terminals,
    modes: Modes,
    /// The message with which the view begins, until it arrives.
    awaited: Option<Vec<u8>>,
    subagents: Subagents,
    /// Buffer for the members of an update.
    members: Vec<Member>,
}

/// The conversion of a line.
enum ConvertedLine<'a> {
    Unchanged,
    Changed(LineConversion<'a>),
    /// Whole lines take its place.
    Replaced(Vec<u8>),
    Hidden,
}

/// The conversion of a line.
struct LineConversion<'a> {
    splice: Splice<'a>,
    /// Whole lines to send before it.
    before: Vec<u8>,
    /// Whole lines to send after it.
    after: Vec<u8>,
}

impl<'a> From<Option<LineConversion<'a>>> for ConvertedLine<'a> {
    fn from(change: Option<LineConversion<'a>>) -> Self {
        change.map_or(Self::Unchanged, Self::Changed)
    }
}

impl V2View {
    /// The view of a session of which nothing was sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The view that shows nothing of the history before the first chunk of the message with this
    /// id. The view still needs the lines of the whole session, since earlier lines affect the
    /// conversion of later ones. [`V2View::is_reached`] is true once the message has come.
    #[must_use]
    pub fn from_message(mut self, id: &str) -> Self {
        self.awaited = Some(id.as_bytes().to_vec());
        self
    }

    /// Whether the first message to show has come. True if all are shown.
    pub fn is_reached(&self) -> bool {
        self.awaited.is_none()
    }

    /// Records the config options and modes that the client received by other means: an array of
    /// options and an object of modes, both in the form of version 1. Without them, a change of the
    /// mode cannot be converted to a change of an option.
    pub fn settings(&mut self, options: Option<&str>, modes: Option<&str>) {
        self.modes.tell(options, modes);
    }

    /// Whether this is the id of the option that represents the modes: setting it sets the mode.
    pub fn is_mode_option(&self, config_id: &str) -> bool {
        self.modes.option_id() == Some(config_id)
    }

    /// Converts the result of a request that has set an option, or the mode if `mode` is given: it
    /// has all options.
    pub fn options_result(&mut self, result: &str, mode: Option<&str>) -> String {
        self.modes
            .tell(json::text_member(result, "configOptions"), None);
        if let Some(mode) = mode {
            self.modes.set(mode);
        }
        answer(&self.modes.with_all(result), None)
    }

    /// Converts a result of `session/options`, which need not have the present options. The modes are the
    /// present ones, unless it has some.
    pub fn offered(&self, result: &str) -> String {
        answer(&self.modes.with_modes(result), None)
    }

    /// Takes whole lines of version 1 (`session/update` notifications with their newlines) and
    /// appends the lines of version 2. Any other line is passed through unchanged.
    pub fn lines(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        let copied = self.changed_lines(lines, out);
        out.extend_from_slice(&lines[copied..]);
    }

    /// Converts lines like [`lines`](Self::lines), but does not append what follows the last line
    /// that changes, and returns where that begins: at 0 if all lines are the same in both
    /// versions.
    pub fn changed_lines(&mut self, lines: &[u8], out: &mut Vec<u8>) -> usize {
        // How much of `lines` is in `out` so far, and where the next line begins.
        let (mut copied, mut start) = (0, 0);
        while start < lines.len() {
            let end = memchr::memchr(b'\n', &lines[start..]);
            let end = end.map_or(lines.len(), |at| start + at + 1);
            let line = &lines[start..end];
            let shown = self.line(line);
            if !matches!(shown, ConvertedLine::Unchanged) {
                out.extend_from_slice(&lines[copied..start]);
                copied = end;
            }
            match shown {
                ConvertedLine::Changed(change) => {
                    out.extend_from_slice(&change.before);
                    change.splice.write(0..line.len(), out);
                    out.extend_from_slice(&change.after);
                }
                ConvertedLine::Replaced(lines) => out.extend_from_slice(&lines),
                ConvertedLine::Unchanged | ConvertedLine::Hidden => {}
            }
            start = end;
        }
        copied
    }

    /// Converts the lines that end a replay. Lines with the mode and lines with the options each
    /// become all options of version 2, and only the last of them is sent.
    pub fn last_lines(&mut self, lines: &[u8], out: &mut Vec<u8>) {
        // The range of the last line with options.
        let mut last = 0..0;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let start = out.len();
            self.lines(line, out);
            if has_options(&out[start..]) {
                let len = out.len() - start;
                out.drain(last);
                last = out.len() - len..out.len();
            }
        }
    }

    fn line<'a>(&mut self, line: &'a [u8]) -> ConvertedLine<'a> {
        let was_awaiting = self.awaited.is_some();
        let shown = if self.alike.fits(line) {
            ConvertedLine::Unchanged
        } else {
            let mut members = std::mem::take(&mut self.members);
            let read = UpdateLine::read(line, &mut members).map(|update| {
                let mut is_hidden = self.awaited.is_some();
                let is_native = line.starts_with(HEAD_V2);
                let mut alike = std::mem::take(&mut self.alike);
                let shown = match self.subagent_of(&update) {
                    Some(AnnouncedSubagent::Hidden) => {
                        is_hidden = true;
                        ConvertedLine::Hidden
                    }
                    Some(AnnouncedSubagent::Shown(view)) => {
                        view.convert_after(&mut alike, &update, is_native)
                    }
                    None => self.convert_after(&mut alike, &update, is_native),
                };
                self.alike = alike;
                if update.kind != UpdateKind::Subagent {
                    return shown;
                }
                self.announce(&update, is_hidden);
                if is_hidden || is_native || !matches!(shown, ConvertedLine::Unchanged) {
                    return shown;
                }
                match self.state_of_subagent(&update) {
                    Some(after) => ConvertedLine::Changed(LineConversion {
                        after,
                        ..Splice::new(line).into()
                    }),
                    None => shown,
                }
            });
            self.members = members;
            // Anything but an update is passed through.
            let Some(shown) = read else {
                return ConvertedLine::Unchanged;
            };
            shown
        };
        if was_awaiting && self.awaited.is_some() {
            return ConvertedLine::Hidden;
        }
        shown
    }

    /// The subagent that an update is of.
    fn subagent_of(&mut self, update: &UpdateLine<'_, '_>) -> Option<AnnouncedSubagent<'_>> {
        if self.subagents.is_empty() {
            return None;
        }
        let session = json::member(update.line, update.spot.params, "sessionId")?;
        self.subagents.get(&json::string(update.line, &session)?)
    }

    /// Takes note of the subagent that an update is about. It stays hidden if how it began is.
    fn announce(&mut self, update: &UpdateLine<'_, '_>, is_hidden: bool) {
        let session = update.get("sessionId");
        let session = session.or_else(|| update.get("subagentSessionId"));
        if let Some(session) = session.and_then(|session| json::string(update.line, &session)) {
            self.subagents.announce(&session, is_hidden);
        }
    }

    /// The line in which a subagent reports what an update of its parent says that it is doing:
    /// version 1 has such reports only there. `None` if the subagent is not shown.
    fn state_of_subagent(&self, update: &UpdateLine<'_, '_>) -> Option<Vec<u8>> {
        let line = update.line;
        let session = update.get("sessionId")?;
        if !self.subagents.shows(&json::string(line, &session)?) {
            return None;
        }
        let state = update.get("state")?;
        json::string(line, &json::member(line, state.start, "state")?)?;
        let parent = json::member(line, update.spot.params, "sessionId")?;
        let members = &line[state.start + 1..state.end];
        let report = [b"{\"sessionUpdate\":\"state_update\",", members].concat();
        let mut splice = Splice::new(line);
        splice.replace(parent, &line[session]);
        splice.replace(update.spot.update.clone(), report);
        Some(splice.into_bytes())
    }

    /// Converts an update that follows this chunk, of the session or of a subagent, and remembers it
    /// there if it is one.
    fn convert_after<'a>(
        &mut self,
        last: &mut ChunkLayoutCache,
        update: &UpdateLine<'a, '_>,
        is_native: bool,
    ) -> ConvertedLine<'a> {
        std::mem::swap(&mut self.alike, last);
        let shown = self.convert(update, is_native);
        std::mem::swap(&mut self.alike, last);
        shown
    }

    fn convert<'a>(&mut self, update: &UpdateLine<'a, '_>, is_native: bool) -> ConvertedLine<'a> {
        if is_native {
            self.learn(update);
            return ConvertedLine::Unchanged;
        }
        match self.restored(update) {
            Some(lines) => ConvertedLine::Replaced(lines),
            None => self.update(update).into(),
        }
    }

    /// The lines of the updates of version 2 that an update was made of, if it was.
    fn restored(&mut self, update: &UpdateLine<'_, '_>) -> Option<Vec<u8>> {
        let (line, place) = (update.line, &update.spot.update);
        let meta = update.get("_meta")?;
        let note = json::member(line, meta.start, REJOIN)?;
        let mut originals = json::member_elements(line, note.start, UPDATES)?;
        let (mut lines, mut members) = (Vec::new(), Vec::new());
        while let Some(original) = originals.element() {
            let start = lines.len();
            lines.extend_from_slice(&line[..place.start]);
            lines.extend_from_slice(&line[original]);
            lines.extend_from_slice(&line[place.end..]);
            let line = &lines[start..];
            if let Some(update) = UpdateLine::read(line, &mut members) {
                self.learn(&update);
            }
        }
        Some(lines)
    }

    /// Notes the message of an update that has the form of version 2 already, so that no converted
    /// chunk that follows is joined to it.
    fn learn(&mut self, update: &UpdateLine<'_, '_>) {
        self.pause();
        if let UpdateKind::Chunk(role) | UpdateKind::Message(role) = update.kind
            && let Some(id) = update.get("messageId")
            && let Some(id) = json::string_body(update.line, &id)
        {
            let id = &update.line[id];
            self.messages.take(role, id);
            if self.awaited.as_deref() == Some(&*json::unescaped_bytes(id)) {
                self.awaited = None;
            }
            if update.kind == UpdateKind::Chunk(role) && self.awaited.is_none() {
                self.alike.learn(update);
            }
        }
    }

    fn update<'a>(&mut self, update: &UpdateLine<'a, '_>) -> Option<LineConversion<'a>> {
        let (line, at) = (update.line, update.spot.update.start);
        let splice = match update.kind {
            UpdateKind::Chunk(role) => self.chunk(role, update),
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => return self.call(update),
            UpdateKind::AvailableCommands => commands::change(line, at),
            UpdateKind::ConfigOptions => self.modes.options(line, at),
            UpdateKind::CurrentMode => self.modes.mode(line, at),
            UpdateKind::Plan => {
                self.pause();
                plan::change(line, at)
            }
            // The other kinds have the same form in both versions.
            kind => {
                if kind.class() == UpdateClass::History {
                    self.pause();
                }
                None
            }
        };
        splice.map(LineConversion::from)
    }

    /// Something else follows the last message.
    fn pause(&mut self) {
        self.messages.pause();
        self.alike.forget();
    }

    fn chunk<'a>(&mut self, role: Role, update: &UpdateLine<'a, '_>) -> Option<Splice<'a>> {
        let line = update.line;
        let id = update.get("messageId");
        let given = id.clone().filter(|id| &line[id.clone()] != b"null");
        let body = given.as_ref().and_then(|id| json::string_body(line, id));
        if update.get("content").is_none() || given.is_some() != body.is_some() {
            // Neither version has such a chunk.
            self.pause();
            return None;
        }
        let body = body.map(|body| &line[body]);
        let shown = self.messages.chunk(role, body, || update.turn());
        if let Some(awaited) = &self.awaited
            && let Some(id) = shown.or(body)
            && *json::unescaped_bytes(id) == awaited[..]
        {
            self.awaited = None;
        }
        let Some(shown) = shown else {
            // Many messages have only one or two chunks, so remembering their layout would not pay.
            if self.messages.chunks() < 3 {
                self.alike.forget();
            } else {
                self.alike.learn(update);
            }
            return None;
        };
        self.alike.forget();
        let mut splice = Splice::new(line);
        match (id, body) {
            (Some(id), Some(_)) => splice.replace(id.start + 1..id.end - 1, shown.to_vec()),
            (Some(id), None) => splice.replace(id, [b"\"", shown, b"\""].concat()),
            (None, _) => {
                let member = [b"\"messageId\":\"", shown, b"\""].concat();
                splice.member(update.spot.update.start, &member);
            }
        }
        Some(splice)
    }

    fn call<'a>(&mut self, update: &UpdateLine<'a, '_>) -> Option<LineConversion<'a>> {
        let line = update.line;
        let id = update.get("toolCallId");
        let Some(id) = id.and_then(|id| json::string_body(line, &id)) else {
            self.pause();
            return None;
        };
        if self.calls.add(Id::of(&json::unescaped_bytes(&line[id]))) {
            // A call that begins follows the last message. An update of a call that has begun
            // changes an earlier entry.
            self.pause();
        }
        let before = self.terminals.lines(update);
        let mut splice = Splice::new(line);
        let name = update.get("sessionUpdate")?;
        if &line[name.clone()] != b"\"tool_call_update\"" {
            splice.replace(name, b"\"tool_call_update\"");
        }
        call::change(line, update.members, &self.terminals, &mut splice);
        (!splice.is_empty() || !before.is_empty()).then_some(LineConversion {
            before,
            ..splice.into()
        })
    }
}

/// Whether a line of version 2 has all options.
fn has_options(line: &[u8]) -> bool {
    let mut members = Vec::new();
    let update = UpdateLine::read(line, &mut members);
    update.is_some_and(|update| update.kind == UpdateKind::ConfigOptions)
}

impl<'a> From<Splice<'a>> for LineConversion<'a> {
    fn from(splice: Splice<'a>) -> Self {
        Self {
            splice,
            before: Vec::new(),
            after: Vec::new(),
        }
    }
}

#[cfg(test)]
pub(super) mod fold;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) mod table;
#[cfg(test)]
mod properties;

//! Replays a session: records in, `session/update` lines out.
//!
//! Pure and in one pass: no clock, no file, no look-ahead, and never more than one message in
//! memory. A payload is copied into an envelope unchanged, except for what these steps do:
//!
//! - `envelope` adds our note, `_meta.rejoin`.
//! - `merge` joins adjacent chunks of text. The text stays escaped.
//! - `terminal` replaces terminals that no longer exist.
//! - `orphan` puts a call before the first update of a tool call that never began.
//! - `clip` shortens what tools were given and returned, in conversations of other tools.
//! - `cut` splits or shortens what is too long for a line.
//!
//! Four steps decide when a line is sent, and under which id:
//!
//! - `calls` holds back a call that was known from a request for permission, until it is known whether the
//!   agent announces the call itself.
//! - `held_line` holds back a line until it is known whether its turn was interrupted there.
//! - `snapshots` holds back updates about the present until the end.
//! - `subagents` replays the updates of subagents under the ids of their own sessions.
//!
//! `version_2` replays the updates of agents that speak version 2.

mod envelope;
mod live;
mod calls;
mod snapshots;
mod subagents;
mod held_line;
mod merge;
mod orphan;
mod terminal;
mod cut;
mod clip;
mod truncation;
mod stub;
mod find_message;
mod version_2;

pub use envelope::{live_line, live_params_line};
pub use find_message::FindMessage;
pub use live::live_record_line;

use std::borrow::Cow;

use crate::json;
use crate::protocol::update::{self, UpdateKind};
use crate::protocol::{Role, UpdateClass, meta};
use crate::record::open_turns::is_interrupted;
use crate::record::{InVersion1, Kind, OpenTurns, Record, Rewind};

use calls::{AskedCall, AskedCalls, Disposition, ReplayedCalls};
use clip::Clips;
use envelope::{EnvelopeWriter, ReplayedLine};
use held_line::{INTERRUPTED, LastLine};
use merge::{ChunkLimits, PendingChunk};
use snapshots::Snapshots;
use subagents::ShownSubagents;
use terminal::ReplayedTerminals;
use version_2::Version2;

/// If what surrounds a text is longer than this, it is not repeated with each small part of the
/// text.
const REPEATED: usize = 64 * 1024;
/// Chunks that are not longer are joined up to this many bytes of (escaped) text. A longer line makes a
/// replay no faster, and each of the buffers between the log and the client would be as long.
const JOINED: usize = 128 * 1024;
/// The minimum for the line limit: an envelope and a note about the cut must fit.
const SHORTEST_LINE: usize = 2048;

/// How a session is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Keep every chunk as it came: join none, and split only those that exceed `message_limit`.
    pub exact: bool,
    /// The most bytes of (escaped) text in one chunk.
    pub text_limit: usize,
    /// The most bytes of one line, with its newline. Values below 2048 count as 2048.
    pub message_limit: usize,
    /// Leave out subagents, for a client that does not know them.
    pub hide_subagents: bool,
    /// Show updates of version 2 of the protocol as they are, to a client that speaks it.
    pub version_2: bool,
    /// In what was imported from other tools, the most bytes of the input and output of a tool call
    /// in one update. Unlimited if `None`.
    pub clip: Option<usize>,
    /// How many turns to leave out at the beginning, together with everything before the first one.
    pub skip_turns: u64,
    /// How many turns there were before the first record.
    pub earlier_turns: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            exact: false,
            text_limit: 1024 * 1024,
            message_limit: 16 * 1024 * 1024,
            hide_subagents: false,
            version_2: false,
            clip: None,
            skip_turns: 0,
            earlier_turns: 0,
        }
    }
}

/// The replay of one session.
#[derive(Debug)]
pub struct Replay {
    options: Options,
    limits: ChunkLimits,
    envelope: EnvelopeWriter,
    /// The number of prompts so far.
    turn: u64,
    pending: PendingChunk,
    last: LastLine,
    /// The open turns, by their numbers.
    open: OpenTurns<u64>,
    /// Buffer for lines. Empty between calls.
    lines: Vec<u8>,
    terminals: ReplayedTerminals,
    clips: Clips,
    calls: ReplayedCalls,
    asked: AskedCalls,
    snapshots: Snapshots,
    subagents: ShownSubagents,
    /// The state for updates of version 2, once there is one.
    version_2: Option<Version2>,
    /// Whether the last record had such an update.
    was_native: bool,
    scratch: Vec<u8>,
    /// Buffer for the line of a snapshot. Empty between calls.
    held: Vec<u8>,
    cut: u64,
    /// Whether what a tool was given or returned was shortened.
    is_clipped: bool,
    /// Whether records come as they are appended.
    follows: bool,
}

impl Replay {
    /// A replay that has not begun.
    pub fn new(session_id: &str, options: Options) -> Self {
        Self {
            options,
            limits: ChunkLimits {
                joined: options.text_limit.min(JOINED),
                text: options.text_limit,
                // Marking a turn as interrupted may make its last line longer.
                line: options.message_limit.max(SHORTEST_LINE) - INTERRUPTED.len(),
            },
            envelope: EnvelopeWriter::new(session_id),
            turn: options.earlier_turns,
            pending: PendingChunk::default(),
            last: LastLine::default(),
            open: OpenTurns::default(),
            lines: Vec::new(),
            terminals: ReplayedTerminals::new(),
            clips: Clips::new(session_id, options.clip),
            calls: ReplayedCalls::default(),
            asked: AskedCalls::default(),
            snapshots: Snapshots::default(),
            subagents: ShownSubagents::default(),
            version_2: None,
            was_native: false,
            scratch: Vec::new(),
            held: Vec::new(),
            cut: 0,
            is_clipped: false,
            follows: false,
        }
    }

    /// From now on, every chunk is kept as it came, and nothing is held that may not be needed.
    pub fn follow(&mut self) {
        self.options.exact = true;
        self.follows = true;
    }

    /// Takes the next record of the log and appends to `out` what is to be sent: zero or more whole
    /// lines, each with its newline.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        if self.version_2.is_some() || InVersion1::converts(record.kind) {
            self.mixed(record, out);
        } else {
            self.take(record, out);
        }
    }

    fn take(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        if record.kind == Kind::Prompt && !(self.pending.is_empty() && self.asked.is_empty()) {
            // What is held belongs to the previous turn.
            self.last.release(out);
            let start = out.len();
            self.pending.flush(out);
            let asked = self.asked.take_all();
            self.show_asked(asked, out);
            self.last.hold(self.turn, start, out);
        }
        if self.last.is_empty() {
            let start = out.len();
            self.show(record, out);
            // The line of a pending chunk will be a later one.
            if self.pending.is_empty() {
                self.last.hold(self.turn, start, out);
            }
        } else {
            let mut lines = std::mem::take(&mut self.lines);
            self.show(record, &mut lines);
            self.last.replace(self.turn, &mut lines, out);
            self.lines = lines;
            if !self.pending.is_empty() {
                self.last.release(out);
            }
        }
        if record.kind == Kind::End {
            self.end(record, out);
        }
    }

    /// Handles the end of one or more turns.
    fn end(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let ended = self.open.end(record.id);
        if let (Some(turn), true) = (ended.first(), is_interrupted(record.payload)) {
            self.last.interrupt(*turn);
        }
        if self.open.is_empty() {
            self.last.release(out);
        }
    }

    fn show(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let payload = record.payload.as_bytes();
        let is_native = record.kind == Kind::UpdateV2;
        if self.subagents.leave(record.kind) || self.was_native != is_native {
            self.pending.flush(out);
            self.was_native = is_native;
        }
        if !self.asked.is_empty() {
            let asked = self.asked_before(record);
            self.show_asked(asked, out);
        }
        match record.kind {
            Kind::Output if !self.follows && self.asked.hold(record.at, record.payload) => {}
            Kind::Update | Kind::Output => self.update(record, out),
            Kind::Subagent | Kind::SubagentV2 => self.subagent(record, out),
            Kind::UpdateV2 => self.native(record, out),
            Kind::UpdateParams => {
                self.pending.flush(out);
                self.params(record.at, payload, out);
            }
            Kind::Info => {
                self.pending.flush(out);
                self.info(record.at, payload);
            }
            Kind::AgentSessionId => {
                self.pending.flush(out);
                self.clips.agent(record.payload);
            }
            Kind::Prompt => {
                self.turn += 1;
                self.clips.prompt(record.id);
                self.open.begin(record.id, self.turn);
                self.set_turn();
                if !self.is_skipping() {
                    self.prompt(record, out);
                }
            }
            Kind::Begin => {
                self.pending.flush(out);
                self.open.resume(record.id, self.turn);
            }
            Kind::Rewind => {
                self.pending.flush(out);
                if let Some(rewind) = Rewind::read(record.payload) {
                    self.turn = rewind.turns;
                    self.set_turn();
                }
            }
            _ => self.pending.flush(out),
        }
    }

    /// The calls that were asked about and come before this record.
    fn asked_before(&mut self, record: &Record<'_>) -> Vec<AskedCall> {
        let payload = record.payload.as_bytes();
        let update = match record.kind {
            Kind::Update | Kind::Output => 0..payload.len(),
            Kind::UpdateParams | Kind::UpdateV2 => {
                json::member(payload, 0, "update").unwrap_or(0..payload.len())
            }
            Kind::Prompt | Kind::End => return self.asked.take_all(),
            _ => return Vec::new(),
        };
        let (kind, id) = kind_and_call(&payload[update]);
        if record.kind == Kind::Output && kind == UpdateKind::ToolCall {
            // The next call that was asked about.
            return Vec::new();
        }
        self.asked.before(kind, id.as_deref())
    }

    /// Writes calls that were asked about.
    fn show_asked(&mut self, asked: Vec<AskedCall>, out: &mut Vec<u8>) {
        for call in asked {
            self.pending.flush(out);
            let update = call.update.as_bytes();
            let (kind, id) = kind_and_call(update);
            let disposition = self.disposition(kind, id, &call.at, update, None);
            if disposition != Disposition::Hidden {
                let line = self.envelope.update(&call.at, update, out);
                self.finish_line(line, &call.at, kind, disposition, out);
            }
        }
    }

    /// From now on, lines belong to this turn.
    fn set_turn(&mut self) {
        self.envelope.set_turn(self.turn);
        self.subagents.set_turn(self.turn);
        if let Some(Version2::Shown(envelope)) = &mut self.version_2 {
            envelope.set_turn(self.turn);
        }
    }

    /// Ends the replay, which may go on: appends the rest of the history, then the last snapshot of
    /// each kind.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.finish_history(out);
        self.release_snapshots(out);
    }

    /// Appends what was held of the history: the pending chunk, the held line, and calls that were only
    /// asked about.
    pub fn finish_history(&mut self, out: &mut Vec<u8>) {
        self.finish_mixed(out);
        self.last.release(out);
        self.pending.flush(out);
        let asked = self.asked.take_all();
        self.show_asked(asked, out);
    }

    /// Appends the last snapshot of each kind.
    pub fn release_snapshots(&mut self, out: &mut Vec<u8>) {
        self.cut += self.snapshots.release(out);
    }

    /// Whether a turn is open.
    pub fn is_in_turn(&self) -> bool {
        !self.open.is_empty()
    }

    /// How many messages were truncated so far because they were too long for a line.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Whether a bound has shortened the history so far: that of the turns, of a line, or of the tool
    /// calls of other tools.
    pub fn is_shortened(&self) -> bool {
        self.options.skip_turns > 0 || self.cut > 0 || self.is_clipped
    }

    fn update(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let (at, update) = (record.at, record.payload.as_bytes());
        let text = record.parts.and_then(|parts| parts.text);
        let text = text.map(|(start, end)| start..end);
        if self.pending.join_alike(update, text, self.limits) {
            return;
        }
        let (kind, id) = match record.parts {
            Some(parts) => {
                let id = parts.call.map(|(start, end)| start..end);
                (parts.kind, id.map(|id| update::id_text(update, id)))
            }
            None => kind_and_call(update),
        };
        let disposition = self.disposition(kind, id, at, update, None);
        if disposition == Disposition::Hidden {
            return self.pending.flush(out);
        }
        let may_join = !self.options.exact && matches!(kind, UpdateKind::Chunk(_));
        if may_join && self.join(at, update, out) {
            return;
        }
        self.pending.flush(out);
        let line = self.envelope.update(at, update, out);
        self.finish_line(line, at, kind, disposition, out);
    }

    /// Joins a chunk to the pending one or makes it the pending one. False if it is neither.
    fn join(&mut self, at: &str, update: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(chunk) = merge::chunk(update) else {
            return false;
        };
        if self.pending.join(update, &chunk, self.limits) {
            return true;
        }
        self.pending.flush(out);
        self.pending
            .begin(&self.envelope, at, update, &chunk, self.limits)
    }

    /// Joins an update to the pending chunk, or writes its line; `None` if there is no line yet.
    /// `params` are the parameters around it, if they have more members.
    fn join_or_write(
        &mut self,
        at: &str,
        update: &[u8],
        params: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Option<ReplayedLine> {
        if params.is_none() && !self.options.exact && self.join(at, update, out) {
            return None;
        }
        self.pending.flush(out);
        self.envelope.line(at, update, params, out)
    }

    fn params(&mut self, at: &str, params: &[u8], out: &mut Vec<u8>) {
        let Some(update) = json::member(params, 0, "update") else {
            return;
        };
        let update = &params[update];
        let (kind, id) = kind_and_call(update);
        let disposition = self.disposition(kind, id, at, update, Some(params));
        if disposition != Disposition::Hidden
            && let Some(line) = self.envelope.params(at, params, out)
        {
            self.finish_line(line, at, kind, disposition, out);
        }
    }

    /// Decides how to treat an update about the tool call `id`, and holds a snapshot for the end.
    /// `params` are the parameters around the update, if they have more members.
    fn disposition(
        &mut self,
        kind: UpdateKind,
        id: Option<Cow<'_, [u8]>>,
        at: &str,
        update: &[u8],
        params: Option<&[u8]>,
    ) -> Disposition {
        match kind.class() {
            UpdateClass::Event => Disposition::Hidden,
            UpdateClass::Snapshot => {
                self.hold(kind.name().as_bytes(), at, update, params);
                Disposition::Hidden
            }
            UpdateClass::History if kind == UpdateKind::Subagent => self.announcement(update),
            UpdateClass::History if self.is_skipping() => {
                self.calls.hide(kind, id);
                Disposition::Hidden
            }
            UpdateClass::History => self.calls.show(kind, id),
        }
    }

    /// Writes one chunk for each block of a prompt. The rest of the request is not for the client.
    fn prompt(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let payload = record.payload.as_bytes();
        let Some(mut blocks) = json::member_elements(payload, 0, "prompt") else {
            return;
        };
        let client = json::text_member(record.payload, meta::CLIENT);
        let client = client.filter(|client| client.starts_with('"'));
        let client = client.map(|client| format!(",\"{}\":{client}", meta::CLIENT));
        let note = client.as_deref().unwrap_or_default().as_bytes();
        while let Some(block) = blocks.element() {
            let start = out.len();
            let note_end = self.envelope.open(record.at, note, out);
            let from = out.len();
            out.extend_from_slice(b"{\"sessionUpdate\":\"user_message_chunk\",\"content\":");
            out.extend_from_slice(&payload[block]);
            if let Some(id) = record.id {
                // The id is still escaped, so it can be copied from one JSON string into another.
                out.extend_from_slice(b",\"messageId\":\"");
                out.extend_from_slice(id.as_bytes());
                out.push(b'"');
            }
            out.push(b'}');
            let update = from..out.len();
            out.extend_from_slice(envelope::TAIL);
            let line = ReplayedLine {
                start,
                note_end,
                update,
            };
            self.finish_line(
                line,
                record.at,
                UpdateKind::Chunk(Role::User),
                Disposition::Shown,
                out,
            );
        }
    }

    fn is_skipping(&self) -> bool {
        self.options.skip_turns > 0 && self.turn <= self.options.skip_turns
    }

    /// Checks the line just written, the last one in `out`, and rewrites it if it cannot be sent as
    /// it is.
    fn finish_line(
        &mut self,
        mut line: ReplayedLine,
        at: &str,
        kind: UpdateKind,
        disposition: Disposition,
        out: &mut Vec<u8>,
    ) {
        self.scratch.clear();
        if disposition == Disposition::Orphan
            && let Some(call) = orphan::call(&out[line.update.clone()])
        {
            let update = out[line.start..].to_vec();
            self.scratch = call;
            let mut before = line.clone();
            put_instead(&mut self.scratch, &mut before, out);
            line.move_by(out.len() - line.start);
            out.extend(update);
        }
        if kind.is_call()
            && self
                .terminals
                .replace(&out[line.update.clone()], &mut self.scratch)
        {
            put_instead(&mut self.scratch, &mut line, out);
        }
        if kind.is_call()
            && let Some(note) = self
                .clips
                .clip(&out[line.update.clone()], &mut self.scratch)
        {
            put_instead(&mut self.scratch, &mut line, out);
            line.add_note(&note, out);
            self.is_clipped = true;
        }
        self.cut += u64::from(self.part_or_cut(&line, at, out));
    }
}

/// The kind of an update, and the id of its tool call if it is about one.
fn kind_and_call(update: &[u8]) -> (UpdateKind, Option<Cow<'_, [u8]>>) {
    let kind = UpdateKind::of(update);
    let id = kind.is_call().then(|| update::call_id(update)).flatten();
    (kind, id)
}

/// Replaces the line's update by the content of `scratch`, and empties `scratch`.
fn put_instead(scratch: &mut Vec<u8>, line: &mut ReplayedLine, out: &mut Vec<u8>) {
    let grown = scratch.len();
    out.splice(line.update.clone(), scratch.drain(..));
    if line.note_end > line.update.start {
        line.note_end = line.note_end + grown - line.update.len();
    }
    line.update.end = line.update.start + grown;
}

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod held_tests;
#[cfg(test)]
pub(crate) mod properties;
#[cfg(test)]
mod version_2_tests;

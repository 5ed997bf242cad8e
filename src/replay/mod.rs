//! Replays a session: records in, `session/update` lines out.
//!
//! Pure and in one pass: no clock, no file, no look-ahead, and never more in memory than one
//! message. Payloads are spliced into an envelope as they are; text is joined and parted while it
//! is still escaped. What each step may change is told in its file: `envelope` adds our note,
//! `merge` joins text chunks, `split` parts long ones, `terminal` removes terminals that are gone,
//! `orphan` makes calls of updates that lost theirs, `cut` shortens what else is too long for a
//! line.

mod envelope;
mod merge;
mod orphan;
mod split;
mod terminal;
mod cut;
mod spots;
mod stub;

use std::collections::HashSet;

pub use envelope::{live_line, live_params_line, live_record};

use crate::record::{Kind, Record, json};

use cut::Oversize;
use envelope::{Envelope, Line};
use merge::{Limits, Pending};
use orphan::Orphans;
use terminal::Terminals;

/// What stands beside a text and is longer than this is not repeated with each small part of it.
const REPEATED: usize = 64 * 1024;
/// The least that a line may be limited to: an envelope and a word on what was cut must fit.
const SHORTEST_LINE: usize = 2048;

/// How a session is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Keep every chunk as it came: join none, and part only what would exceed `message_limit`.
    pub exact: bool,
    /// The most bytes of (escaped) text in one chunk.
    pub text_limit: usize,
    /// The most bytes of one line, with its newline. Values below 2048 count as 2048.
    pub message_limit: usize,
    /// How many turns to leave out at the beginning, with what came before the first one.
    pub skip_turns: u64,
    /// Whether records may be missing, so that a tool call may have lost its beginning.
    pub damaged: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            exact: false,
            text_limit: 1024 * 1024,
            message_limit: 16 * 1024 * 1024,
            skip_turns: 0,
            damaged: false,
        }
    }
}

/// The replay of one session.
#[derive(Debug)]
pub struct Replay {
    options: Options,
    limits: Limits,
    envelope: Envelope,
    /// How many prompts came so far.
    turn: u64,
    pending: Pending,
    terminals: Terminals,
    /// Only if the log is damaged, since it grows with the calls.
    orphans: Option<Orphans>,
    /// Tool calls that were replayed, escaped; kept only if turns are left out.
    calls: HashSet<Vec<u8>>,
    scratch: Vec<u8>,
    cut: u64,
    snapshots: Vec<String>,
}

impl Replay {
    /// A replay that has not begun.
    pub fn new(session_id: &str, options: Options) -> Self {
        Self {
            options,
            limits: Limits {
                text: options.text_limit,
                line: options.message_limit.max(SHORTEST_LINE),
            },
            envelope: Envelope::new(session_id),
            turn: 0,
            pending: Pending::default(),
            terminals: Terminals::new(),
            orphans: options.damaged.then(Orphans::new),
            calls: HashSet::new(),
            scratch: Vec::new(),
            cut: 0,
            snapshots: Vec::new(),
        }
    }

    /// Takes the next record of the log and appends what is to be sent to `out`: zero or more
    /// whole lines, each with its newline.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let payload = record.payload.as_bytes();
        match record.kind {
            Kind::Update => self.update(record.at, payload, out),
            Kind::UpdateParams => {
                self.pending.flush(out);
                let update = json::member(payload, 0, "update").map(|range| &payload[range]);
                if update.is_some_and(|update| self.is_shown(update))
                    && let Some(line) = self.envelope.params(record.at, payload, out)
                {
                    self.settle(line, record.at, out);
                }
            }
            Kind::Prompt => {
                self.pending.flush(out);
                self.turn += 1;
                self.envelope.set_turn(self.turn);
                if !self.is_skipping() {
                    self.prompt(record, out);
                }
            }
            _ => self.pending.flush(out),
        }
    }

    /// From now on, takes updates whose tool call is not known for the call itself: records may
    /// be missing. True if that is news; then what came before is to be [`recall`](Self::recall)ed.
    pub fn mind_damage(&mut self) -> bool {
        let news = self.orphans.is_none();
        self.orphans.get_or_insert_with(Orphans::new);
        news
    }

    /// Takes note of the tool calls in a record that was replayed before damage was minded.
    pub fn recall(&mut self, record: &Record<'_>) {
        let payload = record.payload.as_bytes();
        let update = match record.kind {
            Kind::Update => Some(payload),
            Kind::UpdateParams => json::member(payload, 0, "update").map(|range| &payload[range]),
            _ => None,
        };
        if let (Some(update), Some(orphans)) = (update, &mut self.orphans) {
            orphans.adopt(update, &mut self.scratch);
            self.scratch.clear();
        }
    }

    /// Ends the replay: appends what was held back to be joined with more.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.pending.flush(out);
    }

    /// How many messages were cut so far because they were too long for a line.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Takes an update that says how things are now; it is sent behind all others.
    pub fn snapshot(&mut self, update: &str) {
        self.snapshots.push(update.to_owned());
    }

    fn update(&mut self, at: &str, update: &[u8], out: &mut Vec<u8>) {
        if self.pending.join_alike(update, self.limits) {
            return;
        }
        if !self.is_shown(update) {
            return self.pending.flush(out);
        }
        if !self.options.exact
            && let Some(chunk) = merge::chunk(update)
        {
            if self.pending.join(update, &chunk, self.limits) {
                return;
            }
            self.pending.flush(out);
            if self
                .pending
                .begin(&self.envelope, at, update, &chunk, self.limits)
            {
                return;
            }
        }
        self.pending.flush(out);
        let line = self.envelope.update(at, update, out);
        self.settle(line, at, out);
    }

    /// One chunk for each block of a prompt. What else the request had was not for the client.
    fn prompt(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let payload = record.payload.as_bytes();
        let Some(prompt) = json::member(payload, 0, "prompt") else {
            return;
        };
        let Some(mut blocks) = json::elements(payload, prompt.start) else {
            return;
        };
        while let Some(block) = blocks.element() {
            let start = out.len();
            let note_end = self.envelope.open(record.at, b"", out);
            let from = out.len();
            out.extend_from_slice(b"{\"sessionUpdate\":\"user_message_chunk\",\"content\":");
            out.extend_from_slice(&payload[block]);
            if let Some(id) = record.id {
                // Cut out of a JSON string as it stands, put into one as it stands.
                out.extend_from_slice(b",\"messageId\":\"");
                out.extend_from_slice(id.as_bytes());
                out.push(b'"');
            }
            out.push(b'}');
            let update = from..out.len();
            out.extend_from_slice(envelope::TAIL);
            let line = Line {
                start,
                note_end,
                update,
            };
            self.settle(line, record.at, out);
        }
    }

    fn is_skipping(&self) -> bool {
        self.options.skip_turns > 0 && self.turn <= self.options.skip_turns
    }

    /// Whether an update is replayed at all. If turns are left out, updates of tool calls that
    /// were begun in them are left out, too: the client does not know those calls.
    fn is_shown(&mut self, update: &[u8]) -> bool {
        if self.options.skip_turns == 0 {
            return true;
        }
        if self.is_skipping() {
            return false;
        }
        let id = json::member(update, 0, "toolCallId").map(|range| &update[range]);
        let name = json::member(update, 0, "sessionUpdate").map(|range| &update[range]);
        match (name, id) {
            (Some(b"\"tool_call\""), Some(id)) => {
                self.calls.insert(id.to_vec());
                true
            }
            (Some(b"\"tool_call_update\""), Some(id)) => self.calls.contains(id),
            _ => true,
        }
    }

    /// Looks over the line just written, the last one in `out`, and writes it anew if it cannot
    /// be sent as it is.
    fn settle(&mut self, mut line: Line, at: &str, out: &mut Vec<u8>) {
        self.scratch.clear();
        if let Some(orphans) = &mut self.orphans
            && orphans.adopt(&out[line.update.clone()], &mut self.scratch)
        {
            put_instead(&mut self.scratch, &mut line, out);
        }
        if self
            .terminals
            .replace(&out[line.update.clone()], &mut self.scratch)
        {
            put_instead(&mut self.scratch, &mut line, out);
        }
        let too_long = out.len() - line.start > self.limits.line;
        let long_text = !self.options.exact && line.update.len() > self.limits.text;
        if too_long || long_text {
            self.part_or_cut(&line, at, out);
        }
    }

    fn part_or_cut(&mut self, line: &Line, at: &str, out: &mut Vec<u8>) {
        let start = line.start;
        let update = line.update.start - start..line.update.end - start;
        let whole = &out[start..];
        let text = split::chunk_text(&whole[update.clone()]);
        let parts = text.and_then(|text| {
            let text = update.start + text.start..update.start + text.end;
            let length = self.part_length(text.len(), whole.len() - text.len())?;
            Some((text, length))
        });
        if let Some((text, length)) = parts {
            if length < text.len() {
                self.scratch.clear();
                self.scratch.extend_from_slice(whole);
                out.truncate(start);
                let (before, behind) = (&self.scratch[..text.start], &self.scratch[text.end..]);
                for part in split::parts(&self.scratch[text.clone()], length) {
                    out.extend_from_slice(before);
                    out.extend_from_slice(part);
                    out.extend_from_slice(behind);
                }
            }
        } else if whole.len() > self.limits.line {
            self.scratch.clear();
            self.scratch.extend_from_slice(whole);
            out.truncate(start);
            let oversize = Oversize {
                line: &self.scratch,
                note_end: line.note_end - start,
                update,
                at,
            };
            oversize.cut(&self.envelope, self.limits.line, out);
            self.cut += 1;
        }
    }

    /// How long the parts of a chunk's text may be, if what stands beside the text (`around`) can
    /// be repeated with each of them.
    fn part_length(&self, text: usize, around: usize) -> Option<usize> {
        let room = self.limits.line.checked_sub(around)?;
        let wanted = if self.options.exact {
            text
        } else {
            self.limits.text
        };
        if around <= REPEATED.min(self.limits.line / 2) {
            Some(wanted.min(room))
        } else {
            // Much is repeated, so the parts are as few as can be; not if they were many even so.
            (text <= room || around <= room).then_some(room)
        }
    }
}

/// Puts what is in `scratch` in the place of the line's update, and empties it.
fn put_instead(scratch: &mut Vec<u8>, line: &mut Line, out: &mut Vec<u8>) {
    let grown = scratch.len();
    out.splice(line.update.clone(), scratch.drain(..));
    if line.note_end > line.update.start {
        line.note_end = line.note_end + grown - line.update.len();
    }
    line.update.end = line.update.start + grown;
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod properties;

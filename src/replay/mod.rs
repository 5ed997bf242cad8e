//! Replays a session: records in, `session/update` lines out.
//!
//! Pure and in one pass: no clock, no file, no look-ahead, and never more in memory than one
//! message. Payloads are spliced into an envelope as they are; text is joined and parted while it
//! is still escaped. What each step may change is told in its file: `envelope` adds our note,
//! `merge` joins text chunks, `split` parts long ones, `terminal` removes terminals that are gone,
//! `orphan` makes calls of updates that have none, `cut` shortens what else is too long for a line.
//! `snapshots` has what is held back to the end.

mod envelope;
mod live;
mod topic;
mod ids;
mod calls;
mod snapshots;
mod merge;
mod orphan;
mod split;
mod terminal;
mod cut;
mod spots;
mod stub;
pub mod v2;

pub use envelope::{live_line, live_params_line};
pub use live::live_record_line;

use crate::record::transcript::SNAPSHOTS;
use crate::record::{Kind, Record, json};

use calls::{Calls, Fate};
use cut::Oversize;
use envelope::{Envelope, Line};
use live::Snapshot;
use merge::{Limits, Pending};
use snapshots::Snapshots;
use terminal::Terminals;
use topic::Topic;

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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            exact: false,
            text_limit: 1024 * 1024,
            message_limit: 16 * 1024 * 1024,
            skip_turns: 0,
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
    calls: Calls,
    snapshots: Snapshots,
    scratch: Vec<u8>,
    /// Where the line of a snapshot is made; empty.
    held: Vec<u8>,
    cut: u64,
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
            calls: Calls::default(),
            snapshots: Snapshots::default(),
            scratch: Vec::new(),
            held: Vec::new(),
            cut: 0,
        }
    }

    /// Takes the next record of the log and appends what is to be sent to `out`: zero or more
    /// whole lines, each with its newline.
    pub fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let payload = record.payload.as_bytes();
        match record.kind {
            Kind::Update | Kind::Output => self.update(record.at, payload, out),
            Kind::UpdateParams => {
                self.pending.flush(out);
                self.params(record.at, payload, out);
            }
            Kind::Info => {
                self.pending.flush(out);
                self.info(record.at, payload);
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

    /// Takes a snapshot that is not in the log: `update` is the JSON of the update object, on one
    /// line, and `at` when it was taken, in the form of [`Record::at`]. It counts as the last of
    /// its kind so far. What is no snapshot is ignored.
    pub fn snapshot(&mut self, at: &str, update: &str) {
        self.info(at, update.as_bytes());
    }

    /// Leaves out the snapshot of this name: what it says holds no longer.
    pub fn withdraw(&mut self, name: &str) {
        self.snapshots.withdraw(name.as_bytes());
    }

    /// Ends the replay: appends what was held back to be joined with more, then the last snapshot
    /// of each kind.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.pending.flush(out);
        self.cut += self.snapshots.release(out);
    }

    /// How many messages were cut so far because they were too long for a line.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    fn update(&mut self, at: &str, update: &[u8], out: &mut Vec<u8>) {
        if self.pending.join_alike(update, self.limits) {
            return;
        }
        let topic = Topic::of(update);
        let fate = self.fate(topic, at, update, None);
        if fate == Fate::Hidden {
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
        self.settle(line, at, topic, fate, out);
    }

    fn params(&mut self, at: &str, params: &[u8], out: &mut Vec<u8>) {
        let Some(update) = json::member(params, 0, "update") else {
            return;
        };
        let update = &params[update];
        let topic = Topic::of(update);
        let fate = self.fate(topic, at, update, Some(params));
        if fate != Fate::Hidden
            && let Some(line) = self.envelope.params(at, params, out)
        {
            self.settle(line, at, topic, fate, out);
        }
    }

    /// Says what becomes of an update in its place, and keeps what is held back. `params` is what
    /// the update came in, if that has more members.
    fn fate(&mut self, topic: Topic, at: &str, update: &[u8], params: Option<&[u8]>) -> Fate {
        match topic {
            Topic::Notice => Fate::Hidden,
            Topic::Snapshot(kind) => {
                self.hold(SNAPSHOTS[kind].as_bytes(), at, update, params);
                Fate::Hidden
            }
            _ if self.is_skipping() => {
                self.calls.hide(topic, update);
                Fate::Hidden
            }
            _ => self.calls.show(topic, update),
        }
    }

    /// Keeps the snapshot that an `info` record is, if it is one.
    fn info(&mut self, at: &str, payload: &[u8]) {
        let (update, params) = match Snapshot::of(payload) {
            Some(Snapshot::Update) => (payload, None),
            Some(Snapshot::Params) => match json::member(payload, 0, "update") {
                Some(update) => (&payload[update], Some(payload)),
                None => return,
            },
            None => return,
        };
        if let Some(name) = topic::name(update)
            && matches!(Topic::of_name(&name), Topic::Snapshot(_) | Topic::Other)
            && self.snapshots.takes(&name)
        {
            self.hold(&name, at, update, params);
        }
    }

    /// Keeps a snapshot as the line that it will be sent as.
    fn hold(&mut self, name: &[u8], at: &str, update: &[u8], params: Option<&[u8]>) {
        let mut out = std::mem::take(&mut self.held);
        let line = match params {
            Some(params) => self.envelope.params(at, params, &mut out),
            None => Some(self.envelope.update(at, update, &mut out)),
        };
        if let Some(mut line) = line {
            self.scratch.clear();
            if self
                .snapshots
                .complete(name, &out[line.update.clone()], &mut self.scratch)
            {
                put_instead(&mut self.scratch, &mut line, &mut out);
            }
            let cut = self.part_or_cut(&line, at, &mut out);
            self.snapshots.hold(name, &out, cut);
        }
        if out.capacity() <= REPEATED {
            out.clear();
            self.held = out;
        }
    }

    /// One chunk for each block of a prompt. What else the request had was not for the client.
    fn prompt(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let payload = record.payload.as_bytes();
        let Some(mut blocks) = json::member_elements(payload, 0, "prompt") else {
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
            self.settle(line, record.at, Topic::Chunk, Fate::Shown, out);
        }
    }

    fn is_skipping(&self) -> bool {
        self.options.skip_turns > 0 && self.turn <= self.options.skip_turns
    }

    /// Looks over the line just written, the last one in `out`, and writes it anew if it cannot
    /// be sent as it is.
    fn settle(&mut self, mut line: Line, at: &str, topic: Topic, fate: Fate, out: &mut Vec<u8>) {
        self.scratch.clear();
        if fate == Fate::Orphan && orphan::adopt(&out[line.update.clone()], &mut self.scratch) {
            put_instead(&mut self.scratch, &mut line, out);
        }
        let is_call = matches!(topic, Topic::Call | Topic::CallUpdate);
        if is_call
            && self
                .terminals
                .replace(&out[line.update.clone()], &mut self.scratch)
        {
            put_instead(&mut self.scratch, &mut line, out);
        }
        self.cut += u64::from(self.part_or_cut(&line, at, out));
    }

    /// Makes several lines of one that is too long, or a shorter one; true if that lost something.
    fn part_or_cut(&mut self, line: &Line, at: &str, out: &mut Vec<u8>) -> bool {
        let too_long = out.len() - line.start > self.limits.line;
        let long_text = !self.options.exact && line.update.len() > self.limits.text;
        if !too_long && !long_text {
            return false;
        }
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
            return false;
        }
        let is_cut = whole.len() > self.limits.line;
        if is_cut {
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
        }
        is_cut
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
mod held_tests;
#[cfg(test)]
mod properties;

//! Reads a log as a conversation in parts of bounded length, for those who print it while they read.
//!
//! Updates change what was there before: they extend the last message and complete tool calls. So a
//! part has a whole turn, unless that is longer than `LONGEST`. Then it ends before the last
//! entry, and what is said later about its tool calls and subagents is an entry of a later part.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::conversation::{
    PermissionRequest, Permissions, Transcript, TranscriptEntry, TurnEnding,
};
use crate::json;
use crate::protocol::UpdateKind;
use crate::record::header::Header;
use crate::record::{Kind, OpenTurns};
use crate::store::{DamageReport, LogReader, PositionedRecord as Record, StoreError};

use super::conversation::{self, ConversationEvent, Options, Range, about, note_permission};
use super::plain::one_line;

/// The length of a part, in bytes of what it consists of.
const LONGEST: usize = 1024 * 1024;
/// The most bytes of a terminal's output that are kept.
const OUTPUT: usize = 256 * 1024;

/// How a turn ended that runs, or whose process was killed.
pub const NO_END: &str = "The turn has no end in the log.";

/// A part of a conversation.
#[derive(Debug)]
pub enum ConversationPart<'a> {
    /// A description of the session as a whole, which comes first: `session` in `docs/export.md`.
    Session(&'a Value),
    /// A turn begins: its number and the time in the log's format.
    Turn(u64, &'a str),
    /// More content of this turn, or of the log before the first turn.
    Said(PartEntries<'a>),
    /// A request for permission that is about no tool call of the turn that now ends.
    Permission(&'a PermissionRequest),
    /// The turn did not end as usual.
    Ended(&'a str),
    /// Here a part of the log cannot be read.
    Damage(&'a DamageReport),
}

/// Some entries of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct PartEntries<'a> {
    /// The session's entries.
    pub entries: &'a [TranscriptEntry],
    /// The content of announced subagents meanwhile, by their ids.
    pub subagents: &'a BTreeMap<String, Transcript>,
    /// The output of terminals for display, by their ids.
    pub terminals: &'a HashMap<String, String>,
    /// The requests for permission of what is read.
    pub permissions: &'a Permissions,
}

impl<'a> PartEntries<'a> {
    /// The requests for permission about a tool call of a subagent or of the session itself.
    pub fn asked<'b>(
        &self,
        subagent: Option<&'b str>,
        call: &str,
    ) -> impl Iterator<Item = &'b PermissionRequest>
    where
        'a: 'b,
    {
        let of_subagent = |one: &PermissionRequest| self.subagents.contains_key(&one.session);
        let about = self.permissions.about(subagent, call);
        about.filter(move |one| subagent.is_some() || !of_subagent(one))
    }
}

/// How to read a conversation in parts.
#[derive(Clone, Copy, Debug)]
pub struct PartOptions<'a> {
    /// How it is exported.
    pub options: Options<'a>,
    /// The length of a part, in bytes.
    pub longest: usize,
}

impl Default for PartOptions<'_> {
    fn default() -> Self {
        Self {
            options: Options::default(),
            longest: LONGEST,
        }
    }
}

/// Where a turn begins in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartStart {
    /// The offset of its prompt, or of the log's first record before the first prompt.
    offset: u64,
    /// How many turns there are before it.
    turns: u64,
}

/// Calls `visit` with each part of the conversation in a log. Returns where the last turn begins.
pub fn read<E: From<StoreError>>(
    reader: &mut LogReader,
    choice: PartOptions<'_>,
    visit: &mut dyn FnMut(ConversationPart<'_>) -> Result<(), E>,
) -> Result<PartStart, E> {
    let options = choice.options;
    let mut ends = Ends::new(options, PartStart::default(), reader.header());
    let scan = reader.scan_with(&mut |entry| ends.entry(entry))?;
    let (read, last) = ends.done();
    visit(ConversationPart::Session(&about(reader, &scan, options)?))?;
    let range = Range {
        skipped: options.skipped(&scan),
        earlier: 0,
        damage: &scan.damage,
        permissions: read.permissions.all(),
    };
    said(reader, choice, &read, range, visit)?;
    Ok(last)
}

/// Calls `visit` with each part of the conversation from the turn that begins at `from`, for those
/// who have read what is before it. Returns where the last turn begins.
pub fn read_on<E: From<StoreError>>(
    reader: &mut LogReader,
    from: PartStart,
    choice: PartOptions<'_>,
    visit: &mut dyn FnMut(ConversationPart<'_>) -> Result<(), E>,
) -> Result<PartStart, E> {
    let mut ends = Ends::new(choice.options, from, reader.header());
    reader.seek(from.offset);
    while let Some(entry) = reader.next()? {
        ends.entry(&entry);
    }
    let damage = reader.damage().to_vec();
    let (read, last) = ends.done();
    reader.seek(from.offset);
    let range = Range {
        skipped: 0,
        earlier: from.turns,
        damage: &damage,
        permissions: read.permissions.all(),
    };
    said(reader, choice, &read, range, visit)?;
    Ok(last)
}

/// Calls `visit` with the parts of a range of the log.
fn said<E: From<StoreError>>(
    reader: &mut LogReader,
    choice: PartOptions<'_>,
    read: &FirstReading,
    range: Range<'_>,
    visit: &mut dyn FnMut(ConversationPart<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut window = PartWindow {
        transcript: Transcript::default(),
        terminals: HashMap::new(),
        size: 0,
        longest: choice.longest,
        turn: 0,
        read,
        shown: HashSet::new(),
        visit,
    };
    conversation::read(reader, choice.options, range, &mut |event| match event {
        ConversationEvent::Update(params) => window.update(params),
        ConversationEvent::Turn(_) | ConversationEvent::Permission(_) => Ok(()),
        ConversationEvent::Damage(report) => {
            window.flush(0)?;
            (window.visit)(ConversationPart::Damage(report))
        }
    })?;
    window.end()
}

/// What has to be known of a log before its parts are passed on.
#[derive(Default)]
struct FirstReading {
    /// How turns ended that did not end as usual, by their numbers.
    ends: HashMap<u64, String>,
    permissions: Permissions,
}

/// The first reading of a log, under way.
struct Ends<'o> {
    options: Options<'o>,
    read: FirstReading,
    open: OpenTurns<u64>,
    turns: u64,
    last: PartStart,
}

impl<'o> Ends<'o> {
    fn new(options: Options<'o>, from: PartStart, header: &Header) -> Self {
        Self {
            options,
            read: FirstReading {
                permissions: Permissions::new(header, from.turns),
                ..FirstReading::default()
            },
            open: OpenTurns::default(),
            turns: from.turns,
            last: from,
        }
    }

    fn entry(&mut self, entry: &Record<'_>) {
        note_permission(&mut self.read.permissions, &entry.record, self.options);
        match entry.record.kind {
            Kind::Prompt => {
                self.last = PartStart {
                    offset: entry.offset,
                    turns: self.turns,
                };
                self.turns += 1;
                self.open.begin(entry.record.id, self.turns);
            }
            Kind::End => {
                let ended = self.open.end(entry.record.id);
                let end = TurnEnding::of(&self.options.apply(entry.record.payload));
                if let Some(how) = end.sentence() {
                    let how = ended.into_iter().map(|turn| (turn, one_line(&how)));
                    self.read.ends.extend(how);
                }
            }
            _ => {}
        }
    }

    /// What was read, and where the last turn begins.
    fn done(mut self) -> (FirstReading, PartStart) {
        for turn in self.open.end(None) {
            self.read.ends.insert(turn, NO_END.to_owned());
        }
        (self.read, self.last)
    }
}

/// Content that was read and not yet passed on.
struct PartWindow<'a, E> {
    transcript: Transcript,
    terminals: HashMap<String, String>,
    /// Not less than the length of what is in the transcript.
    size: usize,
    longest: usize,
    /// The turn that it is in; 0 before the first.
    turn: u64,
    read: &'a FirstReading,
    /// The tool calls that were shown and for which permission was requested, by their ids.
    shown: HashSet<String>,
    visit: &'a mut dyn FnMut(ConversationPart<'_>) -> Result<(), E>,
}

/// Whether an update, as the parameters of its notification, says that the session went back.
fn is_rewind(params: &str) -> bool {
    let mut path = ["update", "_meta", "rejoin", "rewind"].into_iter();
    path.try_fold(params, json::text_member).is_some()
}

/// Whether an update, as the parameters of its notification, describes the present: it begins no turn.
fn is_snapshot(params: &str) -> bool {
    let update = json::text_member(params, "update").unwrap_or_default();
    UpdateKind::of(update.as_bytes()).is_snapshot()
}

impl<E> PartWindow<'_, E> {
    /// Takes an update: the parameters of its notification.
    fn update(&mut self, params: &str) -> Result<(), E> {
        let note = json::text_member(params, "_meta")
            .and_then(|meta| json::text_member(meta, "rejoin"))
            .unwrap_or_default();
        let turn = json::text_member(note, "turn").and_then(|turn| turn.parse().ok());
        let turn: u64 = turn.unwrap_or_default();
        if turn != self.turn && is_rewind(params) {
            // What was undone is shown, too, and the numbers go on from the place.
            self.end()?;
            self.turn = turn;
        } else if turn > self.turn && !is_snapshot(params) {
            self.end()?;
            self.turn = turn;
            let at = json::string_member(note, "at").unwrap_or_default();
            (self.visit)(ConversationPart::Turn(turn, &at))?;
        }
        let Some(Value::Object(params_tree)) = json::tree(params) else {
            return Ok(());
        };
        self.terminal(&params_tree);
        self.transcript.session_update(params_tree);
        self.size += params.len();
        if self.size > self.longest {
            // Updates of a tool call replace what it had.
            self.size = self.transcript.size();
            if self.size > self.longest / 2 {
                let last = self
                    .transcript
                    .entries
                    .last()
                    .map_or(0, TranscriptEntry::size);
                self.flush(usize::from(last <= self.longest / 4))?;
            }
        }
        Ok(())
    }

    /// Keeps what a terminal for display shows.
    fn terminal(&mut self, params: &Map<String, Value>) {
        let Some(meta) = params.get("update").and_then(|update| update.get("_meta")) else {
            return;
        };
        let output = &meta["terminal_output"];
        if let (Some(id), Some(data)) = (output["terminal_id"].as_str(), output["data"].as_str()) {
            let kept = self.terminals.entry(id.to_owned()).or_default();
            let end = data.floor_char_boundary(OUTPUT.saturating_sub(kept.len()));
            kept.push_str(&data[..end]);
        }
        let exit = &meta["terminal_exit"];
        if let (Some(id), Some(code)) = (exit["terminal_id"].as_str(), exit["exit_code"].as_u64())
            && let kept = self.terminals.entry(id.to_owned()).or_default()
            && code != 0
        {
            if !kept.is_empty() && !kept.ends_with('\n') {
                kept.push('\n');
            }
            // Writing to a string does not fail.
            write!(kept, "[exited with code {code}]").ok();
        }
    }

    /// Passes on all entries but the last `kept`.
    fn flush(&mut self, kept: usize) -> Result<(), E> {
        let count = self.transcript.entries.len().saturating_sub(kept);
        let subagents = &self.transcript.subagents;
        if count > 0 || subagents.values().any(|inner| !inner.entries.is_empty()) {
            (self.visit)(ConversationPart::Said(PartEntries {
                entries: &self.transcript.entries[..count],
                subagents,
                terminals: &self.terminals,
                permissions: &self.read.permissions,
            }))?;
            let subagents = subagents.values().flat_map(|inner| &inner.entries);
            for entry in self.transcript.entries[..count].iter().chain(subagents) {
                if let TranscriptEntry::ToolCall { id, .. } = entry
                    && self.read.permissions.has_call(id)
                {
                    self.shown.insert(id.clone());
                }
            }
            self.transcript.forget(count);
        }
        if kept == 0 {
            self.terminals.clear();
        }
        self.size = self.transcript.size();
        Ok(())
    }

    /// Ends the turn.
    fn end(&mut self) -> Result<(), E> {
        self.flush(0)?;
        for asked in self.read.permissions.of_turn(self.turn) {
            if !self.shown.contains(&asked.call) {
                (self.visit)(ConversationPart::Permission(asked))?;
            }
        }
        if let Some(how) = self.read.ends.get(&self.turn) {
            (self.visit)(ConversationPart::Ended(how))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;

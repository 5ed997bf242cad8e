//! Analyses a line that is not simply a record, and finds the complete records in it.
//!
//! A payload may contain text that looks like a record. So a line is searched only if it is damaged,
//! and a record counts only if there is nothing but records between it and one of the line's ends:
//! a record within a payload would have other text around it. If the line has no line break yet,
//! only its start counts.

use std::collections::VecDeque;

use memchr::memmem;

use crate::record::line::{self, BODY, OPEN, RecordLayout};

use super::damage::{DamageReason, DamageReport, Torn};
use super::lines::BufferedLine;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How many positions are tried as the start of a record, and how many as its end. They bound the
/// work on a line that was made to be expensive.
const STARTS: usize = 64;
const ENDS: usize = 4096;

/// A part of a line.
#[derive(Debug)]
pub(super) enum LinePiece {
    Record(FoundRecord),
    Damage(DamageReport),
}

/// A complete record at `from..to` of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundRecord {
    pub(super) line: BufferedLine,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) end: u64,
    pub(super) layout: RecordLayout,
}

/// The parts of a damaged line.
#[derive(Debug)]
pub(super) struct DamagedLine<'a> {
    line: BufferedLine,
    number: u64,
    bytes: &'a [u8],
    due: Option<u64>,
    /// In their order on the line.
    pub(super) list: VecDeque<LinePiece>,
    /// Torn bytes after them, and where in the line they begin.
    pub(super) torn: Option<(Torn, usize)>,
    /// Whether more is damaged than the form around one record.
    pub(super) damaged: bool,
}

impl<'a> DamagedLine<'a> {
    /// Analyses line `number`. `due` is the expected sequence number, if known.
    pub(super) fn of(line: &BufferedLine, number: u64, bytes: &'a [u8], due: Option<u64>) -> Self {
        let from = if line.offset == 0 && bytes.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        let carriage_return = line.ended && bytes[from..].ends_with(b"\r");
        let to = line.len - usize::from(carriage_return);
        let mut pieces = Self {
            line: *line,
            number,
            bytes,
            due,
            list: VecDeque::new(),
            torn: None,
            damaged: !line.is_whole(0, line.len) || line::decode(&bytes[from..to]).is_err(),
        };
        if from > 0 {
            pieces.damage(0, from, DamageReason::ByteOrderMark);
        }
        if carriage_return && !pieces.damaged {
            pieces.damage(from, line.len + 1, DamageReason::CarriageReturn);
        }
        pieces.split(from, to);
        pieces
    }

    /// Analyses `from..to`: the line without byte order mark and carriage return.
    fn split(&mut self, from: usize, to: usize) {
        let ended = self.line.ended;
        let text = &self.bytes[from..to];
        let records = if self.damaged {
            let mut parts = find_records(text, ended, self.due);
            parts.retain(|part| self.line.is_whole(from + part.start, from + part.end));
            parts
        } else {
            let (start, end) = (0, text.len());
            vec![RecordRange { start, end }]
        };
        let mut at = from;
        for (i, record) in records.iter().enumerate() {
            let (start, end) = (from + record.start, from + record.end);
            if i > 0 && start - at <= 1 {
                self.damage(at, start, DamageReason::LineBreak);
            } else if start > at {
                self.damage(at, start, self.reason(at, start));
            }
            let next = match records.get(i + 1) {
                Some(next) if from + next.start - end <= 1 => from + next.start,
                None if ended && end == to => self.line.len + 1,
                _ => end,
            };
            self.record(start, end, next);
            at = end;
        }
        if at == to && !records.is_empty() {
            return;
        }
        if ended {
            let reason = match at {
                _ if at == to => DamageReason::Blank,
                at => self.reason(at, to),
            };
            self.damage(at, self.line.len + 1, reason);
        } else if at < to {
            self.torn(at, to, !records.is_empty());
        }
    }

    /// The rest of a line without a line break.
    fn torn(&mut self, at: usize, to: usize, behind_record: bool) {
        let bytes = &self.bytes[at..to];
        let offset = self.line.offset_of(at);
        let torn = Torn {
            offset,
            len: self.line.offset_of(to) - offset,
        };
        self.torn = Some((torn, at));
        let begun = line::looks_like_record(bytes) || OPEN.starts_with(bytes);
        if behind_record && bytes.len() == 1 {
            self.damage(at, to, DamageReason::LineBreak);
        } else if !begun {
            self.damage(at, to, self.reason(at, to));
        }
    }

    fn reason(&self, at: usize, to: usize) -> DamageReason {
        let bytes = &self.bytes[at..to];
        let damage = line::decode(bytes).err();
        DamageReason::of(bytes, damage.unwrap_or(line::Damage::NotARecord))
    }

    fn damage(&mut self, from: usize, to: usize, reason: DamageReason) {
        let offset = self.line.offset_of(from);
        self.list.push_back(LinePiece::Damage(DamageReport {
            line: self.number,
            offset,
            len: self.line.offset_of(to) - offset,
            lines: 1,
            reason,
        }));
    }

    /// A record at `from..to`; the next part begins at `next`.
    fn record(&mut self, from: usize, to: usize, next: usize) {
        let Ok(layout) = RecordLayout::of(&self.bytes[from..to]) else {
            return;
        };
        self.list.push_back(LinePiece::Record(FoundRecord {
            line: self.line,
            from,
            to,
            end: self.line.offset_of(next),
            layout,
        }));
    }
}

/// A complete record at `start..end` of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordRange {
    start: usize,
    end: usize,
}

/// Finds the complete records in a line that is not itself a record.
///
/// A damaged line break is at most one byte between two records. In a line that is not `ended`, it
/// may also be one byte after the last record. Records that do not begin at the start of the line
/// must have sequence numbers from `due` on, if that is known.
fn find_records(line: &[u8], ended: bool, due: Option<u64>) -> Vec<RecordRange> {
    let opens: Vec<usize> = memmem::find_iter(line, OPEN).take(ENDS).collect();
    let mut parts: Vec<RecordRange> = Vec::new();
    let mut tried = 0;
    for (i, &start) in opens.iter().enumerate() {
        let before = parts.last().map_or(0, |part| part.end);
        if start < before || tried == STARTS {
            continue;
        }
        let joined = follows(before, start, parts.is_empty());
        let spare = joined && !ended;
        if let Some(end) = record_end(line, start, &opens[i + 1..], spare) {
            parts.push(RecordRange { start, end });
        } else {
            tried += 1;
        }
    }
    keep_anchored(line, ended, due, &mut parts);
    parts
}

/// Whether a record at `start` directly follows `before`, or is at the start of the line.
fn follows(before: usize, start: usize, first: bool) -> bool {
    if first {
        start == 0
    } else {
        start - before <= 1
    }
}

/// Where the record at `start` ends: the first position at which its checksum matches.
fn record_end(line: &[u8], start: usize, opens: &[usize], spare: bool) -> Option<usize> {
    // No record contains NUL bytes, so one whose line break was overwritten ends before them.
    let nul = memchr::memchr(0, &line[start..]).map(|nul| start + nul);
    let (line, spare) = nul.map_or((line, spare), |nul| (&line[..nul], false));
    let before_others = opens
        .iter()
        .flat_map(|&open| [open - 1, open])
        .take_while(|end| *end <= line.len());
    let last = spare
        .then(|| line.len() - 1)
        .into_iter()
        .chain([line.len()]);
    let mut hasher = crc32fast::Hasher::new();
    let mut hashed = start + BODY;
    for end in before_others.chain(last) {
        if end <= hashed {
            continue;
        }
        hasher.update(&line[hashed..end]);
        hashed = end;
        let record = &line[start..end];
        let fits = line::has_checksum(record, hasher.clone().finalize());
        if fits && line::decode(record).is_ok() {
            return Some(end);
        }
    }
    None
}

/// Drops records that may be part of a payload: see the module's documentation.
fn keep_anchored(line: &[u8], ended: bool, due: Option<u64>, parts: &mut Vec<RecordRange>) {
    let mut kept = Vec::new();
    let mut rest = &parts[..];
    while let Some(first) = rest.first() {
        let joined = rest
            .windows(2)
            .take_while(|pair| pair[1].start - pair[0].end <= 1);
        let (run, behind) = rest.split_at(joined.count() + 1);
        rest = behind;
        let last = run[run.len() - 1];
        let at_end = ended && line.len() == last.end;
        let seq = line::decode(&line[first.start..first.end]).map(|record| record.seq);
        let in_order = due.is_none_or(|due| seq.is_ok_and(|seq| seq >= due));
        if first.start == 0 || at_end && in_order {
            kept.extend_from_slice(run);
        }
    }
    *parts = kept;
}

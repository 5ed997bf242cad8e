//! Whole records inside a line that is none, as a damaged line break leaves them.
//!
//! A payload may hold what looks like a record, so a line is searched only if it is damaged, and a
//! record found inside counts only if nothing but records stands between it and one of the line's
//! ends: what is around an object in a payload would stand there too. Where the line has no end
//! yet, only its start counts.

use memchr::memmem;

use crate::record::line::{self, BODY, OPEN};

/// How many places are tried as a record's start, and how many as its end. Together they bound
/// the work on a line that was made to cost time.
const STARTS: usize = 64;
const ENDS: usize = 4096;

/// A whole record at `start..end` of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Finds the whole records of a line that is not one record.
///
/// One byte between two records, or none, is the damaged line break. In a line that is not
/// `ended`, one byte behind the last record may be it too. Records that do not reach back to the
/// line's start must have sequence numbers from `due` on, if that is known.
pub(super) fn parts(line: &[u8], ended: bool, due: Option<u64>) -> Vec<Part> {
    let opens: Vec<usize> = memmem::find_iter(line, OPEN).take(ENDS).collect();
    let mut parts: Vec<Part> = Vec::new();
    let mut tried = 0;
    for (i, &start) in opens.iter().enumerate() {
        let before = parts.last().map_or(0, |part| part.end);
        if start < before || tried == STARTS {
            continue;
        }
        let joined = follows(before, start, parts.is_empty());
        let spare = joined && !ended;
        if let Some(end) = record_end(line, start, &opens[i + 1..], spare) {
            parts.push(Part { start, end });
        } else {
            tried += 1;
        }
    }
    keep_anchored(line, ended, due, &mut parts);
    parts
}

/// Whether a record at `start` stands right behind `before`, or at the start of the line.
fn follows(before: usize, start: usize, first: bool) -> bool {
    if first {
        start == 0
    } else {
        start - before <= 1
    }
}

/// Where the record at `start` ends: the first place at which its checksum fits.
fn record_end(line: &[u8], start: usize, opens: &[usize], spare: bool) -> Option<usize> {
    // No record has a NUL byte in it, so one that lost its line break to them ends before them.
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

/// Drops records that may be part of a payload: see the head of this file.
fn keep_anchored(line: &[u8], ended: bool, due: Option<u64>, parts: &mut Vec<Part>) {
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

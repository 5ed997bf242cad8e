//! What a line is made of that is not simply a record.

use std::collections::VecDeque;

use crate::record::line::{self, Layout};

use super::damage::{DamageReport, Reason, Torn};
use super::lines::Line;
use super::resync;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One thing on a line.
#[derive(Debug)]
pub(super) enum Piece {
    Record(Found),
    Damage(DamageReport),
}

/// A whole record at `from..to` of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) line: Line,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) end: u64,
    pub(super) layout: Layout,
}

/// What a line is found to be made of.
#[derive(Debug)]
pub(super) struct DamagedLine<'a> {
    line: Line,
    number: u64,
    bytes: &'a [u8],
    due: Option<u64>,
    /// In the order in which they stand.
    pub(super) list: VecDeque<Piece>,
    /// Torn bytes behind them, and where in the line they begin.
    pub(super) torn: Option<(Torn, usize)>,
    /// It is more than a record in odd clothes.
    pub(super) damaged: bool,
}

impl<'a> DamagedLine<'a> {
    /// Sorts out line `number`. `due` is the sequence number that should come next, if known.
    pub(super) fn of(line: &Line, number: u64, bytes: &'a [u8], due: Option<u64>) -> Self {
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
            pieces.damage(0, from, Reason::ByteOrderMark);
        }
        if carriage_return && !pieces.damaged {
            pieces.damage(from, line.len + 1, Reason::CarriageReturn);
        }
        pieces.split(from, to);
        pieces
    }

    /// Sorts `from..to`, where the line without its trimmings lies.
    fn split(&mut self, from: usize, to: usize) {
        let ended = self.line.ended;
        let text = &self.bytes[from..to];
        let records = if self.damaged {
            let mut parts = resync::parts(text, ended, self.due);
            parts.retain(|part| self.line.is_whole(from + part.start, from + part.end));
            parts
        } else {
            let (start, end) = (0, text.len());
            vec![resync::Part { start, end }]
        };
        let mut at = from;
        for (i, record) in records.iter().enumerate() {
            let (start, end) = (from + record.start, from + record.end);
            if i > 0 && start - at <= 1 {
                self.damage(at, start, Reason::LineBreak);
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
                _ if at == to => Reason::Blank,
                at => self.reason(at, to),
            };
            self.damage(at, self.line.len + 1, reason);
        } else if at < to {
            self.torn(at, to, !records.is_empty());
        }
    }

    /// The rest of a line without an end.
    fn torn(&mut self, at: usize, to: usize, behind_record: bool) {
        let bytes = &self.bytes[at..to];
        let offset = self.line.offset_of(at);
        let torn = Torn {
            offset,
            len: self.line.offset_of(to) - offset,
        };
        self.torn = Some((torn, at));
        let begun = line::looks_like_record(bytes) || line::OPEN.starts_with(bytes);
        if behind_record && bytes.len() == 1 {
            self.damage(at, to, Reason::LineBreak);
        } else if !begun {
            self.damage(at, to, self.reason(at, to));
        }
    }

    fn reason(&self, at: usize, to: usize) -> Reason {
        let bytes = &self.bytes[at..to];
        let damage = line::decode(bytes).err();
        Reason::of(bytes, damage.unwrap_or(line::Damage::NotARecord))
    }

    fn damage(&mut self, from: usize, to: usize, reason: Reason) {
        let offset = self.line.offset_of(from);
        self.list.push_back(Piece::Damage(DamageReport {
            line: self.number,
            offset,
            len: self.line.offset_of(to) - offset,
            lines: 1,
            reason,
        }));
    }

    /// A record at `from..to`; what comes next begins at `next`.
    fn record(&mut self, from: usize, to: usize, next: usize) {
        let Ok(layout) = Layout::of(&self.bytes[from..to]) else {
            return;
        };
        self.list.push_back(Piece::Record(Found {
            line: self.line,
            from,
            to,
            end: self.line.offset_of(next),
            layout,
        }));
    }
}

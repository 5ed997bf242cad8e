//! Reads the records of a log in order; skips and reports damage.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;

use crate::record::line::{Record, RecordLayout, repair_format};
use crate::record::payload::{Checked, Checker};
use crate::record::{FORMAT_REWOUND, Header, Kind, PromptKeys, RewoundHistory};

use super::damage::{self, DamageReason, DamageReport, Torn};
use super::damaged_line::{DamagedLine, FoundRecord, LinePiece};
use super::lines::{BufferedLine, LineBuffer};
use super::medium::Image;

/// A record and its position.
#[derive(Clone, Copy, Debug)]
pub struct PositionedRecord<'a> {
    /// The offset of its first byte.
    pub offset: u64,
    /// Where the next line begins.
    pub end: u64,
    /// The record.
    pub record: Record<'a>,
}

/// The sequence numbers of the records that a pass has read.
#[derive(Debug)]
struct RecordNumbers {
    /// The next one, if known.
    due: Option<u64>,
    /// How many lost records were reported since the last record.
    losses: u64,
    /// The number after the highest one.
    next: u64,
}

/// A pass over the records of a log. Each call gets the file as an argument.
#[derive(Debug)]
pub(super) struct Records {
    lines: LineBuffer,
    /// The remaining parts of a damaged line.
    ready: VecDeque<LinePiece>,
    damage: Vec<DamageReport>,
    torn: Option<Torn>,
    numbers: RecordNumbers,
    /// The offset of the line that was read again to confirm its damage.
    read_twice: Option<u64>,
    /// The last line, and where in it the torn bytes begin. It is read again, since it may have
    /// grown.
    unfinished: Option<(BufferedLine, usize)>,
    last: Option<FoundRecord>,
    checker: Checker,
    /// The payload of the last record, if it differs from the log.
    changed: Option<String>,
    /// What the log says of its rewinds: the records that they have undone are left out.
    rewinds: Option<Box<Rewinds>>,
    /// Whether those records are not left out.
    shows_all: bool,
}

impl Records {
    pub(super) fn new() -> Self {
        Self {
            lines: LineBuffer::new(),
            ready: VecDeque::new(),
            damage: Vec::new(),
            torn: None,
            numbers: RecordNumbers {
                due: Some(0),
                losses: 0,
                next: 0,
            },
            read_twice: None,
            unfinished: None,
            last: None,
            checker: Checker::default(),
            changed: None,
            rewinds: None,
            shows_all: false,
        }
    }

    /// A pass over all records, with those that the rewinds of the log have undone.
    pub(super) fn all() -> Self {
        Self {
            shows_all: true,
            ..Self::new()
        }
    }

    /// From now on, leaves out what the rewinds of the log with this header have undone, as far as they
    /// are written by now. Then starts over.
    pub(super) fn leave_out_undone(&mut self, header: &Header, file: &dyn Image) -> io::Result<()> {
        if header.format >= FORMAT_REWOUND && self.rewinds.is_none() && !self.shows_all {
            self.rewinds = Rewinds::find(file)?.map(Box::new);
        }
        self.restart();
        Ok(())
    }

    /// What the log says of its rewinds, if what they have undone is left out.
    pub(super) fn rewinds(&self) -> Option<&Rewinds> {
        self.rewinds.as_deref()
    }

    /// Starts over, with no reports.
    pub(super) fn restart(&mut self) {
        self.seek(0);
        self.damage.clear();
        self.numbers.next = 0;
    }

    /// Continues at `offset`, where a record must begin.
    pub(super) fn seek(&mut self, offset: u64) {
        self.lines.seek(offset);
        self.ready.clear();
        self.torn = None;
        self.numbers.due = (offset == 0).then_some(0);
        self.numbers.losses = 0;
        self.read_twice = None;
        self.unfinished = None;
        self.last = None;
    }

    /// Stops at `limit`, as if the log ended there.
    pub(super) fn limit(&mut self, limit: u64) {
        self.lines.limit(limit);
    }

    pub(super) fn damage(&self) -> &[DamageReport] {
        &self.damage
    }

    pub(super) fn take_damage(&mut self) -> Vec<DamageReport> {
        std::mem::take(&mut self.damage)
    }

    /// The bytes after the last line break that are not a record; known at the end of the log.
    pub(super) fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// At the end of the log: its length without torn bytes.
    pub(super) fn end(&self) -> u64 {
        self.lines.offset()
    }

    /// Whether a line break follows the last record.
    pub(super) fn ended(&self) -> bool {
        self.last.is_none_or(|found| found.line.ended)
    }

    /// The number after the highest one of the records read, including those with a damaged
    /// payload.
    pub(super) fn next_seq(&self) -> u64 {
        self.numbers.next
    }

    /// The next record; none at the end, where more may follow later.
    pub(super) fn next(&mut self, file: &dyn Image) -> io::Result<Option<PositionedRecord<'_>>> {
        let found = self.find(file, |found, _, checked| {
            let changed = match checked.payload {
                Cow::Borrowed(_) => None,
                Cow::Owned(payload) => Some(payload),
            };
            (*found, checked.parts, changed)
        })?;
        let Some((found, parts, changed)) = found else {
            return Ok(None);
        };
        self.changed = changed;
        let record = found.layout.record(bytes(&self.lines, &found));
        let mut record = record.expect("`find` read the layout from these bytes");
        record.parts = parts;
        if let Some(payload) = &self.changed {
            record.payload = payload;
        }
        Ok(Some(entry(&found, record)))
    }

    /// Calls `visit` with the next record and returns what it returns; none at the end, where more
    /// may follow later. Faster than [`next`](Self::next), since a record that outlives the search
    /// for it has to be read a second time.
    pub(super) fn next_with<T>(
        &mut self,
        file: &dyn Image,
        visit: impl FnOnce(&PositionedRecord<'_>) -> T,
    ) -> io::Result<Option<T>> {
        self.find(file, |found, record, checked| {
            visit(&entry(
                found,
                Record {
                    payload: &checked.payload,
                    parts: checked.parts,
                    ..record
                },
            ))
        })
    }

    /// Reports that the payload of the last record does not fit its kind.
    pub(super) fn bad_payload(&mut self, file: &dyn Image) -> io::Result<()> {
        let Some(found) = self.last else {
            return Ok(());
        };
        let (from, len) = (found.from, found.to - found.from);
        let report = self.report_on(&found.line, from, len as u64, DamageReason::Payload, file)?;
        damage::add(&mut self.damage, report);
        Ok(())
    }

    /// Finds the next record with a usable payload, and reports the others.
    fn find<T>(
        &mut self,
        file: &dyn Image,
        take: impl FnOnce(&FoundRecord, Record<'_>, Checked<'_>) -> T,
    ) -> io::Result<Option<T>> {
        while self.find_any(file)? {
            let Some(found) = &self.last else { break };
            let record = found.layout.record(bytes(&self.lines, found));
            if let (Some(rewinds), Some(record)) = (&self.rewinds, record)
                && rewinds
                    .history
                    .lacks(record.seq, record.kind, record.payload)
            {
                continue;
            }
            if let Some(record) = record
                && let Some(checked) = self.checker.check(record.kind, record.payload)
            {
                return Ok(Some(take(found, record, checked)));
            }
            self.bad_payload(file)?;
        }
        Ok(None)
    }

    /// Finds the next record, which is then the last one. False at the end.
    fn find_any(&mut self, file: &dyn Image) -> io::Result<bool> {
        loop {
            match self.ready.pop_front() {
                Some(LinePiece::Record(found)) => return self.add(found, file).map(|()| true),
                Some(LinePiece::Damage(report)) => {
                    self.report(report);
                    continue;
                }
                None => {}
            }
            if let Some((line, at)) = self.unfinished.take() {
                self.lines.again(&line, at);
                return Ok(false);
            }
            self.torn = None;
            let Some(line) = self.lines.next(file)? else {
                return Ok(false);
            };
            let mut layout = line
                .is_whole(0, line.len)
                .then(|| RecordLayout::of_bytes(self.lines.bytes(&line)));
            if let Some(Err(_)) = layout
                && line.offset == 0
                && self.lines.edit(&line, repair_format)
            {
                layout = Some(RecordLayout::of_bytes(self.lines.bytes(&line)));
            }
            match layout {
                Some(Ok(layout)) => {
                    let found = FoundRecord {
                        line,
                        from: 0,
                        to: line.len,
                        end: line.offset + line.len as u64 + u64::from(line.ended),
                        layout,
                    };
                    return self.add(found, file).map(|()| true);
                }
                Some(Err(_)) | None => self.analyse(line, file)?,
            }
        }
    }

    /// Makes a record the last one, and checks its sequence number.
    fn add(&mut self, found: FoundRecord, file: &dyn Image) -> io::Result<()> {
        let expected = self.numbers.due.unwrap_or(found.layout.seq);
        let reason = if found.layout.seq > expected.saturating_add(self.numbers.losses) {
            // Losses that are already reported explain as many missing records.
            Some(DamageReason::Gap {
                expected,
                found: found.layout.seq,
            })
        } else if found.layout.seq < expected {
            Some(DamageReason::Repeat {
                expected,
                found: found.layout.seq,
            })
        } else {
            None
        };
        if let Some(reason) = reason {
            let report = self.report_on(&found.line, found.from, 0, reason, file)?;
            self.report(report);
        }
        let due = found.layout.seq.saturating_add(1);
        self.numbers.due = Some(due);
        self.numbers.next = self.numbers.next.max(due);
        self.numbers.losses = 0;
        self.last = Some(found);
        Ok(())
    }

    /// Analyses a line that is not simply a record.
    fn analyse(&mut self, line: BufferedLine, file: &dyn Image) -> io::Result<()> {
        let number = self.lines.number(&line, file)?;
        let bytes = self.lines.bytes(&line);
        let pieces = DamagedLine::of(&line, number, bytes, self.numbers.due);
        if pieces.damaged && line.ended && self.read_twice != Some(line.offset) {
            // If a writer undid a failed write while this line was read, the buffer has a mixture
            // of two records. The file as it is now counts.
            self.read_twice = Some(line.offset);
            self.lines.again(&line, 0);
            return Ok(());
        }
        self.torn = pieces.torn.map(|(torn, _)| torn);
        self.unfinished = pieces.torn.map(|(_, at)| (line, at));
        self.ready = pieces.list;
        Ok(())
    }

    fn report_on(
        &mut self,
        line: &BufferedLine,
        at: usize,
        len: u64,
        reason: DamageReason,
        file: &dyn Image,
    ) -> io::Result<DamageReport> {
        Ok(DamageReport {
            line: self.lines.number(line, file)?,
            offset: line.offset_of(at),
            len,
            lines: 1,
            reason,
        })
    }

    fn report(&mut self, report: DamageReport) {
        self.numbers.losses += u64::from(report.reason.is_loss());
        damage::add(&mut self.damage, report);
    }
}

/// What a log says of its rewinds.
#[derive(Clone, Debug)]
pub(super) struct Rewinds {
    /// The records that are the conversation now.
    pub(super) history: RewoundHistory,
    /// The prompts with idempotency keys, those that were undone among them.
    pub(super) keys: PromptKeys,
}

impl Rewinds {
    /// Reads a log to find its last rewind; `None` if it has no rewind.
    pub(super) fn find(file: &dyn Image) -> io::Result<Option<Self>> {
        let mut records = Records::all();
        let (mut history, mut keys) = (None, PromptKeys::default());
        while let Some(entry) = records.next(file)? {
            let Record {
                seq,
                kind,
                id,
                payload,
                ..
            } = entry.record;
            keys.note(kind, id, payload, entry.offset);
            if kind == Kind::Rewind {
                history = RewoundHistory::of(seq, payload).or(history);
            }
        }
        Ok(history.map(|history| Self { history, keys }))
    }
}

/// The bytes of a record.
fn bytes<'a>(lines: &'a LineBuffer, found: &FoundRecord) -> &'a [u8] {
    &lines.bytes(&found.line)[found.from..found.to]
}

fn entry<'a>(found: &FoundRecord, record: Record<'a>) -> PositionedRecord<'a> {
    PositionedRecord {
        offset: found.line.offset_of(found.from),
        end: found.end,
        record,
    }
}

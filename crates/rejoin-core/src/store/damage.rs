//! Reports of damage in a session's log.

use std::fmt;

use serde::ser::{Serialize, Serializer};

use crate::record::line::Damage;

/// The maximum number of reports for one file. Further damage is skipped without a report.
pub(super) const MAX_REPORTS: usize = 1000;

/// A range of a log that is not as it was written. Reading continues after it. Commands and
/// `session/verify` report it in its form as JSON.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DamageReport {
    /// The line in which it begins, counted from 1.
    pub line: u64,
    /// Its first byte, counted from 0.
    #[serde(rename = "byte")]
    pub offset: u64,
    /// Its length in bytes; 0 if records are missing here.
    #[serde(rename = "length")]
    pub len: u64,
    /// How many consecutive lines have the same damage.
    #[serde(skip)]
    pub lines: u64,
    /// The kind of damage.
    pub reason: DamageReason,
}

/// The kind of damage in a range of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageReason {
    /// The range does not resemble a record.
    #[error("not a record")]
    NotARecord,
    /// NUL bytes, as a power failure leaves them.
    #[error("NUL bytes")]
    Nul,
    /// The range is not UTF-8.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// A record whose checksum does not match.
    #[error("checksum mismatch")]
    Checksum,
    /// A record whose checksum matches but whose envelope cannot be read.
    #[error("unreadable envelope")]
    Envelope,
    /// An empty line.
    #[error("blank line")]
    Blank,
    /// A line break is damaged; the records on both sides are readable.
    #[error("line break damaged")]
    LineBreak,
    /// A carriage return before the line break; the record is readable.
    #[error("carriage return at the end of the line")]
    CarriageReturn,
    /// A byte order mark at the start; the header is readable.
    #[error("byte order mark")]
    ByteOrderMark,
    /// Records are missing.
    #[error("record {found} follows where record {expected} belongs")]
    Gap {
        /// The expected sequence number.
        expected: u64,
        /// The sequence number that was found.
        found: u64,
    },
    /// Records are repeated where later ones belong.
    #[error("record {found} comes again where record {expected} belongs")]
    Repeat {
        /// The expected sequence number.
        expected: u64,
        /// The sequence number that was found.
        found: u64,
    },
    /// A complete record whose payload does not fit its kind.
    #[error("unreadable payload")]
    Payload,
}

/// Bytes after the last line break that are not a record: a write that is under way, or what a
/// crash left of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The offset of the first one.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

impl DamageReason {
    /// Whether a record may be lost. Otherwise only the form around the records is damaged.
    pub fn is_loss(self) -> bool {
        !matches!(
            self,
            Self::Blank | Self::LineBreak | Self::CarriageReturn | Self::ByteOrderMark
        )
    }

    /// Why bytes that `decode` rejected are not a record.
    pub(super) fn of(bytes: &[u8], damage: Damage) -> Self {
        if memchr::memchr(0, bytes).is_some() {
            return Self::Nul;
        }
        if std::str::from_utf8(bytes).is_err() {
            return Self::InvalidUtf8;
        }
        match damage {
            Damage::NotARecord => Self::NotARecord,
            Damage::Checksum => Self::Checksum,
            Damage::Envelope => Self::Envelope,
        }
    }
}

impl fmt::Display for DamageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, byte {}: ", self.line, self.offset)?;
        if self.lines > 1 {
            write!(f, "{} lines, ", self.lines)?;
        }
        if self.len > 0 {
            write!(f, "{} bytes: ", self.len)?;
        }
        self.reason.fmt(f)
    }
}

impl Serialize for DamageReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Adds a report, merged with the last one if that has the same reason and ends where this begins.
pub(super) fn add(reports: &mut Vec<DamageReport>, report: DamageReport) {
    if let Some(last) = reports.last_mut()
        && last.reason == report.reason
    {
        if last.offset == report.offset {
            // The end of a growing file was read again.
            *last = report;
            return;
        }
        if last.offset + last.len == report.offset {
            last.len += report.len;
            last.lines += report.lines;
            return;
        }
    }
    if reports.len() < MAX_REPORTS {
        reports.push(report);
    }
}

//! Reports of what is wrong with a session's file.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::record::line::Damage;

/// How many reports are kept of one file; damage beyond is skipped all the same.
pub(super) const MAX_REPORTS: usize = 1000;

/// One stretch of a file that is not as it was written. Reading goes on behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageReport {
    /// The line it begins in, counted from 1.
    pub line: u64,
    /// Its first byte, counted from 0.
    pub offset: u64,
    /// Its length in bytes; 0 where something is missing.
    pub len: u64,
    /// How many lines of the same kind follow each other.
    pub lines: u64,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It is nothing like a record.
    #[error("not a record")]
    NotARecord,
    /// NUL bytes, as a power cut leaves them.
    #[error("NUL bytes")]
    Nul,
    /// It is no UTF-8.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// A record whose checksum does not fit.
    #[error("checksum mismatch")]
    Checksum,
    /// A record whose checksum fits and whose envelope cannot be read.
    #[error("unreadable envelope")]
    Envelope,
    /// A line with nothing in it.
    #[error("blank line")]
    Blank,
    /// A line break was lost; the records on both sides came back.
    #[error("line break damaged")]
    LineBreak,
    /// The line ends with a carriage return too; its record came back.
    #[error("carriage return at the end of the line")]
    CarriageReturn,
    /// A byte order mark at the start; the header came back.
    #[error("byte order mark")]
    ByteOrderMark,
    /// Records are missing.
    #[error("record {found} follows where record {expected} belongs")]
    Gap {
        /// The sequence number that was due.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// Records stand where later ones belong.
    #[error("record {found} comes again where record {expected} belongs")]
    Repeat {
        /// The sequence number that was due.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// A record is whole and its payload is not what its kind asks for.
    #[error("unreadable payload")]
    Payload,
}

/// Bytes behind the last line break that are no record: what a writer has begun to write, or what
/// a crash left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

impl Reason {
    /// Whether a record may be lost, as against one that came back in odd clothes.
    pub fn is_loss(self) -> bool {
        !matches!(
            self,
            Self::Blank | Self::LineBreak | Self::CarriageReturn | Self::ByteOrderMark
        )
    }

    /// Why bytes that `decode` refused are no record.
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

impl Serialize for DamageReport {
    /// As commands and `session/verify` report it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("DamageReport", 4)?;
        json.serialize_field("line", &self.line)?;
        json.serialize_field("byte", &self.offset)?;
        json.serialize_field("length", &self.len)?;
        json.serialize_field("reason", &self.reason.to_string())?;
        json.end()
    }
}

/// Adds a report to a list: one of the same kind right behind the last one makes that longer.
pub(super) fn add(reports: &mut Vec<DamageReport>, report: DamageReport) {
    if let Some(last) = reports.last_mut()
        && last.reason == report.reason
    {
        if last.offset == report.offset {
            // Reading the end of a growing file again tells of the same bytes again.
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

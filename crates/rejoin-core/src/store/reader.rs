//! Reads a session's log. Never locks or writes, and works while another process writes.

use crate::record::{Header, Kind, RewoundHistory};
use crate::sys::{SessionId, Timestamp};

use super::damage::{DamageReport, Torn};
use super::header;
use super::in_memory::FollowedImage;
use super::medium::{Image, StoreError};
pub use super::records::PositionedRecord;
use super::records::Records;
use super::scan::{self, Scan};

/// A position in a session's log, initially its start.
///
/// Memory is bounded by the longest line; no record is copied. At the end of the log
/// [`next`](Self::next) returns none; it can be called again when more was written.
#[derive(Debug)]
pub struct LogReader {
    id: SessionId,
    file: Box<dyn Image>,
    header: Header,
    records: Records,
}

impl LogReader {
    /// Reads the log of a session, without what its rewinds have undone.
    pub(super) fn of(id: &SessionId, file: Box<dyn Image>) -> Result<Self, StoreError> {
        Self::with(Records::new(), id, file)
    }

    /// Reads the log of a session, with what its rewinds have undone.
    pub(super) fn of_all(id: &SessionId, file: Box<dyn Image>) -> Result<Self, StoreError> {
        Self::with(Records::all(), id, file)
    }

    fn with(
        mut records: Records,
        id: &SessionId,
        file: Box<dyn Image>,
    ) -> Result<Self, StoreError> {
        let header = header::read(&mut records, &*file, id)?;
        let begun = records.leave_out_undone(&header, &*file);
        begun.map_err(StoreError::disk("read", file.path()))?;
        Ok(Self {
            id: id.clone(),
            file,
            header,
            records,
        })
    }

    /// The log as it is now with more records behind it, from its beginning. They are nowhere written.
    pub fn followed_by<'a>(
        mut self,
        more: impl Iterator<Item = (Timestamp, Kind, Option<&'a str>, &'a str)>,
    ) -> Result<Self, StoreError> {
        self.seek(0);
        while self.next()?.is_some() {}
        let end = (self.records.end(), self.records.ended());
        let next = self.records.next_seq();
        self.records.restart();
        self.file = Box::new(FollowedImage::new(self.file, end, next, more));
        Ok(self)
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The payload of the first record.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Which records are the conversation now, if the session has gone back to an earlier place. Others are
    /// left out.
    pub fn history(&self) -> Option<&RewoundHistory> {
        self.records.rewinds().map(|rewinds| &rewinds.history)
    }

    /// Reads the log once, up to the limit if one is set, and returns to the start.
    pub fn scan(&mut self) -> Result<Scan, StoreError> {
        self.scan_with(&mut |_| {})
    }

    /// Reads the log once like [`scan`](Self::scan), and calls `visit` with each record.
    pub fn scan_with(
        &mut self,
        visit: &mut dyn FnMut(&PositionedRecord<'_>),
    ) -> Result<Scan, StoreError> {
        let scan = scan::scan(&mut self.records, &*self.file, &self.id, visit);
        self.records.restart();
        scan
    }

    /// Continues at `offset`, where a record must begin; 0 is the header.
    pub fn seek(&mut self, offset: u64) {
        self.records.seek(offset);
    }

    /// Stops at `end`, as if the log ended there. `end` must be the end of a record, and nothing
    /// beyond it may have been read yet.
    pub fn limit(&mut self, end: u64) {
        self.records.limit(end);
    }

    /// The next record; the header is the first.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend what it yields"
    )]
    pub fn next(&mut self) -> Result<Option<PositionedRecord<'_>>, StoreError> {
        let next = self.records.next(&*self.file);
        next.map_err(StoreError::disk("read", self.file.path()))
    }

    /// The damage found so far; at most 1000 reports.
    pub fn damage(&self) -> &[DamageReport] {
        self.records.damage()
    }

    /// At the end: the bytes after the last line that are not a record.
    pub fn torn(&self) -> Option<Torn> {
        self.records.torn()
    }
}

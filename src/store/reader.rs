//! Reads a session's log. Never locks or writes, and works while another process writes.

use std::path::PathBuf;
use std::sync::Arc;

use crate::record::Header;
use crate::sys::{DiskFile, SessionId};

use super::context::StoreContext;
use super::damage::{DamageReport, Torn};
use super::error::StoreError;
use super::header;
pub use super::records::Entry;
use super::records::Records;
use super::scan::{self, Scan};
use super::trash::Trashed;

/// A position in a session's log, initially its start.
///
/// Memory is bounded by the longest line; no record is copied. At the end of the log
/// [`next`](Self::next) returns none; it can be called again when more was written.
#[derive(Debug)]
pub struct Reader {
    id: SessionId,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    header: Header,
    records: Records,
}

impl Reader {
    pub(super) fn open(context: &Arc<StoreContext>, id: &SessionId) -> Result<Self, StoreError> {
        Self::at(context, id, context.layout.log(id))
    }

    pub(super) fn open_trashed(
        context: &Arc<StoreContext>,
        trashed: &Trashed,
    ) -> Result<Self, StoreError> {
        let path = context.layout.trashed(&trashed.id, trashed.at);
        Self::at(context, &trashed.id, path)
    }

    fn at(context: &Arc<StoreContext>, id: &SessionId, path: PathBuf) -> Result<Self, StoreError> {
        let file = match context.sys.disk.open_read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(context.absent(id));
            }
            Err(error) => return Err(StoreError::disk("open", &path)(error)),
        };
        Self::of(id, path, file)
    }

    /// Reads a log from this file.
    pub(super) fn of(
        id: &SessionId,
        path: PathBuf,
        file: Box<dyn DiskFile>,
    ) -> Result<Self, StoreError> {
        let mut records = Records::new();
        let header = header::read(&mut records, &*file, id, &path)?;
        records.restart();
        Ok(Self {
            id: id.clone(),
            path,
            file,
            header,
            records,
        })
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The payload of the first record.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the log once, up to the limit if one is set, and returns to the start.
    pub fn scan(&mut self) -> Result<Scan, StoreError> {
        self.scan_with(&mut |_| {})
    }

    /// The same, and calls `visit` with each record.
    pub fn scan_with(&mut self, visit: &mut dyn FnMut(&Entry<'_>)) -> Result<Scan, StoreError> {
        let (file, path) = (&*self.file, &self.path);
        let scan = scan::scan(&mut self.records, file, &self.id, path, visit);
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
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        let next = self.records.next(&*self.file);
        next.map_err(StoreError::disk("read", &self.path))
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

//! Reading a session's file: never locks, never writes, may run beside the one who writes.

use std::path::PathBuf;
use std::sync::Arc;

use crate::record::Header;
use crate::sys::{DiskFile, SessionId};

use super::base::StoreContext;
use super::damage::{DamageReport, Torn};
use super::error::StoreError;
use super::header;
pub use super::records::Entry;
use super::records::Records;
use super::scan::{self, Scan};
use super::trash::Trashed;

/// A place in a session's file, at first its start.
///
/// Memory is bounded by the longest line; no record is copied. At the end of the file
/// [`next`](Self::next) gives nothing, and may be asked again when more was written.
#[derive(Debug)]
pub struct Reader {
    id: SessionId,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    header: Header,
    records: Records,
}

impl Reader {
    pub(super) fn open(base: &Arc<StoreContext>, id: &SessionId) -> Result<Self, StoreError> {
        Self::at(base, id, base.layout.log(id))
    }

    pub(super) fn open_trashed(
        base: &Arc<StoreContext>,
        trashed: &Trashed,
    ) -> Result<Self, StoreError> {
        let path = base.layout.trashed(&trashed.id, trashed.at);
        Self::at(base, &trashed.id, path)
    }

    fn at(base: &Arc<StoreContext>, id: &SessionId, path: PathBuf) -> Result<Self, StoreError> {
        let file = match base.sys.disk.open_read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(base.absent(id));
            }
            Err(error) => return Err(StoreError::disk("open", &path)(error)),
        };
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

    /// Reads everything once, up to the limit if one is set, and goes back to the start.
    pub fn scan(&mut self) -> Result<Scan, StoreError> {
        self.scan_with(&mut |_| {})
    }

    /// The same, and each record is shown to `visit` as it is read.
    pub fn scan_with(&mut self, visit: &mut dyn FnMut(&Entry<'_>)) -> Result<Scan, StoreError> {
        let (file, path) = (&*self.file, &self.path);
        let scan = scan::scan(&mut self.records, file, &self.id, path, visit);
        self.records.restart();
        scan
    }

    /// Goes on at `offset`, where a record must begin; 0 is the header.
    pub fn seek(&mut self, offset: u64) {
        self.records.seek(offset);
    }

    /// Stops at `end`, as if the file ended there. To be set where a record ends and before
    /// anything beyond was read.
    pub fn limit(&mut self, end: u64) {
        self.records.limit(end);
    }

    /// The next record, the header being the first.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot lend what it yields"
    )]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, StoreError> {
        let next = self.records.next(&*self.file);
        next.map_err(StoreError::disk("read", &self.path))
    }

    /// What was found to be wrong so far; at most 1000 reports.
    pub fn damage(&self) -> &[DamageReport] {
        self.records.damage()
    }

    /// At the end: the bytes behind the last line that are no record.
    pub fn torn(&self) -> Option<Torn> {
        self.records.torn()
    }
}

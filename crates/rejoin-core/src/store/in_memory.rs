//! A log that is only in memory, to be read like one on disk.

use std::io;
use std::path::{Path, PathBuf};

use crate::record::{Header, Kind, line};
use crate::sys::{SessionId, Timestamp};

use super::medium::{Image, StoreError};
use super::reader::LogReader;

/// The log that a session created at this time from these records would have.
pub fn log_in_memory<'a>(
    id: &SessionId,
    header: &Header,
    created_at: Timestamp,
    records: impl Iterator<Item = (Timestamp, Kind, Option<&'a str>, &'a str)>,
) -> Result<LogReader, StoreError> {
    let path = PathBuf::from(format!("{id}.jsonl"));
    let header = serde_json::to_string(header).map_err(io::Error::from);
    let header = header.map_err(StoreError::disk("write the header of", &path))?;
    let mut log = Vec::new();
    line::encode(&mut log, 0, created_at, Kind::Session, None, &header);
    for (seq, (at, kind, id, payload)) in (1..).zip(records) {
        line::encode(&mut log, seq, at, kind, id, payload);
    }
    LogReader::of(id, Box::new(InMemoryImage { path, log }))
}

/// A log with more records behind it, which are only in memory.
#[derive(Debug)]
pub(super) struct FollowedImage {
    log: Box<dyn Image>,
    /// The length of the log without what may have been added since.
    len: u64,
    more: Vec<u8>,
}

impl FollowedImage {
    /// A log whose records end at `len`, the last one with a line break if it `is_ended`, with more
    /// records behind it, the first of which has the number `seq`.
    pub(super) fn new<'a>(
        log: Box<dyn Image>,
        (len, is_ended): (u64, bool),
        seq: u64,
        records: impl Iterator<Item = (Timestamp, Kind, Option<&'a str>, &'a str)>,
    ) -> Self {
        let mut more = if is_ended { Vec::new() } else { vec![b'\n'] };
        for (seq, (at, kind, id, payload)) in (seq..).zip(records) {
            line::encode(&mut more, seq, at, kind, id, payload);
        }
        Self { log, len, more }
    }
}

impl Image for FollowedImage {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(offset) = offset.checked_sub(self.len) {
            return Ok(read_at(&self.more, buffer, offset));
        }
        let left = usize::try_from(self.len - offset).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        self.log.read_at(&mut buffer[..wanted], offset)
    }

    fn path(&self) -> &Path {
        self.log.path()
    }
}

/// Reads bytes from `offset` into `buffer`; returns how many there are.
fn read_at(bytes: &[u8], buffer: &mut [u8], offset: u64) -> usize {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = bytes.get(from..).unwrap_or_default();
    let len = rest.len().min(buffer.len());
    buffer[..len].copy_from_slice(&rest[..len]);
    len
}

/// A log that is only read.
#[derive(Debug)]
struct InMemoryImage {
    path: PathBuf,
    log: Vec<u8>,
}

impl Image for InMemoryImage {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(read_at(&self.log, buffer, offset))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

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

/// A log that is only read.
#[derive(Debug)]
struct InMemoryImage {
    path: PathBuf,
    log: Vec<u8>,
}

impl Image for InMemoryImage {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.log.get(from..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

//! A log that is only in memory, to be read like one on disk.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::record::{Header, Kind, line};
use crate::sys::{DiskFile, SessionId, Timestamp};

use super::error::StoreError;
use super::reader::Reader;

/// The log that a session created at this time from these records would have.
pub fn log_in_memory<'a>(
    id: &SessionId,
    header: &Header,
    created_at: Timestamp,
    records: impl Iterator<Item = (Timestamp, Kind, Option<&'a str>, &'a str)>,
) -> Result<Reader, StoreError> {
    let path = PathBuf::from(format!("{id}.jsonl"));
    let header = serde_json::to_string(header).map_err(io::Error::from);
    let header = header.map_err(StoreError::disk("write the header of", &path))?;
    let mut log = Vec::new();
    line::encode(&mut log, 0, created_at, Kind::Session, None, &header);
    for (seq, (at, kind, id, payload)) in (1..).zip(records) {
        line::encode(&mut log, seq, at, kind, id, payload);
    }
    Reader::of(id, path, Box::new(Bytes(log)))
}

/// A file that is only read.
#[derive(Debug)]
struct Bytes(Vec<u8>);

fn is_not_written<T>() -> io::Result<T> {
    Err(ErrorKind::Unsupported.into())
}

impl DiskFile for Bytes {
    fn append(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        is_not_written()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(from..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_len(&mut self, _len: u64) -> io::Result<()> {
        is_not_written()
    }

    fn sync(&mut self) -> io::Result<()> {
        is_not_written()
    }

    fn try_lock(&self) -> io::Result<bool> {
        is_not_written()
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_at(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }
}

//! Checks the first record of a log, which determines whether the rest can be read.

use serde::Deserialize;

use crate::record::line::with_format;
use crate::record::{FORMAT_REWOUND, Header, Kind};
use crate::sys::SessionId;

use super::lines::LineBuffer;
use super::medium::{Image, StoreError};
use super::records::Records;

/// The content of the first line in every version, present and future.
#[derive(Deserialize)]
struct AnyVersion {
    payload: FormatVersion,
}

#[derive(Deserialize)]
struct FormatVersion {
    format: u64,
}

/// Reads the header of a session's log.
pub(super) fn read(
    records: &mut Records,
    file: &dyn Image,
    id: &SessionId,
) -> Result<Header, StoreError> {
    records.restart();
    let first = records.next(file);
    let first = match first.map_err(StoreError::disk("read", file.path()))? {
        Some(entry) if entry.record.kind == Kind::Session && entry.record.seq == 0 => {
            return parse(entry.record.payload, id);
        }
        Some(entry) => Some(entry.record.kind),
        None => None,
    };
    if let Some(format) = newer_format(file).map_err(StoreError::disk("read", file.path()))? {
        return Err(StoreError::Newer {
            id: id.clone(),
            format,
        });
    }
    let reason = match (records.damage().first(), first) {
        (Some(damage), _) => damage.to_string(),
        (None, Some(kind)) => format!("its first record is a {:?}", kind.as_str()),
        (None, None) if records.torn().is_some() => "its first record is cut short".to_owned(),
        (None, None) => "it is empty".to_owned(),
    };
    Err(headerless(id, reason))
}

/// Fails if a header is not that of `id`.
pub(super) fn fits(header: &Header, id: &SessionId) -> Result<(), StoreError> {
    if header.session_id != id.as_str() {
        return Err(StoreError::WrongId {
            id: id.clone(),
            found: header.session_id.clone(),
        });
    }
    Ok(())
}

fn parse(payload: &str, id: &SessionId) -> Result<Header, StoreError> {
    let unreadable = |error: serde_json::Error| headerless(id, error.to_string());
    let FormatVersion { format } = serde_json::from_str(payload).map_err(unreadable)?;
    if format > u64::from(FORMAT_REWOUND) {
        return Err(StoreError::Newer {
            id: id.clone(),
            format,
        });
    }
    if format == 0 {
        return Err(headerless(id, "there is no format 0".to_owned()));
    }
    let mut header: Header = serde_json::from_str(payload).map_err(unreadable)?;
    fits(&header, id)?;
    // A log from elsewhere could take the name of another session.
    let name = &header.engine.name;
    header
        .known_as
        .take_if(|known_as| SessionId::of_foreign(name, known_as) != *id);
    Ok(header)
}

/// The beginning of a log's header as that of a log with rewinds; `None` if it is so already. It takes the
/// place of as many bytes.
pub(super) fn rewound(file: &dyn Image, id: &SessionId) -> Result<Option<Vec<u8>>, StoreError> {
    let mut lines = LineBuffer::new();
    let line = lines.next(file);
    let line = line.map_err(StoreError::disk("read", file.path()))?;
    let line = line.map_or(&[][..], |line| lines.bytes(&line));
    match with_format(line, FORMAT_REWOUND) {
        Some(head) => Ok((!line.starts_with(&head)).then_some(head)),
        None => Err(headerless(
            id,
            "its format cannot be changed in place".to_owned(),
        )),
    }
}

/// The format of a log whose first line is not one of our records, if it is newer than ours.
fn newer_format(file: &dyn Image) -> std::io::Result<Option<u64>> {
    let mut lines = LineBuffer::new();
    let Some(line) = lines.next(file)? else {
        return Ok(None);
    };
    let found: Option<AnyVersion> = serde_json::from_slice(lines.bytes(&line)).ok();
    let format = found.map(|found| found.payload.format);
    Ok(format.filter(|format| *format > u64::from(FORMAT_REWOUND)))
}

fn headerless(id: &SessionId, reason: String) -> StoreError {
    StoreError::Headerless {
        id: id.clone(),
        reason,
    }
}

//! The store's logs as the catalog reads them.

use std::io;

use crate::index::{Logs, Summary};
use crate::record::header::Place;
use crate::record::title::title;
use crate::record::{Kind, Record};
use crate::store::{Scan, Store, StoreError};
use crate::sys::{SessionId, Timestamp};

/// Reads summaries from the logs of a store.
#[derive(Debug)]
pub struct StoreLogs(pub Store);

impl Logs for StoreLogs {
    fn ids(&self) -> io::Result<Vec<SessionId>> {
        self.0.ids().map_err(io::Error::other)
    }

    fn folder_changed(&self) -> io::Result<Timestamp> {
        self.0.folder_changed().map_err(io::Error::other)
    }

    fn len(&self, id: &SessionId) -> io::Result<Option<u64>> {
        self.0.len_of(id).map_err(io::Error::other)
    }

    fn summarize(&self, id: &SessionId, from: Option<&Summary>) -> Result<Summary, String> {
        let read = || -> Result<Summary, StoreError> {
            let mut reader = self.0.read(id)?;
            let Some(from) = from else {
                return Ok(summary(&reader.scan()?));
            };
            let mut summary = from.clone();
            reader.seek(from.scanned);
            while let Some(entry) = reader.next()? {
                note(&mut summary, &entry.record);
                summary.scanned = entry.end;
            }
            Ok(summary)
        };
        read().map_err(|error| error.to_string())
    }
}

/// What the catalog shows of a log that was read whole.
pub(super) fn summary(scan: &Scan) -> Summary {
    Summary {
        cwd: scan.place.cwd.clone(),
        additional_directories: scan.place.additional_directories.clone(),
        title: scan.first_prompt.as_deref().and_then(title),
        created_at: scan.created_at.clone(),
        updated_at: scan.last_prompt_at.clone(),
        prompts: scan.prompts.len() as u64,
        scanned: scan.end,
    }
}

/// Brings a summary forward by one record.
fn note(summary: &mut Summary, record: &Record<'_>) {
    note_payload(summary, record.kind, record.at, record.payload);
}

/// The same for a record that was just written; false if it tells nothing.
pub(super) fn note_payload(summary: &mut Summary, kind: Kind, at: &str, payload: &str) -> bool {
    match kind {
        Kind::Prompt => {
            if summary.prompts == 0 {
                summary.title = title(payload);
            }
            summary.prompts += 1;
            prompted(summary, at);
            true
        }
        Kind::Reopen => match serde_json::from_str::<Place>(payload) {
            Ok(place) => {
                moved(summary, &place);
                true
            }
            Err(_) => false,
        },
        _ => false,
    }
}

/// Notes the time of a prompt. It never goes back, also where the clock does.
pub(super) fn prompted(summary: &mut Summary, at: &str) {
    if summary.updated_at.as_deref().is_none_or(|last| last < at) {
        summary.updated_at = Some(at.to_owned());
    }
}

/// Notes where the session works now.
pub(super) fn moved(summary: &mut Summary, place: &Place) {
    summary.cwd.clone_from(&place.cwd);
    summary
        .additional_directories
        .clone_from(&place.additional_directories);
}

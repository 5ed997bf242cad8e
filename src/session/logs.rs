//! The store's logs as the catalog reads them.

use std::fmt::Display;
use std::io;

use crate::index::{Logs, Piece, Summary, Texts};
use crate::record::header::{Implementation, Workspace};
use crate::record::metadata::{archived, restored};
use crate::record::search_text::SearchText;
use crate::record::title::{named, title};
use crate::record::{AgentSessionId, Kind, Record};
use crate::store::{Reader, Scan, Store, StoreError};
use crate::sys::{SessionId, Timestamp};

/// Text of whole turns is indexed for good when there is this much of it, in bytes: what is shorter
/// is read again when the log has grown.
const PIECE: usize = 32 * 1024;

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
            if summary.title.is_none() && summary.prompts > 0 {
                summary.title = first_title(&mut reader)?;
            }
            Ok(summary)
        };
        read().map_err(|error| error.to_string())
    }

    fn trashed(&self) -> io::Result<Vec<(SessionId, Vec<AgentSessionId>)>> {
        let mut known = Vec::new();
        for trashed in self.0.trashed().map_err(io::Error::other)? {
            let scan = self.0.read_trashed(&trashed).and_then(|mut log| log.scan());
            match scan {
                Ok(scan) => known.push((trashed.id, summary(&scan).inners)),
                Err(error) => tracing::debug!(%error, "cannot read a log in the trash"),
            }
        }
        Ok(known)
    }

    fn texts(&self, id: &SessionId, from: u64, budget: usize) -> Result<Texts, String> {
        let read = || -> Result<Texts, StoreError> {
            let mut reader = self.0.read(id)?;
            reader.seek(from);
            let mut spoken = SearchText::default();
            let mut texts = Texts {
                from,
                ..Texts::default()
            };
            while let Some(entry) = reader.next()? {
                spoken.record(&entry.record);
                let read = entry.end - from;
                let ended = entry.record.kind == Kind::End && !spoken.within_message();
                let turn_ended = ended && spoken.len() >= PIECE;
                // A turn may be longer than what is to be read at once. A word that is parted
                // there is lost only if one message goes on and on.
                let long = read >= budget as u64
                    && (!spoken.within_message() || read >= 4 * budget as u64);
                if turn_ended || long {
                    texts.done.push(Piece {
                        text: spoken.take(),
                        end: entry.end,
                    });
                    texts.from = entry.end;
                }
                if texts.from > from && read >= budget as u64 {
                    return Ok(texts);
                }
            }
            texts.open = Some(spoken.take());
            Ok(texts)
        };
        read().map_err(|error| error.to_string())
    }
}

/// What the list says of an engine: the name of what answers, which for the built-in one is that
/// of the program.
pub(super) fn source(engine: &Implementation) -> String {
    Implementation::shown(&engine.name).to_owned()
}

/// What the catalog shows of a log that was read whole.
pub(super) fn summary(scan: &Scan) -> Summary {
    Summary {
        cwd: scan.place.cwd.clone(),
        additional_directories: scan.place.additional_directories.clone(),
        source: source(&scan.header.engine),
        known_as: scan.header.known_as.clone(),
        inners: inners(scan),
        title: scan.titles.title().map(str::to_owned),
        archived: scan.archived,
        restored_at: scan.restored_at.clone(),
        created_at: scan.created_at.clone(),
        updated_at: scan.updated_at.clone(),
        prompts: scan.prompts.len() as u64,
        scanned: scan.end,
    }
}

/// The title that the session has of itself, from the first prompt there is one to be taken from.
pub fn first_title(log: &mut Reader) -> Result<Option<String>, StoreError> {
    log.seek(0);
    while let Some(entry) = log.next()? {
        if entry.record.kind == Kind::Prompt
            && let Some(title) = title(entry.record.payload)
        {
            return Ok(Some(title));
        }
    }
    Ok(None)
}

/// How agents know the session. The id that it had before it was ours is one, whatever else the
/// log says.
fn inners(scan: &Scan) -> Vec<AgentSessionId> {
    let first = scan.header.known_as.as_ref().map(|id| AgentSessionId {
        agent: scan.header.engine.name.clone(),
        id: id.clone(),
    });
    let mut inners = scan.inners.clone();
    inners.extend(first.filter(|first| !scan.inners.contains(first)));
    inners
}

/// Brings a summary forward by one record.
fn note(summary: &mut Summary, record: &Record<'_>) {
    note_payload(summary, record.kind, &record.at, record.payload);
    // What comes before the first prompt makes no conversation.
    if record.kind.is_activity() && summary.prompts > 0 {
        is_active(summary, record.at);
    }
}

/// The same for a record that was just written; false if it tells nothing.
pub(super) fn note_payload(
    summary: &mut Summary,
    kind: Kind,
    at: &dyn Display,
    payload: &str,
) -> bool {
    match kind {
        Kind::Prompt => {
            if summary.title.is_none() {
                summary.title = title(payload);
            }
            summary.prompts += 1;
            is_active(summary, &at.to_string());
            true
        }
        Kind::End if summary.prompts > 0 => {
            is_active(summary, &at.to_string());
            true
        }
        Kind::Reopen => match serde_json::from_str::<Workspace>(payload) {
            Ok(place) => {
                moved(summary, &place);
                true
            }
            Err(_) => false,
        },
        Kind::Info => match named(payload) {
            None => match archived(payload) {
                Some(archived) if archived != summary.archived => {
                    summary.archived = archived;
                    true
                }
                None if restored(payload) => {
                    summary.restored_at = Some(at.to_string());
                    true
                }
                _ => false,
            },
            // One that is taken away leaves none: whoever reads the log has that of a prompt.
            Some(named) if named != summary.title => {
                summary.title = named;
                true
            }
            _ => false,
        },
        Kind::AgentSessionId => match AgentSessionId::read(payload) {
            Some(inner) if !summary.inners.contains(&inner) => {
                summary.inners.push(inner);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// Notes the time of a record of the conversation. It never goes back, also where the clock does.
pub(super) fn is_active(summary: &mut Summary, at: &str) {
    match &mut summary.updated_at {
        Some(last) if last.as_str() < at => at.clone_into(last),
        Some(_) => {}
        None => summary.updated_at = Some(at.to_owned()),
    }
}

/// Notes where the session works now.
pub(super) fn moved(summary: &mut Summary, place: &Workspace) {
    summary.cwd.clone_from(&place.cwd);
    summary
        .additional_directories
        .clone_from(&place.additional_directories);
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;

//! What one pass over a session's file tells.

use std::path::Path;

use crate::record::header::{Header, Place};
use crate::record::noted::archived;
use crate::record::titles::Titles;
use crate::record::{Inner, Kind, Record, Stands};
use crate::sys::{DiskFile, SessionId};

use super::damage::{DamageReport, Torn};
use super::error::StoreError;
use super::header;
use super::records::{Entry, Records};

/// A longer first prompt is not kept, in bytes.
const FIRST_PROMPT: usize = 64 * 1024;

/// A session's file in short.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The payload of the first record.
    pub header: Header,
    /// When the session was made.
    pub created_at: String,
    /// Where the session works: the header's place, or the last `reopen`'s.
    pub place: Place,
    /// How many records could be read, the header among them.
    pub records: u64,
    /// The sequence number of the next record.
    pub next_seq: u64,
    /// Where the next record goes: behind the last whole line, or behind the last record where
    /// that has no line break yet.
    pub end: u64,
    /// Whether a line break is missing at `end`, behind the last record.
    pub unterminated: bool,
    /// The bytes behind `end`, which are no record.
    pub torn: Option<Torn>,
    /// Where each prompt's record begins.
    pub prompts: Vec<u64>,
    /// Whether the last prompt has no end.
    pub turn_open: bool,
    /// What is wrong with the file.
    pub damage: Vec<DamageReport>,
    /// The latest time of a prompt.
    pub last_prompt_at: Option<String>,
    /// The payload of the first prompt, unless it is longer than 64 KiB.
    pub first_prompt: Option<String>,
    /// How agents behind the engine know the session.
    pub inners: Vec<Inner>,
    /// What the session is called.
    pub titles: Titles,
    /// Whether it is archived.
    pub archived: bool,
    /// Its mode and options.
    pub stands: Stands,
}

/// Whether a scan believes a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payloads {
    /// A payload whose checksum fits is what was written.
    Believed,
    /// Each is parsed: what was written may have been no JSON.
    Parsed,
}

/// Reads all records, from the start of the file to its end, and shows them to `visit`.
pub(super) fn scan(
    records: &mut Records,
    file: &dyn DiskFile,
    id: &SessionId,
    path: &Path,
    payloads: Payloads,
    visit: &mut dyn FnMut(&Entry<'_>),
) -> Result<Scan, StoreError> {
    let header = header::read(records, file, id, path)?;
    let mut scan = Scan {
        created_at: String::new(),
        place: header.place.clone(),
        header,
        records: 0,
        next_seq: 0,
        end: 0,
        unterminated: false,
        torn: None,
        prompts: Vec::new(),
        turn_open: false,
        damage: Vec::new(),
        last_prompt_at: None,
        first_prompt: None,
        inners: Vec::new(),
        titles: Titles::default(),
        archived: false,
        stands: Stands::default(),
    };
    records.restart();
    while let Some(entry) = records.next(file).map_err(StoreError::disk("read", path))? {
        visit(&entry);
        let is_good = scan.note(entry.offset, &entry.record);
        if !is_good || payloads == Payloads::Parsed && !is_json(entry.record.payload) {
            let noted = records.bad_payload(file);
            noted.map_err(StoreError::disk("read", path))?;
        }
    }
    scan.end = records.end();
    scan.unterminated = !records.ended();
    scan.torn = records.torn();
    scan.damage = records.take_damage();
    Ok(scan)
}

fn is_json(payload: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(payload).is_ok()
}

impl Scan {
    /// False if the payload cannot be read.
    fn note(&mut self, offset: u64, record: &Record<'_>) -> bool {
        self.records += 1;
        self.next_seq = self.next_seq.max(record.seq.saturating_add(1));
        self.titles.record(record);
        self.stands.note(record.kind, record.payload);
        match record.kind {
            Kind::Session if self.records == 1 => record.at.clone_into(&mut self.created_at),
            Kind::Prompt => {
                if self.prompts.is_empty() && record.payload.len() <= FIRST_PROMPT {
                    self.first_prompt = Some(record.payload.to_owned());
                }
                self.prompts.push(offset);
                // The latest, also where the clock went back.
                if self
                    .last_prompt_at
                    .as_deref()
                    .is_none_or(|last| last < record.at)
                {
                    self.last_prompt_at = Some(record.at.to_owned());
                }
                self.turn_open = true;
            }
            Kind::End => self.turn_open = false,
            Kind::Inner => {
                let inner = Inner::read(record.payload);
                let new = inner.filter(|inner| !self.inners.contains(inner));
                self.inners.extend(new);
            }
            Kind::Info => {
                if let Some(archived) = archived(record.payload) {
                    self.archived = archived;
                }
            }
            Kind::Reopen => match serde_json::from_str(record.payload) {
                Ok(place) => self.place = place,
                Err(_) => return false,
            },
            _ => {}
        }
        true
    }
}

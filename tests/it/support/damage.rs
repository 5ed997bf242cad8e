//! A session's log from outside: damages it, and compares it with what it should be.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::fixture::{Check, Damage};
use super::json::Json;
use super::pattern::{Names, partial};
use super::place::Place;

/// The logs of a store.
pub(crate) struct Files {
    place: Box<dyn Place>,
    /// What they were when they were noted or damaged.
    noted: HashMap<String, Vec<u8>>,
}

impl Files {
    pub(crate) fn new(place: Box<dyn Place>) -> Self {
        let noted = HashMap::new();
        Self { place, noted }
    }

    /// Damages the log of a session.
    pub(crate) fn damage(&mut self, session: &str, damage: &Damage) -> Result<(), String> {
        let mut bytes = match damage {
            Damage::Write(_) | Damage::Log { .. } => Vec::new(),
            _ => self.place.read(session)?,
        };
        let mut session = session.to_owned();
        match damage {
            Damage::Append(more) => bytes.extend_from_slice(more),
            Damage::Prepend(more) => bytes = [more, &bytes[..]].concat(),
            Damage::Write(instead) => bytes.clone_from(instead),
            Damage::Replace(from, to) => {
                let at =
                    memchr::memmem::find(&bytes, from).ok_or("what to replace is not there")?;
                bytes.splice(at..at + from.len(), to.iter().copied());
            }
            Damage::Flip(line) => {
                let mut lines: Vec<_> = bytes.split_mut(|byte| *byte == b'\n').collect();
                let line = lines.get_mut(line - 1).ok_or("there is no such line")?;
                let middle = line.len() / 2;
                line[middle] ^= 1;
            }
            Damage::Cut(count) => bytes.truncate(bytes.len() - count),
            Damage::Rename(name) => {
                self.place.rename(&session, name)?;
                session.clone_from(name);
            }
            Damage::Swap => self.place.swap(&session, &bytes)?,
            Damage::Remove => self.place.remove(&session)?,
            Damage::Log { records, count } => {
                for number in 1..*count {
                    let id = counted(&session, number);
                    self.place.write(&id, &log(records, &session, &id)?)?;
                }
                bytes = log(records, &session, &session)?;
            }
            Damage::MetadataChange => {}
        }
        let is_done = matches!(
            damage,
            Damage::MetadataChange | Damage::Swap | Damage::Remove
        );
        if !is_done {
            self.place.write(&session, &bytes)?;
        }
        self.noted.insert(session, bytes);
        Ok(())
    }

    /// Keeps processes from reaching each other.
    pub(crate) fn prevent_sockets(&self) -> Result<(), String> {
        self.place.prevent_sockets()
    }

    /// Removes the index with all that belongs to it.
    pub(crate) fn unindex(&self) -> Result<(), String> {
        self.place.unindex()
    }

    /// Checks what is on disk. Records that are `titles` are passed over unless they matter.
    pub(crate) fn check(
        &self,
        check: &Check,
        titles: bool,
        names: &mut Names,
    ) -> Result<(), String> {
        match check {
            Check::Log {
                session,
                whole,
                records,
            } => self.log(&names.fill(session)?, *whole, titles, records, names),
            Check::Noted(session) => {
                let session = names.fill(session)?;
                let noted = self.noted.get(&session).ok_or("it was not noted before")?;
                if self.place.read(&session)? == *noted {
                    Ok(())
                } else {
                    Err("the file has changed".to_owned())
                }
            }
            Check::Absent(session) => match self.place.read(&names.fill(session)?) {
                Ok(_) => Err("there is such a file".to_owned()),
                Err(_) => Ok(()),
            },
            Check::Ending(session) => self.place.await_ending(&names.fill(session)?),
            Check::Files { folder, count } => match self.place.count(folder) {
                found if found == *count => Ok(()),
                found => Err(format!("there are {found}")),
            },
            Check::Agent(_) => Err("no agent is wrapped".to_owned()),
            Check::Private => self.place.is_private(),
            Check::Nowhere(text) => self.place.is_nowhere(&names.fill(text)?),
        }
    }

    fn log(
        &self,
        session: &str,
        whole: bool,
        titles: bool,
        records: &[Json],
        names: &mut Names,
    ) -> Result<(), String> {
        let bytes = self.place.read(session)?;
        let lines = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let lines = lines.map(|line| {
            let text = String::from_utf8_lossy(line);
            Json::parse(&text).unwrap_or(Json::Literal(text.into_owned()))
        });
        let is_title = |line: &Json| {
            let payload = line.get("payload");
            let name = payload.and_then(|payload| payload.get("sessionUpdate"));
            name.and_then(Json::text) == Some("session_info_update")
        };
        let found: Vec<_> = lines.filter(|line| titles || !is_title(line)).collect();
        let all = || {
            let lines: Vec<_> = found.iter().map(|line| format!("\n    {line}")).collect();
            lines.concat()
        };
        let mut left = found.iter();
        for record in records {
            let partial = partial(record);
            let fits = |found: &&Json| names.check(&partial, found).is_ok();
            let fits = if whole {
                left.next().filter(fits)
            } else {
                left.find(fits)
            };
            if fits.is_none() {
                return Err(format!(
                    "{record} is not there, or not in its place, in{}",
                    all()
                ));
            }
        }
        if whole && left.next().is_some() {
            return Err(format!("there are more records than these in{}", all()));
        }
        Ok(())
    }
}

/// The bytes of a log: each record a line of its own with its place, a time and a checksum.
fn log(records: &[String], named: &str, id: &str) -> Result<Vec<u8>, String> {
    #[derive(serde::Deserialize)]
    struct Record<'a> {
        kind: &'a str,
        id: Option<&'a str>,
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    let mut bytes = Vec::new();
    for (seq, record) in records.iter().enumerate() {
        let record = record.replace(named, id);
        let record: Record<'_> = serde_json::from_str(&record).map_err(|e| e.to_string())?;
        let id = record.id.map(|id| format!(r#""id":"{id}","#));
        let body = format!(
            r#""seq":{seq},"at":"2026-01-02T03:04:05.{seq:03}Z","kind":"{}",{}"payload":{}}}"#,
            record.kind,
            id.unwrap_or_default(),
            record.payload
        );
        let crc = crc32fast::hash(body.as_bytes());
        bytes.extend(format!("{{\"crc\":\"{crc:08x}\",{body}\n").into_bytes());
    }
    Ok(bytes)
}

/// An id that ends with digits, so many further on.
fn counted(id: &str, number: usize) -> String {
    let digits = number.to_string();
    format!("{}{digits}", &id[..id.len() - digits.len()])
}

//! A session's file from outside: damages it, and compares it with what it should be.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::fixture::{Check, Damage};
use super::json::Json;
use super::pattern::Names;
use super::wrapped::until;

/// The files of a store.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    pub(crate) store: &'a Path,
    /// What files were when they were noted or damaged.
    noted: HashMap<String, Vec<u8>>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(store: &'a Path) -> Self {
        let noted = HashMap::new();
        Self { store, noted }
    }

    fn path(&self, session: &str) -> PathBuf {
        self.store.join("sessions").join(format!("{session}.jsonl"))
    }

    fn read(&self, session: &str) -> Result<Vec<u8>, String> {
        fs::read(self.path(session)).map_err(|error| format!("{session}: {error}"))
    }

    /// Damages the file of a session.
    #[expect(clippy::disallowed_methods, reason = "this is the disk doing harm")]
    pub(crate) fn damage(&mut self, session: &str, damage: &Damage) -> Result<(), String> {
        let mut bytes = match damage {
            Damage::Write(_) | Damage::Log { .. } => Vec::new(),
            _ => self.read(session)?,
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
                fs::rename(self.path(&session), self.path(name)).map_err(|e| e.to_string())?;
                session.clone_from(name);
            }
            Damage::Swap => {
                let copy = self.path(&session).with_extension("copy");
                let swapped = fs::write(&copy, &bytes);
                let swapped = swapped.and_then(|()| fs::rename(&copy, self.path(&session)));
                swapped.map_err(|error| error.to_string())?;
            }
            Damage::Remove => {
                fs::remove_file(self.path(&session)).map_err(|error| error.to_string())?;
            }
            Damage::Log { records, count } => {
                for number in 1..*count {
                    let id = counted(&session, number);
                    let bytes = log(records, &session, &id)?;
                    fs::write(self.path(&id), bytes).map_err(|error| error.to_string())?;
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
            fs::write(self.path(&session), &bytes).map_err(|error| error.to_string())?;
        }
        self.noted.insert(session, bytes);
        Ok(())
    }

    /// Puts a file where the folder of the sockets would be.
    #[expect(clippy::disallowed_methods, reason = "another program would do so")]
    pub(crate) fn prevent_sockets(&self) -> Result<(), String> {
        let made = fs::create_dir_all(self.store);
        let written = made.and_then(|()| fs::write(self.store.join("run"), ""));
        written.map_err(|error| error.to_string())
    }

    /// Removes the index with all that belongs to it.
    #[expect(clippy::disallowed_methods, reason = "another program would do so")]
    pub(crate) fn unindex(&self) -> Result<(), String> {
        let entries = fs::read_dir(self.store).map_err(|error| error.to_string())?;
        let mut removed = 0;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with("index.sqlite")
            {
                fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
                removed += 1;
            }
        }
        if removed > 0 {
            Ok(())
        } else {
            Err("there is no index".to_owned())
        }
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
                if self.read(&session)? == *noted {
                    Ok(())
                } else {
                    Err("the file has changed".to_owned())
                }
            }
            Check::Absent(session) => match self.read(&names.fill(session)?) {
                Ok(_) => Err("there is such a file".to_owned()),
                Err(_) => Ok(()),
            },
            Check::Ending(session) => {
                let hint = self.store.join("open").join(names.fill(session)?);
                until(|| match fs::read_to_string(&hint) {
                    Ok(text) if !text.contains("\"ending\":true") => {
                        Err(format!("it is not ending: {text}"))
                    }
                    _ => Ok(()),
                })
            }
            Check::Files { folder, count } => {
                let found = fs::read_dir(self.store.join(folder)).map_or(0, Iterator::count);
                if found == *count {
                    Ok(())
                } else {
                    Err(format!("there are {found}"))
                }
            }
            Check::Agent(_) => Err("no agent is wrapped".to_owned()),
            Check::Private => private(self.store),
            Check::Nowhere(text) => {
                let text = names.fill(text)?;
                nowhere(self.store, text.as_bytes())
            }
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
        let bytes = self.read(session)?;
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

/// A record is held against the members that are given.
pub(super) fn partial(record: &Json) -> Json {
    match record {
        Json::Object(members) => {
            let rest = ("...".to_owned(), Json::String("...".to_owned()));
            Json::Object(members.iter().cloned().chain([rest]).collect())
        }
        other => other.clone(),
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

#[cfg(unix)]
fn private(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let check = |path: &Path| -> Result<bool, String> {
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        let mode = metadata.permissions().mode() & 0o777;
        if mode == expected {
            Ok(metadata.is_dir())
        } else {
            Err(format!("{} has mode {mode:o}", path.display()))
        }
    };
    check(folder)?;
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if check(&path)? {
            private(&path)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn private(_: &Path) -> Result<(), String> {
    Ok(())
}

fn nowhere(folder: &Path, text: &[u8]) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            nowhere(&path, text)?;
        } else if memchr::memmem::find(&fs::read(&path).unwrap_or_default(), text).is_some() {
            return Err(format!("it is in {}", path.display()));
        }
    }
    Ok(())
}

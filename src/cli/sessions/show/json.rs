//! A conversation as JSON, written while it is read.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde::ser::{Error, Serialize, SerializeSeq, Serializer};
use serde_json::Value;

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::printable::printable_json;
use crate::json::text_member;
use crate::protocol::{Id, UpdateKind, update};
use crate::record::transcript::{Entry, Transcript};
use crate::record::{Header, InVersion1, Kind, Record};
use crate::store::{DamageReport, Reader};

/// How many bytes of records are read before entries are written.
const STEP: usize = 1024 * 1024;

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    damage: Vec<DamageReport>,
    entries: Entries<'a>,
    header: Header,
    #[serde(serialize_with = "later")]
    state: &'a RefCell<BTreeMap<String, Value>>,
    #[serde(serialize_with = "later")]
    turn_ends: &'a RefCell<Vec<Value>>,
}

/// What is known when all entries are written.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "`serde` passes a reference to the member"
)]
fn later<S: Serializer>(
    value: &&RefCell<impl Serialize>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.borrow().serialize(serializer)
}

/// Writes all of a log, or only its last turns.
pub(super) fn write(
    reader: &mut Reader,
    turns: Option<usize>,
    output: &mut Output,
) -> Result<(), Failure> {
    let (mut last, mut number, mut converted) = (HashMap::new(), 0, InVersion1::new());
    let mut note = |record: &Record<'_>| {
        number += 1;
        if let Some(id) = call(record) {
            last.insert(id, number);
        }
    };
    let scan = reader.scan_with(&mut |entry| converted.record(&entry.record, &mut note))?;
    converted.finish(&mut note);
    let (state, turn_ends) = (RefCell::default(), RefCell::default());
    let skipped = turns.map(|turns| scan.prompts.len().saturating_sub(turns));
    let from = skipped.map_or(0, |skipped| match scan.prompts.get(skipped) {
        Some(from) if skipped > 0 => *from,
        Some(_) => 0,
        None => scan.end,
    });
    let document = Document {
        damage: scan.damage,
        header: reader.header().clone(),
        entries: Entries {
            reader: RefCell::new(reader),
            from,
            last,
            state: &state,
            turn_ends: &turn_ends,
        },
        state: &state,
        turn_ends: &turn_ends,
    };
    let printed = serde_json::to_writer_pretty(Printer(output), &document);
    printed.map_err(|error| Failure::new(format!("cannot print the session: {error}")))?;
    output.line("")
}

/// The tool call that a record is about.
fn call(record: &Record<'_>) -> Option<Id> {
    let payload = match record.kind {
        Kind::Update | Kind::Output => record.payload,
        Kind::UpdateParams => text_member(record.payload, "update")?,
        _ => return None,
    };
    let is_call = UpdateKind::of(payload.as_bytes()).is_call();
    let id = is_call.then(|| update::call_id(payload.as_bytes()))??;
    Some(Id::of(&id))
}

/// The entries of a log. Each is written when no later record changes it.
struct Entries<'a> {
    reader: RefCell<&'a mut Reader>,
    /// Where the first turn to write begins in the log.
    from: u64,
    /// The last record about each tool call.
    last: HashMap<Id, u64>,
    state: &'a RefCell<BTreeMap<String, Value>>,
    turn_ends: &'a RefCell<Vec<Value>>,
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let (mut transcript, mut converted) = (Transcript::default(), InVersion1::new());
        let (mut number, mut read, mut skips) = (0, 0, self.from > 0);
        let mut reader = self.reader.borrow_mut();
        while let Some(entry) = reader.next().map_err(S::Error::custom)? {
            if skips && entry.offset >= self.from {
                skips = false;
                transcript.forget(transcript.entries.len());
                self.turn_ends.borrow_mut().clear();
            }
            read += entry.record.payload.len();
            converted.record(&entry.record, &mut |record| {
                number += 1;
                transcript.record(record);
            });
            if entry.record.kind == Kind::End {
                let end = serde_json::from_str(entry.record.payload).unwrap_or_default();
                self.turn_ends.borrow_mut().push(end);
            }
            if read > STEP {
                read = 0;
                if skips {
                    transcript.forget(transcript.entries.len());
                }
                let kept = transcript.entries.len().saturating_sub(1);
                let is_done = |entry: &&Entry| self.is_done(entry, number);
                let done = transcript.entries[..kept].iter().take_while(is_done);
                let done = done.count();
                for entry in &transcript.entries[..done] {
                    list.serialize_element(entry)?;
                }
                transcript.forget(done);
            }
        }
        converted.finish(&mut |record| transcript.record(record));
        if skips {
            transcript.forget(transcript.entries.len());
            self.turn_ends.borrow_mut().clear();
        }
        for entry in &transcript.entries {
            list.serialize_element(entry)?;
        }
        *self.state.borrow_mut() = transcript.state;
        list.end()
    }
}

impl Entries<'_> {
    /// Whether no record after this one changes the entry.
    fn is_done(&self, entry: &Entry, number: u64) -> bool {
        match entry {
            Entry::ToolCall { id, .. } => {
                let id = Id::of(id.as_bytes());
                self.last.get(&id).is_some_and(|last| *last <= number)
            }
            _ => true,
        }
    }
}

/// Makes JSON safe to show on a terminal.
struct Printer<'a>(&'a mut Output);

impl Write for Printer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        let printed = self.0.raw(&printable_json(text));
        printed.map_err(|_| io::Error::other("the output cannot be written"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! `rejoin sessions verify`.

use serde_json::{Value, json};

use crate::cli::count::count;
use crate::cli::exit::{DAMAGED, Failure};
use crate::cli::output::Output;
use crate::cli::printable::printable;
use crate::store::{Scan, Store, StoreError};
use crate::sys::SessionId;

use super::id::id;

/// What to check.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id; without one, all are checked.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Print a JSON array with what was found for each session.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn is_for_all(&self) -> bool {
        self.id.is_none()
    }
}

pub(super) fn empty(args: &Args, output: &mut Output) -> Result<(), Failure> {
    if args.json {
        output.json(&json!([]))
    } else {
        output.line("0 sessions, 0 sound, 0 damaged")
    }
}

pub(super) fn run(store: &Store, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let ids = match &args.id {
        Some(text) => {
            let id = id(text)?;
            if !store.exists(&id) {
                return Err(StoreError::NotFound { id }.into());
            }
            vec![id]
        }
        None => store.ids()?,
    };
    let mut reports = Vec::new();
    let mut unsound = 0;
    for id in &ids {
        let scan = store.read(id).and_then(|mut reader| reader.verify());
        if !is_sound(&scan) {
            unsound += 1;
        }
        if args.json {
            reports.push(report(id, &scan));
        } else {
            print(id, &scan, output)?;
        }
    }
    if args.json {
        output.json(&Value::Array(reports))?;
    } else {
        let sound = ids.len() - unsound;
        let sessions = count(ids.len(), "session");
        output.line(format!("{sessions}, {sound} sound, {unsound} damaged"))?;
    }
    if unsound == 0 {
        return Ok(());
    }
    Err(Failure::with_code(
        DAMAGED,
        format!(
            "damage was found in {unsound} of {}",
            count(ids.len(), "session")
        ),
    )
    .hint("what is undamaged loads all the same, and nothing was changed"))
}

/// A turn that a crash left open and a line that it tore are no damage: nobody was told of what is
/// missing, and opening the session mends both.
fn is_sound(scan: &Result<Scan, StoreError>) -> bool {
    scan.as_ref().is_ok_and(|scan| scan.damage.is_empty())
}

fn print(
    id: &SessionId,
    scan: &Result<Scan, StoreError>,
    output: &mut Output,
) -> Result<(), Failure> {
    match scan {
        Err(error) => output.line(format!(
            "{id}  cannot be read: {}",
            printable(&error.to_string())
        )),
        Ok(scan) => {
            for damage in &scan.damage {
                output.line(format!("{id}  {damage}"))?;
            }
            if let Some(torn) = scan.torn {
                let (len, at) = (torn.len, torn.offset);
                output.line(format!(
                    "{id}  an unfinished line of {len} bytes at byte {at}"
                ))?;
            }
            Ok(())
        }
    }
}

fn report(id: &SessionId, scan: &Result<Scan, StoreError>) -> Value {
    match scan {
        Err(error) => {
            json!({ "sessionId": id.as_str(), "sound": false, "error": error.to_string() })
        }
        Ok(found) => {
            let damage = found.damage.iter().map(|damage| {
                json!({
                    "line": damage.line, "byte": damage.offset, "length": damage.len,
                    "reason": damage.reason.to_string(),
                })
            });
            json!({
                "sessionId": id.as_str(),
                "sound": is_sound(scan),
                "records": found.records,
                "prompts": found.prompts.len(),
                "turnOpen": found.turn_open,
                "unfinishedBytes": found.torn.map_or(0, |torn| torn.len),
                "damage": damage.collect::<Vec<_>>(),
            })
        }
    }
}

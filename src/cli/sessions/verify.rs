//! `rejoin sessions verify`.

use serde_json::{Value, json};

use crate::cli::count::count;
use crate::cli::exit::{DAMAGED, Failure};
use crate::cli::output::Output;
use crate::cli::printable::printable;
use crate::index::Catalog;
use crate::store::{Scan, Store, StoreError};
use crate::sys::SessionId;

use super::id::find;

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

pub(super) fn run(
    store: &Store,
    catalog: &Catalog,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let ids = match &args.id {
        Some(text) => {
            let id = find(catalog, text)?;
            if !store.exists(&id) {
                return Err(StoreError::NotFound { id }.into());
            }
            vec![id]
        }
        None => store.ids()?,
    };
    let mut reports = Vec::new();
    let (mut damaged, mut newer) = (0, 0);
    for id in &ids {
        let scan = store.read(id).and_then(|mut reader| reader.verify());
        match &scan {
            Err(StoreError::Newer { .. }) => newer += 1,
            scan if !is_sound(scan) => damaged += 1,
            _ => {}
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
        let sound = ids.len() - damaged - newer;
        let sessions = count(ids.len(), "session");
        let later = match newer {
            0 => String::new(),
            newer => format!(", {newer} of a later format"),
        };
        output.line(format!(
            "{sessions}, {sound} sound, {damaged} damaged{later}"
        ))?;
    }
    let of_all = count(ids.len(), "session");
    match (damaged, newer) {
        (0, 0) => Ok(()),
        (0, newer) => Err(Failure::with_code(
            DAMAGED,
            format!("{newer} of {of_all} cannot be read by this version"),
        )
        .hint("a later version of rejoin wrote them; nothing was changed")),
        _ => Err(Failure::with_code(
            DAMAGED,
            format!("damage was found in {damaged} of {of_all}"),
        )
        .hint("what can be read of a session loads all the same; nothing was changed")),
    }
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

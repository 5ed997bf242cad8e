//! `rejoin verify`.

use serde_json::{Value, json};

use crate::cli::exit::{DAMAGED, Failure};
use crate::cli::term::{Output, Progress, count, printable};
use rejoin::store::{Scan, StoreError};
use rejoin::sys::SessionId;

use super::context::CommandContext;
use super::id::find;
use super::named::SESSION;

/// What to check.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = format!("{SESSION}; without one, all are checked"))]
    id: Option<String>,
    /// Print a JSON array with a report for each session.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(
    context: &CommandContext<'_>,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let store = &context.store;
    let ids = match &args.id {
        Some(text) => {
            let id = find(context, text)?;
            if !store.exists(&id)? {
                return Err(StoreError::NotFound { id }.into());
            }
            vec![id]
        }
        None => store.ids()?,
    };
    let mut reports = Vec::new();
    let (mut damaged, mut newer, mut empty) = (0, 0, 0);
    let mut progress = Progress::new();
    for (at, id) in ids.iter().enumerate() {
        progress.at(|| format!("Reading {} … {at}", count(ids.len(), "session")));
        if store.len_of(id)? == Some(0) {
            // A power cut may leave such a file of a session that was never synced.
            tracing::info!(session = %id, "the log is empty: nothing was recorded");
            empty += 1;
            continue;
        }
        let scan = store.read(id).and_then(|mut reader| reader.scan());
        match &scan {
            Err(StoreError::Newer { .. }) => newer += 1,
            scan if !is_sound(scan) => damaged += 1,
            _ => {}
        }
        if args.json {
            reports.push(report(id, &scan));
        } else {
            if !is_sound(&scan) {
                progress.clear();
            }
            print(id, &scan, output)?;
        }
    }
    progress.clear();
    let checked = ids.len() - empty;
    if args.json {
        output.json(&Value::Array(reports))?;
    } else {
        let sound = checked - damaged - newer;
        let sessions = count(checked, "session");
        let later = match newer {
            0 => String::new(),
            newer => format!(", {newer} of a later format"),
        };
        let empty = match empty {
            0 => String::new(),
            empty => format!(", {} without a session", count(empty, "empty file")),
        };
        output.say(format!(
            "{sessions}, {sound} sound, {damaged} damaged{later}{empty}"
        ))?;
    }
    if ids.is_empty() {
        context.no_sessions();
    }
    let of_all = count(checked, "session");
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
        .hint("the readable part of a session can still be loaded, unless its first line is damaged; no file was changed")),
    }
}

/// A turn that a crash left open and a torn end are not damage: no client was sent what is missing,
/// and opening the session repairs both.
fn is_sound(scan: &Result<Scan, StoreError>) -> bool {
    scan.as_ref().is_ok_and(|scan| scan.damage.is_empty())
}

fn print(
    id: &SessionId,
    scan: &Result<Scan, StoreError>,
    output: &mut Output,
) -> Result<(), Failure> {
    match scan {
        Err(error) => output.say(format!(
            "{id}  cannot be read: {}",
            printable(&error.to_string())
        )),
        Ok(scan) => {
            for damage in &scan.damage {
                output.say(format!("{id}  {damage}"))?;
            }
            if let Some(torn) = scan.torn {
                let (len, at) = (torn.len, torn.offset);
                output.say(format!(
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
            json!({
                "sessionId": id.as_str(),
                "sound": is_sound(scan),
                "records": found.records,
                "prompts": found.prompts.len(),
                "turnOpen": found.turn_open(),
                "unfinishedBytes": found.torn.map_or(0, |torn| torn.len),
                "damage": found.damage,
            })
        }
    }
}

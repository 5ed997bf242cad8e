//! `rejoin sessions restore`.

use serde_json::json;

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::cli::output::Output;
use crate::session::logs::first_title;
use crate::store::{Store, StoreError, Trashed};
use crate::sys::SessionId;

use super::list::one_line;

/// What to restore.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id; without one, the trash is listed.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Print the list as a JSON array.
    #[arg(long, conflicts_with = "id")]
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
        Ok(())
    }
}

pub(super) fn run(store: &Store, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let Some(text) = &args.id else {
        let trashed = store.trashed()?;
        if args.json {
            let each = trashed.iter().map(|trashed| {
                json!({
                    "sessionId": trashed.id.as_str(),
                    "deletedAt": trashed.at.to_string(),
                    "title": title(store, trashed),
                })
            });
            return output.json(&each.collect());
        }
        for trashed in trashed {
            let title = title(store, &trashed);
            output.line(format!(
                "{}  deleted {}  {}",
                trashed.id,
                trashed.at,
                one_line(title.as_deref().unwrap_or("(no text)"))
            ))?;
            if output.closed() {
                break;
            }
        }
        return Ok(());
    };
    let absent = || {
        Failure::with_code(NOT_FOUND, format!("session {text} is not in the trash"))
            .hint("`rejoin sessions restore` lists what is there")
    };
    let id = match SessionId::parse(text) {
        Some(id) => id,
        None => known_as(store, text)?.ok_or_else(absent)?,
    };
    store.restore(&id).map_err(|error| match error {
        StoreError::NotFound { .. } => absent(),
        error => error.into(),
    })?;
    output.line(format!("{id} is back"))
}

/// What the session is called in its own words. One that cannot be read has no title.
fn title(store: &Store, trashed: &Trashed) -> Option<String> {
    let mut reader = store.read_trashed(trashed).ok()?;
    first_title(&mut reader).ok().flatten()
}

/// The session that had this id with the agent that made it.
fn known_as(store: &Store, name: &str) -> Result<Option<SessionId>, Failure> {
    let named = |trashed: &Trashed| {
        let reader = store.read_trashed(trashed);
        reader.is_ok_and(|reader| reader.header().known_as.as_deref() == Some(name))
    };
    let found = store.trashed()?.into_iter().find(named);
    Ok(found.map(|trashed| trashed.id))
}

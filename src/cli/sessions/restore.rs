//! `rejoin sessions restore`.

use serde_json::json;

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::cli::output::Output;
use crate::store::{Store, StoreError};

use super::id::id;

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
            let each = trashed.iter().map(
                |trashed| json!({ "sessionId": trashed.id.as_str(), "deletedAt": trashed.at.to_string() }),
            );
            return output.json(&each.collect());
        }
        for trashed in trashed {
            output.line(format!("{}  deleted {}", trashed.id, trashed.at))?;
        }
        return Ok(());
    };
    let id = id(text)?;
    store.restore(&id).map_err(|error| match error {
        StoreError::NotFound { id } => {
            Failure::with_code(NOT_FOUND, format!("session {id} is not in the trash"))
                .hint("`rejoin sessions restore` lists what is there")
        }
        error => error.into(),
    })?;
    output.line(format!("{id} is back"))
}

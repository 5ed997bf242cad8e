//! `rejoin sessions restore`.

use serde_json::json;

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::store::Store;

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
    store.restore(&id)?;
    output.line(format!("{id} is back"))
}

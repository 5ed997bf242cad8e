//! `rejoin sessions delete`.

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::index::Catalog;
use crate::store::{Store, StoreError};

use super::id::find;

/// What to delete.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The ids of the sessions.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

pub(super) fn run(
    store: &Store,
    catalog: &Catalog,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let ids = args
        .ids
        .iter()
        .map(|text| find(catalog, text))
        .collect::<Result<Vec<_>, _>>()?;
    for id in ids {
        let before = catalog.before_change();
        if !store.trash(&id)? {
            return Err(StoreError::NotFound { id }.into());
        }
        catalog.removed(&id, before);
        output.line(format!(
            "{id} is in the trash; `rejoin sessions restore {id}` brings it back"
        ))?;
    }
    Ok(())
}

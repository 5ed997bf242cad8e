//! Finds the sessions that the command line names.

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::index::Catalog;
use crate::sys::SessionId;

/// The session that goes by this id: ours, or the one that it had with the agent that made it.
pub(super) fn find(catalog: &Catalog, text: &str) -> Result<SessionId, Failure> {
    if let Some(id) = SessionId::parse(text) {
        return Ok(id);
    }
    let known = catalog
        .known_as(text)
        .map_err(|error| Failure::new(format!("cannot look up the session {text:?}: {error}")))?;
    known.ok_or_else(|| {
        Failure::with_code(NOT_FOUND, format!("there is no session {text:?}"))
            .hint("`rejoin sessions list` shows the sessions there are")
    })
}

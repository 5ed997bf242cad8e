//! Finds the sessions that the command line names.

use crate::cli::exit::{Failure, NOT_FOUND};
use crate::store::{Store, Trashed};
use crate::sys::SessionId;

use super::context::Context;

/// The session with this id: its own, or the one from the agent that created it.
pub(in crate::cli) fn find(context: &Context<'_>, text: &str) -> Result<SessionId, Failure> {
    if let Some(id) = SessionId::parse(text) {
        return Ok(id);
    }
    known_as(context, text)?.ok_or_else(|| {
        Failure::with_code(NOT_FOUND, format!("there is no session {text:?}"))
            .hint("run `rejoin sessions list` to see available sessions")
    })
}

/// The same, also for sessions that are only in the trash.
pub(super) fn find_anywhere(context: &Context<'_>, text: &str) -> Result<SessionId, Failure> {
    if SessionId::parse(text).is_none()
        && known_as(context, text)?.is_none()
        && let Some(id) = find_trashed(&context.store, &context.store.trashed()?, text)
    {
        return Ok(id);
    }
    find(context, text)
}

/// The session in the trash with this id: its own, or the one from the agent that created it.
pub(super) fn find_trashed(store: &Store, trashed: &[Trashed], text: &str) -> Option<SessionId> {
    if let Some(id) = SessionId::parse(text) {
        return trashed.iter().any(|trashed| trashed.id == id).then_some(id);
    }
    let named = |trashed: &&Trashed| {
        let reader = store.read_trashed(trashed);
        reader.is_ok_and(|reader| reader.header().known_as.as_deref() == Some(text))
    };
    trashed.iter().find(named).map(|trashed| trashed.id.clone())
}

fn known_as(context: &Context<'_>, name: &str) -> Result<Option<SessionId>, Failure> {
    context
        .reading(|catalog| catalog.known_as(name))
        .map_err(|error| Failure::new(format!("cannot look up the session {name:?}: {error}")))
}

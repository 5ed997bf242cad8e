//! Sessions that have become old: which they are, and how they go to the trash.

use crate::index::{Catalog, Listed, Summary};
use crate::store::{Store, StoreError};

/// When a session was last of use: the time of its last prompt, or that of its making.
pub fn last_used(summary: &Summary) -> &str {
    summary.updated_at.as_ref().unwrap_or(&summary.created_at)
}

/// Whether a session was last of use before a time, which has the form of
/// [`Timestamp`](crate::sys::Timestamp)'s `Display`. One of which no time is known was not.
pub fn has_aged(summary: &Summary, before: &str) -> bool {
    let last = last_used(summary);
    !last.is_empty() && last < before
}

/// What became of a session that was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retired {
    /// It is in the trash.
    Trashed,
    /// Somebody has it open, so it stays.
    InUse,
    /// It was prompted or removed in the meantime.
    Changed,
}

/// Moves a session to the trash, if it is still as the catalog has just described it and nobody
/// has it open.
pub fn retire(store: &Store, catalog: &Catalog, session: &Listed) -> Result<Retired, StoreError> {
    let before = catalog.before_change();
    // Asked with the lock held, so that nobody prompts it any more.
    let unchanged = || {
        let now = catalog.find(&session.id);
        now.is_some_and(|now| now.prompts == session.summary.prompts)
    };
    match store.trash_if(&session.id, unchanged) {
        Ok(true) => {
            catalog.removed(&session.id, before);
            Ok(Retired::Trashed)
        }
        Ok(false) => Ok(Retired::Changed),
        Err(StoreError::InUse { .. }) => Ok(Retired::InUse),
        Err(error) => Err(error),
    }
}

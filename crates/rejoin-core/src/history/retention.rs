//! How long sessions are kept: finds those that expire, and moves them to the trash.
//!
//! The server does this in the background (`server/maintenance.rs`); a session that has expired is
//! unavailable before that (`session/library.rs`). `rejoin prune` has a rule of its own
//! (`cli/sessions/prune.rs`), and moves sessions to the trash by the functions here.

use std::time::Duration;

use crate::index::{Catalog, Listed, Summary};
use crate::store::{Store, StoreError};
use crate::sys::{SessionId, Timestamp, with_causes};

/// How long a session that was never prompted is kept. Editors create one at each start.
const UNPROMPTED_KEPT: Duration = Duration::from_hours(7 * 24);

/// When a session was last used: the time of its last activity, or of its creation.
pub fn last_used(summary: &Summary) -> &str {
    summary.updated_at.as_ref().unwrap_or(&summary.created_at)
}

/// Whether a session was last used before a time, in the format of [`Timestamp`]'s `Display`. A
/// restore from the trash is a use, too. A session without a known time has not aged.
pub fn has_aged(summary: &Summary, before: &str) -> bool {
    let last = last_used(summary);
    let restored = summary.restored_at.as_deref().unwrap_or_default();
    !last.is_empty() && last.max(restored) < before
}

/// The time that is `age` before `now`.
pub fn long_before(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age))
}

/// Which sessions expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The time before which sessions that expire were last used; none if sessions do not expire.
    used_before: Option<String>,
    /// The time before which sessions that expire were created, if they were never used.
    unprompted_before: String,
}

impl Expiry {
    /// The rule for sessions that expire now, if they expire after `expire_after` without use.
    pub fn at(now: Timestamp, expire_after: Option<Duration>) -> Self {
        let before = |age| long_before(now, age).to_string();
        Self {
            used_before: expire_after.map(before),
            unprompted_before: before(UNPROMPTED_KEPT),
        }
    }

    fn is_due(&self, summary: &Summary) -> bool {
        let expired = self.used_before.as_ref();
        expired.is_some_and(|before| has_aged(summary, before))
            || was_never_used(summary) && has_aged(summary, &self.unprompted_before)
    }
}

/// Whether a session was not used since its creation. If an agent had it first, only the agent may
/// remove it: without our log, the agent's session would be in no list.
fn was_never_used(summary: &Summary) -> bool {
    summary.prompts == 0
        && summary.title.is_none()
        && !summary.archived
        && summary.known_as.is_none()
}

/// The result of expiring a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The session is in the trash.
    Trashed,
    /// Another process has the session open, so it stays.
    InUse,
    /// The session was used or removed in the meantime.
    Changed,
}

/// Moves a session to the trash, if it still is as the catalog has just described it and no process
/// has it open.
pub fn expire(store: &Store, catalog: &Catalog, session: &Listed) -> Result<Expired, StoreError> {
    let before = catalog.before_change();
    // Checked while holding the lock, so that no process can prompt it afterwards.
    let unchanged = || {
        let now = catalog.find(&session.id);
        let was = &session.summary;
        now.is_some_and(|now| {
            (now.prompts, now.restored_at) == (was.prompts, was.restored_at.clone())
        })
    };
    match store.trash_if(&session.id, unchanged) {
        Ok(true) => {
            catalog.removed(&session.id, before);
            Ok(Expired::Trashed)
        }
        Ok(false) => Ok(Expired::Changed),
        Err(StoreError::InUse { .. }) => Ok(Expired::InUse),
        Err(error) => Err(error),
    }
}

/// Checks a thousand sessions, beginning after `after`, and moves those that expire to the trash.
/// Returns where to continue; none at the end.
pub fn expire_some(
    store: &Store,
    catalog: &Catalog,
    expiry: &Expiry,
    after: Option<&SessionId>,
) -> Option<SessionId> {
    let sessions = match catalog.every(after) {
        Ok(sessions) => sessions,
        Err(error) => {
            let why = with_causes(&error);
            tracing::warn!(why, "cannot determine which sessions have expired");
            return None;
        }
    };
    for session in sessions.iter().filter(|s| expiry.is_due(&s.summary)) {
        match expire(store, catalog, session) {
            Ok(Expired::Trashed) => {
                tracing::info!(session = %session.id, "expired: moved to the trash");
            }
            Ok(Expired::InUse | Expired::Changed) => {}
            Err(error) => {
                tracing::warn!(session = %session.id, %error, "cannot move to the trash");
            }
        }
    }
    sessions.last().map(|session| session.id.clone())
}

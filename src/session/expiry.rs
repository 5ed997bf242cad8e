//! Sessions that nobody has prompted for so long that they count as gone.

use std::time::Duration;

use crate::history::has_aged;
use crate::sys::{SessionId, Timestamp, blocking};

use super::Deps;

impl Deps {
    /// The time before which sessions must have been prompted last to have expired, in the form of
    /// [`Timestamp`]'s `Display`; none if they never do.
    pub fn expired_before(&self) -> Option<String> {
        let after = self.expire_after?;
        Some(before(self.sys.clock.now(), after).to_string())
    }

    /// Whether a session that nobody has open here has expired.
    pub fn has_expired(&self, id: &SessionId) -> bool {
        let (Some(before), Some(catalog)) = (self.expired_before(), &self.catalog) else {
            return false;
        };
        let known = blocking(|| catalog.find(id));
        known.is_some_and(|summary| has_aged(&summary, &before))
    }
}

/// The time that lies so long before `now`.
fn before(now: Timestamp, after: Duration) -> Timestamp {
    let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(after))
}

//! Sessions that were not used for so long that they count as gone.

use crate::history::{has_aged, long_before};
use crate::sys::{SessionId, blocking};

use super::Deps;

impl Deps {
    /// The time before which sessions must have been used last to have expired, in the form of
    /// [`Timestamp`](crate::sys::Timestamp)'s `Display`; none if they never do.
    pub fn expired_before(&self) -> Option<String> {
        let after = self.expire_after?;
        Some(long_before(self.sys.clock.now(), after).to_string())
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

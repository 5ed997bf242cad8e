//! The user's `allow_always` and `reject_always` decisions, kept while a session is open.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::sys::lock;

/// The user's decisions, by what they are about.
#[derive(Debug, Default)]
pub(super) struct Always(Mutex<BTreeMap<String, bool>>);

impl Always {
    /// Whether this is allowed, if the user has decided it.
    pub(super) fn of(&self, about: &str) -> Option<bool> {
        lock(&self.0).get(about).copied()
    }

    /// Remembers that the user always allows or always rejects this.
    pub(super) fn remember(&self, about: &str, allowed: bool) {
        lock(&self.0).insert(about.to_owned(), allowed);
    }
}

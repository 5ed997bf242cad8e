//! What the user has allowed or rejected for as long as a session is open.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::sys::lock;

/// The user's word, by what it is about.
#[derive(Debug, Default)]
pub(super) struct Always(Mutex<BTreeMap<String, bool>>);

impl Always {
    /// Whether this is allowed, if the user has said so.
    pub(super) fn of(&self, about: &str) -> Option<bool> {
        lock(&self.0).get(about).copied()
    }

    /// The user allows or rejects this from now on.
    pub(super) fn remember(&self, about: &str, allowed: bool) {
        lock(&self.0).insert(about.to_owned(), allowed);
    }
}

//! Reports those sessions that this process changes, and what a look at one of them shows.

use std::fmt;
use std::sync::Mutex;

use crate::sys::{SessionId, lock};

use super::backend::Listed;

/// The state of a session in a list without a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedSession {
    /// An entry, archived or not.
    Listed(Box<Listed>),
    /// Nothing: it was never prompted, has expired, or is another session's in the agent.
    Hidden,
    /// Nothing: it has no log.
    Gone,
}

/// Called with each session that this process has changed.
pub(super) type Observe = Box<dyn Fn(&SessionId) + Send>;

/// The observer of changes.
#[derive(Default)]
pub(super) struct Observer(Mutex<Option<Observe>>);

impl Observer {
    /// From now on, this is called.
    pub(super) fn set(&self, observe: Option<Observe>) {
        *lock(&self.0) = observe;
    }

    /// A session has changed.
    pub(super) fn changed(&self, id: &SessionId) {
        if let Some(observe) = &*lock(&self.0) {
            observe(id);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

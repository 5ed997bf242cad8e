//! Who has a session open, for the errors of those who wanted it too.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who has a session open for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// The host it runs on.
    pub host: String,
}

impl Holder {
    /// This process.
    pub fn this_process() -> Self {
        Self {
            pid: std::process::id(),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
        }
    }

    pub(super) fn describe(holder: Option<&Self>) -> String {
        holder.map_or_else(|| "another process".to_owned(), Self::to_string)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, host } = self;
        if *self == Self::this_process() {
            write!(f, "this very process ({pid} on host {host})")
        } else {
            write!(f, "process {pid} on host {host}")
        }
    }
}

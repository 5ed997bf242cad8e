//! What can go wrong with a session's file.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys::SessionId;

use super::holder::Holder;

/// An operation on the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such session.
    #[error("there is no session {id}")]
    NotFound {
        /// Which.
        id: SessionId,
    },
    /// There is such a session already.
    #[error("session {id} exists already")]
    Exists {
        /// Which.
        id: SessionId,
    },
    /// Somebody else has the session open for writing.
    #[error("session {id} is {}", Holder::describe(holder.as_ref()))]
    InUse {
        /// Which.
        id: SessionId,
        /// Who, as far as is known.
        holder: Option<Holder>,
    },
    /// The file cannot be opened for writing; it may be that it can be read.
    #[error("session {id} cannot be written to: cannot open {}: {cause}", path.display())]
    ReadOnly {
        /// Which.
        id: SessionId,
        /// Its file.
        path: PathBuf,
        /// Why the system refused.
        cause: io::Error,
    },
    /// The file does not begin with a session's header. It is left as it is.
    #[error("the file of session {id} has no valid header: {reason}")]
    Headerless {
        /// Which.
        id: SessionId,
        /// What is there instead.
        reason: String,
    },
    /// The file holds another session than its name says. It is left as it is.
    #[error("the file of session {id} holds session {found:?}")]
    WrongId {
        /// The id of the file's name.
        id: SessionId,
        /// The id in its header.
        found: String,
    },
    /// The file was written by a later version of the program. It is left as it is.
    #[error(
        "session {id} has format {format}, which a later version wrote; this one reads up to {}",
        crate::record::FORMAT
    )]
    Newer {
        /// Which.
        id: SessionId,
        /// The format in its header.
        format: u64,
    },
    /// A payload was to be appended that is not one line. Nothing was written.
    #[error("a record of session {id} would have a line break in it")]
    LineBreak {
        /// Which.
        id: SessionId,
    },
    /// A payload was to be appended that is longer than readers take. Nothing was written.
    #[error(
        "a record of session {id} would be longer than {} bytes",
        crate::record::line::LONGEST
    )]
    TooLong {
        /// Which.
        id: SessionId,
    },
    /// A sync failed before: the system may have dropped what it was to write, so that no later
    /// sync of this log could be believed. Opening the session anew reads what is really there.
    #[error("an earlier sync of session {id} failed, it must be opened again")]
    Poisoned {
        /// Which.
        id: SessionId,
    },
    /// The file that was open has lost its name: nothing that is appended to it can be found again.
    #[error(
        "the session's log {} was replaced or removed by another program; \
         load the session again to go on with what is there now",
        path.display()
    )]
    Replaced {
        /// The name.
        path: PathBuf,
    },
    /// The disk refused.
    #[error("cannot {operation} {}: {cause}", path.display())]
    Disk {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        cause: io::Error,
    },
}

impl StoreError {
    /// For `map_err`: the operation and path at which the disk refused.
    pub(super) fn disk(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Disk {
            operation,
            path: path.to_owned(),
            cause,
        }
    }

    /// The disk's own error, if it was the disk.
    pub fn disk_error(&self) -> Option<&io::Error> {
        match self {
            Self::Disk { cause, .. } | Self::ReadOnly { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

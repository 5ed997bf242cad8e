//! Why an operation on the store failed.

use std::io;
use std::path::{Path, PathBuf};

use crate::sys::SessionId;

use super::holder::Holder;

/// Why an operation on the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The session does not exist.
    #[error("there is no session {id}")]
    NotFound {
        /// The session.
        id: SessionId,
    },
    /// The folder has sessions of another program. Nothing is changed in it.
    #[error(
        "{} is no store of rejoin: another program has {} there",
        root.display(),
        found.display()
    )]
    OfAnother {
        /// The folder.
        root: PathBuf,
        /// A file that is not of a store.
        found: PathBuf,
    },
    /// The session exists already.
    #[error("session {id} already exists")]
    Exists {
        /// The session.
        id: SessionId,
    },
    /// Another process has the session open for writing.
    #[error("session {id} is {}", Holder::describe(holder.as_ref()))]
    InUse {
        /// The session.
        id: SessionId,
        /// The process, if known.
        holder: Option<Holder>,
    },
    /// Another process has taken the session over: nothing was written, and nothing more will be.
    #[error(
        "session {id} was taken over; it is {}{}",
        Holder::describe(holder.as_deref()),
        if *is_cut { "; the end of what was shown here is lost: no log has it" } else { "" }
    )]
    Fenced {
        /// The session.
        id: SessionId,
        /// The process, if it still has the session open.
        holder: Option<Box<Holder>>,
        /// Whether the database has lost the end of what it had confirmed to this process.
        is_cut: bool,
    },
    /// The store cannot be reached. What was to be written may be there or not.
    #[error("cannot reach the store {place}: {reason}")]
    Unreachable {
        /// Its address.
        place: String,
        /// The cause.
        reason: String,
    },
    /// The store cannot be used as it is.
    #[error("the store {place} cannot be used: {reason}")]
    Unusable {
        /// Its address.
        place: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The log cannot be opened for writing, or the disk does not take what recovers it. It may be
    /// readable.
    #[error(
        "session {id} cannot be written to: cannot {operation} {}: {cause}",
        path.display()
    )]
    ReadOnly {
        /// The session.
        id: SessionId,
        /// The operation that failed, as a verb.
        operation: &'static str,
        /// Its log, or the file that was to be written.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// The log does not begin with a valid header. It is not changed.
    #[error("the log of session {id} has no valid header: {reason}")]
    Headerless {
        /// The session.
        id: SessionId,
        /// The content that was found instead.
        reason: String,
    },
    /// The log is that of another session than its name says. It is not changed.
    #[error("the log of session {id} contains session {found:?}")]
    WrongId {
        /// The id of the file's name.
        id: SessionId,
        /// The id in its header.
        found: String,
    },
    /// A later version of the program wrote the log. It is not changed.
    #[error(
        "session {id} has format {format} of a later version of rejoin; this version reads up to {}",
        crate::record::FORMAT_REWOUND
    )]
    Newer {
        /// The session.
        id: SessionId,
        /// The format in its header.
        format: u64,
    },
    /// A payload has more than one line. Nothing was written.
    #[error("a record of session {id} would contain a line break")]
    LineBreak {
        /// The session.
        id: SessionId,
    },
    /// A payload is longer than readers accept. Nothing was written.
    #[error(
        "a record of session {id} would be longer than {} bytes",
        crate::record::line::LONGEST
    )]
    TooLong {
        /// The session.
        id: SessionId,
    },
    /// A sync failed earlier. The system may have dropped the data, so no later sync of this log
    /// proves anything. Opening the session again reads what the file really contains.
    #[error("an earlier sync of session {id} failed; the session must be opened again")]
    Poisoned {
        /// The session.
        id: SessionId,
    },
    /// The open file no longer has its name: what is appended to it would be lost.
    #[error(
        "the session's log {} was replaced or removed by another program; \
         load the session again to continue with the current file",
        path.display()
    )]
    Replaced {
        /// The log.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    Disk {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
}

impl StoreError {
    /// For `map_err`: a file operation failed.
    pub(in crate::store) fn disk(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> Self {
        move |cause| match cause.downcast() {
            Ok(known) => known,
            Err(cause) => Self::Disk {
                operation,
                path: path.to_owned(),
                cause,
            },
        }
    }

    /// The process that has the session open, if that is why, and it is known.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::InUse { holder, .. } => holder.as_ref(),
            Self::Fenced { holder, .. } => holder.as_deref(),
            _ => None,
        }
    }

    /// Makes the error of a failed file operation that of a session which can only be read.
    pub(in crate::store) fn read_only(self, id: &SessionId) -> Self {
        match self {
            Self::Disk {
                operation,
                path,
                cause,
            } => Self::ReadOnly {
                id: id.clone(),
                operation,
                path,
                cause,
            },
            other => other,
        }
    }

    /// The error of the file operation, if one failed.
    pub fn disk_error(&self) -> Option<&io::Error> {
        match self {
            Self::Disk { cause, .. } | Self::ReadOnly { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

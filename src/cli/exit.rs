//! Exit codes, and the failures that they report.

use std::fmt;
use std::io::ErrorKind;

use rejoin::store::{Holder, StoreError};

/// Success, also if there was nothing to show or the reader of the output has left.
pub(super) const OK: u8 = 0;
/// A failure without a code of its own.
pub(super) const FAILED: u8 = 1;
/// The command line is wrong.
pub(super) const USAGE: u8 = 2;
/// There is no such session.
pub(super) const NOT_FOUND: u8 = 3;
/// Another process has the session open.
pub(super) const IN_USE: u8 = 4;
/// Damage was found.
pub(super) const DAMAGED: u8 = 5;
/// The client has stopped reading, and not all of it was answered.
pub(super) const UNREAD: u8 = 6;

/// The number that shells add to the number of the signal that has ended a command.
#[cfg(unix)]
pub(super) const SIGNALLED: u8 = 128;

/// `rejoin wait`: a session waits for an answer.
pub(super) const WAITS: u8 = 10;
/// `rejoin wait`: a turn was cancelled, has failed or was interrupted.
pub(super) const NOT_WELL: u8 = 11;
/// `rejoin wait`: nothing has happened in time.
pub(super) const TIME_OVER: u8 = 12;

pub(super) const HELP: &str = "\
Exit codes: 0 success, 1 failure, 2 invalid command line, 3 session not found, 4 session in use, \
5 damage found, 6 the client stopped reading.";

/// The hint if a folder is no store.
pub(super) const ANOTHER: &str =
    "name an empty folder, a new one or a store with --store or REJOIN_STORE";

/// The hint if a session is open in a process that other processes do not reach.
pub(super) const OUT_OF_REACH: &str = "close the session in its client; from a process of a store in \
    a database, `rejoin take-over` takes it";

/// The hint if a database does not answer.
pub(super) const UNREACHABLE: &str = "check the address, and that the database runs";

/// The hint if a store can only be read.
const READ_ONLY: &str =
    "the store can only be read here: use an account and a place that can write to it";

/// Why a command failed, and what to do about it.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure without a code of its own.
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self::with_code(FAILED, message)
    }

    /// A wrong command line.
    pub(super) fn usage(message: impl fmt::Display) -> Self {
        Self::with_code(USAGE, message)
    }

    /// A failure with one of the codes above.
    pub(super) fn with_code(code: u8, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            hint: None,
        }
    }

    /// A failure before any client was served.
    pub(super) fn cannot_start(error: std::io::Error) -> Self {
        Self::new(format!("cannot start: {error}"))
    }

    /// A failure that was already reported.
    pub(super) fn reported() -> Self {
        Self::new("")
    }

    /// Adds what to do next.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The message that says what failed.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// What to do next.
    pub(super) fn next(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        self.code
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NotFound { .. } => NOT_FOUND,
            StoreError::InUse { .. } | StoreError::Fenced { .. } => IN_USE,
            StoreError::Headerless { .. }
            | StoreError::WrongId { .. }
            | StoreError::Newer { .. } => DAMAGED,
            _ => FAILED,
        };
        let failure = Self::with_code(code, &error);
        let cannot_write = error.disk_error().is_some_and(|cause| {
            let why = cause.kind();
            matches!(
                why,
                ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied
            )
        });
        match code {
            _ if matches!(error, StoreError::OfAnother { .. }) => failure.hint(ANOTHER),
            _ if matches!(error, StoreError::Unreachable { .. }) => failure.hint(UNREACHABLE),
            NOT_FOUND => failure.hint("run `rejoin list` to see available sessions"),
            IN_USE if error.holder().is_some_and(Holder::can_be_reached) => failure
                .hint("close the session there first, or stop the session with `rejoin stop`"),
            IN_USE => failure.hint(OUT_OF_REACH),
            _ if cannot_write => failure.hint(READ_ONLY),
            _ => failure,
        }
    }
}

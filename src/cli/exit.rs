//! Exit codes, and the failures they stand for.

use std::fmt;

use crate::store::StoreError;

use super::global::Global;

/// All went well, or whoever read the output stopped reading.
pub const OK: u8 = 0;
/// Something failed.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// There is no such session.
pub const NOT_FOUND: u8 = 3;
/// Somebody else has the session open.
pub const IN_USE: u8 = 4;
/// Damage was found.
pub const DAMAGED: u8 = 5;

pub(super) const HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong command line, 3 no such session, 4 session in use, \
5 damage found.";

/// Why a command failed, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure without a code of its own.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::with_code(FAILED, message)
    }

    /// A wrong command line.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::with_code(USAGE, message)
    }

    /// A failure with one of the codes above.
    pub fn with_code(code: u8, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            hint: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Says on stderr what went wrong.
    #[expect(clippy::print_stderr, reason = "the one place where failures are told")]
    pub(super) fn print(&self, global: &Global) {
        eprintln!("rejoin: {}", super::printable::printable(&self.message));
        if let Some(hint) = &self.hint {
            let hint = hint.replace("`rejoin ", &format!("`{} ", command(global)));
            eprintln!("  hint: {}", super::printable::printable(&hint));
        }
    }
}

/// How to start the program so that it finds the same store.
pub(super) fn command(global: &Global) -> String {
    match &global.store {
        Some(store) if global.names_store() => {
            let store = store.to_string_lossy();
            let plain = |c: char| c.is_alphanumeric() || "/\\._-:~".contains(c);
            if store.chars().all(plain) {
                format!("rejoin --store {store}")
            } else {
                format!("rejoin --store '{}'", store.replace('\'', r"'\''"))
            }
        }
        _ => "rejoin".to_owned(),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NotFound { .. } => NOT_FOUND,
            StoreError::InUse { .. } => IN_USE,
            StoreError::Headerless { .. }
            | StoreError::WrongId { .. }
            | StoreError::Newer { .. } => DAMAGED,
            _ => FAILED,
        };
        let failure = Self::with_code(code, &error);
        match code {
            NOT_FOUND => failure.hint("`rejoin sessions list` shows the sessions there are"),
            IN_USE => failure.hint("close the session there first"),
            _ => failure,
        }
    }
}

//! Why statements and connections fail.

use std::fmt;

use tokio_postgres::error::{DbError, SqlState};

/// Why a statement has no result.
#[derive(Debug)]
pub(super) enum DatabaseFailure {
    /// The database cannot be reached. The statement has not run.
    Unreachable(String),
    /// The connection broke, so that it is unknown whether the statement has run.
    Unknown(String),
    /// The database did not answer in time. It was asked to cancel the statement; whether it has run is
    /// unknown, and so is whether it still will.
    GivenUp(String),
    /// The database refuses it.
    Refused(Box<DbError>),
    /// Anything else.
    Other(String),
}

impl DatabaseFailure {
    /// Whether the statement may have run, or may still run.
    pub(super) fn may_have_run(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::GivenUp(_))
    }

    /// Whether a unique index has refused a row.
    pub(super) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the role may not do this.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Whether the server only answers questions, or is to do no more.
    pub(super) fn is_read_only(&self) -> bool {
        let code = SqlState::READ_ONLY_SQL_TRANSACTION;
        matches!(self, Self::Refused(error) if *error.code() == code)
    }

    /// Whether the tables are not there.
    pub(super) fn is_without_tables(&self) -> bool {
        let codes = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
        matches!(self, Self::Refused(error) if codes.contains(error.code()))
    }
}

impl fmt::Display for DatabaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Unknown(why) | Self::GivenUp(why) | Self::Other(why) => {
                f.write_str(why)
            }
            Self::Refused(error) => f.write_str(error.message()),
        }
    }
}

/// Whether the server has refused a statement in a way that passes: it is full, only follows another
/// server, or has chosen this transaction to fail.
pub(super) fn has_not_run(error: &DbError) -> bool {
    [
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::CANNOT_CONNECT_NOW,
    ]
    .contains(error.code())
}

/// Whether the server ends.
pub(super) fn is_ending(error: &DbError) -> bool {
    let code = error.code().code();
    code.starts_with("57P0") || code.starts_with("08")
}

//! The tables themselves: their version, how they are made, and what the database's errors mean.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_postgres::Row;

use crate::store::medium::{self, StoreError};
use crate::sys::SessionId;

use super::Tables;
use super::address::Address;
use super::driver::{Driver, Failure, Param, Repeat};

/// The version of the tables that this program knows.
const VERSION: i32 = 3;
/// How the tables of the first version are made, and how they become those of each later one.
const STEPS: [&str; 3] = [
    include_str!("schema.sql"),
    include_str!("version_2.sql"),
    include_str!("version_3.sql"),
];

/// The version of a store's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    current: i32,
    min_reader: i32,
    min_writer: i32,
}

/// Makes or changes the tables at an address; false if there was nothing to do.
pub(in crate::store) fn migrate(place: &Path) -> Result<bool, StoreError> {
    let shown = medium::place::shown(place);
    let failed = |reason: String| StoreError::Unusable {
        place: shown.clone(),
        reason,
    };
    let driver = Driver::new(Address::parse(place).map_err(failed)?);
    let version = version(&driver).map_err(|failure| error(&driver, "look at", failure))?;
    let done = match version {
        None => 0,
        Some(found) if found.current > VERSION => return Err(newer(&driver, found)),
        Some(found) => usize::try_from(found.current).unwrap_or_default(),
    };
    let steps = STEPS.get(done..).unwrap_or_default();
    if steps.is_empty() {
        return Ok(false);
    }
    let made = driver.batch(&steps.concat());
    made.map_err(|failure| error(&driver, "make the tables of", failure))?;
    Ok(true)
}

fn version(driver: &Driver) -> Result<Option<Version>, Failure> {
    let sql = "SELECT version, min_reader, min_writer FROM @.store";
    match driver.query(sql, Vec::new(), Repeat::Yes) {
        Ok(rows) => Ok(rows.first().map(|row| Version {
            current: row.get(0),
            min_reader: row.get(1),
            min_writer: row.get(2),
        })),
        Err(failure) if failure.is_without_tables() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn newer(driver: &Driver, found: Version) -> StoreError {
    StoreError::Unusable {
        place: driver.shown().to_owned(),
        reason: format!(
            "its tables have version {} of a later rejoin; this one knows {VERSION}",
            found.current
        ),
    }
}

/// What a failure means for the caller.
pub(super) fn error(driver: &Driver, operation: &'static str, failure: Failure) -> StoreError {
    let place = driver.shown();
    match failure {
        Failure::Unreachable(why) | Failure::Unknown(why) => StoreError::Unreachable {
            place: place.to_owned(),
            reason: why,
        },
        failure if failure.is_without_tables() => without_tables(place),
        failure => {
            StoreError::disk(operation, Path::new(place))(io::Error::other(failure.to_string()))
        }
    }
}

fn older(place: &str) -> StoreError {
    StoreError::Unusable {
        place: place.to_owned(),
        reason: format!(
            "its tables are those of an earlier rejoin: bring them up to date with \
             `rejoin store migrate --store {place}`"
        ),
    }
}

fn without_tables(place: &str) -> StoreError {
    StoreError::Unusable {
        place: place.to_owned(),
        reason: format!("it has no tables: make them with `rejoin store migrate --store {place}`"),
    }
}

impl Tables {
    /// Runs a statement that may be repeated.
    pub(super) fn ask(
        &self,
        operation: &'static str,
        sql: &str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.driver.query(sql, params, Repeat::Yes);
        rows.map_err(|failure| self.failed(operation, failure))
    }

    pub(super) fn failed(&self, operation: &'static str, failure: Failure) -> StoreError {
        error(&self.driver, operation, failure)
    }

    /// The same for writing to a session: a role may be allowed to read only.
    pub(super) fn cannot_write(&self, id: &SessionId, failure: Failure) -> StoreError {
        if failure.is_forbidden() {
            return StoreError::ReadOnly {
                id: id.clone(),
                path: self.path_of(id),
                cause: io::Error::new(io::ErrorKind::PermissionDenied, failure.to_string()),
            };
        }
        self.failed("write to", failure)
    }

    /// The name of a session's log in messages.
    pub(super) fn path_of(&self, id: &SessionId) -> PathBuf {
        PathBuf::from(format!("{id} in {}", self.driver.shown()))
    }

    /// The version of the tables; none if there are none.
    pub(super) fn version(&self) -> Result<Option<Version>, StoreError> {
        version(&self.driver).map_err(|failure| self.failed("look at", failure))
    }

    /// Fails if the tables are not there, or are for later programs only.
    pub(super) fn check(self: &Arc<Self>) -> Result<(), StoreError> {
        if self.are_known.get().is_some() {
            return Ok(());
        }
        match self.version()? {
            None => Err(without_tables(self.driver.shown())),
            Some(found) if found.current < VERSION => Err(older(self.driver.shown())),
            Some(found) if found.min_writer > VERSION || found.min_reader > VERSION => {
                Err(newer(&self.driver, found))
            }
            Some(_) => {
                self.are_known.get_or_init(|| ());
                Ok(())
            }
        }
    }
}

//! The tables themselves: their version, how they are made, and what the database's errors mean.

use std::io;
use std::path::{Path, PathBuf};

use tokio_postgres::Row;

use crate::store::medium::{self, StoreError};
use crate::sys::SessionId;

use super::address::Address;
use super::driver::{Driver, LONG, Param, Repeat};
use super::failure::DatabaseFailure;
use super::{StoreTables, roles};

/// The version of the tables that this program knows.
const VERSION: i32 = 6;
/// How the tables of the first version are made, and how they become those of each later one.
const STEPS: [&str; 6] = [
    include_str!("version_1.sql"),
    include_str!("version_2.sql"),
    include_str!("version_3.sql"),
    include_str!("version_4.sql"),
    include_str!("version_5.sql"),
    include_str!("version_6.sql"),
];

/// The version of a store's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TablesVersion {
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
    let cannot = |failure| error(&driver, "make the tables of", failure);
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
    let mut made = steps.concat().replace('@', driver.schema());
    if done > 0 {
        // What roles may do follows the tables.
        for (role, rights) in roles::granted(&driver).map_err(cannot)? {
            made.push_str(&roles::grants(driver.schema(), &role, rights));
        }
    }
    driver.batch(&made).map_err(cannot)?;
    Ok(true)
}

fn version(driver: &Driver) -> Result<Option<TablesVersion>, DatabaseFailure> {
    let sql = "SELECT version, min_reader, min_writer FROM @.store";
    match driver.query(sql, Vec::new(), Repeat::Yes) {
        Ok(rows) => match rows.first() {
            Some(row) => Ok(Some(TablesVersion {
                current: row.get(0),
                min_reader: row.get(1),
                min_writer: row.get(2),
            })),
            None => Err(DatabaseFailure::Other(
                "its table `store` has no row, which says of which version the tables are"
                    .to_owned(),
            )),
        },
        Err(failure) if failure.is_without_tables() => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn newer(driver: &Driver, found: TablesVersion) -> StoreError {
    StoreError::Unusable {
        place: driver.shown().to_owned(),
        reason: format!(
            "its tables have version {} of a later rejoin; this one knows {VERSION}",
            found.current
        ),
    }
}

/// The store's error for a failure of the database.
pub(super) fn error(
    driver: &Driver,
    operation: &'static str,
    failure: DatabaseFailure,
) -> StoreError {
    let place = driver.shown();
    match failure {
        DatabaseFailure::Unreachable(why)
        | DatabaseFailure::Unknown(why)
        | DatabaseFailure::GivenUp(why) => StoreError::Unreachable {
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

impl StoreTables {
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

    /// Runs such a statement for which no client waits, and which may take longer.
    pub(super) fn ask_long(
        &self,
        operation: &'static str,
        sql: &str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.driver.query_within(LONG, sql, params, Repeat::Yes);
        rows.map_err(|failure| self.failed(operation, failure))
    }

    pub(super) fn failed(&self, operation: &'static str, failure: DatabaseFailure) -> StoreError {
        error(&self.driver, operation, failure)
    }

    /// The error for a statement that failed to write to a session: a role may be allowed to read
    /// only.
    pub(super) fn cannot_write(&self, id: &SessionId, failure: DatabaseFailure) -> StoreError {
        if failure.is_forbidden() || failure.is_read_only() {
            return StoreError::ReadOnly {
                id: id.clone(),
                operation: "open",
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
    pub(super) fn version(&self) -> Result<Option<TablesVersion>, StoreError> {
        version(&self.driver).map_err(|failure| self.failed("look at", failure))
    }

    /// Fails if the tables are not there, or if this program cannot read them.
    pub(super) fn check_reads(&self) -> Result<(), StoreError> {
        self.known_version().map(drop)
    }

    /// Fails if this version of rejoin cannot write to a session in the tables.
    pub(super) fn check_writes(&self, id: &SessionId) -> Result<(), StoreError> {
        let found = self.known_version()?;
        if found.min_writer <= VERSION {
            return Ok(());
        }
        let why = newer(&self.driver, found).to_string();
        Err(StoreError::ReadOnly {
            id: id.clone(),
            operation: "open",
            path: self.path_of(id),
            cause: io::Error::new(io::ErrorKind::PermissionDenied, why),
        })
    }

    fn known_version(&self) -> Result<TablesVersion, StoreError> {
        if let Some(known) = self.version.get() {
            return Ok(*known);
        }
        let known = match self.version()? {
            None => return Err(without_tables(self.driver.shown())),
            Some(found) if found.current < VERSION => return Err(older(self.driver.shown())),
            Some(found) if found.min_reader > VERSION => return Err(newer(&self.driver, found)),
            Some(found) => found,
        };
        Ok(*self.version.get_or_init(|| known))
    }
}

//! The catalog's SQLite file: opened when first needed, mended when damaged, replaced by memory
//! when it cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::sys::{Sys, lock};

use super::schema;

/// How long to wait for another process; its writes take milliseconds.
const BUSY: Duration = Duration::from_secs(1);

/// How often one operation may find the database damaged before its file is given up: tables
/// missing, then damage, then damage that another process made good at the same time.
const HEALINGS: usize = 3;

/// A database that is always there.
pub(super) struct Database {
    path: Option<PathBuf>,
    sys: Sys,
    state: Mutex<State>,
}

enum State {
    Closed,
    File(Connection, Identity),
    Memory(Connection),
}

/// Which file a path names; it changes when the file is deleted or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(Option<(u64, u64)>);

/// Why an operation on the catalog's database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite says no.
    #[error("cannot use the catalog")]
    Sql(#[from] rusqlite::Error),
    /// Another version of this program has taken the file.
    #[error("the catalog now has version {0}")]
    Version(i64),
    /// The file or its folder cannot be made.
    #[error("cannot make the catalog's file")]
    Create(#[source] std::io::Error),
    /// It was emptied again and again while it was read.
    #[error("the catalog does not stay as it is")]
    Unsteady,
}

type Result<T> = std::result::Result<T, DatabaseError>;

impl Database {
    /// A database in the file at `path`, or in memory. Touches nothing yet.
    pub(super) fn new(path: Option<PathBuf>, sys: Sys) -> Self {
        Self {
            path,
            sys,
            state: Mutex::new(State::Closed),
        }
    }

    /// Runs `op` on a consistent view. It is run again if the database had to be replaced by an
    /// empty one, as it may be at any time by another process.
    pub(super) fn read<T>(
        &self,
        op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.run(TransactionBehavior::Deferred, op)
    }

    /// Runs `op` as one change. It may be run again, as with [`read`](Self::read).
    pub(super) fn write<T>(
        &self,
        op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.run(TransactionBehavior::Immediate, op)
    }

    /// Whether the catalog is in memory, where no other process sees it.
    pub(super) fn is_private(&self) -> bool {
        matches!(*self.lock(), State::Memory(_))
    }

    /// Leaves the file for others and goes on in memory, empty, for the life of this process.
    pub(super) fn abandon_file(&self) -> Result<()> {
        self.go_private(&mut self.lock())
    }

    fn run<T>(
        &self,
        behavior: TransactionBehavior,
        mut op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let mut healings = 0;
        loop {
            self.open(&mut state)?;
            let unusable = match &mut *state {
                // `open` left it open.
                State::Closed => continue,
                State::Memory(connection) => return attempt(connection, behavior, &mut op),
                State::File(connection, _) => match attempt(connection, behavior, &mut op) {
                    Err(error) if error.is_damage() && healings < HEALINGS => {
                        healings += 1;
                        self.warn_damaged(&error);
                        self.heal(connection, &error).err()
                    }
                    Err(error) if !error.is_busy() => Some(error),
                    done => return done,
                },
            };
            if let Some(error) = unusable {
                self.warn_unusable(&error);
                self.go_private(&mut state)?;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside an operation has rolled its transaction back.
        lock(&self.state)
    }

    /// Opens the database, unless it is open and still the one that the path names.
    fn open(&self, state: &mut State) -> Result<()> {
        let path = self.path.as_deref().and_then(|path| {
            let native = self.sys.disk.native_path(path)?;
            Some((path, native))
        });
        let Some((path, native)) = path else {
            return match state {
                State::Memory(_) => Ok(()),
                _ => self.go_private(state),
            };
        };
        match state {
            State::Memory(_) => return Ok(()),
            State::File(_, identity) if *identity == Identity::of(&native) => return Ok(()),
            // Closed, or somebody deleted the file: what is written to it now, nobody sees.
            State::Closed | State::File(..) => {}
        }
        *state = State::Closed;
        match self.open_file(path, &native) {
            Ok((connection, identity)) => *state = State::File(connection, identity),
            Err(error) => {
                self.warn_unusable(&error);
                self.go_private(state)?;
            }
        }
        Ok(())
    }

    fn open_file(&self, path: &Path, native: &Path) -> Result<(Connection, Identity)> {
        if let Some(folder) = path.parent() {
            let made = self.sys.disk.create_dir_all(folder);
            made.map_err(DatabaseError::Create)?;
        }
        // SQLite would make it with the mode of the process's umask. The files it puts beside the
        // database get the database's mode.
        match self.sys.disk.create_new(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(DatabaseError::Create(error));
            }
            _ => {}
        }
        // Before opening: if the file is replaced in between, the next operation notices.
        let identity = Identity::of(native);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(native, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(32);
        if let Err(error) = self.prepare(&mut connection) {
            if !error.is_damage() {
                return Err(error);
            }
            self.warn_damaged(&error);
            schema::reset(&mut connection, &self.sys)?;
            self.prepare(&mut connection)?;
        }
        Ok((connection, identity))
    }

    fn prepare(&self, connection: &mut Connection) -> Result<()> {
        // With a write-ahead log this syncs only when the log is folded into the database: a power
        // cut can take the last changes but does not mix old pages with new ones, which SQLite
        // might not notice.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        match mode {
            // Another process is at the same change; without a write-ahead log it works as well.
            Err(error) if is_busy(&error) => {}
            other => other?,
        }
        Ok(schema::ensure(connection, &self.sys)?)
    }

    fn heal(&self, connection: &mut Connection, error: &DatabaseError) -> Result<()> {
        let tables_missing = match error {
            DatabaseError::Version(_) => true,
            DatabaseError::Sql(error) => error.sqlite_error_code() == Some(ErrorCode::Unknown),
            DatabaseError::Create(_) | DatabaseError::Unsteady => false,
        };
        // Another process may be between emptying the file and making the tables.
        if tables_missing && schema::ensure(connection, &self.sys).is_ok() {
            return Ok(());
        }
        Ok(schema::reset(connection, &self.sys)?)
    }

    fn warn_damaged(&self, error: &DatabaseError) {
        tracing::warn!(
            path = ?self.path,
            error = error as &dyn std::error::Error,
            "the catalog is damaged: rebuilding it"
        );
    }

    fn warn_unusable(&self, error: &DatabaseError) {
        tracing::warn!(
            path = ?self.path,
            error = error as &dyn std::error::Error,
            "the catalog's file cannot be used: keeping the catalog in memory"
        );
    }

    fn go_private(&self, state: &mut State) -> Result<()> {
        let mut connection = Connection::open_in_memory()?;
        schema::ensure(&mut connection, &self.sys)?;
        *state = State::Memory(connection);
        Ok(())
    }
}

fn attempt<T>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    op: &mut impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T> {
    let tx = connection.transaction_with_behavior(behavior)?;
    match schema::version(&tx)? {
        schema::VERSION => {}
        other => return Err(DatabaseError::Version(other)),
    }
    let value = op(&tx)?;
    tx.commit()?;
    Ok(value)
}

impl DatabaseError {
    /// Whether another process kept the database locked for longer than we wait.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if is_busy(error))
    }

    /// Whether the content of the file is to blame, so that an empty one would do.
    fn is_damage(&self) -> bool {
        match self {
            // Emptied by another process. One of another version of this program would only be
            // fought over by emptying its tables.
            Self::Version(version) => *version == 0,
            Self::Sql(rusqlite::Error::SqliteFailure(error, _)) => matches!(
                error.code,
                ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::SchemaChanged
                    | ErrorCode::TypeMismatch
                    | ErrorCode::ConstraintViolation
                    // "no such table": every statement is ours and fits our tables.
                    | ErrorCode::Unknown
            ),
            // A value that is none of ours, or no row where there must be one.
            Self::Sql(_) => true,
            Self::Create(_) | Self::Unsteady => false,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

impl Identity {
    fn of(path: &Path) -> Self {
        #[cfg(unix)]
        let id = |file: std::fs::Metadata| {
            use std::os::unix::fs::MetadataExt;
            (file.dev(), file.ino())
        };
        // Elsewhere an open file cannot be deleted.
        #[cfg(not(unix))]
        let id = |_| (0, 0);
        Self(std::fs::metadata(path).ok().map(id))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

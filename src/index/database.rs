//! The catalog's SQLite file, opened when it is first needed and rebuilt when it is damaged.
//!
//! If the file cannot be used or is not ours, it is left alone and the catalog is kept in memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::sys::{Sys, lock};

use super::ownership::{self, APPLICATION_ID, Claim, NotOurs};
use super::schema;

/// How long to wait for another process's lock. Its writes take milliseconds, and sessions wait.
const BUSY: Duration = Duration::from_millis(400);

/// The same while the file is compacted, which is worth a longer wait.
const BUSY_WHILE_COMPACTING: Duration = Duration::from_secs(2);

/// How often one operation may find the database damaged before its file is abandoned: tables
/// missing, then damage, then damage that another process repaired at the same time.
const REPAIRS: usize = 3;

/// A database that is always available: it falls back to memory.
pub(super) struct Database {
    /// Where SQLite finds the file; none if it is kept in memory from the beginning.
    path: Option<PathBuf>,
    sys: Sys,
    state: Mutex<State>,
    /// Whether it is in memory. Kept outside `state`, which is locked while SQLite works.
    private: AtomicBool,
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
    /// SQLite reported an error.
    #[error("cannot use the catalog")]
    Sql(#[from] rusqlite::Error),
    /// Another version of this program has replaced the tables.
    #[error("the catalog now has version {0}")]
    Version(i64),
    /// The file or its folder cannot be created.
    #[error("cannot create the catalog's file")]
    Create(#[source] std::io::Error),
    /// The file is not the catalog's.
    #[error(transparent)]
    NotOurs(#[from] NotOurs),
    /// The database has tables, views or triggers that the catalog does not have.
    #[error("the catalog's file contains something that rejoin did not create")]
    Strange,
    /// A copy of a damaged file could not be made.
    #[error("cannot copy the damaged file of the catalog")]
    SetAside(#[source] std::io::Error),
    /// A change was abandoned, since the database did not respond in time.
    #[error("the catalog did not respond in time")]
    Late,
    /// The file still holds deleted text, since it cannot be written or other processes are reading
    /// it.
    #[error(
        "the catalog's file cannot be compacted: another process is using it, or it is not ours"
    )]
    Unavailable,
    /// It was emptied repeatedly while it was read.
    #[error("the catalog was reset repeatedly while it was being read")]
    Contended,
}

type Result<T> = std::result::Result<T, DatabaseError>;

impl Database {
    /// A database in the file at `path`, or in memory. Does no I/O yet.
    pub(super) fn new(path: Option<PathBuf>, sys: Sys) -> Self {
        Self {
            path,
            sys,
            state: Mutex::new(State::Closed),
            private: AtomicBool::new(false),
        }
    }

    /// Runs `op` on a consistent view. Runs it again if the database had to be replaced by an empty
    /// one, which another process may also do at any time.
    pub(super) fn read<T>(
        &self,
        op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.run(TransactionBehavior::Deferred, op)
    }

    /// Runs `op` as one transaction. It may run again, as with [`read`](Self::read).
    pub(super) fn write<T>(
        &self,
        op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.run(TransactionBehavior::Immediate, op)
    }

    /// Rewrites the file from the contents of its tables, so that nothing deleted remains in it or
    /// in the files beside it. Fails if another process keeps using it.
    pub(super) fn compact(&self) -> Result<()> {
        let mut state = self.lock();
        self.open(&mut state)?;
        let State::File(connection, _) = &mut *state else {
            return match &self.path {
                Some(path) if self.sys.disk.info(path).is_ok_and(|file| file.len > 0) => {
                    Err(DatabaseError::Unavailable)
                }
                _ => Ok(()),
            };
        };
        connection.busy_timeout(BUSY_WHILE_COMPACTING)?;
        let done = schema::compact(connection);
        connection.busy_timeout(BUSY)?;
        if done? {
            let removed = match &self.path {
                Some(path) => ownership::remove_set_aside(&*self.sys.disk, path),
                None => Ok(()),
            };
            removed.map_err(DatabaseError::SetAside)
        } else {
            Err(DatabaseError::Unavailable)
        }
    }

    /// Moves changes from the write-ahead log to the database and truncates the log, if no
    /// connection is reading.
    pub(super) fn empty_wal(&self) -> Result<()> {
        match &*self.lock() {
            State::File(connection, _) => Ok(schema::empty_wal(connection).map(|_| ())?),
            State::Closed | State::Memory(_) => Ok(()),
        }
    }

    /// Whether the catalog is in memory, where no other process sees it.
    pub(super) fn is_private(&self) -> bool {
        self.private.load(Ordering::Relaxed)
    }

    /// Leaves the file to other processes and continues in memory, empty, for the life of this
    /// process.
    pub(super) fn abandon_file(&self) -> Result<()> {
        self.go_private(&mut self.lock())
    }

    fn run<T>(
        &self,
        behavior: TransactionBehavior,
        mut op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let mut repairs = 0;
        loop {
            self.open(&mut state)?;
            let unusable = match &mut *state {
                // `open` does not leave it closed.
                State::Closed => continue,
                State::Memory(connection) => return attempt(connection, behavior, &mut op),
                State::File(connection, _) => match attempt(connection, behavior, &mut op) {
                    Err(error) if error.is_damage() && repairs < REPAIRS => {
                        repairs += 1;
                        self.warn_damaged(&error);
                        self.repair(connection, &error).err()
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
        let path = match (&*state, &self.path) {
            (State::Memory(_), _) => return Ok(()),
            (_, None) => return self.go_private(state),
            (State::File(_, identity), Some(path)) if *identity == Identity::of(path) => {
                return Ok(());
            }
            // Closed, or the file was deleted: no other process would see what is written to it.
            (_, Some(path)) => path,
        };
        *state = State::Closed;
        match self.open_file(path) {
            Ok((connection, identity)) => *state = State::File(connection, identity),
            // The next operation tries again.
            Err(error) if error.is_busy() => return Err(error),
            Err(error) => {
                self.warn_unusable(&error);
                self.go_private(state)?;
            }
        }
        Ok(())
    }

    fn open_file(&self, path: &Path) -> Result<(Connection, Identity)> {
        if let Some(folder) = path.parent() {
            let made = self.sys.disk.create_dir_all(folder);
            made.map_err(DatabaseError::Create)?;
        }
        let claim = ownership::claim(&*self.sys.disk, path)?;
        // SQLite would use the mode of the process's umask. It gives the files beside the database
        // the database's mode.
        match self.sys.disk.create_new(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(DatabaseError::Create(error));
            }
            _ => {}
        }
        // Before opening: if the file is replaced in between, the next operation notices.
        let identity = Identity::of(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(32);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // Otherwise a statement that a partial index may serve is compiled again for each new value.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if claim == Claim::Unmarked {
            match schema::is_unmarked_catalog(&connection).map_err(DatabaseError::from) {
                Ok(true) => {}
                Err(error) if !error.is_damage() => return Err(error),
                Ok(false) | Err(_) => return Err(NotOurs::Foreign(path.to_owned()).into()),
            }
        }
        if let Err(error) = self.prepare(&mut connection, claim) {
            if !error.is_damage() {
                return Err(error);
            }
            self.warn_damaged(&error);
            self.replace(&mut connection)?;
            self.prepare(&mut connection, Claim::Ours)?;
        }
        Ok((connection, identity))
    }

    fn prepare(&self, connection: &mut Connection, claim: Claim) -> Result<()> {
        if claim == Claim::New {
            // Before anything else, so that no database of ours is without the mark.
            connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        }
        // Deleted data is overwritten, so that words of deleted sessions do not remain in the file.
        connection.pragma_update(None, "secure_delete", true)?;
        // In KiB. The words of a search are looked up several times.
        connection.pragma_update(None, "cache_size", -8192)?;
        // With a write-ahead log this syncs only at a checkpoint. A power cut can lose the last
        // changes, but it does not mix old pages with new ones, which SQLite might not notice.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        match mode {
            // Another process is making the same change. The database works without a write-ahead
            // log, too.
            Err(error) if is_busy(&error) => {}
            other => other?,
        }
        self.ensure(connection)
    }

    fn ensure(&self, connection: &mut Connection) -> Result<()> {
        if schema::ensure(connection, &self.sys)? {
            Ok(())
        } else {
            Err(DatabaseError::Strange)
        }
    }

    /// Makes the database usable again after `error`.
    fn repair(&self, connection: &mut Connection, error: &DatabaseError) -> Result<()> {
        let tables_missing = match error {
            DatabaseError::Version(_) => true,
            DatabaseError::Sql(error) => error.sqlite_error_code() == Some(ErrorCode::Unknown),
            _ => false,
        };
        // Another process may be between emptying the file and making the tables.
        if tables_missing && self.ensure(connection).is_ok() {
            return Ok(());
        }
        self.replace(connection)
    }

    /// Replaces a damaged catalog by an empty one and keeps a copy. Fails if the file is not ours:
    /// another program may have overwritten it.
    fn replace(&self, connection: &mut Connection) -> Result<()> {
        if let Some(path) = &self.path {
            let disk = &*self.sys.disk;
            ownership::claim(disk, path)?;
            let copy = ownership::set_aside(disk, path).map_err(DatabaseError::SetAside)?;
            tracing::warn!(?copy, "kept a copy of the damaged catalog");
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
        self.private.store(true, Ordering::Relaxed);
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

    /// Whether the file's content is at fault, so that an empty catalog can replace it.
    fn is_damage(&self) -> bool {
        match self {
            // Emptied by another process. If another version of this program made the tables, the
            // two versions would only keep emptying each other's.
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
            // A value that we never write, or no row where there must be one.
            Self::Sql(_) | Self::Strange => true,
            _ => false,
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
        // On other systems an open file cannot be deleted.
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

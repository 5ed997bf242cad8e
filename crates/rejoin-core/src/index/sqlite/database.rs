//! The catalog's SQLite file, opened when it is first needed and rebuilt when it is damaged.
//!
//! If the file cannot be used or is not ours, it is left alone and the catalog is kept in memory.
//!
//! SQLite has timeouts that cannot be set: if a lock fails in a way that it does not expect, it retries
//! for ten seconds. So a thread of its own opens the file, and nobody waits long for an operation of
//! another thread: meanwhile, a catalog in memory answers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::sys::descriptors::are_exhausted;
use crate::sys::{Sys, lock};

use super::ownership::{self, APPLICATION_ID, FileOwnership, NotOurs};
use super::schema;

/// How long to wait for another process's lock. Its writes take milliseconds, and sessions wait.
const BUSY: Duration = Duration::from_millis(400);

/// The wait for another process's lock while the file is compacted, which is worth a longer wait.
const BUSY_WHILE_COMPACTING: Duration = Duration::from_secs(2);

/// How often one operation may find the database damaged before its file is abandoned: tables
/// missing, then damage, then damage that another process repaired at the same time.
const REPAIRS: usize = 3;

/// How long an operation waits for another one of this process, or for the file to be opened.
const WAITS: Duration = Duration::from_millis(500);

/// The wait for the file while it is compacted.
const WAITS_WHILE_COMPACTING: Duration = Duration::from_secs(30);

/// How long the file is left alone after it has kept an operation waiting: twice as long each time that this
/// happens soon again.
const AVOIDED: Duration = Duration::from_secs(2);
const MOST_AVOIDED: Duration = Duration::from_mins(5);
/// How long after a file was avoided the next avoidance counts as a repetition, which takes longer.
const SOON: Duration = Duration::from_mins(1);

/// A database that is always available: it falls back to memory.
pub(in crate::index) struct CatalogDatabase {
    /// None if it is kept in memory from the beginning.
    file: Option<Arc<DatabaseFile>>,
    sys: Sys,
    slot: Arc<Slot>,
    /// The catalog in memory that is used while the file does not respond.
    meanwhile: Mutex<Option<Connection>>,
    avoidance: Mutex<Option<Avoidance>>,
    /// Whether the database in use is in memory, for good or not.
    private: AtomicBool,
    /// How often it changed between the file and memory.
    switches: AtomicU64,
}

/// The last time for which the file is left alone.
#[derive(Clone, Copy)]
struct Avoidance {
    until: Instant,
    time: Duration,
}

impl Avoidance {
    /// The one that begins now.
    fn after(last: Option<Self>) -> Self {
        let time = match last {
            Some(last) if last.until.elapsed() < SOON => MOST_AVOIDED.min(2 * last.time),
            _ => AVOIDED,
        };
        let until = Instant::now() + time;
        Self { until, time }
    }
}

/// Where SQLite finds the file.
struct DatabaseFile {
    path: PathBuf,
    sys: Sys,
    /// The action of a test before the file is opened.
    #[cfg(test)]
    before_opening: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// The connection, while no operation has it.
#[derive(Default)]
struct Slot {
    state: Mutex<SlotState>,
    /// Notified when the state changes.
    changed: Condvar,
    is_compacting: AtomicBool,
}

#[derive(Default)]
enum SlotState {
    #[default]
    Closed,
    /// A thread opens the file.
    Opening,
    /// The file could not be opened; the next operation tries again.
    Refused(DatabaseError),
    /// An operation has the connection.
    Taken,
    File(Connection, Identity),
    Memory(Connection),
}

/// The connection of an operation, which is given back when this is dropped.
struct Taken<'a> {
    state: SlotState,
    slot: &'a Slot,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.slot.put(std::mem::take(&mut self.state));
    }
}

impl Slot {
    fn put(&self, state: SlotState) {
        *lock(&self.state) = state;
        self.changed.notify_all();
    }
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
    /// The file was emptied repeatedly while it was read.
    #[error("the catalog was reset repeatedly while it was being read")]
    Contended,
}

type Result<T> = std::result::Result<T, DatabaseError>;

impl CatalogDatabase {
    /// A database in the file at `path`, or in memory. Does no I/O yet.
    pub(in crate::index) fn new(path: Option<PathBuf>, sys: Sys) -> Self {
        let file = path.map(|path| {
            Arc::new(DatabaseFile {
                path,
                sys: sys.clone(),
                #[cfg(test)]
                before_opening: Mutex::default(),
            })
        });
        Self {
            file,
            sys,
            slot: Arc::default(),
            meanwhile: Mutex::default(),
            avoidance: Mutex::default(),
            private: AtomicBool::new(false),
            switches: AtomicU64::new(0),
        }
    }

    /// The file's path, unless the database is in memory from the beginning.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_deref().map(|file| file.path.as_path())
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
    pub(in crate::index) fn write<T>(
        &self,
        op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.run(TransactionBehavior::Immediate, op)
    }

    /// Writes what is of no use in a catalog that other processes do not see: waits for the file for as
    /// long as it takes.
    pub(super) fn write_file<T>(
        &self,
        op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let taken = self.take(None)?.ok_or(DatabaseError::Late)?;
        self.run_on(taken, TransactionBehavior::Immediate, op)
    }

    /// Rewrites the file from the contents of its tables, so that nothing deleted remains in it or
    /// in the files beside it. Fails if another process keeps using it.
    pub(super) fn compact(&self) -> Result<()> {
        let mut taken = self.take(None)?.ok_or(DatabaseError::Late)?;
        let SlotState::File(connection, _) = &mut taken.state else {
            return match &self.file {
                Some(file)
                    if file
                        .sys
                        .disk
                        .info(&file.path)
                        .is_ok_and(|info| info.len > 0) =>
                {
                    Err(DatabaseError::Unavailable)
                }
                _ => Ok(()),
            };
        };
        connection.busy_timeout(BUSY_WHILE_COMPACTING)?;
        self.slot.is_compacting.store(true, Ordering::Relaxed);
        let done = schema::compact(connection);
        self.slot.is_compacting.store(false, Ordering::Relaxed);
        connection.busy_timeout(BUSY)?;
        if done? {
            let removed = match &self.file {
                Some(file) => ownership::remove_set_aside(&*file.sys.disk, &file.path),
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
        match &self.take(Some(WAITS))? {
            Some(Taken {
                state: SlotState::File(connection, _),
                ..
            }) => Ok(schema::empty_wal(connection).map(|_| ())?),
            _ => Ok(()),
        }
    }

    /// Whether the catalog is in memory, where no other process sees it.
    pub(in crate::index) fn is_private(&self) -> bool {
        self.private.load(Ordering::Relaxed)
    }

    /// How often the catalog changed between the file and memory: what was read before such a change does
    /// not fit what is read after it.
    pub(super) fn switches(&self) -> u64 {
        self.switches.load(Ordering::Relaxed)
    }

    /// Leaves the file to other processes and continues in memory, empty, for the life of this
    /// process.
    pub(super) fn abandon_file(&self) -> Result<()> {
        let mut taken = self.take(None)?.ok_or(DatabaseError::Late)?;
        taken.state = SlotState::Memory(in_memory(&self.sys)?);
        self.set_private(true);
        Ok(())
    }

    fn run<T>(
        &self,
        behavior: TransactionBehavior,
        mut op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let avoidance = *lock(&self.avoidance);
        let is_avoided = avoidance.is_some_and(|last| Instant::now() < last.until);
        if !is_avoided {
            let taken = self.take(Some(WAITS))?;
            let done = taken.map(|taken| self.run_on(taken, behavior, &mut op));
            let is_late = |done: &Result<T>| done.as_ref().is_err_and(DatabaseError::is_busy);
            if done.as_ref().is_none_or(is_late) {
                // Operations that follow do not wait as long again.
                *lock(&self.avoidance) = Some(Avoidance::after(avoidance));
            }
            if let Some(done) = done {
                return done;
            }
        }
        let mut meanwhile = lock(&self.meanwhile);
        let connection = match &mut *meanwhile {
            Some(connection) => connection,
            none => {
                tracing::debug!(
                    "the catalog's file does not respond: using one in memory meanwhile"
                );
                none.insert(in_memory(&self.sys)?)
            }
        };
        self.set_private(true);
        attempt(connection, behavior, &mut op)
    }

    fn run_on<T>(
        &self,
        mut taken: Taken<'_>,
        behavior: TransactionBehavior,
        mut op: impl FnMut(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut repairs = 0;
        loop {
            let is_private = matches!(taken.state, SlotState::Memory(_));
            self.set_private(is_private);
            // The database that was used meanwhile is kept for as long as it may be needed again.
            let is_needed = lock(&self.avoidance).is_some_and(|last| last.until.elapsed() < SOON);
            if !is_needed && let Ok(mut meanwhile) = self.meanwhile.try_lock() {
                meanwhile.take();
            }
            let unusable = match &mut taken.state {
                SlotState::Memory(connection) => return attempt(connection, behavior, &mut op),
                SlotState::File(connection, _) => match attempt(connection, behavior, &mut op) {
                    Err(error) if error.is_damage() && repairs < REPAIRS => {
                        repairs += 1;
                        let file = self.file.as_ref();
                        file.and_then(|file| {
                            file.warn_damaged(&error);
                            file.repair(connection, &error).err()
                        })
                    }
                    Err(error) if !(error.is_busy() || are_exhausted()) => Some(error),
                    done => return done,
                },
                // What was taken is one of these.
                _ => return Err(DatabaseError::Late),
            };
            if let Some(error) = unusable {
                if let Some(file) = &self.file {
                    file.warn_unusable(&error);
                }
                taken.state = SlotState::Memory(in_memory(&self.sys)?);
            }
        }
    }

    fn set_private(&self, is_private: bool) {
        if self.private.swap(is_private, Ordering::Relaxed) != is_private {
            self.switches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the connection to the file, which is opened if it is not, or is another one by now; or that
    /// to memory, if the file cannot be used. `None` if neither is there for so long.
    fn take(&self, patience: Option<Duration>) -> Result<Option<Taken<'_>>> {
        let mut state = lock(&self.slot.state);
        let mut since = Instant::now();
        loop {
            match std::mem::replace(&mut *state, SlotState::Taken) {
                SlotState::File(connection, identity) => {
                    if self.file.as_ref().map(|file| Identity::of(&file.path)) == Some(identity) {
                        let state = SlotState::File(connection, identity);
                        let slot = &self.slot;
                        return Ok(Some(Taken { state, slot }));
                    }
                    // The file was deleted: no other process would see what is written to it.
                    *state = SlotState::Closed;
                }
                SlotState::Memory(connection) => {
                    let state = SlotState::Memory(connection);
                    let slot = &self.slot;
                    return Ok(Some(Taken { state, slot }));
                }
                SlotState::Refused(error) => {
                    *state = SlotState::Closed;
                    return Err(error);
                }
                SlotState::Closed => *state = self.open()?,
                busy @ (SlotState::Opening | SlotState::Taken) => {
                    *state = busy;
                    let patience = patience.map(|patience| {
                        let is_compacting = self.slot.is_compacting.load(Ordering::Relaxed);
                        if is_compacting {
                            WAITS_WHILE_COMPACTING
                        } else {
                            patience
                        }
                    });
                    let left = patience.map(|patience| patience.saturating_sub(since.elapsed()));
                    if left == Some(Duration::ZERO) {
                        return Ok(None);
                    }
                    let left = left.unwrap_or(WAITS_WHILE_COMPACTING);
                    let waited = self.slot.changed.wait_timeout(state, left);
                    let (locked, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    state = locked;
                    if !timeout.timed_out() {
                        // Another operation has ended, so none hangs.
                        since = Instant::now();
                    }
                }
            }
        }
    }

    /// Has a thread open the file.
    fn open(&self) -> Result<SlotState> {
        let Some(file) = self.file.clone() else {
            return Ok(SlotState::Memory(in_memory(&self.sys)?));
        };
        let slot = Arc::clone(&self.slot);
        let thread = thread::Builder::new().name("catalog-open".to_owned());
        let opened = thread.spawn(move || slot.put(file.open()));
        match opened {
            Ok(_) => Ok(SlotState::Opening),
            Err(error) => Err(DatabaseError::Create(error)),
        }
    }

    /// Does something before the file is opened the next time.
    #[cfg(test)]
    pub(in crate::index) fn before_opening(&self, event: impl FnOnce() + Send + 'static) {
        let file = self.file.as_ref().expect("it has a file");
        *lock(&file.before_opening) = Some(Box::new(event));
    }
}

/// An empty catalog in memory.
fn in_memory(sys: &Sys) -> Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    schema::ensure(&mut connection, sys)?;
    Ok(connection)
}

impl DatabaseFile {
    /// The open file, or a catalog in memory if it cannot be used.
    fn open(&self) -> SlotState {
        #[cfg(test)]
        if let Some(event) = lock(&self.before_opening).take() {
            event();
        }
        let opened = match self.open_file(&self.path) {
            Ok((connection, identity)) => return SlotState::File(connection, identity),
            Err(error) if error.is_busy() || are_exhausted() => Err(error),
            Err(error) => {
                self.warn_unusable(&error);
                in_memory(&self.sys).map(SlotState::Memory)
            }
        };
        opened.unwrap_or_else(SlotState::Refused)
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
        if claim == FileOwnership::Unmarked {
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
            self.prepare(&mut connection, FileOwnership::Ours)?;
        }
        Ok((connection, identity))
    }

    fn prepare(&self, connection: &mut Connection, claim: FileOwnership) -> Result<()> {
        if claim == FileOwnership::New {
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
        let disk = &*self.sys.disk;
        ownership::claim(disk, &self.path)?;
        let copy = ownership::set_aside(disk, &self.path).map_err(DatabaseError::SetAside)?;
        tracing::warn!(?copy, "kept a copy of the damaged catalog");
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

impl fmt::Debug for CatalogDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogDatabase")
            .field("path", &self.file.as_ref().map(|file| &file.path))
            .finish_non_exhaustive()
    }
}

//! The store: a folder of sessions, and what can be done with them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::record::{Header, Kind};
use crate::sys::file_system::Special;
use crate::sys::{SessionId, Sys, Timestamp, Watch, folders};

use super::context::StoreContext;
use super::files::Files;
use super::header;
use super::log::Log;
#[cfg(feature = "store-postgres")]
use super::medium::place;
use super::medium::{Durability, Holder, StoreError, Sync, Trashed};
#[cfg(feature = "store-postgres")]
use super::postgres::{self, Postgres};
use super::reader::{LogReader, PositionedRecord};
use super::recover::{OpenedLog, recover};

/// The sessions of a folder or a database. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) context: Arc<StoreContext>,
}

impl Store {
    /// Opens the store at `root`. Creates it if it does not exist, accessible only to its owner.
    pub fn open(root: &Path, sys: Sys, durability: Durability) -> Result<Self, StoreError> {
        let store = Self::at(root, sys, durability);
        store.prepare()?;
        Ok(store)
    }

    /// The store at `root`, which need not exist: creating a session creates it.
    pub fn at(root: &Path, sys: Sys, durability: Durability) -> Self {
        #[cfg(feature = "store-postgres")]
        if place::is_address(root) {
            return Self::in_database(root, sys, durability);
        }
        let medium = Box::new(Files::new(root, sys.clone(), durability));
        Self {
            context: Arc::new(StoreContext {
                medium,
                root: root.to_owned(),
                catalog: catalog_of(root, &sys),
                #[cfg(feature = "store-postgres")]
                database: None,
                takes_over: OnceLock::new(),
                sys,
                durability,
                socket: OnceLock::new(),
            }),
        }
    }

    #[cfg(feature = "store-postgres")]
    fn in_database(address: &Path, sys: Sys, durability: Durability) -> Self {
        let medium = Postgres::new(address, &sys, durability);
        Self {
            context: Arc::new(StoreContext {
                root: place::shown(address).into(),
                catalog: None,
                database: medium.database(),
                medium: Box::new(medium),
                takes_over: OnceLock::new(),
                sys,
                durability,
                socket: OnceLock::new(),
            }),
        }
    }

    /// From now on, sessions that are opened are taken over from processes that have them open.
    pub fn take_over_all(&self) {
        self.context.takes_over.get_or_init(|| ());
    }

    /// Makes the tables of a store in a database, or brings them up to date; false if there was
    /// nothing to do. A folder is created if it does not exist.
    pub fn migrate(root: &Path, sys: &Sys) -> Result<bool, StoreError> {
        #[cfg(feature = "store-postgres")]
        if place::is_address(root) {
            return postgres::migrate(root);
        }
        let store = Self::at(root, sys.clone(), Durability::default());
        let is_new = !store.is_there()?;
        store.prepare()?;
        Ok(is_new)
    }

    /// Lets a role of the database use the tables of a store, as far as `rights` say.
    #[cfg(feature = "store-postgres")]
    pub fn grant(address: &Path, role: &str, rights: postgres::Rights) -> Result<(), StoreError> {
        postgres::grant(address, role, rights)
    }

    /// The variables of the environment that lead to a store in a database, with the passwords; none
    /// for a folder.
    pub fn variables(root: &Path) -> Vec<String> {
        #[cfg(feature = "store-postgres")]
        if place::is_address(root) {
            return postgres::variables(root);
        }
        tracing::trace!(store = %root.display(), "nothing leads to a folder");
        Vec::new()
    }

    /// From now on, other processes that need a session which is open here learn that this client
    /// has it.
    pub fn serves(&self, client: &str) {
        self.context.medium.serves(client);
    }

    /// Makes sure that sessions can be created, in folders that may have to be created first.
    pub fn prepare(&self) -> Result<(), StoreError> {
        self.context.medium.prepare()
    }

    /// Whether there is a store at `root`. Creates nothing.
    pub fn is_at(root: &Path, sys: &Sys) -> Result<bool, StoreError> {
        Self::at(root, sys.clone(), Durability::default()).is_there()
    }

    /// Whether the store exists. Creates nothing.
    pub fn is_there(&self) -> Result<bool, StoreError> {
        self.context.medium.is_there()
    }

    /// Where it is: its folder, or its address without a password.
    pub fn root(&self) -> &Path {
        &self.context.root
    }

    /// Where the file of its catalog is; none if there is no place for one.
    pub fn catalog(&self) -> Option<&Path> {
        self.context.catalog.as_deref()
    }

    /// The machine it is on.
    pub fn sys(&self) -> &Sys {
        &self.context.sys
    }

    /// Creates a session. Its header is record 0, and is synced with the file's name unless the
    /// durability is [`Durability::Os`].
    pub fn create(&self, id: &SessionId, header: &Header) -> Result<Log, StoreError> {
        self.create_with(id, header, std::iter::empty())
    }

    /// Creates a session, with records after its header. The session is created with all of them or
    /// not at all, and synced as by [`create`](Self::create).
    pub fn create_with<'a>(
        &self,
        id: &SessionId,
        header: &Header,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)>,
    ) -> Result<Log, StoreError> {
        let made = self.make(id, header, |log, payload| {
            let first = std::iter::once((Kind::Session, None, payload));
            #[expect(clippy::map_identity, reason = "shortens the lifetime to the header's")]
            let records = records.map(|(kind, id, payload)| (kind, id, payload));
            log.append_all(first.chain(records), Sync::Buffered)
        });
        made.map(|(log, _)| log)
    }

    /// Creates a session, which began at `created_at`, from records with times of their own. A
    /// record of the current time follows, since the session would otherwise expire as if it were
    /// not used now.
    pub fn create_dated<'a>(
        &self,
        id: &SessionId,
        header: &Header,
        created_at: Timestamp,
        records: impl Iterator<Item = (Timestamp, Kind, Option<&'a str>, &'a str)>,
    ) -> Result<Log, StoreError> {
        let made = self.make(id, header, |log, payload| {
            let head = std::iter::once((created_at, Kind::Session, None, payload));
            #[expect(clippy::map_identity, reason = "shortens the lifetime to the header's")]
            let records = records.map(|(at, kind, id, payload)| (at, kind, id, payload));
            log.append_dated(head.chain(records), Sync::Buffered)
        });
        made.map(|(log, ())| log)
    }

    /// Creates a session from what `fill` writes into its log, beginning with the payload of the
    /// header that it is given. The session is created with all of it or not at all.
    pub(super) fn make<T, E: From<StoreError>>(
        &self,
        id: &SessionId,
        header: &Header,
        fill: impl FnOnce(&mut Log, &str) -> Result<T, E>,
    ) -> Result<(Log, T), E> {
        let payload = self.header_for(id, header)?;
        let owned = self.context.medium.draft(id)?;
        let mut log = Log::new(self.context.clone(), id.clone(), owned);
        let filled = fill(&mut log, &payload)?;
        log.publish()?;
        Ok((log, filled))
    }

    /// The payload of the header of a session that does not exist yet.
    fn header_for(&self, id: &SessionId, header: &Header) -> Result<String, StoreError> {
        header::fits(header, id)?;
        self.prepare()?;
        let payload = serde_json::to_string(header).map_err(io::Error::from);
        let payload = payload.map_err(StoreError::disk(
            "write the header of",
            Path::new(id.as_str()),
        ))?;
        if self.exists(id)? {
            return Err(StoreError::Exists { id: id.clone() });
        }
        Ok(payload)
    }

    /// Opens a session for writing: locks its log, truncates a torn end, which is kept aside, and
    /// closes a turn that a crash left open.
    pub fn open_log(&self, id: &SessionId) -> Result<OpenedLog, StoreError> {
        self.open_log_with(id, &mut |_| {})
    }

    /// Opens a session for writing like [`open_log`](Self::open_log), and calls `visit` with each
    /// record before anything is written, which saves the caller from reading the log a second
    /// time.
    pub fn open_log_with(
        &self,
        id: &SessionId,
        visit: &mut dyn FnMut(&PositionedRecord<'_>),
    ) -> Result<OpenedLog, StoreError> {
        let by_force = self.context.takes_over.get().is_some();
        let owned = self.context.medium.claim(id, by_force)?;
        recover(&self.context, id, owned, visit)
    }

    /// Opens a session for writing like [`open_log_with`](Self::open_log_with), even if another
    /// process has it open: in a database that process can write nothing more. Files cannot be
    /// taken from a process.
    pub fn take_over_with(
        &self,
        id: &SessionId,
        visit: &mut dyn FnMut(&PositionedRecord<'_>),
    ) -> Result<OpenedLog, StoreError> {
        let owned = self.context.medium.claim(id, true)?;
        recover(&self.context, id, owned, visit)
    }

    /// Opens a session for reading, with what its rewinds have undone: every record of its log.
    pub fn read_all(&self, id: &SessionId) -> Result<LogReader, StoreError> {
        LogReader::of_all(id, self.context.medium.open(id)?)
    }

    /// Opens a session for reading, as its conversation is now.
    pub fn read(&self, id: &SessionId) -> Result<LogReader, StoreError> {
        LogReader::of(id, self.context.medium.open(id)?)
    }

    /// Whether the session has a log; an error if that cannot be determined.
    pub fn exists(&self, id: &SessionId) -> Result<bool, StoreError> {
        match self.context.medium.info(id)? {
            Some(info) => Ok(info.is_log),
            None => match self.context.medium.absent(id) {
                StoreError::NotFound { .. } => Ok(false),
                error => Err(error),
            },
        }
    }

    /// The ids of all sessions, oldest first.
    pub fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        self.context.medium.ids()
    }

    /// The length of a session's log in bytes, without opening it; none if it does not exist.
    pub fn len_of(&self, id: &SessionId) -> Result<Option<u64>, StoreError> {
        Ok(self.context.medium.info(id)?.map(|info| info.len))
    }

    /// When a session's log was last written to; none if it does not exist.
    pub fn changed_at(&self, id: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.context.medium.info(id)?.map(|info| info.changed_at))
    }

    /// Calls `changed` with each session whose log changes, in any process, until the result is
    /// dropped; with none if some changes may have been missed. The calls come from another thread.
    pub fn watch(
        &self,
        changed: impl Fn(Option<SessionId>) + Send + 'static,
    ) -> Result<Watch, StoreError> {
        self.context.medium.watch(None, Box::new(changed))
    }

    /// Watches the sessions that `wanted` returns, each time that it is called; others may be reported,
    /// too.
    pub fn watch_some(
        &self,
        wanted: impl Fn() -> Vec<SessionId> + Send + 'static,
        changed: impl Fn(Option<SessionId>) + Send + 'static,
    ) -> Result<Watch, StoreError> {
        let wanted = Some(Box::new(wanted) as _);
        self.context.medium.watch(wanted, Box::new(changed))
    }

    /// Whether reading and writing wait for another machine.
    pub fn waits(&self) -> bool {
        self.context.medium.waits()
    }

    /// Calls `taken` from another thread with each session that another process has taken over from
    /// this one, some time later and perhaps several times. Returns false if none can be.
    pub fn on_taken_over(
        &self,
        taken: impl Fn(&SessionId) + Send + std::marker::Sync + 'static,
    ) -> bool {
        self.context.medium.on_taken_over(Box::new(taken))
    }

    /// When a session was last added, removed or renamed, as precise as the medium has it.
    pub fn folder_changed(&self) -> Result<Timestamp, StoreError> {
        self.context.medium.names_changed()
    }

    /// Lets other processes know that this one is about to release its sessions, so that they wait.
    pub fn ending(&self) {
        self.context.medium.ending();
    }

    /// Whether a process has this session open for writing.
    pub fn is_open(&self, id: &SessionId) -> bool {
        self.context.medium.is_open(id)
    }

    /// The process that has this session open for writing, if it is known.
    pub fn holder(&self, id: &SessionId) -> Option<Holder> {
        self.context.medium.holder(id)
    }

    /// Whether another process that has a session open is about to release it.
    pub fn is_being_released(&self, id: &SessionId) -> bool {
        self.context.medium.is_being_released(id)
    }

    /// Opens a session in the trash for reading.
    pub fn read_trashed(&self, trashed: &Trashed) -> Result<LogReader, StoreError> {
        LogReader::of(&trashed.id, self.context.medium.open_trashed(trashed)?)
    }
}

/// The file of the catalog of a store in a folder: in it, or on a disk of this machine if the folder is
/// on another one, where a database does not work. None if there is no such disk.
fn catalog_of(root: &Path, sys: &Sys) -> Option<PathBuf> {
    const NAME: &str = "index.sqlite";
    let is_elsewhere = |path: &Path| sys.disk.special(path).is_some_and(Special::is_remote);
    if !is_elsewhere(root) {
        return Some(root.join(NAME));
    }
    let key = md5::compute(root.as_os_str().as_encoded_bytes());
    let folder = folders::cache()?.join("stores").join(format!("{key:x}"));
    (!is_elsewhere(&folder)).then(|| folder.join(NAME))
}

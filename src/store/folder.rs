//! The folder of all sessions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record::{Header, Kind};
use crate::sys::{SessionId, Sys, Timestamp};

use super::base::StoreContext;
use super::cleaned::Cleaned;
use super::durability::{Durability, Sync};
use super::erase;
use super::error::StoreError;
use super::header;
use super::layout::Layout;
use super::lock::{self, Lock};
use super::log::Log;
use super::reader::{Entry, Reader};
use super::recover::{self, Recovered};
use super::restore;
use super::scan::Scan;
use super::trash::{self, Trashed};

/// A folder of sessions. Clones are the same folder.
#[derive(Clone, Debug)]
pub struct Store {
    base: Arc<StoreContext>,
}

/// A session that was opened for writing.
#[derive(Debug)]
pub struct Opened {
    /// Its writer.
    pub log: Log,
    /// What is in it, with what recovery appended. `torn` and `damage` tell what was found.
    pub scan: Scan,
    /// Where recovery put the bytes that it cut off, if there were any.
    pub kept_aside: Option<PathBuf>,
}

/// A session's file that is being made: where it is, its header, its lock.
type Begun = (PathBuf, String, Result<Lock, StoreError>);

impl Store {
    /// Opens the store at `root`, which is made if need be, open to its owner only.
    pub fn open(root: &Path, sys: Sys, durability: Durability) -> Result<Self, StoreError> {
        let store = Self::at(root, sys, durability);
        store.prepare()?;
        Ok(store)
    }

    /// The store at `root`, which may not be there yet: making a session makes it.
    pub fn at(root: &Path, sys: Sys, durability: Durability) -> Self {
        Self {
            base: Arc::new(StoreContext::new(Layout::new(root), sys, durability)),
        }
    }

    /// From now on, others that want a session that is open here are told that this client has it.
    pub fn serves(&self, client: &str) {
        // The first one counts, as with `initialize`.
        self.base.client.set(client.to_owned()).ok();
    }

    /// Lets others know that this process is about to release its sessions: it is worth waiting
    /// for them.
    pub fn ending(&self) {
        lock::ending(&self.base);
    }

    /// Whether another process has a session open that is about to release it.
    pub fn is_being_released(&self, id: &SessionId) -> bool {
        lock::is_being_released(&self.base, id)
    }

    /// Makes what is missing of the store's folders.
    pub fn prepare(&self) -> Result<(), StoreError> {
        make_folders(&self.base.layout, &self.base.sys)
    }

    /// Whether there is a store at `root`. Makes nothing, other than [`open`](Self::open).
    pub fn is_at(root: &Path, sys: &Sys) -> Result<bool, StoreError> {
        let sessions = Layout::new(root).sessions;
        match sys.disk.info(&sessions) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::disk("look at", &sessions)(error)),
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.base.layout.root
    }

    /// Where its catalog is.
    pub fn catalog(&self) -> &Path {
        &self.base.layout.catalog
    }

    /// The machine it is on.
    pub fn sys(&self) -> &Sys {
        &self.base.sys
    }

    /// Makes a new session. Its header is record 0, and is synced together with the file's name
    /// unless the durability is [`Durability::Os`].
    pub fn create(&self, id: &SessionId, header: &Header) -> Result<Log, StoreError> {
        self.create_with(id, header, std::iter::empty())
    }

    /// The same, with records behind the header: all of them are in the session when it comes to
    /// be, or it does not.
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

    /// Makes a session of what `fill` writes into its log; it is given the header's payload for the
    /// first record. All of it is in the session when it comes to be, or it does not.
    pub(super) fn make<T, E: From<StoreError>>(
        &self,
        id: &SessionId,
        header: &Header,
        fill: impl FnOnce(&mut Log, &str) -> Result<T, E>,
    ) -> Result<(Log, T), E> {
        let (begun, payload, lock) = self.begin(id, header)?;
        let made = lock.map_err(E::from).and_then(|lock| {
            let mut log = Log::new(&self.base, id, lock);
            let filled = fill(&mut log, &payload)?;
            log.publish(&begun)?;
            Ok((log, filled))
        });
        if made.is_err() {
            self.base.discard(&begun);
        }
        made
    }

    /// A file that has no session's name yet, the header for it, and its lock.
    fn begin(&self, id: &SessionId, header: &Header) -> Result<Begun, StoreError> {
        header::fits(header, id)?;
        self.prepare()?;
        let base = &self.base;
        let path = base.layout.log(id);
        let payload = serde_json::to_string(header).map_err(io::Error::from);
        let payload = payload.map_err(StoreError::disk("write the header of", &path))?;
        if self.exists(id)? {
            return Err(StoreError::Exists { id: id.clone() });
        }
        // It is given its name when its header is in it: what has that name is never half a
        // session. Whoever dies before leaves something for the trash.
        let begun = base.layout.torn(id, 0, base.sys.clock.now(), 1);
        let file = base.sys.disk.create_new(&begun);
        let file = file.map_err(|error| match error.kind() {
            // Somebody else makes it at this very moment.
            io::ErrorKind::AlreadyExists => StoreError::Exists { id: id.clone() },
            _ => StoreError::disk("create", &begun)(error),
        })?;
        Ok((begun, payload, Lock::of_file(base, id, file)))
    }

    pub(super) fn base(&self) -> &Arc<StoreContext> {
        &self.base
    }

    /// Opens a session for writing: takes its lock, cuts off a torn end and keeps it aside, closes
    /// a turn that a crash left open.
    pub fn open_log(&self, id: &SessionId) -> Result<Opened, StoreError> {
        self.open_log_with(id, &mut |_| {})
    }

    /// The same, and each record that was there is shown to `visit` as it is read: before
    /// anything is written, and only if the session can be opened as far as its header tells. It
    /// saves whoever wants to see them a second reading.
    pub fn open_log_with(
        &self,
        id: &SessionId,
        visit: &mut dyn FnMut(&Entry<'_>),
    ) -> Result<Opened, StoreError> {
        let lock = Lock::take(&self.base, id)?;
        let Recovered {
            log,
            scan,
            kept_aside,
        } = recover::recover(&self.base, id, lock, visit)?;
        Ok(Opened {
            log,
            scan,
            kept_aside,
        })
    }

    /// Opens a session for reading.
    pub fn read(&self, id: &SessionId) -> Result<Reader, StoreError> {
        Reader::open(&self.base, id)
    }

    /// Whether there is a file of this session; an error if that cannot be told.
    pub fn exists(&self, id: &SessionId) -> Result<bool, StoreError> {
        let path = self.base.layout.log(id);
        match self.base.sys.disk.info(&path) {
            Ok(info) => Ok(!info.is_dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match self.base.absent(id) {
                StoreError::NotFound { .. } => Ok(false),
                error => Err(error),
            },
            Err(error) => Err(StoreError::disk("look at", &path)(error)),
        }
    }

    /// The ids of all sessions, oldest first. Other files are passed over.
    pub fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        let sessions = &self.base.layout.sessions;
        let names = self.base.sys.disk.list(sessions);
        let names = names.map_err(StoreError::disk("list", sessions))?;
        let mut ids: Vec<_> = names
            .iter()
            .filter_map(|name| Layout::session_of(name))
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// The length of a session's file in bytes, without opening it; nothing if there is none.
    pub fn len_of(&self, id: &SessionId) -> Result<Option<u64>, StoreError> {
        let path = self.base.layout.log(id);
        match self.base.sys.disk.info(&path) {
            Ok(info) => Ok(Some(info.len)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::disk("look at", &path)(error)),
        }
    }

    /// Moves a session to the trash; false if there is none. Refused while it is open for writing,
    /// where [`Log::trash`] does it.
    pub fn trash(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.trash_if(id, || true)
    }

    /// The same, if `wanted` still says so when the session is locked.
    pub fn trash_if(
        &self,
        id: &SessionId,
        wanted: impl FnOnce() -> bool,
    ) -> Result<bool, StoreError> {
        match Lock::take(&self.base, id) {
            Ok(lock) => Ok(wanted() && trash::bury(&self.base, id, &lock)?),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Brings a session back from the trash; the one deleted last if it is there more than once.
    pub fn restore(&self, id: &SessionId) -> Result<(), StoreError> {
        restore::restore(&self.base, id)
    }

    /// Brings one log in the trash back.
    pub fn restore_trashed(&self, trashed: &Trashed) -> Result<(), StoreError> {
        restore::restore_one(&self.base, trashed)
    }

    /// When the store was last cleaned up, if that is known.
    pub fn cleaned(&self) -> Option<Cleaned> {
        Cleaned::load(&self.base)
    }

    /// Notes that the store was cleaned up.
    pub fn set_cleaned(&self, cleaned: &Cleaned) -> Result<(), StoreError> {
        cleaned.save(&self.base)
    }

    /// When a session was last added, removed or renamed, as precise as the file system has it.
    pub fn folder_changed(&self) -> Result<Timestamp, StoreError> {
        let path = &self.base.layout.sessions;
        let info = self.base.sys.disk.info(path);
        Ok(info.map_err(StoreError::disk("look at", path))?.modified)
    }

    /// The sessions in the trash, by id and then by time.
    pub fn trashed(&self) -> Result<Vec<Trashed>, StoreError> {
        trash::list(&self.base)
    }

    /// Opens a session in the trash for reading.
    pub fn read_trashed(&self, trashed: &Trashed) -> Result<Reader, StoreError> {
        Reader::open_trashed(&self.base, trashed)
    }

    /// Removes for good what came into the trash more than `older_than` milliseconds ago: deleted
    /// sessions and torn ends. Returns how many files that were.
    pub fn empty_trash(&self, older_than: u64) -> Result<u64, StoreError> {
        let now = self.base.sys.clock.now().as_millis();
        let age = i64::try_from(older_than).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(now.saturating_sub(age));
        erase::empty_trash(&self.base, before)
    }

    /// The same for what came there before a time.
    pub fn empty_trash_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        erase::empty_trash(&self.base, before)
    }

    /// How many files that would be.
    pub fn count_trash_before(&self, before: Timestamp) -> Result<usize, StoreError> {
        erase::trash_before(&self.base, before).map(|files| files.len())
    }

    /// Whether any file in the store is of this session, in the trash or not.
    pub fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(!erase::files(&self.base, id)?.is_empty())
    }

    /// Removes a session for good: its log, its copies and torn ends in the trash; false if there is
    /// none of them. Refused while it is open for writing. The catalog's files are not touched.
    pub fn erase(&self, id: &SessionId) -> Result<bool, StoreError> {
        erase::erase(&self.base, id)
    }
}

/// Makes what is missing of the store's folders and syncs their names, whatever the durability:
/// it is done once. The folder that matters least comes last and stays unsynced, so that where it
/// is found the names of the others are known to be safe.
fn make_folders(layout: &Layout, sys: &Sys) -> Result<(), StoreError> {
    let disk = &sys.disk;
    let folders = [&layout.sessions, &layout.trash, &layout.open];
    let there = |folder: &PathBuf| disk.info(folder).is_ok_and(|info| info.is_dir);
    if folders.into_iter().all(there) {
        return Ok(());
    }
    for folder in [&layout.sessions, &layout.trash] {
        let made = disk.create_dir_all(folder);
        made.map_err(StoreError::disk("make the folder", folder))?;
    }
    for folder in layout.root.ancestors() {
        let here = folder.as_os_str().is_empty();
        let folder = if here { Path::new(".") } else { folder };
        match disk.sync_dir(folder) {
            // A folder above ours may be one that others own and let nobody look into.
            Err(error)
                if folder != layout.root && error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced.map_err(StoreError::disk("sync", folder))?,
        }
    }
    let made = disk.create_dir_all(&layout.open);
    made.map_err(StoreError::disk("make the folder", &layout.open))
}

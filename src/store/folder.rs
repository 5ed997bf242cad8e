//! The store: a folder of sessions, and what can be done with them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record::{Header, Kind};
use crate::sys::{SessionId, Sys, Timestamp, Watch};

use super::context::StoreContext;
use super::durability::{Durability, Sync};
use super::error::StoreError;
use super::header;
use super::layout::Layout;
use super::lock::Lock;
use super::log::Log;
use super::reader::{Entry, Reader};
use super::recover::{Opened, recover};
use super::trash::Trashed;

/// A folder of sessions. Clones share it.
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
        Self {
            context: Arc::new(StoreContext::new(Layout::new(root), sys, durability)),
        }
    }

    /// From now on, other processes that need a session which is open here learn that this client
    /// has it.
    pub fn serves(&self, client: &str) {
        // The first one counts, as with `initialize`.
        self.context.client.set(client.to_owned()).ok();
    }

    /// Creates missing folders of the store.
    pub fn prepare(&self) -> Result<(), StoreError> {
        make_folders(&self.context.layout, &self.context.sys)
    }

    /// Whether there is a store at `root`. Creates nothing.
    pub fn is_at(root: &Path, sys: &Sys) -> Result<bool, StoreError> {
        let sessions = Layout::new(root).sessions;
        let found = sys.disk.info_if_exists(&sessions);
        Ok(found
            .map_err(StoreError::disk("inspect", &sessions))?
            .is_some())
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.context.layout.root
    }

    /// Where its catalog is.
    pub fn catalog(&self) -> &Path {
        &self.context.layout.catalog
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

    /// The same, with records after the header. The session is created with all of them or not at
    /// all.
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

    /// The same for a session that was created at this time, from records with times of their own. A
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
        // It gets its name when it is complete, so that no incomplete session ever has one. After a
        // crash it is an old file in the trash.
        let context = &self.context;
        let path = context.layout.torn(id, 0, context.sys.clock.now(), 1);
        let file = context.sys.disk.create_new(&path);
        let file = file.map_err(|error| match error.kind() {
            // Another process is creating it.
            io::ErrorKind::AlreadyExists => StoreError::Exists { id: id.clone() },
            _ => StoreError::disk("create", &path)(error),
        })?;
        let lock = Lock::of_file(context, id, file);
        let made = lock.map_err(E::from).and_then(|lock| {
            let mut log = Log::new(lock);
            let filled = fill(&mut log, &payload)?;
            log.publish(&path)?;
            Ok((log, filled))
        });
        if made.is_err() {
            context.discard(&path);
        }
        made
    }

    /// The payload of the header of a session that does not exist yet.
    fn header_for(&self, id: &SessionId, header: &Header) -> Result<String, StoreError> {
        header::fits(header, id)?;
        self.prepare()?;
        let payload = serde_json::to_string(header).map_err(io::Error::from);
        let path = self.context.layout.log(id);
        let payload = payload.map_err(StoreError::disk("write the header of", &path))?;
        if self.exists(id)? {
            return Err(StoreError::Exists { id: id.clone() });
        }
        Ok(payload)
    }

    /// Opens a session for writing: locks its log, truncates a torn end, which is kept aside, and
    /// closes a turn that a crash left open.
    pub fn open_log(&self, id: &SessionId) -> Result<Opened, StoreError> {
        self.open_log_with(id, &mut |_| {})
    }

    /// The same, and calls `visit` with each record before anything is written, which saves the
    /// caller from reading the log a second time.
    pub fn open_log_with(
        &self,
        id: &SessionId,
        visit: &mut dyn FnMut(&Entry<'_>),
    ) -> Result<Opened, StoreError> {
        let lock = Lock::take(&self.context, id)?;
        recover(lock, visit)
    }

    /// Opens a session for reading.
    pub fn read(&self, id: &SessionId) -> Result<Reader, StoreError> {
        Reader::open(&self.context, id)
    }

    /// Whether the session has a log; an error if that cannot be determined.
    pub fn exists(&self, id: &SessionId) -> Result<bool, StoreError> {
        let path = self.context.layout.log(id);
        let found = self.context.sys.disk.info_if_exists(&path);
        match found.map_err(StoreError::disk("inspect", &path))? {
            Some(info) => Ok(!info.is_dir),
            None => match self.context.absent(id) {
                StoreError::NotFound { .. } => Ok(false),
                error => Err(error),
            },
        }
    }

    /// The ids of all sessions, oldest first. Other files are ignored.
    pub fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        let sessions = &self.context.layout.sessions;
        let names = self.context.sys.disk.list(sessions);
        let names = names.map_err(StoreError::disk("list", sessions))?;
        let mut ids: Vec<_> = names
            .iter()
            .filter_map(|name| Layout::session_of(name))
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// The length of a session's log in bytes, without opening it; none if it does not exist.
    pub fn len_of(&self, id: &SessionId) -> Result<Option<u64>, StoreError> {
        let path = self.context.layout.log(id);
        let found = self.context.sys.disk.info_if_exists(&path);
        let found = found.map_err(StoreError::disk("inspect", &path))?;
        Ok(found.map(|info| info.len))
    }

    /// When a session's log was last written to; none if it does not exist.
    pub fn changed_at(&self, id: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        let path = self.context.layout.log(id);
        let found = self.context.sys.disk.info_if_exists(&path);
        let found = found.map_err(StoreError::disk("inspect", &path))?;
        Ok(found.map(|info| info.modified))
    }

    /// Calls `changed` with each session whose log changes, in any process, until the result is
    /// dropped; with none if some changes may have been missed. The calls come from another thread.
    pub fn watch(
        &self,
        changed: impl Fn(Option<SessionId>) + Send + 'static,
    ) -> Result<Watch, StoreError> {
        let path = &self.context.layout.sessions;
        let named = move |name: Option<&str>| match name.map(Layout::session_of) {
            Some(None) => {}
            known => changed(known.flatten()),
        };
        let watch = self.context.sys.disk.watch(path, Box::new(named));
        watch.map_err(StoreError::disk("watch", path))
    }

    /// When a session was last added, removed or renamed, as precise as the file system has it.
    pub fn folder_changed(&self) -> Result<Timestamp, StoreError> {
        let path = &self.context.layout.sessions;
        let info = self.context.sys.disk.info(path);
        Ok(info.map_err(StoreError::disk("inspect", path))?.modified)
    }

    /// Opens a session in the trash for reading.
    pub fn read_trashed(&self, trashed: &Trashed) -> Result<Reader, StoreError> {
        Reader::open_trashed(&self.context, trashed)
    }
}

/// Creates missing folders and syncs their names in every durability mode, since it happens once.
/// The least important folder is created last and not synced: if it exists, the names of the others
/// are known to be safe.
fn make_folders(layout: &Layout, sys: &Sys) -> Result<(), StoreError> {
    let disk = &sys.disk;
    let folders = [&layout.sessions, &layout.trash, &layout.open];
    let exists = |folder: &PathBuf| disk.info(folder).is_ok_and(|info| info.is_dir);
    if folders.into_iter().all(exists) {
        return Ok(());
    }
    for folder in [&layout.sessions, &layout.trash] {
        let made = disk.create_dir_all(folder);
        made.map_err(StoreError::disk("create the folder", folder))?;
    }
    for folder in layout.root.ancestors() {
        let here = folder.as_os_str().is_empty();
        let folder = if here { Path::new(".") } else { folder };
        match disk.sync_dir(folder) {
            // A parent folder may belong to another user.
            Err(error)
                if folder != layout.root && error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced.map_err(StoreError::disk("sync", folder))?,
        }
    }
    let made = disk.create_dir_all(&layout.open);
    made.map_err(StoreError::disk("create the folder", &layout.open))
}

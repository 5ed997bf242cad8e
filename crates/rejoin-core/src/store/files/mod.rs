//! Logs as files in a folder. `docs/format.md` specifies the folder.

mod context;
mod layout;
mod lock;
mod writable;
mod trash;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::medium::{
    Durability, Holder, Image, LogChanged, LogInfo, Medium, StoreError, Trashed, Wanted,
    WritableLog,
};
use crate::sys::disk::FileInfo;
use crate::sys::file_system::Special;
use crate::sys::{SessionId, Sys, Timestamp, Watch};

use context::StoreFolder;
use layout::StoreLayout;
use lock::Lock;
use writable::LogFile;

/// The maximum length of a note, in bytes. A longer one is not ours.
const LONGEST_NOTE: usize = 4096;

/// The note that a store is on a file system of another machine: which kind that is.
const FILE_SYSTEM: &str = "file-system";

/// A folder of logs.
#[derive(Debug)]
pub(super) struct Files {
    folder: Arc<StoreFolder>,
}

impl Files {
    /// The logs below `root`, which need not exist.
    pub(super) fn new(root: &Path, sys: Sys, durability: Durability) -> Self {
        let folder = StoreFolder::new(StoreLayout::new(root), sys, durability);
        Self {
            folder: Arc::new(folder),
        }
    }

    fn log_info(&self, id: &SessionId) -> Result<Option<FileInfo>, StoreError> {
        let path = self.folder.layout.log(id);
        let found = self.folder.sys.disk.info_if_exists(&path);
        found.map_err(StoreError::disk("inspect", &path))
    }

    fn open_at(&self, id: &SessionId, path: PathBuf) -> Result<Box<dyn Image>, StoreError> {
        match self.folder.sys.disk.open_read(&path) {
            Ok(file) => Ok(Box::new(LogFile { file, path })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.folder.absent(id)),
            Err(error) => Err(StoreError::disk("open", &path)(error)),
        }
    }
}

impl Medium for Files {
    /// Creates missing folders of the store.
    fn prepare(&self) -> Result<(), StoreError> {
        let special = self.folder.sys.disk.special(&self.folder.layout.root);
        if let Some(Special::LocalLocks(name)) = special {
            return Err(StoreError::Unusable {
                place: self.folder.layout.root.display().to_string(),
                reason: format!(
                    "it is on {name}, mounted so that locks are not seen by other machines, and \
                     two could write to one session: mount it with `flock`, or name a store on a \
                     local disk"
                ),
            });
        }
        make_folders(&self.folder.layout, &self.folder.sys)?;
        if let Some(Special::Network(name)) = special
            && self.note(FILE_SYSTEM).is_none()
        {
            tracing::warn!(
                store = %self.folder.layout.root.display(),
                "the store is on {name}: only one machine at a time may use it (docs/scaling.md)"
            );
            // Only once for each store.
            if let Err(error) = self.set_note(FILE_SYSTEM, name) {
                tracing::debug!(%error, "the warning comes again");
            }
        }
        Ok(())
    }

    fn is_there(&self) -> Result<bool, StoreError> {
        let sessions = &self.folder.layout.sessions;
        let found = self.folder.sys.disk.info_if_exists(sessions);
        let found = found.map_err(StoreError::disk("inspect", sessions))?;
        if found.is_some() {
            refuse_others(&self.folder.layout, &self.folder.sys)?;
        }
        Ok(found.is_some())
    }

    fn serves(&self, client: &str) {
        // The first one counts, as with `initialize`.
        self.folder.client.set(client.to_owned()).ok();
    }

    fn announces(&self, socket: &str) -> bool {
        self.folder.socket.set(socket.to_owned()).is_ok()
    }

    /// The file gets its name when it is complete, so that no incomplete session ever has one.
    /// After a crash it is an old file in the trash.
    fn draft(&self, id: &SessionId) -> Result<Box<dyn WritableLog>, StoreError> {
        let folder = &self.folder;
        let (path, file) = folder.create_in_trash(id, 0)?;
        match Lock::of_file(folder, id, file) {
            Ok(mut lock) => {
                lock.draft = Some(path);
                Ok(Box::new(lock))
            }
            Err(error) => {
                folder.discard(&path);
                Err(error)
            }
        }
    }

    /// Nothing takes the system's lock from a process.
    fn claim(&self, id: &SessionId, _by_force: bool) -> Result<Box<dyn WritableLog>, StoreError> {
        Ok(Box::new(Lock::take(&self.folder, id)?))
    }

    fn open(&self, id: &SessionId) -> Result<Box<dyn Image>, StoreError> {
        self.open_at(id, self.folder.layout.log(id))
    }

    fn info(&self, id: &SessionId) -> Result<Option<LogInfo>, StoreError> {
        let found = self.log_info(id)?;
        Ok(found.map(|info| LogInfo {
            is_log: !info.is_dir,
            len: info.len,
            changed_at: info.modified,
        }))
    }

    fn absent(&self, id: &SessionId) -> StoreError {
        self.folder.absent(id)
    }

    /// Files with other names are ignored.
    fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        let sessions = &self.folder.layout.sessions;
        let names = self.folder.sys.disk.list(sessions);
        let names = names.map_err(StoreError::disk("list", sessions))?;
        let mut ids: Vec<_> = names
            .iter()
            .filter_map(|name| StoreLayout::session_of(name))
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// As precise as the file system has it.
    fn names_changed(&self) -> Result<Timestamp, StoreError> {
        let path = &self.folder.layout.sessions;
        let info = self.folder.sys.disk.info(path);
        Ok(info.map_err(StoreError::disk("inspect", path))?.modified)
    }

    /// The system reports all of them.
    fn watch(&self, _wanted: Wanted, changed: LogChanged) -> Result<Watch, StoreError> {
        let path = &self.folder.layout.sessions;
        let named = move |name: Option<&str>| match name.map(StoreLayout::session_of) {
            Some(None) => {}
            known => changed(known.flatten()),
        };
        let watch = self.folder.sys.disk.watch(path, Box::new(named));
        watch.map_err(StoreError::disk("watch", path))
    }

    fn holder(&self, id: &SessionId) -> Option<Holder> {
        self.folder.holder(id)
    }

    fn is_open(&self, id: &SessionId) -> bool {
        self.folder.is_open(id)
    }

    fn is_being_released(&self, id: &SessionId) -> bool {
        self.folder.is_being_released(id)
    }

    fn ending(&self) {
        self.folder.ending();
    }

    fn trashed(&self) -> Result<Vec<Trashed>, StoreError> {
        self.folder.trashed()
    }

    fn open_trashed(&self, trashed: &Trashed) -> Result<Box<dyn Image>, StoreError> {
        let path = self.folder.layout.trashed(&trashed.id, trashed.at);
        self.open_at(&trashed.id, path)
    }

    fn claim_trashed(&self, trashed: &Trashed) -> Result<Option<Box<dyn WritableLog>>, StoreError> {
        let lock = self.folder.claim_trashed(trashed)?;
        Ok(lock.map(|lock| Box::new(lock) as Box<dyn WritableLog>))
    }

    fn restore(&self, trashed: &Trashed) -> Result<(), StoreError> {
        self.folder.restore(trashed)
    }

    fn count_trash(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.folder.trash_before(before).map(|files| files.len())
    }

    fn empty_trash(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.folder.empty_trash(before)
    }

    fn has_traces_of(&self, id: &SessionId) -> Result<bool, StoreError> {
        self.folder.has_traces_of(id)
    }

    fn erase(&self, id: &SessionId, wanted: &mut dyn FnMut() -> bool) -> Result<bool, StoreError> {
        self.folder.erase(id, wanted)
    }

    fn note(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.layout.root.join(name);
        let file = self.folder.sys.disk.open_read(&path).ok()?;
        let mut text = vec![0; LONGEST_NOTE];
        let len = file.read_at(&mut text, 0).ok()?;
        text.truncate(len);
        Some(text)
    }

    /// The file is not synced, and the old one is removed before the new one is written.
    fn set_note(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let path = &self.folder.layout.root.join(name);
        let disk = &self.folder.sys.disk;
        let failed = |operation| StoreError::disk(operation, path);
        disk.remove_if_exists(path).map_err(failed("replace"))?;
        let written = disk
            .create_new(path)
            .and_then(|mut file| file.append_all(text.as_bytes()));
        match written {
            // Another process is writing it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            written => written.map_err(failed("write")),
        }
    }
}

/// Creates missing folders and syncs their names in every durability mode, since it happens once.
/// The least important folder is created last and not synced: if it exists, the names of the others
/// are known to be safe.
fn make_folders(layout: &StoreLayout, sys: &Sys) -> Result<(), StoreError> {
    let disk = &sys.disk;
    if is_folder(&layout.sessions, sys) && is_complete(layout, sys) {
        return Ok(());
    }
    refuse_others(layout, sys)?;
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

fn is_folder(path: &Path, sys: &Sys) -> bool {
    sys.disk.info(path).is_ok_and(|info| info.is_dir)
}

/// Whether the folders beside that of the sessions exist.
fn is_complete(layout: &StoreLayout, sys: &Sys) -> bool {
    is_folder(&layout.trash, sys) && is_folder(&layout.open, sys)
}

/// Other programs have folders named `sessions`, too. That of a store has logs of sessions, or is
/// empty, or has the store's other folders beside it.
fn refuse_others(layout: &StoreLayout, sys: &Sys) -> Result<(), StoreError> {
    if is_complete(layout, sys) {
        return Ok(());
    }
    let names = match sys.disk.list(&layout.sessions) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(StoreError::disk("list", &layout.sessions))?,
    };
    let mut others = names.iter().filter(|name| !name.starts_with('.'));
    let is_ours = |name: &String| StoreLayout::session_of(name).is_some();
    match others.next() {
        Some(other) if !names.iter().any(is_ours) => Err(StoreError::OfAnother {
            root: layout.root.clone(),
            found: layout.sessions.join(other),
        }),
        _ => Ok(()),
    }
}

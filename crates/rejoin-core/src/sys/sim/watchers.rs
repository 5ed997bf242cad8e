//! Watches of a simulated disk.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use crate::sys::disk::{Changed, Watch};
use crate::sys::lock;

/// Who is notified of changes in which directory.
#[derive(Clone, Default)]
pub(super) struct Watchers(Arc<Mutex<Vec<Watcher>>>);

#[derive(Clone)]
struct Watcher {
    folder: PathBuf,
    /// Dropped with the watch.
    changed: Weak<Mutex<Changed>>,
}

impl Watchers {
    pub(super) fn add(&self, folder: &Path, changed: Changed) -> Watch {
        let changed = Arc::new(Mutex::new(changed));
        lock(&self.0).push(Watcher {
            folder: folder.to_owned(),
            changed: Arc::downgrade(&changed),
        });
        Box::new(changed)
    }

    /// Whether nobody is notified of anything.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Notifies of changes of these files. The disk must not be locked.
    pub(super) fn report<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) {
        let watchers = {
            let mut watchers = lock(&self.0);
            watchers.retain(|watcher| watcher.changed.strong_count() > 0);
            watchers.clone()
        };
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str());
            let of_folder = |watcher: &&Watcher| path.parent() == Some(&watcher.folder);
            for watcher in watchers.iter().filter(of_folder) {
                if let Some(changed) = watcher.changed.upgrade() {
                    lock(&changed)(name);
                }
            }
        }
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watchers")
            .field(&lock(&self.0).len())
            .finish()
    }
}

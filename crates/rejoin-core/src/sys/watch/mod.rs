//! Watches directories of the real file system.

#[cfg(target_os = "linux")]
mod inotify;

use std::io;
use std::path::Path;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher, recommended_watcher};

use super::disk::{Changed, Watch};

/// Calls `changed` with the names of files that change in a directory, see
/// [`Disk::watch`](super::Disk::watch).
pub(super) fn watch(path: &Path, changed: Changed) -> io::Result<Watch> {
    #[cfg(target_os = "linux")]
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        return inotify::watch(path, changed, &runtime);
    }
    let mut watcher = watcher(move |event| report(event, &changed))?;
    add(&mut watcher, path, RecursiveMode::NonRecursive)?;
    Ok(Box::new(watcher))
}

/// Calls `changed` when something changes in a folder or below it.
pub fn watch_tree(path: &Path, changed: impl Fn() + Send + 'static) -> io::Result<Watch> {
    let mut watcher = watcher(on_change(changed))?;
    add(&mut watcher, path, RecursiveMode::Recursive)?;
    Ok(Box::new(watcher))
}

/// Calls `changed` when something changes in one of these folders. Those that cannot be watched, or do
/// not exist, are left out. All of them are one watch of the system, which has few for each user.
pub fn watch_folders(
    folders: impl IntoIterator<Item = impl AsRef<Path>>,
    changed: impl Fn() + Send + 'static,
) -> io::Result<Watch> {
    let mut watcher = watcher(on_change(changed))?;
    for folder in folders {
        let folder = folder.as_ref();
        if let Err(error) = add(&mut watcher, folder, RecursiveMode::NonRecursive) {
            tracing::debug!(folder = %folder.display(), %error, "a folder is not watched");
        }
    }
    Ok(Box::new(watcher))
}

fn watcher(
    report: impl Fn(notify::Result<Event>) + Send + 'static,
) -> io::Result<RecommendedWatcher> {
    recommended_watcher(report).map_err(io::Error::other)
}

fn add(watcher: &mut RecommendedWatcher, path: &Path, mode: RecursiveMode) -> io::Result<()> {
    watcher.watch(path, mode).map_err(io::Error::other)
}

/// Calls `changed` at each event but those of reading.
fn on_change(changed: impl Fn() + Send + 'static) -> impl Fn(notify::Result<Event>) + Send {
    move |event| {
        if !event.is_ok_and(|event| event.kind.is_access()) {
            changed();
        }
    }
}

fn report(event: notify::Result<Event>, changed: &Changed) {
    match event {
        // The one who is notified reads files.
        Ok(event) if event.kind.is_access() => {}
        Ok(event) if event.need_rescan() => changed(None),
        Ok(event) => {
            let names = event
                .paths
                .iter()
                .filter_map(|path| path.file_name()?.to_str());
            names.for_each(|name| changed(Some(name)));
        }
        Err(error) => {
            tracing::debug!(%error, "changes of files may have been missed");
            changed(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use crate::sys::Sys;

    /// Sends what a watch reports. The last report may come when the test has ended.
    fn send<T>(to: &Sender<T>, report: T) {
        to.send(report).ok();
    }

    #[test]
    fn changes_further_down_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let (sender, changes) = channel();
        let watch = super::watch_tree(folder.path(), move || send(&sender, ())).unwrap();
        Sys::real().disk.create_new(&inner.join("new")).unwrap();
        changes.recv().unwrap();
        drop(watch);
        assert!(super::watch_tree(&folder.path().join("gone"), || {}).is_err());
    }

    #[test]
    fn changes_in_each_of_several_folders_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["gone", "one", "two"].map(|name| folder.path().join(name));
        let there = &folders[1..];
        for folder in there {
            std::fs::create_dir(folder).unwrap();
        }
        for folder in there {
            let (sender, changes) = channel();
            let changed = move || send(&sender, ());
            let watch = super::watch_folders(&folders, changed).unwrap();
            Sys::real().disk.create_new(&folder.join("new")).unwrap();
            changes.recv().unwrap();
            drop(watch);
        }
    }

    #[test]
    fn changes_are_reported_by_name_and_reading_is_not() {
        reports_by_name();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let entered = runtime.enter();
        reports_by_name();
        drop(entered);
    }

    fn reports_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Sys::real().disk;
        let at = |name: &str| folder.path().join(name);
        let mut old = disk.create_new(&at("old")).unwrap();
        let (sender, names) = channel();
        let changed = move |name: Option<&str>| send(&sender, name.map(str::to_owned));
        let watch = disk.watch(folder.path(), Box::new(changed)).unwrap();
        let until = |wanted: &str| {
            let is_wanted = |name: &Option<String>| name.as_deref() == Some(wanted);
            assert!(names.iter().any(|name| is_wanted(&name)), "{wanted}");
        };
        let mut text = [0; 1];
        let file = disk.open_read(&at("old")).unwrap();
        file.read_at(&mut text, 0).unwrap();
        disk.create_new(&at("new")).unwrap();
        assert_eq!(names.recv().unwrap().as_deref(), Some("new"));
        old.append(b"x").unwrap();
        until("old");
        disk.rename(&at("new"), &at("moved")).unwrap();
        until("moved");
        disk.remove_file(&at("moved")).unwrap();
        until("moved");
        drop(watch);
        assert!(disk.watch(&at("gone"), Box::new(|_| {})).is_err());
    }
}

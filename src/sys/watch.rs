//! Watches directories of the real file system.

use std::io;
use std::path::Path;

use notify::{Event, RecursiveMode, Watcher, recommended_watcher};

use super::disk::{Changed, Watch};

/// Calls `changed` with the names of files that change in a directory, see
/// [`Disk::watch`](super::Disk::watch).
pub(super) fn watch(path: &Path, changed: Changed) -> io::Result<Watch> {
    let watcher = recommended_watcher(move |event: notify::Result<Event>| report(event, &changed));
    let mut watcher = watcher.map_err(io::Error::other)?;
    let watched = watcher.watch(path, RecursiveMode::NonRecursive);
    watched.map_err(io::Error::other)?;
    Ok(Box::new(watcher))
}

/// Calls `changed` when something changes in a folder or below it.
pub fn watch_tree(path: &Path, changed: impl Fn() + Send + 'static) -> io::Result<Watch> {
    let is_change = |event: notify::Result<Event>| !event.is_ok_and(|event| event.kind.is_access());
    let watcher = recommended_watcher(move |event| {
        if is_change(event) {
            changed();
        }
    });
    let mut watcher = watcher.map_err(io::Error::other)?;
    let watched = watcher.watch(path, RecursiveMode::Recursive);
    watched.map_err(io::Error::other)?;
    Ok(Box::new(watcher))
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
    use std::sync::mpsc::channel;

    use crate::sys::Sys;

    #[test]
    fn changes_further_down_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let (sender, changes) = channel();
        let watch = super::watch_tree(folder.path(), move || sender.send(()).unwrap()).unwrap();
        Sys::real().disk.create_new(&inner.join("new")).unwrap();
        changes.recv().unwrap();
        drop(watch);
        assert!(super::watch_tree(&folder.path().join("gone"), || {}).is_err());
    }

    #[test]
    fn changes_are_reported_by_name_and_reading_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Sys::real().disk;
        let at = |name: &str| folder.path().join(name);
        let mut old = disk.create_new(&at("old")).unwrap();
        let (sender, names) = channel();
        let changed = move |name: Option<&str>| {
            sender.send(name.map(str::to_owned)).unwrap();
        };
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

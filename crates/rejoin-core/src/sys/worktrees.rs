//! The linked worktrees of a Git repository, read from its files.

use std::path::{Path, PathBuf};

use super::Disk;
use super::path::normalize;

/// Longer files are not Git's, in bytes.
const LONGEST: u64 = 64 * 1024;

/// The directories that correspond to `folder` in the other worktrees of its repository: the same
/// path relative to the worktree's root. Only those that exist; none outside of a repository.
pub fn counterparts(disk: &dyn Disk, folder: &Path) -> Vec<String> {
    let Some((root, git)) = repository(disk, folder) else {
        return Vec::new();
    };
    let Ok(within) = folder.strip_prefix(&root) else {
        return Vec::new();
    };
    let own = normalize(&folder.to_string_lossy());
    let mut found: Vec<_> = worktrees(disk, &git)
        .into_iter()
        .map(|root| root.join(within))
        .filter(|folder| disk.info(folder).is_ok_and(|info| info.is_dir))
        .map(|folder| normalize(&folder.to_string_lossy()))
        .filter(|folder| *folder != own)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The root of the worktree around a folder; none outside of a repository.
pub fn root(disk: &dyn Disk, folder: &Path) -> Option<PathBuf> {
    repository(disk, folder).map(|(root, _)| root)
}

/// The root of the worktree around a folder, and the directory that its worktrees share.
fn repository(disk: &dyn Disk, folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut roots = folder.ancestors();
    let (root, git) = roots.find_map(|root| Some((root, git_folder(disk, root)?)))?;
    let shared = read(disk, &git.join("commondir")).map(|shared| git.join(shared.trim()));
    let shared = shared.unwrap_or(git);
    Some((root.to_owned(), normalize(&shared.to_string_lossy()).into()))
}

/// The directory of Git for the worktree with this root. A folder with its name that has nothing of Git in it is
/// none.
fn git_folder(disk: &dyn Disk, root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if disk.info(&git).ok()?.is_dir {
        return disk.info(&git.join("HEAD")).is_ok().then_some(git);
    }
    let text = read(disk, &git)?;
    let line = text.lines().find_map(|line| line.strip_prefix("gitdir:"))?;
    Some(root.join(line.trim()))
}

/// The roots of the worktrees of a repository, the main one first.
fn worktrees(disk: &dyn Disk, git: &Path) -> Vec<PathBuf> {
    let main = git.file_name().is_some_and(|name| name == ".git");
    let mut roots: Vec<_> = git
        .parent()
        .filter(|_| main)
        .map(Path::to_owned)
        .into_iter()
        .collect();
    let linked = git.join("worktrees");
    for name in disk.list(&linked).unwrap_or_default() {
        let folder = linked.join(name);
        // The file `gitdir` has the path of the `.git` file of the worktree.
        let file = read(disk, &folder.join("gitdir")).map(|file| folder.join(file.trim()));
        roots.extend(file.and_then(|file| file.parent().map(Path::to_owned)));
    }
    roots
}

fn read(disk: &dyn Disk, path: &Path) -> Option<String> {
    if disk.info(path).ok()?.is_dir {
        return None;
    }
    let file = disk.open_read(path).ok()?;
    let len = file.len().ok().filter(|len| *len <= LONGEST)?;
    let mut text = vec![0; usize::try_from(len).ok()?];
    let read = file.read_at(&mut text, 0).ok()?;
    text.truncate(read);
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Sys;

    #[test]
    fn a_folder_has_its_counterpart_in_each_worktree_that_exists() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().to_str().unwrap();
        let disk = &*Sys::real().disk;
        let write = |path: &str, text: &str| {
            let path = temp.path().join(path);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.create_new(&path)
                .unwrap()
                .append_all(text.as_bytes())
                .unwrap();
        };
        for folder in ["main/a/b", "one/a/b", "two", "else/a/b"] {
            disk.create_dir_all(&temp.path().join(folder)).unwrap();
        }
        write("main/.git/HEAD", "ref: x\n");
        for name in ["one", "two", "gone"] {
            let git = format!("main/.git/worktrees/{name}");
            write(&format!("{git}/gitdir"), &format!("{base}/{name}/.git\n"));
            write(&format!("{git}/commondir"), "../..\n");
        }
        for name in ["one", "two"] {
            let text = format!("gitdir: {base}/main/.git/worktrees/{name}\n");
            write(&format!("{name}/.git"), &text);
        }
        let of = |folder: &str| {
            let found = counterparts(disk, &temp.path().join(folder));
            let short = found
                .into_iter()
                .map(|path| path.replacen(base, "", 1).replace('\\', "/"));
            short.collect::<Vec<_>>()
        };
        assert_eq!(of("main"), ["/one", "/two"]);
        assert_eq!(of("one"), ["/main", "/two"]);
        assert_eq!(of("one/a/b"), ["/main/a/b"]);
        assert_eq!(of("two"), ["/main", "/one"]);
        assert_eq!(of("else/a/b"), [""; 0]);
        // An empty folder of that name is no repository, but one above it may be.
        for folder in ["else/.git", "main/a/.git"] {
            disk.create_dir_all(&temp.path().join(folder)).unwrap();
        }
        assert_eq!(root(disk, &temp.path().join("else/a")), None);
        let above = root(disk, &temp.path().join("main/a/b"));
        assert_eq!(above, Some(temp.path().join("main")));
    }
}

//! Removes what killed processes have left of their sockets.
#![expect(
    clippy::disallowed_methods,
    reason = "a socket is no part of the store's data: a crash may leave anything of it"
)]

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::sys::processes::is_running;

use super::real::{
    POINTER, SOCKET, connect, is_short, pointed, remove as remove_file, remove_own_folder,
};

/// How old a socket is before it is looked at. A new one may not be listened on yet, and one of a
/// process in a virtual machine that has the folder, too, looks unused from here.
pub(super) const AGE: Duration = Duration::from_hours(7 * 24);

/// Removes the sockets in a folder that no process listens on and that are at least so old. Returns
/// how many there were.
pub(super) fn remove(folder: &Path, age: Duration) -> io::Result<usize> {
    let files = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        files => files?,
    };
    let mut removed = 0;
    for file in files {
        let path = file?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !matches!(extension, Some(SOCKET | POINTER)) || !is_old(&path, age) {
            continue;
        }
        let socket = path.with_extension(SOCKET);
        let Some(name) = socket.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let process = name.split('-').next().and_then(|pid| pid.parse().ok());
        // The number may be that of a process in a container, so the socket is tried, too.
        if process.is_some_and(is_running) || is_listened_on(folder, name) {
            continue;
        }
        // Without the pointer, nothing would find the socket again.
        if extension == Some(POINTER)
            && let Ok(socket) = pointed(&path)
            && socket.parent().is_some_and(is_short)
        {
            remove_file(&socket)?;
            remove_own_folder(&socket);
        }
        remove_file(&path)?;
        removed += 1;
    }
    Ok(removed)
}

fn is_old(path: &Path, age: Duration) -> bool {
    let made = fs::symlink_metadata(path).and_then(|info| info.modified());
    made.is_ok_and(|made| {
        SystemTime::now()
            .duration_since(made)
            .is_ok_and(|old| old >= age)
    })
}

/// Whether a process listens, as far as that can be found out. One that is missing may be in the
/// `/tmp` of a container.
fn is_listened_on(folder: &Path, name: &str) -> bool {
    let refused = connect(folder, name).err();
    refused.is_none_or(|error| error.kind() != io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::real::{LONGEST, listen, short_folder};
    use super::*;

    /// A process number that no process has.
    const NONE: u32 = 999_999_999;

    #[tokio::test]
    async fn only_what_no_process_uses_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(90));
        fs::create_dir(&long).unwrap();
        for folder in [root.path().join("run"), long.join("run")] {
            let name = |kind: &str| format!("{NONE}-{kind}.sock");
            let unused = name(&format!("unused-{}", std::process::id()));
            let (used, own) = (name("used"), format!("{}-own.sock", std::process::id()));
            let _used = listen(&folder, &used).unwrap();
            let made = [&unused, &own].map(|name| {
                // Dropped, it removes its files.
                drop(listen(&folder, name).unwrap());
                let path = folder.join(name);
                let is_long = path.as_os_str().len() > LONGEST;
                let socket = if is_long {
                    short_folder().join(name)
                } else {
                    path.clone()
                };
                drop(UnixListener::bind(&socket).unwrap());
                if is_long {
                    fs::write(path.with_extension(POINTER), socket.to_str().unwrap()).unwrap();
                }
                socket
            });
            fs::write(folder.join("x.log"), "").unwrap();
            assert_eq!(remove(&folder, AGE).unwrap(), 0);
            assert_eq!(remove(&folder, Duration::ZERO).unwrap(), 1);
            assert!(!made[0].exists());
            assert!(made[1].exists());
            assert!(connect(&folder, &used).is_ok());
            assert!(folder.join("x.log").exists());
            fs::remove_file(&made[1]).unwrap();
        }
        assert_eq!(remove(&root.path().join("none"), AGE).unwrap(), 0);
    }
}

//! Unix sockets.
#![expect(
    clippy::disallowed_methods,
    reason = "a socket is no part of the store's data: a crash may leave anything of it"
)]

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::{Stream, stream};

/// The longest path of a socket that all systems accept, in bytes.
pub(super) const LONGEST: usize = 100;

/// The extension of a socket.
pub(super) const SOCKET: &str = "sock";

/// The extension of the file that says where the socket is, if its own path would be too long.
pub(super) const POINTER: &str = "at";

/// A socket that was made. Dropping it removes it.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    files: [PathBuf; 2],
}

pub(super) fn listen(folder: &Path, name: &str) -> io::Result<Listener> {
    make_private(folder)?;
    let path = folder.join(name);
    let pointer = path.with_extension(POINTER);
    let is_long = path.as_os_str().len() > LONGEST;
    let path = if is_long {
        let short = short_folder();
        make_private(&short)?;
        short.join(name)
    } else {
        path
    };
    let listener = Listener {
        socket: UnixListener::bind(&path)?,
        files: [path.clone(), pointer.clone()],
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    if is_long {
        fs::write(pointer, path.into_os_string().into_encoded_bytes())?;
    }
    Ok(listener)
}

pub(super) fn connect(folder: &Path, name: &str) -> io::Result<Stream> {
    check_private(folder)?;
    let path = folder.join(name);
    if path.as_os_str().len() <= LONGEST {
        return connect_to(&path);
    }
    let pointer = path.with_extension(POINTER);
    let short = short_folder();
    check_private(&short)?;
    let path = short.join(name);
    // Nowhere else do we make any.
    if !fs::symlink_metadata(&pointer)?.is_file() {
        return Err(refused(&pointer, "it is no file"));
    }
    if Path::new(&fs::read_to_string(&pointer)?) != path {
        return Err(refused(&pointer, "it names another folder"));
    }
    connect_to(&path)
}

/// Connects to a socket of this user, and to no link to one.
fn connect_to(path: &Path) -> io::Result<Stream> {
    let info = fs::symlink_metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    if !info.file_type().is_socket() {
        return Err(refused(path, "it is no socket"));
    }
    if info.uid() != own {
        return Err(refused(path, "it belongs to another user"));
    }
    stream(UnixStream::connect(path)?)
}

impl Listener {
    /// Waits for the next connection of a process of the same user.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        let own = rustix::process::geteuid().as_raw();
        loop {
            let (socket, _) = self.socket.accept().await?;
            let peer = socket.peer_cred()?.uid();
            if peer != own && peer != 0 {
                tracing::warn!(peer, "a process of another user may not connect");
                continue;
            }
            let socket = socket.into_std()?;
            socket.set_nonblocking(false)?;
            return stream(socket);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for file in &self.files {
            if let Err(error) = remove(file) {
                tracing::debug!(path = %file.display(), %error, "cannot remove a socket");
            }
        }
    }
}

/// The folder for sockets whose own path would be too long.
pub(super) fn short_folder() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new("/tmp").join(format!("rejoin-{user}"))
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a folder that only this user can enter, and checks that it is one: others can make folders
/// and links in `/tmp`.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(false).mode(0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check_private(folder)
}

/// Fails unless this is a folder, no link, and only this user can enter it.
fn check_private(folder: &Path) -> io::Result<()> {
    let info = fs::symlink_metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    if !info.is_dir() {
        return Err(refused(folder, "it is no folder"));
    }
    if info.uid() != own {
        return Err(refused(folder, "it belongs to another user"));
    }
    if info.mode() & 0o077 != 0 {
        return Err(refused(folder, "other users may enter it"));
    }
    Ok(())
}

fn refused(path: &Path, why: &str) -> io::Error {
    let message = format!("{} is not used for sockets: {why}", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    async fn passes_a_line(folder: &Path) {
        let mut listener = listen(folder, "a.sock").unwrap();
        // The system completes the connection before it is accepted.
        let mut there = connect(folder, "a.sock").unwrap();
        let mut here = listener.accept().await.unwrap();
        there.output.write_all(b"line\n").unwrap();
        drop(there.closer);
        let mut text = String::new();
        here.input.read_to_string(&mut text).unwrap();
        assert_eq!(text, "line\n");
        drop(listener);
        assert!(connect(folder, "a.sock").is_err());
    }

    #[tokio::test]
    async fn both_ends_pass_lines() {
        let root = tempfile::tempdir().unwrap();
        passes_a_line(&root.path().join("run")).await;
        assert_eq!(fs::read_dir(root.path().join("run")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_long_path_is_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(90));
        fs::create_dir(&long).unwrap();
        passes_a_line(&long.join("run")).await;
    }

    #[tokio::test]
    async fn a_folder_that_others_can_enter_and_a_link_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (open, link) = (root.path().join("open"), root.path().join("link"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let error = listen(&open, "a.sock").unwrap_err();
        assert!(error.to_string().contains("other users"), "{error}");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(listen(&link, "a.sock").is_err());
        assert!(connect(&link, "a.sock").is_err());
    }
}

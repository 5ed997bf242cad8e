//! Unix sockets.
#![expect(
    clippy::disallowed_methods,
    reason = "a socket is no part of the store's data: a crash may leave anything of it"
)]

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
pub use tokio::net::UnixStream as Local;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::sys::blocking;
use crate::sys::descriptors::Reserve;

use super::{Stream, stream};

/// The longest path of a socket that all systems accept, in bytes.
pub(super) const LONGEST: usize = 100;

/// How long to wait until a process has room for one more connection.
const CONNECTS: Duration = Duration::from_secs(1);

/// The extension of a socket.
pub(super) const SOCKET: &str = "sock";

/// The extension of the file that says where the socket is, if its own path would be too long.
pub(super) const POINTER: &str = "at";

/// The longest such file, in bytes.
const LONGEST_POINTER: u64 = 4096;

/// How often a listener looks whether its name still leads to its socket.
const LOOK: Duration = Duration::from_secs(3);

/// How long to wait before another attempt to accept a connection.
const AGAIN: Duration = Duration::from_millis(100);

/// A socket that was made. Dropping it removes it.
#[derive(Debug)]
pub struct Listener {
    /// None while there is no descriptor for it.
    socket: Option<UnixListener>,
    place: SocketPlace,
    /// The device and the inode of the socket's file.
    file: (u64, u64),
    /// For the connection that cannot be accepted otherwise.
    reserve: Reserve,
    /// When to look at the file again.
    look: Instant,
    /// Whether the last connection, or the last look at the file, was a failure.
    fails: bool,
}

/// Where a socket is.
#[derive(Debug)]
struct SocketPlace {
    /// The folder that others know.
    folder: PathBuf,
    /// The socket, which is there unless its path would be too long.
    path: PathBuf,
    /// The file in that folder which says where it is instead.
    pointer: Option<PathBuf>,
}

pub(super) fn listen(folder: &Path, name: &str) -> io::Result<Listener> {
    let place = SocketPlace::new(folder, name)?;
    let (socket, file) = place.bind()?;
    let mut reserve = Reserve::default();
    reserve.fill();
    Ok(Listener {
        socket: Some(socket),
        place,
        file,
        reserve,
        look: Instant::now() + LOOK,
        fails: false,
    })
}

impl SocketPlace {
    fn new(folder: &Path, name: &str) -> io::Result<Self> {
        make_private(folder)?;
        let path = folder.join(name);
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self {
                folder: folder.to_owned(),
                path,
                pointer: None,
            });
        }
        let stem = name.strip_suffix(".sock").unwrap_or(name);
        let own = PathBuf::from(format!("{}-{stem}", short_folder().display()));
        let short = first_private([short_folder(), own])?;
        Ok(Self {
            folder: folder.to_owned(),
            pointer: Some(path.with_extension(POINTER)),
            path: short.join(name),
        })
    }

    /// Makes the socket. Returns it with the device and the inode of its file.
    fn bind(&self) -> io::Result<(UnixListener, (u64, u64))> {
        make_private(&self.folder)?;
        if let Some(parent) = self.path.parent() {
            make_private(parent)?;
        }
        // A file of this name is nobody else's.
        remove(&self.path)?;
        let socket = UnixListener::bind(&self.path)?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600))?;
        if let Some(pointer) = &self.pointer {
            fs::write(pointer, self.path.as_os_str().as_encoded_bytes())?;
        }
        Ok((socket, identity(&self.path)?))
    }

    /// Whether the name that others know leads to this file.
    fn leads_to(&self, file: (u64, u64)) -> bool {
        let points = match &self.pointer {
            Some(pointer) => pointed(pointer).is_ok_and(|path| path == self.path),
            None => true,
        };
        points && identity(&self.path).is_ok_and(|there| there == file)
    }
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        for file in [Some(&self.path), self.pointer.as_ref()]
            .into_iter()
            .flatten()
        {
            if let Err(error) = remove(file) {
                tracing::debug!(path = %file.display(), %error, "cannot remove a socket");
            }
        }
        remove_own_folder(&self.path);
    }
}

/// The usual folder for sockets, or the second one: anybody can make a folder in `/tmp`, so the usual one
/// may be another user's. The name of a socket has random digits, so nobody else can have made a folder
/// of that name.
fn first_private([usual, own]: [PathBuf; 2]) -> io::Result<PathBuf> {
    if let Err(error) = make_private(&usual) {
        tracing::debug!(%error, "this socket has a folder of its own");
        return make_private(&own).map(|()| own);
    }
    Ok(usual)
}

/// Removes the folder of a socket that has one of its own.
pub(super) fn remove_own_folder(socket: &Path) {
    let folder = socket.parent();
    if let Some(folder) = folder.filter(|folder| is_short(folder) && *folder != short_folder()) {
        // A folder that is not empty stays.
        fs::remove_dir(folder).ok();
    }
}

/// The device and the inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let info = fs::symlink_metadata(path)?;
    Ok((info.dev(), info.ino()))
}

pub(super) fn connect(folder: &Path, name: &str) -> io::Result<Stream> {
    close_to_others(folder)?;
    let path = folder.join(name);
    if path.as_os_str().len() <= LONGEST {
        return connect_to(&path);
    }
    let pointer = path.with_extension(POINTER);
    let path = pointed(&pointer)?;
    let short = path.parent().filter(|folder| is_short(folder));
    // Nowhere else do we make any.
    let Some(short) = short.filter(|_| path.ends_with(name)) else {
        return Err(refused(&pointer, "it names another folder"));
    };
    close_to_others(short)?;
    connect_to(&path)
}

/// The path that a pointer names.
pub(super) fn pointed(pointer: &Path) -> io::Result<PathBuf> {
    let info = fs::symlink_metadata(pointer)?;
    if !info.is_file() || info.len() > LONGEST_POINTER {
        return Err(refused(pointer, "it is no file, or a long one"));
    }
    fs::read_to_string(pointer).map(PathBuf::from)
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
    Ok(stream(connect_within(path, CONNECTS)?))
}

/// Connects to a socket. While a process does not accept connections, as one that is stopped, only so
/// many can wait; then this fails after a while with [`io::ErrorKind::TimedOut`].
#[cfg(target_os = "linux")]
fn connect_within(path: &Path, limit: Duration) -> io::Result<StdStream> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    let address = SocketAddrUnix::new(path)?;
    match rustix::io::retry_on_intr(|| connect(&socket, &address)) {
        Err(Errno::AGAIN) => {
            let why = "it does not accept connections";
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        connected => connected?,
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(StdStream::from(socket))
}

/// Connects to a socket. Other systems refuse a connection at once that cannot wait.
#[cfg(not(target_os = "linux"))]
fn connect_within(path: &Path, _: Duration) -> io::Result<StdStream> {
    StdStream::connect(path)
}

impl Listener {
    /// Waits for the next connection of a process of the same user. Never fails: what cannot be
    /// accepted now is tried again. A connection for which there is no descriptor is sent `refusal` and
    /// closed, or only closed. Makes the socket anew when its name no longer leads to it.
    pub async fn accept(&mut self, refusal: &[u8]) -> Stream {
        loop {
            match self
                .accept_local(refusal)
                .await
                .into_std()
                .and_then(own_stream)
            {
                Ok(stream) => return stream,
                Err(error) => self.failed(&error, refusal).await,
            }
        }
    }

    /// Does so for a runtime.
    pub async fn accept_local(&mut self, refusal: &[u8]) -> Local {
        loop {
            let Some(socket) = &self.socket else {
                sleep(AGAIN).await;
                self.restore();
                continue;
            };
            let accepted = tokio::select! {
                biased;
                accepted = socket.accept() => accepted,
                () = sleep_until(self.look) => {
                    self.look = Instant::now() + LOOK;
                    self.restore();
                    continue;
                }
            };
            match accepted.and_then(|(socket, _)| admit(socket)) {
                Ok(Some(socket)) => {
                    self.fails = false;
                    // Another thread may have taken it.
                    self.reserve.fill();
                    return socket;
                }
                Ok(None) => {}
                Err(error) => self.failed(&error, refusal).await,
            }
        }
    }

    /// A connection could not be accepted.
    async fn failed(&mut self, error: &io::Error, refusal: &[u8]) {
        if !std::mem::replace(&mut self.fails, true) {
            tracing::warn!(%error, "another process cannot connect");
        }
        let errno = Errno::from_io_error(error);
        if !matches!(errno, Some(Errno::MFILE | Errno::NFILE)) {
            return sleep(AGAIN).await;
        }
        if self.reserve.release() {
            if let Some(waiting) = &self.socket
                && let Ok(Ok((socket, _))) = timeout(AGAIN, waiting.accept()).await
            {
                refuse(socket, refusal).await;
            }
        } else {
            // Something else has taken the one in reserve. Without the socket, those that wait fail.
            self.socket = None;
            self.restore();
        }
        self.reserve.fill();
    }

    /// Makes the socket anew if its name no longer leads to it: a program that cleans up or restores a
    /// folder may have removed it.
    fn restore(&mut self) {
        let is_there = self.socket.is_some();
        if is_there && blocking(|| self.place.leads_to(self.file)) {
            return;
        }
        match blocking(|| self.place.bind()) {
            Ok((socket, file)) => {
                (self.socket, self.file) = (Some(socket), file);
                if is_there {
                    tracing::info!(path = %self.place.path.display(), "made the socket anew");
                    self.fails = false;
                }
            }
            Err(error) if !std::mem::replace(&mut self.fails, true) => {
                let path = self.place.path.display();
                tracing::warn!(%path, %error, "the socket cannot be made anew");
            }
            Err(_) => {}
        }
    }
}

/// A connection, if it is one of a process of the same user.
fn admit(socket: Local) -> io::Result<Option<Local>> {
    let own = rustix::process::geteuid().as_raw();
    let peer = socket.peer_cred()?.uid();
    if peer != own && peer != 0 {
        tracing::warn!(peer, "a process of another user may not connect");
        return Ok(None);
    }
    Ok(Some(socket))
}

/// Both ends of a connection for threads.
fn own_stream(socket: StdStream) -> io::Result<Stream> {
    socket.set_nonblocking(false)?;
    Ok(stream(socket))
}

/// Closes a connection behind its refusal. Its other end may be about to write what it wants, and sees
/// no refusal if it cannot.
async fn refuse(mut socket: Local, refusal: &[u8]) {
    let refused = async {
        socket.write_all(refusal).await?;
        socket.readable().await
    };
    if let Ok(Err(error)) = timeout(AGAIN, refused).await {
        tracing::debug!(%error, "cannot refuse a connection");
    }
}

/// The folder for sockets whose own path would be too long.
pub(super) fn short_folder() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new("/tmp").join(format!("rejoin-{user}"))
}

/// Whether it is such a folder, or one of those that are made where that cannot be used.
pub(super) fn is_short(folder: &Path) -> bool {
    let usual = short_folder();
    let (Some(name), Some(usual_name)) = (folder.file_name(), usual.file_name()) else {
        return false;
    };
    let (name, usual_name) = (name.to_string_lossy(), usual_name.to_string_lossy());
    let rest = name.strip_prefix(&*usual_name);
    folder.parent() == usual.parent()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a folder that only this user can enter, or makes one that is there such.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(false).mode(0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => close_to_others(folder),
        made => made,
    }
}

/// Fails unless this is a folder of this user, and no link, into which nobody else may write: others can
/// make folders and links in `/tmp`. Has nobody else enter it: a copy of a store may have lost its modes.
fn close_to_others(folder: &Path) -> io::Result<()> {
    let info = fs::symlink_metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    if !info.is_dir() {
        return Err(refused(folder, "it is no folder"));
    }
    if info.uid() != own {
        return Err(refused(folder, "it belongs to another user"));
    }
    if info.mode() & 0o022 != 0 {
        return Err(refused(folder, "other users may write to it"));
    }
    if info.mode() & 0o055 != 0 {
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(folder, private)
            .map_err(|error| refused(folder, &format!("other users may enter it: {error}")))?;
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
        let mut here = listener.accept(b"").await;
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

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_accepts_nothing_is_not_waited_for() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("full.sock");
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        // The system lets one wait.
        let waiting = connect_to(&path).unwrap();
        let error = connect_within(&path, Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        drop(waiting);
    }

    #[tokio::test]
    async fn a_folder_that_others_can_enter_is_closed_to_them_and_a_link_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (open, link) = (root.path().join("open"), root.path().join("link"));
        fs::create_dir(&open).unwrap();
        let mode = || fs::metadata(&open).unwrap().mode() & 0o777;
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        passes_a_line(&open).await;
        assert_eq!(mode(), 0o700);
        let _listener = listen(&open, "b.sock").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(connect(&open, "b.sock").is_ok());
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o770)).unwrap();
        let error = listen(&open, "c.sock").unwrap_err();
        assert!(error.to_string().contains("may write"), "{error}");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert!(listen(&link, "a.sock").is_err());
        assert!(connect(&link, "a.sock").is_err());
    }

    #[tokio::test]
    async fn a_removed_socket_is_made_anew() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(90));
        fs::create_dir(&long).unwrap();
        for folder in [root.path().join("run"), long.join("run")] {
            let mut listener = listen(&folder, "a.sock").unwrap();
            for gone in [false, true] {
                if gone {
                    fs::remove_dir_all(&folder).unwrap();
                } else {
                    fs::remove_file(&listener.place.path).unwrap();
                }
                listener.restore();
                connect(&folder, "a.sock").unwrap();
                listener.accept(b"").await;
            }
            // While it is there, it stays as it is.
            let file = listener.file;
            listener.restore();
            assert_eq!(listener.file, file);
        }
    }

    #[tokio::test]
    async fn a_folder_of_another_user_is_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        let (folder, name) = (root.path().join("run"), "1-2345.sock");
        make_private(&folder).unwrap();
        let usual = root.path().join("usual");
        let own = PathBuf::from(format!("{}-1-2345", short_folder().display()));
        assert!(is_short(&own) && is_short(&short_folder()) && !is_short(&folder));
        assert_eq!(first_private([usual.clone(), own.clone()]).unwrap(), usual);
        fs::set_permissions(&usual, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(first_private([usual, own.clone()]).unwrap(), own);
        let place = SocketPlace {
            pointer: Some(folder.join("1-2345.at")),
            path: own.join(name),
            folder,
        };
        let (listener, _) = place.bind().unwrap();
        let pointer = place.pointer.clone().unwrap();
        assert_eq!(pointed(&pointer).unwrap(), place.path);
        drop((listener, place));
        assert!(!own.exists());
    }
}

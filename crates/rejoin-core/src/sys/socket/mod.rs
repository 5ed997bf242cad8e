//! Local sockets: how processes of one user on one machine reach each other.
//!
//! A socket is in a folder that only this user can enter. Where the system has no such sockets,
//! everything fails with [`io::ErrorKind::Unsupported`].

#[cfg(not(unix))]
mod none;
#[cfg(unix)]
mod real;
#[cfg(unix)]
mod unused;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(not(unix))]
pub use none::{Listener, Local};
#[cfg(unix)]
pub use real::{Listener, Local};

use super::output::AtOnce;

/// The folder for sockets that belong to no store; none if the system has no sockets.
pub fn folder() -> Option<PathBuf> {
    #[cfg(unix)]
    return Some(real::short_folder());
    #[cfg(not(unix))]
    None
}

/// Makes and finds sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// Sockets of the operating system, if it has any.
    Real,
    /// No sockets, as on a simulated disk.
    None,
}

impl Sockets {
    /// Makes the socket `name` in `folder`, which is created if it is missing.
    pub fn listen(self, folder: &Path, name: &str) -> io::Result<Listener> {
        match self {
            #[cfg(unix)]
            Self::Real => real::listen(folder, name),
            _ => Err(unsupported(folder, name)),
        }
    }

    /// Connects to the socket `name` in `folder`.
    pub fn connect(self, folder: &Path, name: &str) -> io::Result<Stream> {
        match self {
            #[cfg(unix)]
            Self::Real => real::connect(folder, name),
            _ => Err(unsupported(folder, name)),
        }
    }

    /// Removes the sockets in `folder` that are a week old and that no process listens on. Returns
    /// how many there were. The folder must not be shared with other machines: their sockets look
    /// unused from here.
    #[cfg_attr(not(unix), expect(unused_variables, reason = "there are no sockets"))]
    pub fn remove_unused(self, folder: &Path) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Real => unused::remove(folder, unused::AGE),
            _ => Ok(0),
        }
    }
}

fn unsupported(folder: &Path, name: &str) -> io::Error {
    let path = folder.join(name);
    let message = format!("{} cannot be a socket here", path.display());
    io::Error::new(io::ErrorKind::Unsupported, message)
}

/// The accepted or connected end of a socket's connection.
pub struct Stream {
    /// The bytes that the other end writes.
    pub input: Box<dyn Read + Send>,
    /// The bytes for the other end to read.
    pub output: Box<dyn Write + Send>,
    /// Writes to the other end without waiting, as much as it has room for.
    pub at_once: AtOnce,
    /// Closes the connection when it is dropped, even if a thread is reading or writing.
    pub closer: Closer,
}

/// Closes a connection when the last clone is dropped.
#[derive(Clone)]
pub struct Closer(Arc<OnDrop>);

struct OnDrop(Box<dyn Fn() + Send + Sync>);

impl Closer {
    /// Calls `close` once.
    pub fn new(close: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(OnDrop(Box::new(close))))
    }

    /// Closes the connection now.
    pub fn close(&self) {
        (self.0.0)();
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Closer({})", Arc::strong_count(&self.0))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// The bytes that the other end writes.
#[cfg(unix)]
struct SocketInput(Arc<std::os::unix::net::UnixStream>);

#[cfg(unix)]
impl Read for SocketInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

/// The bytes for the other end to read. When it is dropped, the other end sees that there is no
/// more.
#[cfg(unix)]
struct SocketOutput(Arc<std::os::unix::net::UnixStream>);

#[cfg(unix)]
impl Write for SocketOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.0).flush()
    }
}

#[cfg(unix)]
impl Drop for SocketOutput {
    fn drop(&mut self) {
        // The connection may be closed already.
        self.0.shutdown(std::net::Shutdown::Write).ok();
    }
}

/// The parts of a connection, which share its one descriptor.
#[cfg(unix)]
fn stream(socket: std::os::unix::net::UnixStream) -> Stream {
    let socket = Arc::new(socket);
    let closed = socket.clone();
    Stream {
        at_once: AtOnce::of(socket.clone()),
        output: Box::new(SocketOutput(socket.clone())),
        input: Box::new(SocketInput(socket)),
        closer: Closer::new(move || {
            // The connection may be closed already.
            closed.shutdown(std::net::Shutdown::Both).ok();
        }),
    }
}

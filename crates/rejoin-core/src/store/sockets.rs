//! The sockets of the processes that have sessions open.
//!
//! Each process has at most one. The hint of a session that it has open names it, so that another
//! process finds it by the lock, and does not try what a killed process has left.

use std::io;
use std::path::PathBuf;

use super::folder::Store;
use super::medium::Holder;
use crate::sys::file_system::Special;
use crate::sys::socket::{Listener, Stream};

impl Store {
    /// The folder of what belongs to running processes, such as their sockets.
    pub fn run_folder(&self) -> PathBuf {
        self.context.root.join("run")
    }

    /// From now on, processes that need a session which is open here learn where they can reach this
    /// one: on the socket that [`listen`](Self::listen) makes.
    pub fn announce_socket(&self) {
        let id = self.context.sys.ids.uuid().simple().to_string();
        let id = &id[id.len() - 8..];
        let name = format!("{}-{id}.sock", std::process::id());
        if self.context.medium.announces(&name) {
            // The store keeps the name that was announced first.
            self.context.socket.set(name).ok();
        }
    }

    /// Makes the socket that was announced.
    pub fn listen(&self) -> io::Result<Listener> {
        let name = self.context.socket.get().ok_or(io::ErrorKind::NotFound)?;
        let sockets = self.context.sys.sockets;
        sockets.listen(&self.run_folder(), name)
    }

    /// Removes the sockets that killed processes have left. Returns how many there were.
    pub fn remove_unused_sockets(&self) -> io::Result<usize> {
        let folder = self.run_folder();
        let sys = &self.context.sys;
        // A process of another machine cannot be reached, either, and uses its socket.
        if sys.disk.special(&folder).is_some_and(Special::is_remote) {
            return Ok(0);
        }
        sys.sockets.remove_unused(&folder)
    }

    /// Connects to a process that has a session open. Fails if it cannot be reached from here.
    pub fn connect(&self, holder: &Holder) -> io::Result<Stream> {
        let Some(name) = holder.local_socket() else {
            let error = "it has no socket that can be used from here";
            return Err(io::Error::new(io::ErrorKind::Unsupported, error));
        };
        self.connect_to(name)
    }

    /// The name of the socket that was announced.
    pub fn socket(&self) -> Option<&str> {
        self.context.socket.get().map(String::as_str)
    }

    /// Connects to the socket with this name.
    pub fn connect_to(&self, name: &str) -> io::Result<Stream> {
        // A file is not trusted to name one elsewhere.
        if name.contains(['/', '\\']) {
            let error = "its socket has no valid name";
            return Err(io::Error::new(io::ErrorKind::Unsupported, error));
        }
        let sockets = self.context.sys.sockets;
        sockets.connect(&self.run_folder(), name)
    }
}

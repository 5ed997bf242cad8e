//! The clients of an engine, for what belongs to no session.

use std::sync::{Arc, Mutex};

use crate::sys::lock;
use crate::transport::ClientConnection;

/// A client's request that is passed on to an agent, whose own requests may refer to it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The client that sent the request.
    pub client: Arc<ClientConnection>,
    /// Its id as the client wrote it, as JSON text.
    pub id: String,
}

/// The clients that are connected, in the order in which they came.
#[derive(Debug, Default)]
pub struct Clients(Mutex<Vec<Arc<ClientConnection>>>);

impl Clients {
    /// Adds a client that has connected, and removes those that have gone.
    pub fn connect(&self, client: Arc<ClientConnection>) {
        let mut clients = lock(&self.0);
        clients.retain(|client| !client.has_ended());
        clients.push(client);
    }

    /// All of them, and perhaps some that have gone.
    pub fn all(&self) -> Vec<Arc<ClientConnection>> {
        lock(&self.0).clone()
    }

    /// The client that came last, if possible one that has not gone.
    pub fn latest(&self) -> Option<Arc<ClientConnection>> {
        let clients = lock(&self.0);
        let present = clients.iter().rev().find(|client| !client.has_ended());
        present.or(clients.last()).cloned()
    }
}

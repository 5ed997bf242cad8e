//! What the connections of one process share, and which of them there are.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use crate::engine::Engine;
use crate::engine::relay::Patience;
use crate::index::Catalog;
use crate::session::{Deps, Growth, Owners, Registry};
use crate::sources::LiveSources;
use crate::store::{Store, place};
use crate::sys::{SessionId, Sys, lock};
use crate::transport::{ClientConnection, Form, Incoming, connect};

use super::connection;
use super::serve::{Options, RELEASING};
use super::shutdown::GRACE;

/// A process that serves clients. Clones share it.
#[derive(Clone, Debug)]
pub struct Process(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    sys: Sys,
    store: Option<Store>,
    sources: Option<Arc<LiveSources>>,
    catalog: Option<Arc<Catalog>>,
    engine: Arc<dyn Engine>,
    growth: Arc<Growth>,
    owners: Arc<Owners>,
    closed: Arc<Mutex<BTreeSet<SessionId>>>,
    /// The sessions of each connection, until they are released.
    connections: Mutex<Vec<Registry>>,
}

/// Whether a process ends with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It does: the client has started it.
    Owner,
    /// It does not.
    Guest,
}

impl Process {
    /// A process that answers prompts with this engine.
    pub fn new(options: Options, sys: Sys, engine: Arc<dyn Engine>) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let root = options.store.as_ref();
        let shown = root.map(|root| place::shown(root));
        tracing::info!(version, store = shown, "serving");
        let store = root.map(|root| {
            let store = Store::at(root, sys.clone(), options.durability);
            if options.take_over {
                store.take_over_all();
            }
            store.announce_socket();
            if let Err(error) = store.prepare() {
                // Requests report it to the client; the disk may be back by then.
                tracing::error!(%error, "sessions cannot be kept");
            }
            store
        });
        let sources = options.sources.clone().filter(|_| store.is_some());
        let catalog = store.clone().map(Catalog::open);
        let catalog = catalog.map(|catalog| match &sources {
            Some(sources) => catalog.with_tools(sources.clone()),
            None => catalog,
        });
        Self(Arc::new(Shared {
            options,
            sys,
            store,
            sources,
            catalog: catalog.map(Arc::new),
            engine,
            growth: Arc::default(),
            owners: Arc::default(),
            closed: Arc::default(),
            connections: Mutex::default(),
        }))
    }

    /// Serves a client over a stream until it has gone. What it leaves running goes on.
    pub async fn serve_stream(
        &self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<()> {
        let (wire, incoming) = self.connect(input, output)?;
        connection::serve_guest(self, wire, None, incoming).await;
        Ok(())
    }

    /// Starts reading and writing the messages of a client.
    pub(super) fn connect(
        &self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<(Arc<ClientConnection>, Incoming)> {
        let form = if self.engine().wraps_agent() {
            Form::JsonRpc
        } else {
            Form::Acp
        };
        connect(input, output, self.options().line_limit, form)
    }

    /// Begins a connection: the sessions of its client, of which there are none yet.
    pub(super) fn begin(&self, wire: Arc<ClientConnection>, role: Role) -> Registry {
        let shared = &*self.0;
        let options = &shared.options;
        shared.engine.connect(wire.clone());
        let registry = Registry::new(Arc::new(Deps {
            sys: shared.sys.clone(),
            store: shared.store.clone(),
            catalog: shared.catalog.clone(),
            sources: shared.sources.clone(),
            engine: shared.engine.clone(),
            wire,
            replay: options.replay,
            expire_after: options.expire_after,
            line_limit: options.line_limit,
            client_timeout: options.client_timeout,
            unstable: options.unstable,
            growth: shared.growth.clone(),
            owners: shared.owners.clone(),
            closed: shared.closed.clone(),
            shares_engine: role == Role::Guest,
        }));
        lock(&shared.connections).push(registry.clone());
        registry
    }

    /// Forgets a connection whose sessions are released.
    pub(super) fn forget(&self, registry: &Registry) {
        lock(&self.0.connections).retain(|other| !other.is_same(registry));
    }

    /// The connections whose sessions are not released.
    pub(super) fn connections(&self) -> Vec<Registry> {
        lock(&self.0.connections).clone()
    }

    /// Waits until no connection has a request under way.
    pub(super) async fn idle(&self) {
        while let Some(busy) = self.connections().iter().find(|one| !one.is_idle()) {
            busy.idle().await;
        }
    }

    /// Ends the turns of all connections, then releases their sessions, then ends the engine.
    pub(super) async fn end(&self, patience: Patience) {
        let guests = self.connections();
        let guests = guests.iter().filter(|one| one.deps().shares_engine);
        let guests: Vec<_> = guests.collect();
        for guest in &guests {
            guest.end();
            guest.cancel_all();
        }
        let ended = async {
            for guest in &guests {
                guest.idle().await;
                guest.deps().wire.writer.written().await.ok();
            }
        };
        if !guests.is_empty() {
            tokio::time::timeout(GRACE, ended).await.ok();
        }
        let connections = self.connections();
        for connection in &connections {
            connection.deps().wire.requests.close();
        }
        let released = async {
            for connection in &connections {
                connection.release().await;
            }
        };
        tokio::time::timeout(RELEASING, released).await.ok();
        self.engine().leave(patience).await;
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(super) fn sys(&self) -> &Sys {
        &self.0.sys
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.0.store.as_ref()
    }

    pub(super) fn sources(&self) -> Option<&Arc<LiveSources>> {
        self.0.sources.as_ref()
    }

    /// The sessions that it has, for clients elsewhere.
    pub(super) fn owners(&self) -> &Owners {
        &self.0.owners
    }

    pub(super) fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.0.catalog.as_ref()
    }

    pub(super) fn engine(&self) -> &Arc<dyn Engine> {
        &self.0.engine
    }
}

//! The state that the connections of one process share, and which of them there are.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::engine::upstream::Patience;
use crate::index::Catalog;
use crate::protocol::ProtocolVersion;
use crate::session::{
    Busy, BusyGuard, ConnectionRole, Deps, Growth, Library, Notifier, Owners, Registry,
};
use crate::store::{Store, place};
use crate::sys::output::LineOutput;
use crate::sys::{SessionId, Sys, lock};
use crate::transport::{ClientConnection, Incoming, MessageForm, ProcessFlow, connect};

use super::connection::{Guest, serve_guest};
use super::control::{DescribedClient, ProcessDescription, Stopped};
use super::serve::{Options, RELEASING};
use super::shutdown::GRACE;
use super::tools::ToolSessions;

/// How long the turns of sessions that are stopped may take to end. An agent has 10 s for that.
const STOPS: Duration = Duration::from_secs(15);
/// How long a connection without a client may take to let go of a session that was stopped.
const LETS_GO: Duration = Duration::from_secs(2);

/// How long a host waits for its first client at least.
const FIRST_CLIENT: Duration = Duration::from_secs(10);

/// A process that serves clients. Clones share it.
#[derive(Clone, Debug)]
pub struct Process(Arc<ProcessInner>);

#[derive(Debug)]
struct ProcessInner {
    options: Options,
    library: Arc<Library>,
    tools: Option<Arc<ToolSessions>>,
    engine: Arc<dyn Engine>,
    /// The engine of clients of version 1, if the agent of the other one speaks version 2.
    other_engine: OnceLock<Arc<dyn Engine>>,
    /// The pending work of all connections.
    flow: ProcessFlow,
    /// When it began, in the form of the log.
    since: String,
    kind: ProcessKind,
    /// The sessions of each connection, until they are released.
    connections: Mutex<Vec<ServedConnection>>,
    /// All connections, also those that have no sessions yet.
    wires: Mutex<Vec<Weak<ClientConnection>>>,
    /// Counts the clients that are there, and those whose turns go on.
    clients: Busy,
    /// Held while a client is introduced to the engine: from the choice of its engine to the answer
    /// to its first message.
    introducing: Arc<tokio::sync::Mutex<()>>,
    /// Cancelled when the process was asked to end.
    ending: CancellationToken,
    /// Whether the process is about to end, so that no client can come.
    ends: Mutex<bool>,
}

/// A connection whose sessions are not released.
#[derive(Clone, Debug)]
struct ServedConnection {
    registry: Registry,
    /// When its client came.
    since: String,
}

/// The purpose of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    /// For the client that has started it.
    OfClient,
    /// For clients that come and go.
    Host,
}

impl Process {
    /// A process that answers prompts with this engine.
    pub fn new(options: Options, sys: Sys, engine: Arc<dyn Engine>, kind: ProcessKind) -> Self {
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
            // Requests report it to the client; the disk may be back by then. A database is asked when
            // it is needed: the client does not wait for it before.
            if !store.waits()
                && let Err(error) = store.prepare()
            {
                tracing::error!(%error, "sessions cannot be kept");
            }
            store
        });
        let sources = options.sources.clone();
        let catalog = store.clone();
        let catalog = catalog.map(|store| Arc::new(Catalog::with_tools(store, sources.clone())));
        let tools = match (sources, &store, &catalog) {
            (Some(sources), Some(store), Some(catalog)) => Some(Arc::new(ToolSessions {
                sources,
                store: store.clone(),
                catalog: catalog.clone(),
            })),
            _ => None,
        };
        let since = sys.clock.now().to_string();
        let library = Library {
            sys,
            store,
            catalog,
            tools: tools.clone().map(|tools| tools as _),
            expire_after: options.expire_after,
            notifier: options.notify.clone().map(Notifier::new),
            growth: Growth::default(),
            owners: Arc::default(),
            closed: Mutex::default(),
        };
        Self(Arc::new(ProcessInner {
            options,
            library: Arc::new(library),
            tools,
            engine,
            other_engine: OnceLock::new(),
            flow: ProcessFlow::default(),
            since,
            kind,
            connections: Mutex::default(),
            wires: Mutex::default(),
            clients: Busy::default(),
            introducing: Arc::default(),
            ending: CancellationToken::new(),
            ends: Mutex::default(),
        }))
    }

    /// Serves a client over a stream until it has gone. What it leaves running goes on.
    pub async fn serve_stream(
        &self,
        input: impl Read + Send + 'static,
        output: impl Into<LineOutput> + Send,
    ) -> io::Result<()> {
        let (wire, incoming) = self.connect(input, output)?;
        let Some(_present) = self.client_comes() else {
            return Ok(());
        };
        let guest = Guest {
            wire,
            first: None,
            incoming,
            closer: None,
            observes: false,
        };
        serve_guest(self, guest).await;
        Ok(())
    }

    /// Starts reading and writing the messages of a client.
    pub(super) fn connect(
        &self,
        input: impl Read + Send + 'static,
        output: impl Into<LineOutput> + Send,
    ) -> io::Result<(Arc<ClientConnection>, Incoming)> {
        let form = if self.engine().wraps_agent() {
            MessageForm::JsonRpc
        } else {
            MessageForm::Acp
        };
        let (wire, incoming) =
            connect(input, output, self.options().line_limit, form, &self.0.flow)?;
        {
            let mut wires = lock(&self.0.wires);
            wires.retain(|other| other.strong_count() > 0);
            wires.push(Arc::downgrade(&wire));
        }
        if *lock(&self.0.ends) {
            wire.requests.close();
        }
        Ok((wire, incoming))
    }

    /// Waits until the clients that came before are introduced: the first one decides which version an
    /// agent speaks. The next one waits until the result is dropped.
    pub(super) async fn introduce(&self) -> OwnedMutexGuard<()> {
        self.0.introducing.clone().lock_owned().await
    }

    /// Begins a connection: the sessions of its client, of which there are none yet.
    /// `version` is that of the protocol, if it is known.
    pub(super) fn begin(
        &self,
        wire: Arc<ClientConnection>,
        role: ConnectionRole,
        version: Option<ProtocolVersion>,
    ) -> Registry {
        let shared = &*self.0;
        let options = &shared.options;
        let engine = self.engine_for(version);
        if let Some(agent) = engine.upstream() {
            agent.connect(wire.clone());
        }
        let registry = Registry::new(Arc::new(Deps {
            library: shared.library.clone(),
            engine,
            client: wire,
            role,
            replay: options.replay,
            client_timeout: options.client_timeout,
            unstable: options.unstable,
        }));
        let since = shared.library.sys.clock.now().to_string();
        lock(&shared.connections).push(ServedConnection {
            registry: registry.clone(),
            since,
        });
        registry
    }

    /// Forgets a connection whose sessions are released.
    pub(super) fn forget(&self, registry: &Registry) {
        lock(&self.0.connections).retain(|other| !other.registry.is_same(registry));
    }

    /// The connections whose sessions are not released.
    pub(super) fn connections(&self) -> Vec<Registry> {
        let connections = lock(&self.0.connections);
        let registries = connections.iter();
        registries.map(|one| one.registry.clone()).collect()
    }

    /// Counts a client until the result is dropped. `None` if the process is about to end.
    pub(super) fn client_comes(&self) -> Option<BusyGuard> {
        let ends = lock(&self.0.ends);
        (!*ends).then(|| self.0.clients.begin())
    }

    /// Waits until no client was there for so long, and none had left a turn that runs. From then on
    /// none can come. The first one has more time.
    pub(super) async fn unused(&self, time: Option<Duration>) {
        let clients = &self.0.clients;
        let mut time = time.map(|time| (time.max(FIRST_CLIENT), time));
        loop {
            let passed = async {
                match time {
                    Some((now, _)) => tokio::time::sleep(now).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = passed => {
                    let mut ends = lock(&self.0.ends);
                    if clients.is_idle() {
                        *ends = true;
                        return;
                    }
                }
                () = clients.busy() => {}
            }
            time = time.map(|(_, later)| (later, later));
            clients.idle().await;
        }
    }

    /// Waits until the process was asked to end.
    pub(super) async fn asked_to_end(&self) {
        self.0.ending.cancelled().await;
    }

    /// The process, for people.
    pub(super) fn describe(&self) -> ProcessDescription {
        let connections = lock(&self.0.connections).clone();
        let present = connections
            .into_iter()
            .filter(|one| one.registry.has_client());
        let clients = present.map(|one| DescribedClient {
            name: one.registry.client_name().map(str::to_owned),
            since: one.since,
            sessions: texts(&one.registry.ids()),
        });
        let linked = self.0.library.owners.linked().into_iter();
        let clients = clients.chain(linked.map(|(id, linked)| DescribedClient {
            name: linked.client,
            since: linked.since,
            sessions: vec![id.to_string()],
        }));
        ProcessDescription {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: self.0.since.clone(),
            host: self.0.kind == ProcessKind::Host,
            clients: clients.collect(),
        }
    }

    /// Ends the turn of a session and closes it. A host that has nothing else to do is to end.
    pub(super) async fn stop_session(&self, id: &SessionId) -> Stopped {
        let mut stopped = self.stop(|open| open == id).await;
        stopped.ends = self.0.kind == ProcessKind::Host && self.is_unused_without(id).await;
        stopped
    }

    /// Ends the turns of all sessions and closes them. A host is to end.
    pub(super) async fn stop_all(&self) -> Stopped {
        let mut stopped = self.stop(|_| true).await;
        stopped.ends = self.0.kind == ProcessKind::Host;
        stopped
    }

    /// Ends the turns of these sessions and closes them, all at once.
    async fn stop(&self, which: impl Fn(&SessionId) -> bool) -> Stopped {
        let mut stops = JoinSet::new();
        for connection in self.connections() {
            for id in connection.ids().into_iter().filter(&which) {
                let connection = connection.clone();
                stops.spawn(async move {
                    let stopped = timeout(STOPS, connection.stop(&id)).await;
                    (id, stopped.ok())
                });
            }
        }
        let (mut sessions, mut pending) = (BTreeSet::new(), BTreeSet::new());
        while let Some(stopped) = stops.join_next().await {
            match stopped {
                Ok((id, Some(true))) => sessions.insert(id),
                Ok((id, None)) => pending.insert(id),
                Ok((_, Some(false))) | Err(_) => false,
            };
        }
        Stopped {
            sessions: texts(&sessions),
            pending: texts(&pending),
            ends: false,
        }
    }

    /// Whether no client is there and no session is open, once a connection whose client has gone has
    /// let go of the session that was stopped.
    async fn is_unused_without(&self, id: &SessionId) -> bool {
        for connection in self.connections() {
            let is_last = connection.ids().iter().all(|open| open == id);
            if is_last && !connection.has_client() {
                timeout(LETS_GO, connection.released()).await.ok();
            }
        }
        let connections = self.connections();
        let mut connections = connections.iter();
        connections.all(|one| !one.has_client() && one.ids().is_empty())
    }

    /// Has the process end, if it is a host.
    pub(super) fn ask_to_end(&self) {
        self.0.ending.cancel();
    }

    /// Waits until no connection has a request under way.
    pub(super) async fn idle(&self) {
        while let Some(busy) = self.connections().iter().find(|one| !one.is_idle()) {
            busy.idle().await;
        }
    }

    /// Ends the turns of all connections, then releases their sessions, then ends the engine.
    pub(super) async fn end(&self, patience: Patience) {
        *lock(&self.0.ends) = true;
        let guests = self.connections();
        let guests = guests.iter().filter(|one| one.deps().role.shares_engine());
        let guests: Vec<_> = guests.collect();
        for guest in &guests {
            guest.end();
            guest.process_leaves();
        }
        let ended = async {
            for guest in &guests {
                guest.idle().await;
                guest.deps().client.writer.written().await.ok();
            }
        };
        let other = self.0.other_engine.get();
        let engines = || other.into_iter().chain([self.engine()]);
        tokio::pin!(ended);
        if !guests.is_empty() && timeout(GRACE, &mut ended).await.is_err() {
            // An agent that does not stop by itself is ended, which answers what waits for it.
            for engine in engines() {
                engine.leave(patience).await;
            }
            timeout(GRACE, ended).await.ok();
        }
        // A client that was not introduced gets no answer, either, so that it finds the next host.
        for wire in lock(&self.0.wires).iter().filter_map(Weak::upgrade) {
            wire.requests.close();
        }
        let connections = self.connections();
        let released = async {
            for connection in &connections {
                connection.release().await;
            }
        };
        timeout(RELEASING, released).await.ok();
        for engine in engines() {
            engine.leave(patience).await;
        }
    }

    /// When it began, in the form of the log.
    pub(super) fn since(&self) -> &str {
        &self.0.since
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(super) fn sys(&self) -> &Sys {
        &self.0.library.sys
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.0.library.store.as_ref()
    }

    pub(super) fn tools(&self) -> Option<&Arc<ToolSessions>> {
        self.0.tools.as_ref()
    }

    /// The sessions that it has, for clients elsewhere.
    pub(super) fn owners(&self) -> &Owners {
        &self.0.library.owners
    }

    pub(super) fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.0.library.catalog.as_ref()
    }

    /// The engine for a client of this version: an agent speaks one with all its clients, and one that
    /// speaks version 2 is of no use to a client of version 1.
    fn engine_for(&self, version: Option<ProtocolVersion>) -> Arc<dyn Engine> {
        let engine = &self.0.engine;
        let native = engine.upstream().filter(|agent| agent.is_native());
        let Some(agent) = native.filter(|_| version == Some(ProtocolVersion::V1)) else {
            return engine.clone();
        };
        let other = || agent.another().unwrap_or_else(|| engine.clone());
        self.0.other_engine.get_or_init(other).clone()
    }

    pub(super) fn engine(&self) -> &Arc<dyn Engine> {
        &self.0.engine
    }
}

fn texts<'a>(ids: impl IntoIterator<Item = &'a SessionId>) -> Vec<String> {
    ids.into_iter().map(SessionId::to_string).collect()
}

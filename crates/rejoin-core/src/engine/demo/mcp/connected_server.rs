//! An MCP server of a session: connected when it is needed, and again after it has ended.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::engine::process::Launch;
use crate::engine::upstream::Patience;
use crate::sys::lock;

use super::config::{Endpoint, ServerConfig};
use super::connection::{McpConnection, McpTransport};
use super::peer::{McpPeer, RequestError};
use super::stdio::StdioTransport;
use super::tools::McpTools;

/// How many servers, of all sessions, may be starting at once.
static STARTING: Semaphore = Semaphore::const_new(8);

/// How long a server that starts slowly keeps others from starting.
const SLOW: Duration = Duration::from_secs(2);

/// How long a server may take to start. Some are downloaded first.
const STARTS: Duration = Duration::from_mins(1);

/// How long we wait for a start to be cancelled.
const ENDS: Duration = Duration::from_secs(1);

/// A server and its state.
pub(super) struct DemoMcpServer {
    pub(super) config: ServerConfig,
    cwd: String,
    launch: Launch,
    /// Whether the server may be started at all.
    usable: bool,
    /// Whether the user needs no notice: it was usable once, or its failure was reported.
    reported: AtomicBool,
    state: watch::Sender<McpServerState>,
    /// The task that connects and watches the connection.
    task: Mutex<Option<JoinHandle<()>>>,
    /// Held while the server is being ended.
    ending: tokio::sync::Mutex<()>,
}

/// The state of a server.
#[derive(Clone)]
pub(super) enum McpServerState {
    /// The server is being started.
    Starting,
    /// The server can be used, or could until it ended.
    Ready(Arc<McpConnection>),
    /// The server cannot be used, for this reason.
    Failed(Arc<str>),
    /// The server was ended for good.
    Closed,
}

impl DemoMcpServer {
    /// Begins to start a server for a session that works in `cwd`. Must be called inside of a
    /// runtime.
    pub(super) fn start(config: ServerConfig, cwd: &str, launch: Launch) -> Arc<Self> {
        let server = Self::new(config, cwd, launch, None);
        server.connect();
        server
    }

    /// A server that cannot be used, for the reason `why`.
    pub(super) fn unusable(config: ServerConfig, cwd: &str, why: &str) -> Arc<Self> {
        Self::new(config, cwd, Launch::default(), Some(why))
    }

    fn new(config: ServerConfig, cwd: &str, launch: Launch, unusable: Option<&str>) -> Arc<Self> {
        let usable = unusable.is_none() && !matches!(config.endpoint, Endpoint::Unsupported(_));
        let state = unusable.map_or(McpServerState::Starting, |why| {
            McpServerState::Failed(why.into())
        });
        Arc::new(Self {
            config,
            cwd: cwd.to_owned(),
            launch,
            usable,
            reported: AtomicBool::new(false),
            state: watch::Sender::new(state),
            task: Mutex::default(),
            ending: tokio::sync::Mutex::default(),
        })
    }

    /// The name that users call it by.
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether the server can be used for this configuration in a session that works in `cwd`.
    pub(super) fn is_for(&self, config: &ServerConfig, cwd: &str) -> bool {
        self.usable && self.config == *config && self.cwd == cwd
    }

    /// The current state.
    pub(super) fn state(&self) -> McpServerState {
        self.state.borrow().clone()
    }

    /// The reason why the server could never be used; returned only once.
    pub(super) fn unreported_failure(&self) -> Option<Arc<str>> {
        match self.state() {
            McpServerState::Failed(why) if !self.reported.swap(true, Ordering::Relaxed) => {
                Some(why)
            }
            _ => None,
        }
    }

    /// Restarts it if it has ended or could not be started.
    pub(super) fn restart_if_ended(self: &Arc<Self>) {
        let again = self.state.send_if_modified(|state| {
            let again = match state {
                McpServerState::Ready(connection) => connection.has_ended(),
                McpServerState::Failed(_) => self.usable,
                McpServerState::Starting | McpServerState::Closed => false,
            };
            if again {
                *state = McpServerState::Starting;
            }
            again
        });
        if again {
            self.connect();
        }
    }

    /// Waits, no longer than `until`, for the start to succeed or fail, and returns the state.
    pub(super) async fn wait_until_started(&self, until: Instant) -> McpServerState {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, McpServerState::Starting));
        // After a timeout the state is still `Starting`.
        timeout_at(until, settled).await.ok();
        self.state()
    }

    /// The connection, re-established if necessary, or the reason for the failure.
    async fn connection(self: &Arc<Self>) -> Result<Arc<McpConnection>, String> {
        self.restart_if_ended();
        match self.wait_until_started(Instant::now() + STARTS).await {
            McpServerState::Ready(connection) => Ok(connection),
            McpServerState::Failed(why) => Err(why.to_string()),
            McpServerState::Starting => Err("it is still starting".to_owned()),
            McpServerState::Closed => Err("it was shut down".to_owned()),
        }
    }

    /// The current tools, with the connection to call them on. Retries once if the connection was
    /// lost without notice, as happens with servers that are not our subprocesses.
    pub(super) async fn tools(self: &Arc<Self>) -> Result<(Arc<McpConnection>, McpTools), String> {
        let mut connection = self.connection().await?;
        let mut tools = connection.tools().await;
        if let Err(why) = &tools
            && (*why == RequestError::Closed || !connection.is_process())
        {
            self.discard(&connection).await;
            connection = self.connection().await?;
            tools = connection.tools().await;
        }
        match tools {
            Ok(tools) => Ok((connection, tools)),
            Err(why) => Err(self.in_words(&connection, why).await),
        }
    }

    /// Why a request was not answered, without secrets.
    pub(super) async fn in_words(&self, connection: &McpConnection, why: RequestError) -> String {
        let why = match why {
            RequestError::Closed => format!("it has ended: {}", connection.exit_reason().await),
            RequestError::Failed(why) => why,
        };
        self.config.secrets().hide(&why)
    }

    /// Drops a connection that no longer works.
    async fn discard(&self, connection: &Arc<McpConnection>) {
        self.state.send_if_modified(|state| {
            let current = is_current(state, connection);
            if current {
                *state = McpServerState::Failed("the connection was lost".into());
            }
            current
        });
        connection.end(Patience::Hurry).await;
    }

    /// Ends it for good. Concurrent callers also wait until it has ended.
    pub(super) async fn end(&self, patience: Patience) {
        let _ending = self.ending.lock().await;
        if let McpServerState::Ready(connection) = self.state.send_replace(McpServerState::Closed) {
            connection.end(patience).await;
        }
        let task = lock(&self.task).take();
        if let Some(task) = task {
            timeout(ENDS, task).await.ok();
        }
    }

    fn connect(self: &Arc<Self>) {
        let server = self.clone();
        let task = tokio::spawn(async move {
            let mut state = server.state.subscribe();
            let closed = state.wait_for(|state| matches!(state, McpServerState::Closed));
            let connected = tokio::select! {
                // This drops a start in progress, which kills the subprocess.
                _ = closed => return,
                connected = server.connected_in_turn() => connected,
            };
            match connected {
                Ok(connection) => server.ready(Arc::new(connection)).await,
                Err(why) => server.failed(&why),
            }
        });
        *lock(&self.task) = Some(task);
    }

    /// Connects when fewer servers than the limit are starting.
    async fn connected_in_turn(&self) -> Result<McpConnection, String> {
        let turn = STARTING.acquire().await;
        let mut connecting = pin!(timeout(STARTS, self.connected()));
        let connected = if let Ok(connected) = timeout(SLOW, connecting.as_mut()).await {
            connected
        } else {
            drop(turn);
            connecting.await
        };
        let late = |_| {
            Err(format!(
                "it did not start within {} seconds",
                STARTS.as_secs()
            ))
        };
        connected.unwrap_or_else(late)
    }

    async fn ready(&self, connection: Arc<McpConnection>) {
        self.reported.store(true, Ordering::Relaxed);
        if !self.set_state(McpServerState::Ready(connection.clone())) {
            connection.end(Patience::Hurry).await;
            return;
        }
        connection.ended().await;
        if is_current(&self.state(), &connection) {
            let why = connection.exit_reason().await;
            let why = self.config.secrets().hide(&why);
            tracing::warn!(server = self.name(), why, "an MCP server has ended");
        }
    }

    fn failed(&self, why: &str) {
        let why = self.config.secrets().hide(why);
        tracing::warn!(server = self.name(), why, "an MCP server cannot be used");
        self.set_state(McpServerState::Failed(why.into()));
    }

    /// Sets the state, unless the server was ended. Returns whether it was set.
    fn set_state(&self, new: McpServerState) -> bool {
        self.state.send_if_modified(|state| {
            let is_open = !matches!(state, McpServerState::Closed);
            if is_open {
                *state = new;
            }
            is_open
        })
    }

    async fn connected(&self) -> Result<McpConnection, String> {
        let peer = McpPeer::new();
        let transport = match &self.config.endpoint {
            Endpoint::Process { command, args, env } => {
                let command = (&**command, &**args, &**env);
                let (cwd, launch) = (&self.cwd, &self.launch);
                let started = StdioTransport::start(&self.config, command, cwd, launch, &peer)?;
                McpTransport::Stdio(started)
            }
            #[cfg(feature = "mcp-http")]
            Endpoint::Http { url, headers } => {
                let http = super::http::HttpTransport::new(url, headers, &peer)?;
                McpTransport::Http(http)
            }
            #[cfg(not(feature = "mcp-http"))]
            Endpoint::Http { .. } => {
                return Err("this program was built without HTTP".to_owned());
            }
            Endpoint::Unsupported(transport) => {
                return Err(format!("the transport `{transport}` is not supported"));
            }
        };
        McpConnection::open(peer, transport).await
    }
}

/// Whether this is the connection in use.
fn is_current(state: &McpServerState, connection: &Arc<McpConnection>) -> bool {
    matches!(state, McpServerState::Ready(current) if Arc::ptr_eq(current, connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_waits_for_others_to_start() {
        let config = ServerConfig {
            name: "s".to_owned(),
            endpoint: Endpoint::Process {
                command: "/no/such/server".to_owned(),
                args: Vec::new(),
                env: Vec::new(),
            },
        };
        let others = STARTING.acquire_many(8).await.unwrap();
        let server = DemoMcpServer::start(config, "/no/such/folder", Launch::default());
        // Without the limit, the start would fail in the first iteration.
        for _ in 0..10 {
            tokio::task::yield_now().await;
            assert!(matches!(server.state(), McpServerState::Starting));
        }
        drop(others);
        let settled = server.wait_until_started(Instant::now() + STARTS).await;
        assert!(matches!(settled, McpServerState::Failed(_)));
    }
}

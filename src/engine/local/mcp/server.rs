//! One MCP server of a session: connected when it is wanted, connected again when it has ended.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::Tool;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::engine::relay::Patience;
use crate::sys::lock;

use super::connection::{Connection, epitaph};
use super::ears::Ears;
use super::failure::{Unanswered, not_connected};
use super::process::{self, Start};
use super::wanted::{Reached, Wanted};

/// The longest line that is taken of a server, in bytes. The library passes over longer ones.
const LONGEST: usize = 64 * 1024 * 1024;

/// How long a server may take to start. Some are fetched from a network first.
const STARTS: Duration = Duration::from_mins(1);

/// How long it may take to let go of a server that was about to start.
const ENDS: Duration = Duration::from_secs(1);

/// A server with what is known of it.
pub(super) struct Server {
    pub(super) wanted: Wanted,
    cwd: String,
    guard: Option<PathBuf>,
    state: watch::Sender<State>,
    /// What makes the connection and watches over it.
    keeper: Mutex<Option<JoinHandle<()>>>,
    /// Held by whoever ends it.
    ending: tokio::sync::Mutex<()>,
}

/// How a server is.
#[derive(Clone)]
pub(super) enum State {
    /// It is being started.
    Starting,
    /// It can be asked; or could, if it has ended since.
    Ready(Arc<Connection>),
    /// It cannot be used, and why.
    Failed(Arc<str>),
    /// It is not wanted any more.
    Gone,
}

impl Server {
    /// A server of a session that works in `cwd`, which begins to start. Must be called inside of a
    /// runtime.
    pub(super) fn start(wanted: Wanted, cwd: &str, guard: Option<PathBuf>) -> Arc<Self> {
        let server = Self::new(wanted, cwd, guard, State::Starting);
        server.connect();
        server
    }

    /// A server that cannot be used, and why.
    pub(super) fn unusable(wanted: Wanted, cwd: &str, why: &str) -> Arc<Self> {
        Self::new(wanted, cwd, None, State::Failed(why.into()))
    }

    fn new(wanted: Wanted, cwd: &str, guard: Option<PathBuf>, state: State) -> Arc<Self> {
        Arc::new(Self {
            wanted,
            cwd: cwd.to_owned(),
            guard,
            state: watch::Sender::new(state),
            keeper: Mutex::default(),
            ending: tokio::sync::Mutex::default(),
        })
    }

    /// The name by which people call it.
    pub(super) fn name(&self) -> &str {
        &self.wanted.name
    }

    /// Whether it is what is wanted of a session that works in `cwd`.
    pub(super) fn is(&self, wanted: &Wanted, cwd: &str) -> bool {
        self.wanted == *wanted && self.cwd == cwd
    }

    /// How it is.
    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Starts it again if it has ended or could not be started.
    pub(super) fn revive(self: &Arc<Self>) {
        let again = self.state.send_if_modified(|state| {
            let again = match state {
                State::Ready(connection) => connection.is_over(),
                State::Failed(_) => !matches!(self.wanted.reached, Reached::Unsupported(_)),
                State::Starting | State::Gone => false,
            };
            if again {
                *state = State::Starting;
            }
            again
        });
        if again {
            self.connect();
        }
    }

    /// Waits until it has started or cannot be, until then at most, and says how it is.
    pub(super) async fn settled(&self, until: Instant) -> State {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Starting));
        // It is as it is, also if it has not settled.
        timeout_at(until, settled).await.ok();
        self.state()
    }

    /// The connection, made anew if it has to be, or why there is none.
    async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, String> {
        self.revive();
        match self.settled(Instant::now() + STARTS).await {
            State::Ready(connection) => Ok(connection),
            State::Failed(why) => Err(why.to_string()),
            State::Starting => Err("it does not start".to_owned()),
            State::Gone => Err("it is not wanted any more".to_owned()),
        }
    }

    /// The tools that it has now, with the connection to call them on. If it has gone without a
    /// word, as those do that are no processes of ours, there is a second try.
    pub(super) async fn tools(self: &Arc<Self>) -> Result<(Arc<Connection>, Vec<Tool>), String> {
        let mut connection = self.connection().await?;
        let mut tools = connection.tools().await;
        if let Err(why) = &tools
            && (*why == Unanswered::Closed || !connection.is_process())
        {
            self.lose(&connection).await;
            connection = self.connection().await?;
            tools = connection.tools().await;
        }
        match tools {
            Ok(tools) => Ok((connection, tools)),
            Err(why) => Err(self.in_words(&connection, why).await),
        }
    }

    /// Why a request was not answered, without secrets.
    pub(super) async fn in_words(&self, connection: &Connection, why: Unanswered) -> String {
        let epitaph = match why {
            Unanswered::Closed => connection.epitaph().await,
            Unanswered::Because(_) => String::new(),
        };
        self.wanted.secrets().hide(&why.in_words(&epitaph))
    }

    /// Gives a connection up that is of no use.
    async fn lose(&self, connection: &Arc<Connection>) {
        self.state.send_if_modified(|state| {
            let current = is(state, connection);
            if current {
                *state = State::Failed("the connection was lost".into());
            }
            current
        });
        connection.end(Patience::Hurry).await;
    }

    /// Ends it for good. Whoever asks for that returns when it has ended.
    pub(super) async fn end(&self, patience: Patience) {
        let _ending = self.ending.lock().await;
        if let State::Ready(connection) = self.state.send_replace(State::Gone) {
            connection.end(patience).await;
        }
        let keeper = lock(&self.keeper).take();
        if let Some(keeper) = keeper {
            timeout(ENDS, keeper).await.ok();
        }
    }

    fn connect(self: &Arc<Self>) {
        let server = self.clone();
        let keeper = tokio::spawn(async move {
            let mut gone = server.state.subscribe();
            let gone = gone.wait_for(|state| matches!(state, State::Gone));
            let connected = tokio::select! {
                // What has begun to start is dropped, which kills it.
                _ = gone => return,
                connected = timeout(STARTS, server.connected()) => connected,
            };
            let late = || format!("it did not start within {} seconds", STARTS.as_secs());
            match connected.unwrap_or_else(|_| Err(late())) {
                Ok(connection) => server.ready(Arc::new(connection)).await,
                Err(why) => server.failed(&why),
            }
        });
        *lock(&self.keeper) = Some(keeper);
    }

    async fn ready(&self, connection: Arc<Connection>) {
        let wanted = self.settle(State::Ready(connection.clone()));
        if !wanted {
            connection.end(Patience::Hurry).await;
            return;
        }
        connection.over().await;
        if is(&self.state(), &connection) {
            let why = connection.epitaph().await;
            let why = self.wanted.secrets().hide(&why);
            tracing::warn!(server = self.name(), why, "an MCP server has ended");
        }
    }

    fn failed(&self, why: &str) {
        let why = self.wanted.secrets().hide(why);
        tracing::warn!(server = self.name(), why, "an MCP server cannot be used");
        self.settle(State::Failed(why.into()));
    }

    /// Says how it is, unless it is not wanted any more.
    fn settle(&self, settled: State) -> bool {
        self.state.send_if_modified(|state| {
            let wanted = !matches!(state, State::Gone);
            if wanted {
                *state = settled;
            }
            wanted
        })
    }

    async fn connected(&self) -> Result<Connection, String> {
        match &self.wanted.reached {
            Reached::Process { command, args, env } => {
                let secrets = self.wanted.secrets();
                let start = Start {
                    name: self.name(),
                    command,
                    args,
                    env,
                    cwd: &self.cwd,
                    guard: self.guard.as_deref(),
                    secrets: &secrets,
                };
                let (child, input, output) = process::start(start)?;
                let transport = AsyncRwTransport::new_client(output, input);
                let transport = transport.with_max_line_length(LONGEST);
                match Ears::new().serve(transport).await {
                    Ok(service) => Ok(Connection::new(service, Some(child))),
                    Err(error) => {
                        let why = not_connected(&error);
                        // What it said last comes with its end.
                        child.end(Patience::EndOfInput).await;
                        Err(format!("{why} ({})", epitaph(&child)))
                    }
                }
            }
            #[cfg(feature = "mcp-http")]
            Reached::Http { url, headers } => {
                let transport = super::http::transport(url, headers)?;
                match Ears::new().serve(transport).await {
                    Ok(service) => Ok(Connection::new(service, None)),
                    Err(error) => Err(not_connected(&error)),
                }
            }
            #[cfg(not(feature = "mcp-http"))]
            Reached::Http { .. } => Err("this program was built without HTTP".to_owned()),
            Reached::Unsupported(transport) => {
                Err(format!("the transport `{transport}` is not supported"))
            }
        }
    }
}

/// Whether this is the connection in use.
fn is(state: &State, connection: &Arc<Connection>) -> bool {
    matches!(state, State::Ready(current) if Arc::ptr_eq(current, connection))
}

//! The agent that all sessions share: starts it when needed, initializes it, signs in again, ends it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::engine::upstream::{InitializeOutcome, Introduction, Patience};
use crate::engine::{BoxFuture, Caller, Clients, EngineError};
use crate::json::{text_member, with_members};
use crate::protocol::{Id, IdSet, method};
use crate::sys::lock;
use crate::transport::ClientConnection;

use super::capabilities::{Capabilities, only_claims_2};
use super::process::names::{self, AgentNames, NamesInLogs};
use super::process::transport::AgentSource;
use super::wire::connection::AgentConnection;
use super::wire::extensions::{for_agent, for_client};
use super::wire::intake;

/// The target of log lines that are on stderr in any case, since they say why nothing happens.
pub const FOR_PEOPLE: &str = "rejoin::notice";

/// How long an agent may take to answer `initialize` before a warning is logged.
const WARN_AFTER: Duration = Duration::from_secs(5);

/// The version of the protocol that we use with agents.
const VERSION: &str = "1";

/// The version that we use with an agent that speaks it, like the client.
const NATIVE: &str = "2";

/// The longest name of an agent that is accepted, in bytes.
const NAME_LIMIT: usize = 200;

/// The agent that all sessions share.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) source: AgentSource,
    pub(super) names: NamesInLogs,
    /// How long it may take to start and to answer `initialize`.
    start_timeout: Duration,
    clients: Arc<Clients>,
    /// The connection with the running process, for callers that cannot wait.
    current: Mutex<Option<Arc<AgentConnection>>>,
    /// The connection with a process that has not answered `initialize` yet.
    starting: Mutex<Option<Arc<AgentConnection>>>,
    /// The session capabilities that it declared when it was last started.
    declared: Mutex<BTreeSet<String>>,
    /// Whether the next session may fail because the user must sign in: the agent has ways to sign
    /// in, and its process has not yet opened a session or accepted a sign-in.
    may_want_sign_in: AtomicBool,
    /// Whether the agent speaks the client's version; decided when it is first started.
    is_native: OnceLock<bool>,
    /// The subagents that its processes have announced, and those in the logs that were opened.
    subagents: Arc<Mutex<IdSet>>,
    /// Whether no further process may be started.
    left: AtomicBool,
    state: tokio::sync::Mutex<AgentState>,
}

#[derive(Debug, Default)]
struct AgentState {
    /// The parameters of `initialize`, and the agent's result.
    initialize_params: Option<String>,
    /// The parameters for an agent that may speak version 2.
    native_params: Option<String>,
    initialize_result: Option<String>,
    /// The parameters with which the client has signed in.
    signed_in: Option<String>,
    /// The error that the agent did not answer `initialize`. The client has it only inside of our own
    /// result, so the next request that needs the agent fails with it, too.
    unreported: Option<EngineError>,
}

impl AgentState {
    /// Keeps the parameters of `initialize`. An agent that was started goes on in its version.
    fn introduce(&mut self, introduction: &Introduction, is_native: Option<bool>) {
        let with =
            |params: &str, version| with_members(params, &[], &[("protocolVersion", version)]);
        self.initialize_params = Some(with(&introduction.params, VERSION));
        let native = introduction.native.as_deref();
        if is_native.is_none_or(|is_native| is_native && native.is_some()) {
            self.native_params = native.map(|params| with(params, NATIVE));
        }
    }
}

/// Why the agent is not available.
enum StartError {
    /// The agent could not be started, or ended at once; with a description.
    Start(String),
    /// The agent did not answer `initialize` in time; with a description.
    Silent(String),
    /// The agent answered `initialize` with an error.
    Refused(EngineError),
}

impl Agent {
    /// An agent with these names.
    pub(super) fn new(source: AgentSource, names: AgentNames, start_timeout: Duration) -> Self {
        Self {
            source,
            names: NamesInLogs::new(names),
            start_timeout,
            clients: Arc::default(),
            current: Mutex::default(),
            starting: Mutex::default(),
            declared: Mutex::default(),
            may_want_sign_in: AtomicBool::new(false),
            is_native: OnceLock::new(),
            subagents: Arc::default(),
            left: AtomicBool::new(false),
            state: tokio::sync::Mutex::default(),
        }
    }

    /// The name that the store has for it.
    pub(super) fn name(&self) -> &str {
        self.names.name()
    }

    /// Whether the agent declared this session capability when it was last started.
    pub(super) fn declares(&self, capability: &str) -> bool {
        lock(&self.declared).contains(capability)
    }

    /// Whether the agent speaks the client's version, where that is not version 1.
    pub(super) fn is_native(&self) -> bool {
        self.is_native.get() == Some(&true)
    }

    /// Whether this is the session of a subagent, of any process of the agent.
    pub(super) fn is_subagent(&self, session: &str) -> bool {
        lock(&self.subagents).has(Id::of(session.as_bytes()))
    }

    /// A log that was opened has this subagent.
    pub(super) fn note_subagent(&self, session: &str) {
        lock(&self.subagents).add(Id::of(session.as_bytes()));
    }

    /// Whether the next session may fail because the user must sign in.
    pub(super) fn may_want_sign_in(&self) -> bool {
        self.may_want_sign_in.load(Ordering::Relaxed)
    }

    /// Records whether opening a session required sign-in.
    pub(super) fn track_sign_in<T>(
        &self,
        opened: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        match &opened {
            Ok(_) => self.set_may_want_sign_in(false),
            Err(error) if error.code == EngineError::SIGN_IN => self.set_may_want_sign_in(true),
            Err(_) => {}
        }
        opened
    }

    fn set_may_want_sign_in(&self, wanted: bool) {
        self.may_want_sign_in.store(wanted, Ordering::Relaxed);
    }

    pub(super) fn connect(&self, client: Arc<ClientConnection>) {
        if let AgentSource::Successor(port) = &self.source {
            port.connect(client.writer.clone());
        }
        self.clients.connect(client);
    }

    /// The connection, if the agent runs.
    pub(super) fn current(&self) -> Option<Arc<AgentConnection>> {
        let current = lock(&self.current).clone();
        current.filter(|connection| !connection.life.is_dead())
    }

    /// The connection; starts the agent if it does not run.
    pub(super) async fn connection(&self) -> Result<Arc<AgentConnection>, EngineError> {
        let mut state = self.state.lock().await;
        if let Some(error) = state.unreported.take() {
            return Err(error);
        }
        match self.running(&mut state).await {
            Ok(connection) => Ok(connection),
            Err(StartError::Refused(error)) => Err(error),
            Err(StartError::Start(why) | StartError::Silent(why)) => Err(self.start_failed(&why)),
        }
    }

    /// The error that the agent did not answer `initialize`, if no request has failed with it yet.
    pub(super) async fn unreported_failure(&self) -> Option<EngineError> {
        self.state.lock().await.unreported.clone()
    }

    /// Keeps the parameters of `initialize` for when it is started.
    pub(super) fn introduced(mut self, introduction: &Introduction) -> Self {
        self.state.get_mut().introduce(introduction, None);
        self
    }

    /// The ways to sign in that it has offered, as JSON text.
    pub(super) async fn sign_in_methods(&self) -> Option<String> {
        let state = self.state.lock().await;
        let result = state.initialize_result.as_deref()?;
        text_member(result, "authMethods").map(str::to_owned)
    }

    /// Forwards `initialize`.
    pub(super) async fn greet(&self, introduction: &Introduction) -> InitializeOutcome {
        let mut state = self.state.lock().await;
        state.introduce(introduction, self.is_native.get().copied());
        let running = self.running(&mut state).await;
        if running.is_err() && self.is_native.get().is_none() {
            // The client is answered without the agent, so what passes will be converted.
            state.native_params = None;
        }
        match running {
            Ok(_) => {
                InitializeOutcome::Answered(Ok(state.initialize_result.clone().unwrap_or_default()))
            }
            Err(StartError::Refused(error)) => InitializeOutcome::Answered(Err(error)),
            Err(StartError::Start(why)) => InitializeOutcome::Unavailable(self.start_failed(&why)),
            Err(StartError::Silent(why)) => {
                let error = self.start_failed(&why);
                state.unreported = Some(error.clone());
                InitializeOutcome::Unavailable(error)
            }
        }
    }

    /// Forwards a request that belongs to no session.
    pub(super) async fn call(
        &self,
        caller: Caller,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> Result<String, EngineError> {
        let connection = self.connection().await?;
        let forwarded = for_agent(&connection.routes, method, params.to_owned());
        let pending = connection.request_of(caller, method, &forwarded);
        let result = pending.outcome_or_cancel(cancelled).await?;
        let result = for_client(&connection.routes, method, result);
        let signed_in = match method {
            method::AUTHENTICATE | method::AUTH_LOGIN => Some(params.to_owned()),
            method::LOGOUT | method::AUTH_LOGOUT => None,
            _ => return Ok(result),
        };
        self.set_may_want_sign_in(signed_in.is_none());
        self.state.lock().await.signed_in = signed_in;
        Ok(result)
    }

    pub(super) async fn leave(&self, patience: Patience) {
        self.left.store(true, Ordering::Release);
        let connections = [&self.current, &self.starting].map(|one| lock(one).take());
        let connections: Vec<_> = connections.into_iter().flatten().collect();
        let had_any = !connections.is_empty();
        for connection in connections {
            connection.life.leave(patience).await;
        }
        if let AgentSource::Successor(port) = &self.source {
            port.leave();
        }
        if had_any {
            tracing::info!(agent = self.name(), "the agent was ended");
        }
    }

    async fn running(&self, state: &mut AgentState) -> Result<Arc<AgentConnection>, StartError> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let started = self.start(state).await;
        let (connection, initialize_result) =
            started.inspect_err(|error| self.trace_failure(error))?;
        let version = connection.capabilities().version.unwrap_or_default();
        tracing::info!(agent = self.name(), version, "the agent has started");
        if let Some(params) = &state.signed_in {
            // The process that was signed in has ended.
            let method = if connection.is_native() {
                method::AUTH_LOGIN
            } else {
                method::AUTHENTICATE
            };
            let signed_in = connection.request(method, params).outcome();
            match timeout(self.start_timeout, signed_in).await {
                Err(_) => tracing::warn!("the restarted agent does not answer the sign-in"),
                Ok(Ok(_)) => self.set_may_want_sign_in(false),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "could not sign in to the restarted agent");
                }
            }
        }
        state.initialize_result = Some(initialize_result);
        *lock(&self.current) = Some(connection.clone());
        lock(&self.starting).take();
        Ok(connection)
    }

    async fn start(
        &self,
        state: &AgentState,
    ) -> Result<(Arc<AgentConnection>, String), StartError> {
        if self.clients.latest().is_none() {
            let why = "cannot be started before a client is connected";
            return Err(StartError::Start(why.to_owned()));
        }
        let failed = |error: String| StartError::Start(format!("could not be started: {error}"));
        let (transport, output) = self.source.open().map_err(failed)?;
        let connection =
            AgentConnection::new(self.clients.clone(), transport, self.subagents.clone());
        *lock(&self.starting) = Some(connection.clone());
        if self.left.load(Ordering::Acquire) {
            connection.life.end(Patience::Hurry).await;
        }
        let reader = connection.clone();
        thread::Builder::new()
            .name("rejoin-agent-reader".to_owned())
            .spawn(move || intake::run(reader, output))
            .map_err(|error| failed(error.to_string()))?;
        let watched = connection.clone();
        tokio::spawn(async move { watched.life.end_when_deaf().await });
        let limit = self.start_timeout;
        let answer = async {
            let initialize =
                |params: &str| connection.request(method::INITIALIZE, params).outcome();
            if let Some(params) = &state.native_params {
                let answer = initialize(params).await;
                // An agent that does not know version 2 should answer with version 1, but may refuse, or
                // repeat the version that it was asked for.
                let is_understood = answer.as_deref().is_ok_and(|result| !only_claims_2(result));
                if is_understood || connection.life.is_dead() || self.is_native() {
                    return answer;
                }
            }
            let params = state.initialize_params.clone();
            let params =
                params.unwrap_or_else(|| json!({ "protocolVersion": VERSION }).to_string());
            initialize(&params).await
        };
        let result = match within(limit, answer, || self.warn()).await {
            Some(Ok(result)) if only_claims_2(&result) => {
                with_members(&result, &[], &[("protocolVersion", VERSION)])
            }
            Some(Ok(result)) => result,
            Some(Err(_)) if connection.life.is_dead() => {
                return Err(StartError::Start(connection.life.startup_failure()));
            }
            Some(Err(error)) => {
                connection.life.end(Patience::Hurry).await;
                return Err(StartError::Refused(error));
            }
            None => {
                connection.life.end(Patience::Hurry).await;
                let limit = humantime::format_duration(limit);
                return Err(StartError::Silent(format!(
                    "did not answer `initialize` within {limit} (`--start-timeout`); is it an ACP \
                     agent?"
                )));
            }
        };
        let version = text_member(&result, "protocolVersion").unwrap_or("none");
        let is_native = version == NATIVE && state.native_params.is_some();
        let was_native = self.is_native.get();
        if version != VERSION && !is_native || was_native.is_some_and(|was| *was != is_native) {
            connection.life.end(Patience::Hurry).await;
            let version: String = version.chars().take(20).collect();
            let ours = if was_native == Some(&true) {
                NATIVE
            } else {
                VERSION
            };
            let why = format!("speaks version {version} of the protocol, not {ours}");
            return Err(StartError::Start(why));
        }
        connection.note_first_answer();
        self.is_native.set(is_native).ok();
        let capabilities = Capabilities::read(&result);
        let name = capabilities
            .name
            .clone()
            .filter(|name| name.len() <= NAME_LIMIT);
        let name = match self.source {
            AgentSource::Program(_) => name.and_then(|name| names::reported(&name)),
            AgentSource::Successor(_) => name.filter(|name| !name.is_empty()),
        };
        self.names.set_reported(name);
        lock(&self.declared).clone_from(&capabilities.declared);
        self.set_may_want_sign_in(capabilities.sign_in);
        connection.set_capabilities(capabilities);
        Ok((connection, result))
    }

    /// Warns that the agent is slow to answer `initialize`.
    fn warn(&self) {
        let who = self.for_people();
        let waited = humantime::format_duration(WARN_AFTER);
        let limit = humantime::format_duration(self.start_timeout);
        tracing::warn!(
            target: FOR_PEOPLE,
            "{who} has not answered `initialize` for {waited}; is it an ACP agent? After {limit} \
             (`--start-timeout`) it is ended, and the client gets an error"
        );
    }

    /// Logs why the agent is not available.
    fn trace_failure(&self, error: &StartError) {
        let who = self.for_people();
        match error {
            // People were warned before.
            StartError::Silent(why) => tracing::warn!(target: FOR_PEOPLE, "{who} {why}"),
            StartError::Start(why) => tracing::info!("{who} {why}"),
            StartError::Refused(error) => {
                tracing::info!(code = error.code, "{who} refused `initialize`");
            }
        }
    }

    fn for_people(&self) -> String {
        match self.source.command() {
            Some(program) => format!("the agent `{program}`"),
            None => "the agent behind the conductor".to_owned(),
        }
    }

    /// The error for a request that needs an agent that is not available.
    fn start_failed(&self, why: &str) -> EngineError {
        let message = format!("{} {why}", self.for_people());
        let command = ("command".to_owned(), self.source.command().into());
        let name = "agent_failed_to_start";
        EngineError::with(EngineError::INTERNAL, name, message, [command])
    }
}

/// Waits for an answer until `limit`. Calls `slow` once if it takes long.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = T>,
    slow: impl FnOnce(),
) -> Option<T> {
    tokio::pin!(answer);
    if let Ok(answer) = timeout(WARN_AFTER.min(limit), &mut answer).await {
        return Some(answer);
    }
    let left = limit
        .checked_sub(WARN_AFTER)
        .filter(|left| !left.is_zero())?;
    slow();
    timeout(left, answer).await.ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_start_is_awaited_with_a_warning() {
        let limit = Duration::from_mins(2);
        for (takes, warned, answers) in [
            (WARN_AFTER / 2, false, true),
            (WARN_AFTER * 2, true, true),
            (limit * 2, true, false),
        ] {
            let called = Cell::new(false);
            let begun = Instant::now();
            let answer = within(limit, sleep(takes), || called.set(true)).await;
            assert_eq!(
                (answer.is_some(), called.get()),
                (answers, warned),
                "{takes:?}"
            );
            assert_eq!(begun.elapsed(), takes.min(limit));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_limit_needs_no_warning() {
        let never = std::future::pending::<()>();
        let answer = within(WARN_AFTER / 2, never, || {
            unreachable!("the limit is shorter")
        })
        .await;
        assert_eq!(answer, None);
    }
}

//! Keeps the agent running: starts it when it is needed, greets it, signs in again, ends it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use tokio::time::timeout;

use crate::engine::relay::{Greeted, Patience};
use crate::engine::{BoxFuture, EngineError};
use crate::json::text_member;
use crate::sys::lock;
use crate::transport::Wire;

use super::abilities::Abilities;
use super::identity::{self, Means, Names};
use super::intake;
use super::link::Link;
use super::said::with_members;
use super::transport::Source;

/// When an agent that has not answered `initialize` is worth a warning.
const SLOW: Duration = Duration::from_secs(5);

/// The version of the protocol that we speak with agents.
const VERSION: &str = "1";

/// The longest name that an agent may give itself, in bytes.
const NAME: usize = 200;

/// The one agent of all sessions.
#[derive(Debug)]
pub(super) struct Agent {
    source: Source,
    names: Names,
    /// How long it may take to start and to answer `initialize`.
    start_timeout: Duration,
    /// The name by which its sessions are known in the store.
    name: OnceLock<String>,
    /// The name that it gives itself.
    own: OnceLock<String>,
    client: OnceLock<Arc<Wire>>,
    /// The connection with the process that runs, for those who cannot wait.
    current: Mutex<Option<Arc<Link>>>,
    /// The connection with a process that has not answered `initialize` yet.
    starting: Mutex<Option<Arc<Link>>>,
    /// What it declared of sessions when it was started last.
    declared: Mutex<BTreeSet<String>>,
    /// Whether its next answer about a session may be that its user must sign in: it has ways to
    /// do that, and its process has not yet opened a session or accepted a sign-in.
    may_want_sign_in: AtomicBool,
    /// Whether no process is to be started any more.
    left: AtomicBool,
    state: tokio::sync::Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The parameters of `initialize`, and what the agent answered.
    hello: Option<String>,
    greeting: Option<String>,
    /// The parameters with which the client has signed in.
    signed_in: Option<String>,
    /// What the client was told in the answer to `initialize`, where few look: that the agent did
    /// not answer that. The next request that needs the agent fails with it.
    unanswered: Option<EngineError>,
}

/// Why there is no agent.
enum Failed {
    /// It could not be started, or ended at once: what it did, in words.
    Start(String),
    /// It does not answer `initialize`.
    Silent(String),
    /// It refuses.
    Refused(EngineError),
}

impl Agent {
    /// An agent that goes by these names.
    pub(super) fn new(source: Source, names: Names, start_timeout: Duration) -> Self {
        Self {
            source,
            name: names.name.clone().map(OnceLock::from).unwrap_or_default(),
            names,
            start_timeout,
            own: OnceLock::new(),
            client: OnceLock::new(),
            current: Mutex::default(),
            starting: Mutex::default(),
            declared: Mutex::default(),
            may_want_sign_in: AtomicBool::new(false),
            left: AtomicBool::new(false),
            state: tokio::sync::Mutex::default(),
        }
    }

    /// The name by which its sessions are known in the store.
    pub(super) fn name(&self) -> &str {
        self.name.get().unwrap_or(&self.names.fallback)
    }

    /// Whether a name in a log means this agent.
    pub(super) fn means(&self, recorded: &str) -> Means {
        let own = self.own.get().map(String::as_str);
        self.names.means(recorded, self.name(), own)
    }

    /// Further names by which logs may know it.
    pub(super) fn other_names(&self) -> Vec<String> {
        let own = self.own.get().map(String::as_str);
        let names = self.names.all(own).filter(|name| *name != self.name());
        names.map(str::to_owned).collect()
    }

    /// Whether the agent, when it was there last, declared this one of its session capabilities.
    pub(super) fn declares(&self, capability: &str) -> bool {
        lock(&self.declared).contains(capability)
    }

    /// Whether its next answer about a session may be that its user must sign in.
    pub(super) fn may_want_sign_in(&self) -> bool {
        self.may_want_sign_in.load(Ordering::Relaxed)
    }

    /// Notes what the result of opening a session in the agent says of that.
    pub(super) fn noted<T>(&self, opened: Result<T, EngineError>) -> Result<T, EngineError> {
        match &opened {
            Ok(_) => self.note_sign_in(false),
            Err(error) if error.code == EngineError::SIGN_IN => self.note_sign_in(true),
            Err(_) => {}
        }
        opened
    }

    fn note_sign_in(&self, wanted: bool) {
        self.may_want_sign_in.store(wanted, Ordering::Relaxed);
    }

    pub(super) fn connect(&self, client: Arc<Wire>) {
        if let Source::Successor(port) = &self.source {
            port.connect(client.writer.clone());
        }
        // There is one client.
        self.client.set(client).ok();
    }

    /// The connection, if the agent runs.
    pub(super) fn current(&self) -> Option<Arc<Link>> {
        self.lock().clone().filter(|link| !link.is_dead())
    }

    /// The connection; starts the agent if it does not run.
    pub(super) async fn link(&self) -> Result<Arc<Link>, EngineError> {
        let mut state = self.state.lock().await;
        if let Some(error) = state.unanswered.take() {
            return Err(error);
        }
        match self.running(&mut state).await {
            Ok(link) => Ok(link),
            Err(Failed::Refused(error)) => Err(error),
            Err(Failed::Start(why) | Failed::Silent(why)) => Err(self.start_failed(&why)),
        }
    }

    /// Why the agent did not answer `initialize`, if nobody was told of it yet.
    pub(super) async fn unanswered(&self) -> Option<EngineError> {
        self.state.lock().await.unanswered.clone()
    }

    /// Hands on `initialize`.
    pub(super) async fn greet(&self, params: &str) -> Greeted {
        let mut state = self.state.lock().await;
        let version = [("protocolVersion", VERSION)];
        state.hello = Some(with_members(params, &[], &version));
        match self.running(&mut state).await {
            Ok(_) => Greeted::Answered(Ok(state.greeting.clone().unwrap_or_default())),
            Err(Failed::Refused(error)) => Greeted::Answered(Err(error)),
            Err(Failed::Start(why)) => Greeted::Unavailable(self.start_failed(&why)),
            Err(Failed::Silent(why)) => {
                let error = self.start_failed(&why);
                state.unanswered = Some(error.clone());
                Greeted::Unavailable(error)
            }
        }
    }

    /// Hands on a request that is about no session.
    pub(super) async fn call(
        &self,
        id: &str,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> Result<String, EngineError> {
        let link = self.link().await?;
        let pending = link.request_of(id, method, params);
        let result = pending.outcome_unless(cancelled).await?;
        let signed_in = match method {
            "authenticate" => Some(params.to_owned()),
            "logout" => None,
            _ => return Ok(result),
        };
        self.note_sign_in(signed_in.is_none());
        self.state.lock().await.signed_in = signed_in;
        Ok(result)
    }

    pub(super) async fn leave(&self, patience: Patience) {
        self.left.store(true, Ordering::Release);
        let links = [self.lock().take(), lock(&self.starting).take()];
        for link in links.into_iter().flatten() {
            link.leave(patience).await;
        }
        if let Source::Successor(port) = &self.source {
            port.leave();
        }
    }

    async fn running(&self, state: &mut State) -> Result<Arc<Link>, Failed> {
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let (link, greeting) = self.start(state).await?;
        if let Some(params) = &state.signed_in {
            // The process that had signed in is gone.
            match link.request("authenticate", params).outcome().await {
                Ok(_) => self.note_sign_in(false),
                Err(error) => tracing::warn!(%error, "the agent does not let us sign in again"),
            }
        }
        state.greeting = Some(greeting);
        *self.lock() = Some(link.clone());
        lock(&self.starting).take();
        Ok(link)
    }

    async fn start(&self, state: &State) -> Result<(Arc<Link>, String), Failed> {
        let Some(client) = self.client.get() else {
            let why = "cannot be started: there is no client yet";
            return Err(Failed::Start(why.to_owned()));
        };
        let failed = |error: String| Failed::Start(format!("could not be started: {error}"));
        let (transport, output) = self.source.open().map_err(failed)?;
        let link = Link::new(client.clone(), transport);
        *lock(&self.starting) = Some(link.clone());
        if self.left.load(Ordering::Acquire) {
            link.end(Patience::Hurry).await;
        }
        let reader = link.clone();
        thread::Builder::new()
            .name("rejoin-agent-reader".to_owned())
            .spawn(move || intake::run(reader, output))
            .map_err(|error| failed(error.to_string()))?;
        let hello = state.hello.clone();
        let hello = hello.unwrap_or_else(|| format!(r#"{{"protocolVersion":{VERSION}}}"#));
        let greeting = link.request("initialize", &hello).outcome();
        let limit = self.start_timeout;
        let result = match within(limit, greeting, || self.warn()).await {
            Some(Ok(result)) => result,
            Some(Err(_)) if link.is_dead() => return Err(Failed::Start(link.last_words())),
            Some(Err(error)) => {
                link.end(Patience::Hurry).await;
                return Err(Failed::Refused(error));
            }
            None => {
                link.end(Patience::Hurry).await;
                let limit = humantime::format_duration(limit);
                return Err(Failed::Silent(format!(
                    "did not answer `initialize` within {limit} (`--start-timeout`); is it an ACP \
                     agent?"
                )));
            }
        };
        let version = text_member(&result, "protocolVersion").unwrap_or("none");
        if version != VERSION {
            link.end(Patience::Hurry).await;
            let version: String = version.chars().take(20).collect();
            let why = format!("speaks version {version} of the protocol, not {VERSION}");
            return Err(Failed::Start(why));
        }
        let abilities = Abilities::read(&result);
        let name = abilities.name.clone().filter(|name| name.len() <= NAME);
        let name = match self.source {
            Source::Program(_) => name.and_then(|name| identity::given(&name)),
            Source::Successor(_) => name.filter(|name| !name.is_empty()),
        };
        if let Some(name) = &name {
            self.own.set(name.clone()).ok();
        }
        // Once known by a name, it stays so.
        let name = name.unwrap_or_else(|| self.names.fallback.clone());
        self.name.set(name).ok();
        lock(&self.declared).clone_from(&abilities.declared);
        self.note_sign_in(abilities.sign_in);
        link.know(abilities);
        Ok((link, result))
    }

    fn warn(&self) {
        let program = self.source.command().unwrap_or_default();
        tracing::warn!("`{program}` has not answered `initialize`; is it an ACP agent?");
    }

    /// The error for who needs an agent that is not there: `why` says what it did, in words.
    fn start_failed(&self, why: &str) -> EngineError {
        let program = self.source.command();
        let message = match &program {
            Some(program) => format!("the agent `{program}` {why}"),
            None => format!("the agent behind the conductor {why}"),
        };
        let command = ("command".to_owned(), program.into());
        let name = "agent_failed_to_start";
        EngineError::with(EngineError::INTERNAL, name, message, [command])
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        lock(&self.current)
    }
}

/// Waits for an answer, but no longer than `limit`; says once that it takes long.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = T>,
    slow: impl FnOnce(),
) -> Option<T> {
    tokio::pin!(answer);
    if let Ok(answer) = timeout(SLOW.min(limit), &mut answer).await {
        return Some(answer);
    }
    let left = limit.checked_sub(SLOW).filter(|left| !left.is_zero())?;
    slow();
    timeout(left, answer).await.ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_start_is_told_of_and_waited_for() {
        let limit = Duration::from_mins(2);
        for (takes, warned, answers) in [
            (SLOW / 2, false, true),
            (SLOW * 2, true, true),
            (limit * 2, true, false),
        ] {
            let told = Cell::new(false);
            let begun = Instant::now();
            let answer = within(limit, sleep(takes), || told.set(true)).await;
            assert_eq!(
                (answer.is_some(), told.get()),
                (answers, warned),
                "{takes:?}"
            );
            assert_eq!(begun.elapsed(), takes.min(limit));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_limit_needs_no_warning() {
        let never = std::future::pending::<()>();
        let answer = within(SLOW / 2, never, || unreachable!("nobody waits so long")).await;
        assert_eq!(answer, None);
    }
}

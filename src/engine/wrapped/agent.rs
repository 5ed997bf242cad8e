//! Keeps the agent running: starts it when it is needed, greets it, signs in again, ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use crate::engine::relay::{Greeted, Patience};
use crate::engine::{Doing, EngineError};
use crate::record::json::text_member;
use crate::sys::lock;
use crate::wire::Wire;

use super::abilities::Abilities;
use super::far_end::Source;
use super::intake;
use super::link::Link;
use super::said::with_members;

/// How long an agent may take to start and to answer `initialize`.
const STARTS: Duration = Duration::from_mins(2);

/// The version of the protocol that we speak with agents.
const VERSION: &str = "1";

/// The name of an agent that does not say what it is called.
const NAMELESS: &str = "successor";

/// The longest name that an agent may give itself, in bytes.
const NAME: usize = 200;

/// The one agent of all sessions.
#[derive(Debug)]
pub(super) struct Agent {
    source: Source,
    /// The name by which its sessions are known in the store.
    name: OnceLock<String>,
    client: OnceLock<Arc<Wire>>,
    /// The connection with the process that runs, for those who cannot wait.
    current: Mutex<Option<Arc<Link>>>,
    /// The connection with a process that has not answered `initialize` yet.
    starting: Mutex<Option<Arc<Link>>>,
    /// Whether it said that it forks sessions.
    forks: AtomicBool,
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
}

/// Why there is no agent.
enum Failed {
    /// It could not be started, or ended at once.
    Start(String),
    /// It refuses.
    Refused(EngineError),
}

impl Agent {
    /// An agent of this name; without one, it goes by the name that it gives itself.
    pub(super) fn new(source: Source, name: Option<String>) -> Self {
        Self {
            source,
            name: name.map(OnceLock::from).unwrap_or_default(),
            client: OnceLock::new(),
            current: Mutex::default(),
            starting: Mutex::default(),
            forks: AtomicBool::new(false),
            left: AtomicBool::new(false),
            state: tokio::sync::Mutex::default(),
        }
    }

    /// The name by which its sessions are known in the store.
    pub(super) fn name(&self) -> &str {
        self.name.get().map_or(NAMELESS, String::as_str)
    }

    /// Whether the agent, when it was there last, said that it forks sessions.
    pub(super) fn forks(&self) -> bool {
        self.forks.load(Ordering::Relaxed)
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
        match self.running(&mut state).await {
            Ok(link) => Ok(link),
            Err(Failed::Refused(error)) => Err(error),
            Err(Failed::Start(why)) => Err(self.start_failed(&why)),
        }
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
        }
    }

    /// Hands on a request that is about no session.
    pub(super) async fn call(
        &self,
        id: &str,
        method: &str,
        params: &str,
        cancelled: Doing<'static, ()>,
    ) -> Result<String, EngineError> {
        let link = self.link().await?;
        let pending = link.request_of(id, method, params);
        let result = pending.outcome_unless(cancelled).await?;
        match method {
            "authenticate" => self.state.lock().await.signed_in = Some(params.to_owned()),
            "logout" => self.state.lock().await.signed_in = None,
            _ => {}
        }
        Ok(result)
    }

    pub(super) async fn leave(&self, patience: Patience) {
        self.left.store(true, Ordering::Release);
        let links = [self.lock().take(), lock(&self.starting).take()];
        for link in links.into_iter().flatten() {
            link.end(patience).await;
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
            if let Err(error) = link.request("authenticate", params).outcome().await {
                tracing::warn!(%error, "the agent does not let us sign in again");
            }
        }
        state.greeting = Some(greeting);
        *self.lock() = Some(link.clone());
        lock(&self.starting).take();
        Ok(link)
    }

    async fn start(&self, state: &State) -> Result<(Arc<Link>, String), Failed> {
        let Some(client) = self.client.get() else {
            return Err(Failed::Start("there is no client yet".to_owned()));
        };
        let failed = |error: std::io::Error| Failed::Start(error.to_string());
        let (far_end, output) = self.source.open().map_err(Failed::Start)?;
        let link = Link::new(client.clone(), far_end);
        *lock(&self.starting) = Some(link.clone());
        if self.left.load(Ordering::Acquire) {
            link.end(Patience::Hurry).await;
        }
        let reader = link.clone();
        thread::Builder::new()
            .name("rejoin-agent-reader".to_owned())
            .spawn(move || intake::run(reader, output))
            .map_err(failed)?;
        let hello = state.hello.clone();
        let hello = hello.unwrap_or_else(|| format!(r#"{{"protocolVersion":{VERSION}}}"#));
        let greeting = link.request("initialize", &hello).outcome();
        let result = match tokio::time::timeout(STARTS, greeting).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) if link.is_dead() => return Err(Failed::Start(link.epitaph())),
            Ok(Err(error)) => {
                link.end(Patience::Hurry).await;
                return Err(Failed::Refused(error));
            }
            Err(_) => {
                link.end(Patience::Hurry).await;
                let seconds = STARTS.as_secs();
                let why = format!("it did not answer `initialize` within {seconds} seconds");
                return Err(Failed::Start(why));
            }
        };
        let version = text_member(&result, "protocolVersion").unwrap_or("none");
        if version != VERSION {
            link.end(Patience::Hurry).await;
            let version: String = version.chars().take(20).collect();
            let why = format!("it speaks version {version} of the protocol, not {VERSION}");
            return Err(Failed::Start(why));
        }
        let abilities = Abilities::read(&result);
        let name = abilities.name.clone();
        if let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= NAME) {
            // Once known by a name, it stays so.
            self.name.set(name).ok();
        }
        self.forks.store(abilities.fork, Ordering::Relaxed);
        link.know(abilities);
        Ok((link, result))
    }

    fn start_failed(&self, why: &str) -> EngineError {
        let program = self.source.command();
        let data = serde_json::json!({ "error": "agent_failed_to_start", "command": program });
        let message = match program {
            Some(program) => format!("the agent `{program}` could not be started: {why}"),
            None => format!("the agent behind the conductor cannot be reached: {why}"),
        };
        EngineError {
            code: EngineError::INTERNAL,
            message,
            data: Some(data.to_string()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        lock(&self.current)
    }
}

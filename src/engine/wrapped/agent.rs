//! Keeps the agent running: starts it when it is needed, greets it, signs in again, ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::engine::relay::{Greeted, Patience};
use crate::engine::{Doing, EngineError};
use crate::sys::blocking;
use crate::wire::{Wire, Writer};

use super::abilities::Abilities;
use super::child::{Child, Program};
use super::intake;
use super::link::Link;
use super::said::{member, with_members};

/// How long an agent may take to start and to answer `initialize`.
const STARTS: Duration = Duration::from_secs(120);

/// The version of the protocol that we speak with agents.
const VERSION: &str = "1";

/// The one agent of all sessions.
#[derive(Debug)]
pub(super) struct Agent {
    program: Program,
    /// The name by which its sessions are known in the store.
    pub(super) name: String,
    client: OnceLock<Arc<Wire>>,
    /// The connection with the process that runs, for those who cannot wait.
    current: Mutex<Option<Arc<Link>>>,
    /// The connection with a process that has not answered `initialize` yet.
    starting: Mutex<Option<Arc<Link>>>,
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
    pub(super) fn new(program: Program, name: String) -> Self {
        Self {
            program,
            name,
            client: OnceLock::new(),
            current: Mutex::default(),
            starting: Mutex::default(),
            left: AtomicBool::new(false),
            state: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn connect(&self, client: Arc<Wire>) {
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
        let links = [self.lock().take(), locked(&self.starting).take()];
        for link in links.into_iter().flatten() {
            link.end(patience).await;
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
        locked(&self.starting).take();
        Ok(link)
    }

    async fn start(&self, state: &State) -> Result<(Arc<Link>, String), Failed> {
        let Some(client) = self.client.get() else {
            return Err(Failed::Start("there is no client yet".to_owned()));
        };
        let failed = |error: std::io::Error| Failed::Start(error.to_string());
        let (child, (input, output)) = blocking(|| Child::start(&self.program)).map_err(failed)?;
        let writer = Writer::start(input).map_err(failed)?;
        let link = Link::new(client.clone(), child, writer);
        *locked(&self.starting) = Some(link.clone());
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
        let version = member(&result, "protocolVersion").unwrap_or("none");
        if version != VERSION {
            link.end(Patience::Hurry).await;
            let version: String = version.chars().take(20).collect();
            let why = format!("it speaks version {version} of the protocol, not {VERSION}");
            return Err(Failed::Start(why));
        }
        link.know(Abilities::read(&result));
        Ok((link, result))
    }

    fn start_failed(&self, why: &str) -> EngineError {
        // Arguments may hold secrets.
        let program = self.program.command.first();
        let program = program.map(|name| name.to_string_lossy().into_owned());
        let data = serde_json::json!({ "error": "agent_failed_to_start", "command": program });
        EngineError {
            code: EngineError::INTERNAL,
            message: format!(
                "the agent `{}` could not be started: {why}",
                program.unwrap_or_default()
            ),
            data: Some(data.to_string()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        locked(&self.current)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The agents of this machine as one engine: each session has one of them, and may change it.
//!
//! Each agent is a [`WrappedEngine`], started when a session needs it and ended when the last session
//! has changed to another one. `known`, beside this folder, has the list of agents and finds those that
//! are here. `session` is a session with its agent, `options` adds the option with which the client
//! chooses it, and `sign_in` asks the right agent.

mod options;
mod session;
mod sign_in;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::agent::{DOWNLOAD_TIMEOUT, Policy, Program, WrappedEngine, answer_from_log};
use super::known::{self, AgentOrigin, FoundAgent};
use super::process::Launch;
use super::{
    BoxFuture, Caller, Clients, Conversation, Engine, EngineError, InitializeOutcome, Introduction,
    Opening, Patience, Upstream,
};
use crate::protocol::method;
use crate::record::CurrentSettings;
use crate::record::header::Implementation;
use crate::store::Store;
use crate::sys::{blocking, lock};
use crate::transport::ClientConnection;

use options::Options;
use session::ChoiceSession;

/// How agents are found and started.
#[derive(Debug)]
pub struct Config {
    /// The folders of programs, as in the variable `PATH`.
    pub path: OsString,
    /// The agent of new sessions, by any of its names. Without one, the last that was chosen.
    pub agent: Option<String>,
    /// Remembers which agent was chosen last; `None` if nothing is stored.
    pub store: Option<Store>,
    /// How their processes are started.
    pub launch: Launch,
    /// How long they may take to exit after their input was closed.
    pub exit_timeout: Duration,
    /// How sessions are opened in them.
    pub policy: Policy,
}

/// The engine whose sessions have one of the agents of this machine each.
#[derive(Debug)]
pub struct ChoiceEngine(Arc<Agents>);

/// The agents, which all sessions share.
#[derive(Debug)]
struct Agents {
    config: Config,
    clients: Clients,
    introduction: Mutex<Option<Introduction>>,
    /// The agents that may have a process, by their ids.
    running: Mutex<BTreeMap<String, Running>>,
    /// The agents that are being ended.
    ending: Mutex<JoinSet<()>>,
    /// The last one that has asked for a sign-in, and waits for it.
    wants_sign_in: Mutex<Option<FoundAgent>>,
}

#[derive(Debug)]
struct Running {
    engine: Arc<WrappedEngine>,
    /// How many sessions have it.
    sessions: usize,
}

/// A session's reference to a running agent. `end` also ends the agent if no other session has it; an
/// agent whose references were only dropped stays.
#[derive(Debug)]
struct Use {
    agents: Arc<Agents>,
    id: String,
    engine: Arc<WrappedEngine>,
}

impl ChoiceEngine {
    /// The agents that are found and started like this.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(Agents {
            config,
            clients: Clients::default(),
            introduction: Mutex::default(),
            running: Mutex::default(),
            ending: Mutex::default(),
            wants_sign_in: Mutex::default(),
        }))
    }

    /// The options with which a new session would start: the choice of the agent, and those of the agent
    /// if it runs and says which they are. None is started for that.
    fn options(
        &self,
        caller: Caller,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        let found = self.0.found();
        let current = match self.0.default_of(&found) {
            Ok(current) => current.clone(),
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let running = lock(&self.0.running);
        let engine = running.get(&current.id).map(|one| one.engine.clone());
        drop(running);
        let own = engine.filter(|engine| engine.declares("options"));
        let own = own.map(|engine| engine.call(caller, method::SESSION_OPTIONS, params, cancelled));
        Box::pin(async move {
            let own = match own {
                Some(own) => own.await?,
                None => "{}".to_owned(),
            };
            Ok(Options::new(&found, &current, None).offered(&own))
        })
    }
}

impl Agents {
    /// The agents that can be started now. Looked for each time, since the user may install one.
    fn found(&self) -> Vec<FoundAgent> {
        blocking(|| known::on_this_machine(&self.config.path))
    }

    /// The agent of a new session.
    fn default_of<'a>(&self, found: &'a [FoundAgent]) -> Result<&'a FoundAgent, EngineError> {
        let first = found.first().ok_or_else(none_found)?;
        if let Some(name) = &self.config.agent {
            let named = found.iter().find(|found| found.is_called(name));
            return named.ok_or_else(|| not_found(name, found));
        }
        let last = self.config.store.as_ref();
        let last = last.and_then(|store| blocking(|| store.last_agent()));
        let last = last.and_then(|last| found.iter().find(|found| found.id == last));
        Ok(last.unwrap_or(first))
    }

    /// The user has chosen an agent.
    fn remember(&self, id: &str) {
        if let Some(store) = &self.config.store
            && let Err(error) = blocking(|| store.set_last_agent(id))
        {
            tracing::warn!(%error, "the choice of an agent is not remembered");
        }
    }

    /// The user has chosen an agent that could not take over from this one.
    fn forget(&self, id: &str, before: &str) {
        let last = self.config.store.as_ref();
        let last = last.and_then(|store| blocking(|| store.last_agent()));
        if last.as_deref() == Some(id) {
            self.remember(before);
        }
    }

    /// A session begins to use an agent.
    fn begin_use(self: &Arc<Self>, found: &FoundAgent) -> Use {
        let mut running = lock(&self.running);
        let of_found = running.entry(found.id.clone()).or_insert_with(|| Running {
            engine: Arc::new(self.engine(found)),
            sessions: 0,
        });
        of_found.sessions += 1;
        Use {
            agents: self.clone(),
            id: found.id.clone(),
            engine: of_found.engine.clone(),
        }
    }

    fn engine(&self, found: &FoundAgent) -> WrappedEngine {
        let program = Program {
            command: found.command.clone(),
            env: found.env.clone(),
            launch: self.config.launch.clone(),
            exit_timeout: self.config.exit_timeout,
        };
        let introduction = lock(&self.introduction).clone();
        let introduction = introduction.unwrap_or_else(|| Introduction {
            params: "{}".to_owned(),
            native: None,
        });
        let mut policy = self.config.policy.clone();
        if found.origin != AgentOrigin::Installed {
            policy.start_timeout = policy.start_timeout.max(DOWNLOAD_TIMEOUT);
        }
        let engine = WrappedEngine::introduced(program, found.names(), policy, &introduction);
        for client in self.clients.all() {
            engine.connect(client);
        }
        engine
    }

    /// The agents that may have a process.
    fn engines(&self) -> Vec<Arc<WrappedEngine>> {
        let running = lock(&self.running);
        running.values().map(|one| one.engine.clone()).collect()
    }
}

impl Use {
    /// The session has changed to another agent: this one is ended if no other session has it.
    fn end(self) {
        let ended = {
            let mut running = lock(&self.agents.running);
            let is_last = running.get(&self.id).is_some_and(|one| one.sessions == 1);
            if is_last {
                running.remove(&self.id)
            } else {
                None
            }
        };
        if let Some(ended) = ended {
            let mut ending = lock(&self.agents.ending);
            while ending.try_join_next().is_some() {}
            ending.spawn(async move { ended.engine.leave(Patience::EndOfInput).await });
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some(one) = lock(&self.agents.running).get_mut(&self.id)
            && Arc::ptr_eq(&one.engine, &self.engine)
        {
            one.sessions -= 1;
        }
    }
}

impl Engine for ChoiceEngine {
    /// The identity in sessions that no agent has opened yet.
    fn identity(&self) -> Implementation {
        Implementation {
            name: "rejoin agent".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }
    }

    fn open(&self, opening: Opening) -> Arc<dyn Conversation> {
        Arc::new(ChoiceSession::new(self.0.clone(), opening))
    }

    fn leave(&self, patience: Patience) -> BoxFuture<'static, ()> {
        let mut leaving = std::mem::take(&mut *lock(&self.0.ending));
        for engine in self.0.engines() {
            leaving.spawn(async move { engine.leave(patience).await });
        }
        Box::pin(async move { while leaving.join_next().await.is_some() {} })
    }

    fn recorded_options(&self, settings: &CurrentSettings) -> String {
        let found = self.0.found();
        let (chosen, answered) = (&settings.options, &settings.agent);
        let chosen = chosen.as_deref().and_then(Options::chosen_in);
        let current = found.iter().find(|found| match (&chosen, answered) {
            (Some(id), _) => found.id == *id,
            (None, Some(name)) => found.names().include(name),
            (None, None) => false,
        });
        let recorded = answer_from_log(settings);
        match current.or_else(|| self.0.default_of(&found).ok()) {
            Some(current) => Options::new(&found, current, None).offered(&recorded),
            None => recorded,
        }
    }

    fn upstream(&self) -> Option<&dyn Upstream> {
        Some(self)
    }
}

impl Upstream for ChoiceEngine {
    fn connect(&self, client: Arc<ClientConnection>) {
        self.0.clients.connect(client.clone());
        for engine in self.0.engines() {
            engine.connect(client.clone());
        }
    }

    /// Answered without an agent: which one it will be is not known yet.
    fn initialize(&self, introduction: Introduction) -> BoxFuture<'static, InitializeOutcome> {
        // Agents of several versions in one session would need a log in two forms.
        *lock(&self.0.introduction) = Some(Introduction {
            native: None,
            ..introduction
        });
        let result = json!({
            "protocolVersion": 1,
            "agentInfo": {
                "name": crate::NAME,
                "title": crate::NAME,
                "version": env!("CARGO_PKG_VERSION"),
            },
            "agentCapabilities": {
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": true, "sse": true },
                "sessionCapabilities": { "options": {} },
            },
            "authMethods": [sign_in::method()],
        });
        Box::pin(async move { InitializeOutcome::Answered(Ok(result.to_string())) })
    }

    fn call(
        &self,
        caller: Caller,
        method: &str,
        params: &str,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        if method == method::AUTHENTICATE {
            let params = params.to_owned();
            return Box::pin(sign_in::serve(self.0.clone(), caller, params, cancelled));
        }
        if method == method::SESSION_OPTIONS {
            return self.options(caller, params, cancelled);
        }
        // Only one agent can be meant.
        if let [engine] = &*self.0.engines() {
            return engine.call(caller, method, params, cancelled);
        }
        let error = EngineError::unknown_method(method);
        Box::pin(async { Err(error) })
    }

    fn notify(&self, method: &str, params: &str) {
        for engine in self.0.engines() {
            engine.notify(method, params);
        }
    }

    fn is_subagent(&self, id: &str) -> bool {
        let engines = self.0.engines();
        engines.iter().any(|engine| engine.is_subagent(id))
    }

    fn cancel_subagent(&self, id: &str, params: &str) {
        for engine in self.0.engines() {
            engine.cancel_subagent(id, params);
        }
    }
}

/// Why no agent of this name can be started with this `PATH`, if so.
pub fn no_agent_called(name: &str, path: &OsStr) -> Option<String> {
    let found = known::on_this_machine(path);
    if found.iter().any(|found| found.is_called(name)) {
        return None;
    }
    let error = if found.is_empty() {
        none_found()
    } else {
        not_found(name, &found)
    };
    Some(error.message)
}

/// The error that no agent can be started.
fn none_found() -> EngineError {
    EngineError::named(
        EngineError::INTERNAL,
        "no_agent_found",
        "there is no ACP agent on this machine: install one, such as Claude Agent (`npm install -g \
         @agentclientprotocol/claude-agent-acp`) or Gemini CLI (`npm install -g \
         @google/gemini-cli`), or npm, whose `npx` can run many; then begin a new session",
    )
}

/// The error for the choice of an agent whose value is not a string.
fn not_named() -> EngineError {
    let message = "`value` must be the id of an agent: a string".to_owned();
    EngineError::named(EngineError::INVALID_PARAMS, "no_agent_found", message)
}

/// The error that there is no agent with this name.
fn not_found(name: &str, found: &[FoundAgent]) -> EngineError {
    let ids: Vec<&str> = found.iter().map(|found| &*found.id).collect();
    let message = format!(
        "there is no agent `{}` on this machine; found: {}",
        name.escape_debug(),
        ids.join(", ")
    );
    EngineError::named(EngineError::INVALID_PARAMS, "no_agent_found", message)
}

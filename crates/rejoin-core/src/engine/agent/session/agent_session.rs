//! A session of the agent: attached when it is needed, and again after the agent was restarted.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::oneshot;

use crate::engine::prompt::PromptOrder;
use crate::engine::{
    AttachOutcome, AttachReason, Block, BoxFuture, Called, Cancel, CloseReason, Conversation,
    EngineError, EngineEvent, Opening, Prompt, PromptEnd, SessionConfig, StopReason,
};
use crate::json::with_string;
use crate::protocol::method;
use crate::record::Kind;
use crate::sys::lock;

use super::hand_over::{self, HandOver};
use super::live::{LiveSession, TurnOutcome};
use super::restore::Strategy;
use crate::engine::agent::Policy;
use crate::engine::agent::members::of_session;
use crate::engine::agent::parse::session_of;
use crate::engine::agent::route::settings::AgentSettings;
use crate::engine::agent::shared_agent::Agent;
use crate::engine::agent::wire::extensions::for_client;

/// A session of the agent. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::engine::agent) struct AgentSession(Arc<AgentSessionInner>);

#[derive(Debug)]
pub(super) struct AgentSessionInner {
    pub(super) agent: Arc<Agent>,
    pub(super) policy: Policy,
    pub(super) opening: Opening,
    pub(super) config: Mutex<SessionConfig>,
    /// Held while the session is attached.
    pub(super) attaching: tokio::sync::Mutex<()>,
    pub(super) live: Mutex<Option<LiveSession>>,
    pub(super) settings: Arc<Mutex<AgentSettings>>,
    /// The agent's session id that was used last, for sessions without a log.
    pub(super) last_id: Mutex<Option<String>>,
    pub(super) order: PromptOrder,
}

impl AgentSession {
    pub(in crate::engine::agent) fn new(
        agent: Arc<Agent>,
        policy: Policy,
        opening: Opening,
    ) -> Self {
        Self(Arc::new(AgentSessionInner {
            agent,
            policy,
            config: Mutex::new(opening.config.clone()),
            opening,
            attaching: tokio::sync::Mutex::default(),
            live: Mutex::default(),
            settings: Arc::default(),
            last_id: Mutex::default(),
            order: PromptOrder::default(),
        }))
    }
}

impl Conversation for AgentSession {
    fn commands(&self) -> Option<String> {
        None
    }

    fn reconfigure(&self, config: SessionConfig) {
        *lock(&self.0.config) = config;
    }

    fn attach(&self, how: AttachReason) -> BoxFuture<'static, Result<AttachOutcome, EngineError>> {
        let shared = self.0.clone();
        Box::pin(async move {
            if how == AttachReason::Elsewhere {
                return Ok(shared.recorded_state());
            }
            let failed = match how {
                // The history can be shown without the agent; the first prompt reports the failure.
                AttachReason::Again => shared.agent.unreported_failure().await,
                _ => None,
            };
            let attached = match failed {
                Some(error) => Err(error),
                None => shared
                    .agent
                    .track_sign_in(shared.ensure_attached(how, Strategy::Any).await),
            };
            match attached.map_err(|error| shared.with_client_id(error)) {
                Err(error) if error.code != EngineError::SIGN_IN => {
                    AttachOutcome::without_agent(how, error)
                }
                result => result,
            }
        })
    }

    fn prompt(
        &self,
        prompt: Prompt,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<PromptEnd, EngineError>> {
        let shared = self.0.clone();
        // Prompts keep their order, so this one is sent before anything is awaited.
        let before = shared.order.before();
        if before.is_none()
            && let Some(live) = shared.live().filter(|live| live.hand_over.is_none())
        {
            let unproven = live.proves(&prompt);
            let sent = live.prompt(&prompt, None);
            return Box::pin(async move {
                let ended = match live.turn(sent, unproven, &cancel).await {
                    TurnOutcome::Ended(ended) => {
                        live.follow_title(&shared.opening.history, &prompt);
                        ended
                    }
                    TurnOutcome::Unknown => {
                        shared.discard(&live);
                        let next = shared.order.next();
                        shared
                            .prompt(prompt, Strategy::after(live.how), cancel, next)
                            .await
                    }
                };
                ended.map_err(|error| shared.with_client_id(error))
            });
        }
        let next = shared.order.next();
        Box::pin(async move {
            if let Some(before) = before {
                before.await;
            }
            let ended = shared.prompt(prompt, Strategy::Any, cancel, next).await;
            ended.map_err(|error| shared.with_client_id(error))
        })
    }

    fn call(
        &self,
        method: &str,
        params: String,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<Called, EngineError>> {
        let (shared, method) = (self.0.clone(), method.to_owned());
        let live = shared.live();
        let sent = live.map(|live| (live.call(&method, &params, &*self.0.opening.ids), live));
        Box::pin(async move {
            let (sent, live) = if let Some(sent) = sent {
                sent
            } else {
                let attached = shared
                    .ensure_attached(AttachReason::Again, Strategy::Any)
                    .await?;
                shared.log_attached(attached).await?;
                let live = shared.live().ok_or_else(|| shared.agent_ended())?;
                (live.call(&method, &params, &*shared.opening.ids), live)
            };
            let result = sent.outcome_or_cancel(cancelled).await;
            let result = result.map_err(|error| shared.with_client_id(error))?;
            let info = lock(&shared.settings).apply_request(&method, &params, &result);
            let info = info.map(|update| live.route.payload(update));
            let info = Block::of_all(live.route.snapshot_kind(), info);
            let result = match session_of(&result) {
                Some(session) if session.id == live.session_id => {
                    let name = lock(&shared.config).name.clone();
                    with_string(&result, &session.range, &name)
                }
                _ => result,
            };
            let result = for_client(&live.connection.routes, &method, result);
            Ok(Called {
                result,
                info,
                ..Called::default()
            })
        })
    }

    fn notify(&self, method: &str, params: String) {
        if let Some(live) = self.0.live() {
            live.connection
                .notify(method, &live.with_agent_ids(method, &params));
        }
    }

    fn title_changed(&self, title: &str) {
        if let Some(live) = self
            .0
            .live()
            .filter(|live| live.connection.capabilities().title)
        {
            let params = json!({ "sessionId": live.session_id, "title": title }).to_string();
            // The response does not matter: the title is that of the session in any case.
            drop(live.connection.request(method::SESSION_SET_TITLE, &params));
        }
    }

    fn close(&self, how: CloseReason) {
        let Some(live) = lock(&self.0.live).take() else {
            return;
        };
        let capabilities = live.connection.capabilities();
        let params = of_session(&live.session_id);
        // The responses do not matter.
        if capabilities.close {
            drop(live.connection.request(method::SESSION_CLOSE, &params));
        }
        if how == CloseReason::Deleted && capabilities.delete {
            drop(live.connection.request(method::SESSION_DELETE, &params));
        }
        live.connection
            .routes
            .unsubscribe(&live.session_id, &live.route);
    }
}

impl AgentSessionInner {
    /// The session, if it is open in the running agent.
    pub(super) fn live(&self) -> Option<LiveSession> {
        let live = lock(&self.live).clone();
        live.filter(|live| !live.connection.life.is_dead())
    }

    fn agent_ended(&self) -> EngineError {
        let current = self.agent.current();
        current.map_or_else(
            || EngineError::internal("the agent has ended"),
            |connection| connection.life.ended_error(),
        )
    }

    /// Discards a session that the agent claimed to have, but does not know. It is attached in another
    /// way next.
    fn discard(&self, live: &LiveSession) {
        tracing::warn!("the agent answered a prompt with nothing in a session that it had opened");
        live.connection
            .routes
            .unsubscribe(&live.session_id, &live.route);
        lock(&self.live).take();
    }

    /// An error of the agent with its session id replaced by the client's.
    fn with_client_id(&self, error: EngineError) -> EngineError {
        let last = lock(&self.last_id).clone();
        match last {
            Some(session_id) => error.renamed(&session_id, &lock(&self.config).name),
            None => error,
        }
    }

    /// Answers a prompt, attaching the session first. `next` is dropped once the prompt was sent, so
    /// that the next one may follow.
    async fn prompt(
        &self,
        prompt: Prompt,
        mut strategy: Strategy,
        cancel: Cancel,
        next: oneshot::Sender<()>,
    ) -> Result<PromptEnd, EngineError> {
        let mut next = Some(next);
        loop {
            // What fails up to the hand-over leaves the prompt to its repetition.
            let attached = tokio::select! {
                biased;
                attached = self.ensure_attached(AttachReason::Again, strategy) => attached.map_err(EngineError::unsent)?,
                () = cancel.cancelled() => return Ok(PromptEnd::Because(StopReason::Cancelled)),
            };
            self.log_attached(attached).await?;
            let live = self.live().ok_or_else(|| self.agent_ended().unsent())?;
            if cancel.is_cancelled() {
                return Ok(PromptEnd::Because(StopReason::Cancelled));
            }
            let hand_over = {
                let mut live = lock(&self.live);
                live.as_mut().and_then(|live| live.hand_over.take())
            };
            let context = match hand_over {
                Some(hand_over) => self
                    .context(&hand_over)
                    .await
                    .map_err(EngineError::unsent)?,
                None => None,
            };
            let unproven = live.proves(&prompt);
            let sent = live.prompt(&prompt, context.as_deref());
            drop(next.take());
            match live.turn(sent, unproven, &cancel).await {
                TurnOutcome::Ended(ended) => {
                    live.follow_title(&self.opening.history, &prompt);
                    return ended;
                }
                TurnOutcome::Unknown => {}
            }
            self.discard(&live);
            strategy = Strategy::after(live.how);
        }
    }

    /// The briefing that is sent with a prompt. Notifies the user of it.
    async fn context(&self, hand_over: &HandOver) -> Result<Option<String>, EngineError> {
        let history = self.opening.history.clone();
        let session = lock(&self.config).name.clone();
        let budget = self.policy.context_budget;
        let given = hand_over::briefing(&*history, budget, hand_over, &session)?;
        let (agent, id) = (self.agent.name(), self.opening.ids.message());
        if let Some(note) = hand_over::note(&hand_over.reason, agent, given.as_ref(), &id) {
            let block = Block::of(Kind::Update, note);
            self.opening.out.send(EngineEvent::Block(block)).await?;
        }
        Ok(given.map(|briefing| briefing.text))
    }
}

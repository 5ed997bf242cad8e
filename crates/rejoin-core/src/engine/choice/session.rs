//! A session whose agent the client chooses.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use crate::engine::known::FoundAgent;
use crate::engine::prompt::PromptOrder;
use crate::engine::{
    AttachOutcome, AttachReason, Block, BoxFuture, Called, Cancel, CloseReason, Conversation,
    Engine, EngineError, EngineEvent, Opening, Prompt, PromptEnd, SessionConfig, StopReason,
};
use crate::json::{Object, string_member, text_member};
use crate::protocol::{Role, UpdateKind, method};
use crate::record::Kind;
use crate::record::header::Implementation;
use crate::sys::lock;

use super::options::{OptionTarget, Options};
use super::{Agents, Use};

/// A session with one agent at a time.
pub(super) struct ChoiceSession(Arc<ChoiceSessionInner>);

struct ChoiceSessionInner {
    agents: Arc<Agents>,
    opening: Opening,
    config: Mutex<SessionConfig>,
    current: Mutex<Option<Current>>,
    /// The agent that was chosen last, until it has taken over or failed to.
    wanted: Mutex<Option<String>>,
    /// Each turn holds it for reading, a change of the agent for writing: so prompts that come after
    /// the change wait for it, and it waits for those before it.
    turns: Arc<RwLock<()>>,
    order: PromptOrder,
    /// An update that the next turn begins with.
    notice: Mutex<Option<String>>,
    is_closed: AtomicBool,
}

/// A session in its agent.
#[derive(Clone)]
struct Current {
    found: FoundAgent,
    conversation: Arc<dyn Conversation>,
    options: Arc<Options>,
    /// The record of the agent's session id, which is logged with the next prompt: an agent that
    /// was given no prompt does not have the conversation.
    agent_session_id: Arc<Mutex<Option<String>>>,
    used: Arc<Mutex<Option<Use>>>,
}

impl ChoiceSession {
    pub(super) fn new(agents: Arc<Agents>, opening: Opening) -> Self {
        Self(Arc::new(ChoiceSessionInner {
            agents,
            config: Mutex::new(opening.config.clone()),
            opening,
            current: Mutex::default(),
            wanted: Mutex::default(),
            turns: Arc::default(),
            order: PromptOrder::default(),
            notice: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }))
    }
}

impl Conversation for ChoiceSession {
    fn identity(&self) -> Option<Implementation> {
        let current = self.0.current()?;
        let used = lock(&current.used);
        used.as_ref().map(|used| used.engine.identity())
    }

    fn commands(&self) -> Option<String> {
        None
    }

    fn reconfigure(&self, config: SessionConfig) {
        *lock(&self.0.config) = config.clone();
        if let Some(current) = self.0.current() {
            current.conversation.reconfigure(config);
        }
    }

    fn attach(&self, how: AttachReason) -> BoxFuture<'static, Result<AttachOutcome, EngineError>> {
        let shared = self.0.clone();
        Box::pin(async move {
            let opened = shared.open(how).await;
            opened.or_else(|error| AttachOutcome::without_agent(how, error))
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
            && let Ok(turn) = shared.turns.clone().try_read_owned()
            && let Some(current) = shared.current()
            && lock(&current.agent_session_id).is_none()
            && lock(&shared.notice).is_none()
        {
            let answer = current.conversation.prompt(prompt, cancel);
            return Box::pin(async move {
                let ended = answer.await;
                drop(turn);
                shared.checked(&current, ended).await
            });
        }
        let next = shared.order.next();
        Box::pin(async move {
            let turn = async {
                if let Some(before) = before {
                    before.await;
                }
                shared.turns.clone().read_owned().await
            };
            let _turn = tokio::select! {
                biased;
                turn = turn => turn,
                () = cancel.cancelled() => return Ok(PromptEnd::Because(StopReason::Cancelled)),
            };
            let current = shared.current_or_first()?;
            let notice = lock(&shared.notice).take();
            if let Some(notice) = notice {
                let block = Block::of(Kind::Update, notice);
                shared.opening.out.send(EngineEvent::Block(block)).await?;
            }
            let agent_session_id = lock(&current.agent_session_id).take();
            if let Some(payload) = agent_session_id {
                let mut block = Block::of(Kind::AgentSessionId, payload);
                if !current.options.has_commands() {
                    // The commands of the agent before it are gone.
                    let none = UpdateKind::AvailableCommands.object();
                    block.push(Kind::Info, &none.raw("availableCommands", "[]").end());
                }
                shared.opening.out.send(EngineEvent::Block(block)).await?;
            }
            let answer = current.conversation.prompt(prompt, cancel);
            drop(next);
            shared.checked(&current, answer.await).await
        })
    }

    fn call(
        &self,
        method: &str,
        params: String,
        cancelled: BoxFuture<'static, ()>,
    ) -> BoxFuture<'static, Result<Called, EngineError>> {
        let shared = self.0.clone();
        let current = match shared.current_or_first() {
            Ok(current) => current,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let sets_option = method == method::SESSION_SET_CONFIG_OPTION;
        let target = string_member(&params, "configId").filter(|_| sets_option);
        let target = target.map_or(OptionTarget::Option, |id| Options::target(&id));
        let call = match (target, text_member(&params, "value")) {
            (OptionTarget::Agent, _) => {
                let Some(id) = string_member(&params, "value") else {
                    return Box::pin(async { Err(super::not_named()) });
                };
                let accepted = shared.accept(&current, &id);
                return Box::pin(async move {
                    match accepted? {
                        Some((chosen, found)) => shared.choose(&current, chosen, found).await,
                        None => Ok(called(&current)),
                    }
                });
            }
            (OptionTarget::Own(method, member), Some(value)) => {
                let name = lock(&shared.config).name.clone();
                let params = Object::new().string("sessionId", &name).raw(member, value);
                current.conversation.call(method, params.end(), cancelled)
            }
            _ => current.conversation.call(method, params, cancelled),
        };
        let asks_options = method == method::SESSION_OPTIONS;
        Box::pin(async move {
            let called = call.await;
            if asks_options {
                return Ok(current.offered(called));
            }
            let mut called = shared.checked(&current, called).await?;
            called.info = current.options.block(&called.info);
            if matches!(target, OptionTarget::Own(..)) {
                called.result = current.options.result();
            } else if sets_option {
                called.result = current.options.with_all(&called.result);
            }
            Ok(called)
        })
    }

    fn notify(&self, method: &str, params: String) {
        if let Some(current) = self.0.current() {
            current.conversation.notify(method, params);
        }
    }

    fn title_changed(&self, title: &str) {
        if let Some(current) = self.0.current() {
            current.conversation.title_changed(title);
        }
    }

    fn close(&self, how: CloseReason) {
        self.0.is_closed.store(true, Ordering::Release);
        if let Some(current) = lock(&self.0.current).take() {
            current.conversation.close(how);
        }
    }
}

impl ChoiceSessionInner {
    fn current(&self) -> Option<Current> {
        lock(&self.current).clone()
    }

    /// The agent of the session; before it has one, that of its log, or else that of new sessions.
    fn current_or_first(&self) -> Result<Current, EngineError> {
        let mut current = lock(&self.current);
        if let Some(current) = &*current {
            return Ok(current.clone());
        }
        let found = self.agents.found();
        let recorded = self.opening.history.current_settings();
        let chosen = recorded.options.as_deref().and_then(Options::chosen_in);
        let chosen = chosen.and_then(|id| found.iter().find(|found| found.id == id));
        let answered = || {
            let name = recorded.agent.as_deref()?;
            found.iter().find(|found| found.names().include(name))
        };
        let given = Options::chosen_with(&lock(&self.config).params.0);
        let given = given.and_then(|id| found.iter().find(|found| found.id == id));
        if let Some(given) = given {
            self.agents.remember(&given.id);
        }
        let first = match given.or(chosen).or_else(answered) {
            Some(found) => found,
            None => self.agents.default_of(&found)?,
        };
        let first = self.start(first, &found);
        *current = Some(first.clone());
        Ok(first)
    }

    /// The session in an agent, which is not started before it is needed.
    fn start(&self, found: &FoundAgent, all: &[FoundAgent]) -> Current {
        let used = self.agents.begin_use(found);
        let logged = self.opening.history.current_settings().options;
        let options = Arc::new(Options::new(all, found, logged));
        let conversation = used.engine.open(Opening {
            config: lock(&self.config).clone(),
            out: self.opening.out.filtered(options.clone()),
            ..self.opening.clone()
        });
        Current {
            found: found.clone(),
            conversation,
            options,
            agent_session_id: Arc::default(),
            used: Arc::new(Mutex::new(Some(used))),
        }
    }

    /// Opens the session in its agent. One that was chosen and has not answered since may not be able
    /// to; then the one before it goes on.
    async fn open(&self, how: AttachReason) -> Result<AttachOutcome, EngineError> {
        let current = self.current_or_first()?;
        lock(&self.config).remove_given_options();
        let attached = current.conversation.attach(how).await;
        let error = match &attached {
            Ok(attached) => attached.agent_error.as_deref(),
            Err(error) => Some(error.message.as_str()),
        };
        if let Some(error) = error
            && let Some(attached) = self.fall_back(&current, error).await
        {
            return Ok(attached);
        }
        match attached {
            Ok(attached) => Ok(current.opened(attached)),
            Err(error) => Err(self.failed(&current, error).await),
        }
    }

    /// Opens the session in the agent that has answered last, if it is another one. `error` says why
    /// the chosen one cannot take over.
    async fn fall_back(&self, chosen: &Current, error: &str) -> Option<AttachOutcome> {
        let last = self.opening.history.current_settings().agent?;
        let found = self.agents.found();
        let before = found.iter().find(|found| found.names().include(&last))?;
        if before.id == chosen.found.id {
            return None;
        }
        let before = self.start(before, &found);
        let attached = before.conversation.attach(AttachReason::Again).await;
        let Ok(attached) = attached.and_then(with_agent) else {
            before.leave(CloseReason::Refused);
            return None;
        };
        tracing::warn!(agent = chosen.found.id, error, "could not change the agent");
        *lock(&self.current) = Some(before.clone());
        chosen.leave(CloseReason::Refused);
        self.agents.forget(&chosen.found.id, &before.found.id);
        let said = self.could_not_take_over(&chosen.found, error, &before.found);
        *lock(&self.notice) = Some(said);
        Some(before.opened(attached))
    }

    /// The message that an agent could not take over, as an update.
    fn could_not_take_over(&self, chosen: &FoundAgent, error: &str, before: &FoundAgent) -> String {
        let text = format!(
            "[rejoin] {} could not take over: {error}. {} goes on.\n\n",
            chosen.name, before.name
        );
        let content = Object::new().string("type", "text").string("text", &text);
        let said = UpdateKind::Chunk(Role::Agent).object();
        let said = said.raw("content", &content.end());
        said.string("messageId", &self.opening.ids.message()).end()
    }

    /// The user has chosen an agent. Returns it, and all that were found, unless it was chosen before.
    fn accept(
        &self,
        current: &Current,
        id: &str,
    ) -> Result<Option<(FoundAgent, Vec<FoundAgent>)>, EngineError> {
        let found = self.agents.found();
        let Some(chosen) = found.iter().find(|found| found.id == id).cloned() else {
            return Err(super::not_found(id, &found));
        };
        self.agents.remember(id);
        if current.options.chosen() == id {
            return Ok(None);
        }
        *lock(&self.wanted) = Some(id.to_owned());
        current.options.choose(id, &found);
        Ok(Some((chosen, found)))
    }

    /// Changes to the agent that was accepted: at once, or after the turns and changes under way.
    async fn choose(
        self: Arc<Self>,
        current: &Current,
        chosen: FoundAgent,
        found: Vec<FoundAgent>,
    ) -> Result<Called, EngineError> {
        if let Ok(turns) = self.turns.clone().try_write_owned() {
            if lock(&self.wanted).as_deref() != Some(&chosen.id) {
                // Another one was chosen meanwhile.
                return Ok(called(current));
            }
            return match self.change(&chosen, &found, &turns).await {
                Ok(changed) => Ok(Called {
                    result: changed.options.result(),
                    updates: changed.updates,
                    ..Called::default()
                }),
                Err(error) => {
                    self.give_up(current, &chosen.id, &found);
                    Err(error)
                }
            };
        }
        let mut turns = Box::pin(self.turns.clone().write_owned());
        // The change is in the queue from here on, so that prompts that come later wait for it.
        let early = poll_fn(|context| Poll::Ready(turns.as_mut().poll(context))).await;
        let shared = self.clone();
        tokio::spawn(async move {
            let turns = match early {
                Poll::Ready(turns) => turns,
                Poll::Pending => turns.await,
            };
            shared.change_later(&chosen, &found, &turns).await;
        });
        Ok(called(current))
    }

    /// Changes the agent when the running turns and changes have ended, unless another one is chosen
    /// by then.
    async fn change_later(
        &self,
        chosen: &FoundAgent,
        found: &[FoundAgent],
        no_turn: &OwnedRwLockWriteGuard<()>,
    ) {
        let is_wanted = lock(&self.wanted).as_deref() == Some(&chosen.id);
        let Some(current) = self.current().filter(|_| is_wanted) else {
            return;
        };
        if current.found.id == chosen.id {
            *lock(&self.wanted) = None;
            return;
        }
        let updates = match self.change(chosen, found, no_turn).await {
            Ok(changed) => changed.updates,
            Err(error) => {
                tracing::warn!(agent = chosen.id, %error, "could not change the agent");
                self.give_up(&current, &chosen.id, found);
                let said = self.could_not_take_over(chosen, &error.to_string(), &current.found);
                let mut updates = Block::of(Kind::Update, said);
                updates.push(Kind::Info, &current.options.update());
                updates
            }
        };
        // Sending fails if the session was closed. Prompts that wait come after the event.
        let event = EngineEvent::Block(updates);
        self.opening.out.send(event).await.ok();
    }

    /// An agent could not take over: the one before it goes on, unless another one was chosen since.
    fn give_up(&self, current: &Current, id: &str, found: &[FoundAgent]) {
        let mut wanted = lock(&self.wanted);
        if wanted.as_deref() == Some(id) {
            *wanted = None;
            current.options.choose(&current.found.id, found);
            self.agents.forget(id, &current.found.id);
        }
    }

    /// Hands the session over to another agent. No turn is running.
    async fn change(
        &self,
        chosen: &FoundAgent,
        found: &[FoundAgent],
        _no_turn: &OwnedRwLockWriteGuard<()>,
    ) -> Result<Changed, EngineError> {
        let new = self.start(chosen, found);
        let attached = new.conversation.attach(AttachReason::Again).await;
        let attached = match attached.and_then(with_agent) {
            Ok(attached) => new.options.attached(attached),
            Err(error) => {
                let error = self.failed(&new, error).await;
                // An agent that requires sign-in has to stay for that.
                if error.code != EngineError::SIGN_IN {
                    new.leave(CloseReason::Refused);
                }
                return Err(error);
            }
        };
        if self.is_closed.load(Ordering::Acquire) {
            new.leave(CloseReason::Refused);
            return Err(EngineError::internal("the session was closed"));
        }
        *lock(&new.agent_session_id) = attached.agent_session_id;
        let old = lock(&self.current).replace(new.clone());
        if let Some(old) = old {
            old.options.end();
            old.leave(CloseReason::Closed);
        }
        {
            let mut wanted = lock(&self.wanted);
            match wanted.as_deref() {
                Some(id) if id != chosen.id => new.options.choose(id, found),
                _ => *wanted = None,
            }
        }
        let mut updates = attached.snapshots;
        updates.push(Kind::Info, &new.options.update());
        Ok(Changed {
            options: new.options,
            updates,
        })
    }

    async fn checked<T>(
        &self,
        current: &Current,
        outcome: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        match outcome {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(current, error).await),
        }
    }

    /// An error of the session's agent.
    async fn failed(&self, current: &Current, error: EngineError) -> EngineError {
        let engine = lock(&current.used).as_ref().map(|used| used.engine.clone());
        match engine {
            Some(engine) => self.agents.failed(&current.found, &engine, error).await,
            None => error,
        }
    }
}

/// The agent was changed.
struct Changed {
    options: Arc<Options>,
    /// The updates to log and to send to the client.
    updates: Block,
}

impl Current {
    /// The agent has opened the session: its answer with all options, and with a change of them if the
    /// log has others.
    fn opened(&self, attached: AttachOutcome) -> AttachOutcome {
        let mut attached = self.options.attached(attached);
        if let Some(change) = self.options.change() {
            attached.snapshots.push(Kind::Info, &change);
        }
        attached
    }

    /// The options with which a load would answer: those that the agent says, or else the present ones.
    fn offered(&self, called: Result<Called, EngineError>) -> Called {
        let result = match called {
            Ok(called) => self.options.offered(&called.result),
            Err(_) => self.options.result(),
        };
        Called {
            result,
            ..Called::default()
        }
    }

    /// Closes the session in this agent, which is ended if no other session has it.
    fn leave(&self, how: CloseReason) {
        self.conversation.close(how);
        if let Some(used) = lock(&self.used).take() {
            used.end();
        }
    }
}

/// The answer to the choice of an agent.
fn called(current: &Current) -> Called {
    Called {
        result: current.options.result(),
        updates: Block::of(Kind::Info, current.options.update()),
        ..Called::default()
    }
}

/// Fails if the agent could not open the session.
fn with_agent(attached: AttachOutcome) -> Result<AttachOutcome, EngineError> {
    if let Some(message) = attached.agent_error {
        let name = "agent_failed_to_start";
        return Err(EngineError::named(EngineError::INTERNAL, name, message));
    }
    Ok(attached)
}

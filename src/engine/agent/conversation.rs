//! One session as the agent has it: attached when it is needed, and again when the agent was
//! restarted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::oneshot;

use crate::engine::{
    Attach, Attached, Block, BoxFuture, Called, Cancel, CloseReason, Conversation, Ended,
    EngineError, EngineEvent, Opening, Prompt, SessionConfig, StopReason,
};
use crate::json::with_string;
use crate::record::Kind;
use crate::sys::lock;

use super::fork::{Origin, fork};
use super::link::Link;
use super::live::{Live, Order, Turned, key};
use super::past::ReplayedState;
use super::policy::Policy;
use super::restore::{self, How, Restored, Task, Ways};
use super::route::Route;
use super::settings::{self, Settings};
use super::shape::{IdNormalizer, session_of};
use super::shared_agent::Agent;
use super::transcript::{self, Reason};

/// A conversation with the agent. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct AgentSession(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    agent: Arc<Agent>,
    policy: Policy,
    opening: Opening,
    config: Mutex<SessionConfig>,
    /// Held while the agent is brought to where the session is.
    attaching: tokio::sync::Mutex<()>,
    live: Mutex<Option<Live>>,
    settings: Arc<Mutex<Settings>>,
    /// How the agent knew the session last, for sessions that have no log.
    last: Mutex<Option<String>>,
    order: Order,
}

impl AgentSession {
    pub(super) fn new(agent: Arc<Agent>, policy: Policy, opening: Opening) -> Self {
        Self(Arc::new(Shared {
            agent,
            policy,
            config: Mutex::new(opening.config.clone()),
            opening,
            attaching: tokio::sync::Mutex::default(),
            live: Mutex::default(),
            settings: Arc::default(),
            last: Mutex::default(),
            order: Order::default(),
        }))
    }
}

impl Conversation for AgentSession {
    fn commands(&self) -> Option<String> {
        None
    }

    fn moved(&self, config: SessionConfig) {
        *lock(&self.0.config) = config;
    }

    fn attach(&self, how: Attach) -> BoxFuture<'static, Result<Attached, EngineError>> {
        let shared = self.0.clone();
        Box::pin(async move {
            if how == Attach::Elsewhere {
                return Ok(shared.elsewhere());
            }
            let silent = match how {
                // The first prompt is for telling that, and the history can be shown without.
                Attach::Again => shared.agent.unanswered().await,
                _ => None,
            };
            let ready = match silent {
                Some(error) => Err(error),
                None => shared.agent.noted(shared.ready(how, Ways::All).await),
            };
            match ready.map_err(|error| shared.in_our_words(error)) {
                // What was said can be read without the agent, and the next prompt tries again.
                Err(error)
                    if matches!(how, Attach::Again | Attach::Fork)
                        && error.code != EngineError::SIGN_IN =>
                {
                    tracing::warn!(%error, "the session is opened without its agent");
                    let note =
                        json!({ "_meta": { "rejoin": { "agent": { "error": error.message } } } });
                    Ok(Attached {
                        answer: Some(note.to_string()),
                        ..Attached::default()
                    })
                }
                result => result,
            }
        })
    }

    fn prompt(
        &self,
        prompt: Prompt,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<Ended, EngineError>> {
        let shared = self.0.clone();
        // What is asked for first comes first, so it is sent before anything is waited for.
        let before = shared.order.before();
        if before.is_none()
            && let Some(live) = shared.live().filter(|live| live.fold.is_none())
        {
            let unproven = live.unproven.swap(false, Ordering::AcqRel);
            let sent = live.prompt(&prompt, None);
            return Box::pin(async move {
                let ended = match live.turn(sent, unproven, &cancel).await {
                    Turned::Ended(ended) => ended,
                    Turned::Refused => {
                        shared.give_up(&live);
                        let next = shared.order.next();
                        shared.prompt(prompt, Ways::Load, cancel, next).await
                    }
                };
                ended.map_err(|error| shared.in_our_words(error))
            });
        }
        let next = shared.order.next();
        Box::pin(async move {
            if let Some(before) = before {
                // However that went.
                before.await.ok();
            }
            let ended = shared.prompt(prompt, Ways::All, cancel, next).await;
            ended.map_err(|error| shared.in_our_words(error))
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
        let sent = live.map(|live| (live.call(&method, &params), live));
        Box::pin(async move {
            let (sent, live) = if let Some(sent) = sent {
                sent
            } else {
                let attached = shared.ready(Attach::Again, Ways::All).await?;
                shared.write_down(attached).await?;
                let live = shared.live().ok_or_else(|| shared.lost())?;
                (live.call(&method, &params), live)
            };
            let result = sent.outcome_unless(cancelled).await;
            let result = result.map_err(|error| shared.in_our_words(error))?;
            let info = lock(&shared.settings).served(&method, &params, &result);
            let result = match session_of(&result) {
                Some(session) if session.id == live.inner => {
                    let name = lock(&shared.config).name.clone();
                    with_string(&result, &session.range, &name)
                }
                _ => result,
            };
            Ok(Called {
                result,
                info,
                ..Called::default()
            })
        })
    }

    fn notify(&self, method: &str, params: String) {
        if let Some(live) = self.0.live() {
            live.link.notify(method, &live.renamed(&params));
        }
    }

    fn titled(&self, title: &str) {
        if let Some(live) = self.0.live().filter(|live| live.link.abilities().title) {
            let params = json!({ "sessionId": live.inner, "title": title }).to_string();
            // Nobody waits for the answer: the title is the session's, whatever the agent says.
            drop(live.link.request("session/set_title", &params));
        }
    }

    fn part(&self, how: CloseReason) {
        let Some(live) = lock(&self.0.live).take() else {
            return;
        };
        let abilities = live.link.abilities();
        let params = json!({ "sessionId": live.inner }).to_string();
        // Nobody waits for the answers.
        if abilities.close {
            drop(live.link.request("session/close", &params));
        }
        if how == CloseReason::Deleted && abilities.delete {
            drop(live.link.request("session/delete", &params));
        }
        live.link.forget(&live.inner);
    }
}

impl Shared {
    /// The session as it is open in the agent that runs.
    fn live(&self) -> Option<Live> {
        let live = lock(&self.live).clone();
        live.filter(|live| !live.link.is_dead())
    }

    fn lost(&self) -> EngineError {
        let current = self.agent.current();
        current.map_or_else(
            || EngineError::internal("the agent has ended"),
            |link| link.gone(),
        )
    }

    fn route(&self, marks: IdNormalizer, infos: HashMap<String, String>) -> Arc<Route> {
        Route::new(
            self.opening.out.clone(),
            marks,
            self.settings.clone(),
            infos,
        )
    }

    /// The agent has not resumed what it said it had: it is to be brought there in another way.
    fn give_up(&self, live: &Live) {
        tracing::warn!("the agent refuses to go on with a session that it has resumed");
        live.link.forget(&live.inner);
        lock(&self.live).take();
    }

    /// Makes sure that the agent has the session open.
    async fn ready(&self, how: Attach, ways: Ways) -> Result<Attached, EngineError> {
        let _alone = self.attaching.lock().await;
        let config = lock(&self.config).clone();
        let key = key(&config.params.0);
        if let Some(live) = self.live()
            && (live.key == key && !restore::is_held_elsewhere(&live.answer)
                || lock(&live.turns).running > 0)
        {
            return Ok(Attached {
                answer: Some(lock(&self.settings).apply(&live.answer)),
                ..Attached::default()
            });
        }
        let link = self.agent.link().await?;
        let params = &config.params.0;
        match how {
            Attach::New => {
                let marks = IdNormalizer::new(self.opening.ids.clone());
                let route = self.route(marks, HashMap::new());
                let restored = restore::fresh(&link, self.task(params, &route)).await?;
                let mut settings = Settings::default();
                settings.opened(&restored.answer);
                Ok(self.attached(link, route, restored, settings, key, None))
            }
            Attach::Again | Attach::Fork => self.again(link, params, key, how, ways).await,
            Attach::Import => self.import(link, &config, key).await,
            Attach::Elsewhere => Ok(self.elsewhere()),
        }
    }

    /// How a session stands that another process has open: the agent has the conversation there.
    fn elsewhere(&self) -> Attached {
        let stands = self.opening.history.stands();
        Attached {
            answer: Some(Settings::answer(&stands, self.agent.name())),
            ..Attached::default()
        }
    }

    /// An error of the agent with the id by which the client knows the session.
    fn in_our_words(&self, error: EngineError) -> EngineError {
        let last = lock(&self.last).clone();
        match last {
            Some(inner) => error.renamed(&inner, &lock(&self.config).name),
            None => error,
        }
    }

    fn task<'a>(&'a self, params: &'a str, route: &'a Arc<Route>) -> Task<'a> {
        Task {
            agent: &self.agent,
            params,
            route,
            limit: self.policy.load_timeout,
        }
    }

    async fn again(
        &self,
        mut link: Arc<Link>,
        params: &str,
        key: String,
        how: Attach,
        ways: Ways,
    ) -> Result<Attached, EngineError> {
        let (history, ids) = (&*self.opening.history, &self.opening.ids);
        let mut past = ReplayedState::read(history, &self.agent, ids.clone())?;
        if past.inner.is_none() {
            past.inner.clone_from(&lock(&self.last));
        }
        if self.policy.adopt {
            past.inner = None;
        }
        if past.settings == Settings::default() {
            // A session without a log is remembered here.
            past.settings = lock(&self.settings).clone();
        }
        let unsure = past.is_unsure(&self.agent);
        let recorded = past.recorded.as_deref();
        let renamed = recorded.is_some_and(|name| name != self.agent.name());
        let reason = past.reason(&self.agent, self.policy.adopt);
        let route = self.route(past.marks, past.infos);
        let task = self.task(params, &route);
        let origin = self.opening.origin.as_deref();
        let origin = origin.filter(|_| how == Attach::Fork && !self.policy.adopt);
        // An agent that has not made the session may accept its id all the same.
        let ways = if unsure { Ways::Load } else { ways };
        let known = match (&past.inner, origin) {
            (_, Some(inner)) => {
                let prompts = past.prompts;
                let origin = Origin { inner, prompts };
                fork(&mut link, task, origin, ids.clone()).await?
            }
            (Some(inner), None) => {
                restore::again(&mut link, task, inner, past.prompts, ways).await?
            }
            (None, None) => None,
        };
        let restored = if let Some(restored) = known {
            restored
        } else {
            if link.is_dead() {
                link = self.agent.link().await?;
            }
            let mut restored = restore::fresh(&link, task).await?;
            restored.how = How::Transcript;
            restored
        };
        let cut = past.cut && !link.abilities().history;
        let fold = match restored.how {
            How::Transcript => Some(reason),
            How::EmptyLoad => Some(Reason::EmptyLoad),
            How::Resume | How::Load if cut => Some(Reason::Cut),
            _ => None,
        };
        let fold = fold.filter(|_| past.prompts > 0);
        let (inner, answer) = (&restored.inner, &restored.answer);
        let limit = self.policy.load_timeout;
        let (answer, settings) = restore::settle(&link, inner, answer, &past.settings, limit).await;
        let told = settings::told(&restored.answer).is_some();
        let untold = self.opening.history.stands().answer.is_none();
        // A log of an earlier version does not have what the agent tells.
        let new = renamed || past.inner.as_deref() != Some(inner) || told && untold;
        let (news, gone) = settings.since(&past.settings);
        let mut restored = Restored { answer, ..restored };
        restored.snapshots.extend(news);
        let mut attached = self.attached(link, route, restored, settings, key, fold);
        attached.gone = gone;
        if !new {
            attached.inner = None;
        }
        Ok(attached)
    }

    async fn import(
        &self,
        link: Arc<Link>,
        config: &SessionConfig,
        key: String,
    ) -> Result<Attached, EngineError> {
        let ids = self.opening.ids.clone();
        let route = self.route(IdNormalizer::new(ids.clone()), HashMap::new());
        let task = self.task(&config.params.0, &route);
        let (restored, block) = restore::import(&link, config, task, ids).await?;
        let mut settings = Settings::default();
        settings.opened(&restored.answer);
        let mut attached = self.attached(link, route, restored, settings, key, None);
        attached.imported = vec![block];
        Ok(attached)
    }

    /// Takes a session that the agent has opened.
    fn attached(
        &self,
        link: Arc<Link>,
        route: Arc<Route>,
        restored: Restored,
        settings: Settings,
        key: String,
        fold: Option<Reason>,
    ) -> Attached {
        let version = link.abilities().version.clone();
        let inner = restored.record(self.agent.name(), version.as_deref());
        *lock(&self.last) = Some(restored.inner.clone());
        *lock(&self.settings) = settings;
        *lock(&self.live) = Some(Live {
            link,
            inner: restored.inner,
            route,
            answer: restored.answer.clone(),
            key,
            turns: Arc::default(),
            unproven: Arc::new(AtomicBool::new(restored.how == How::Resume)),
            fold,
        });
        Attached {
            answer: Some(restored.answer),
            inner: Some(inner),
            way: Some(restored.how.as_str()),
            snapshots: restored.snapshots,
            gone: Vec::new(),
            imported: Vec::new(),
        }
    }

    /// Writes down how the agent knows the session now, where no request does.
    async fn write_down(&self, attached: Attached) -> Result<(), EngineError> {
        let mut block = Block::default();
        if let Some(inner) = attached.inner {
            block.push(Kind::AgentSessionId, &inner);
        }
        for snapshot in &attached.snapshots {
            block.push(Kind::Info, snapshot);
        }
        if !block.is_empty() {
            self.opening.out.say(EngineEvent::Block(block)).await?;
        }
        Ok(())
    }

    /// Answers a prompt for which the agent has to be brought to where the session is.
    /// `next` is dropped when it was sent: the one behind it may follow.
    async fn prompt(
        &self,
        prompt: Prompt,
        mut ways: Ways,
        cancel: Cancel,
        next: oneshot::Sender<()>,
    ) -> Result<Ended, EngineError> {
        let mut next = Some(next);
        loop {
            let attached = tokio::select! {
                biased;
                attached = self.ready(Attach::Again, ways) => attached?,
                () = cancel.cancelled() => return Ok(Ended::Because(StopReason::Cancelled)),
            };
            self.write_down(attached).await?;
            let live = self.live().ok_or_else(|| self.lost())?;
            let reason = {
                let mut live = lock(&self.live);
                live.as_mut().and_then(|live| live.fold.take())
            };
            let context = match reason {
                Some(reason) => self.context(&reason).await?,
                None => None,
            };
            if cancel.is_cancelled() {
                return Ok(Ended::Because(StopReason::Cancelled));
            }
            let unproven = live.unproven.swap(false, Ordering::AcqRel);
            let sent = live.prompt(&prompt, context.as_deref());
            drop(next.take());
            match live.turn(sent, unproven, &cancel).await {
                Turned::Ended(ended) => return ended,
                Turned::Refused => {}
            }
            self.give_up(&live);
            ways = Ways::Load;
        }
    }

    /// What the agent is told with a prompt. Tells the user that it is, if it goes on from that.
    async fn context(&self, reason: &Reason) -> Result<Option<String>, EngineError> {
        let history = self.opening.history.clone();
        let budget = self.policy.context_budget;
        let context = match reason {
            Reason::Cut => transcript::of_last_turn(&*history, budget)?,
            _ => transcript::of(&*history, budget)?,
        };
        let (agent, id) = (self.agent.name(), self.opening.ids.message());
        if let Some(note) = transcript::note(reason, agent, context.is_some(), &id) {
            let block = Block::of(Kind::Update, note);
            self.opening.out.say(EngineEvent::Block(block)).await?;
        }
        Ok(context)
    }
}

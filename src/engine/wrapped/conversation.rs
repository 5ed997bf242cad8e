//! One session as the agent has it: attached when it is needed, and again when the agent was
//! restarted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::engine::{
    Attach, Attached, Block, Called, Cancel, Conversation, Doing, Ended, EngineError, Opening,
    Parting, Prompt, Said, StopReason, Wanted,
};
use crate::record::Kind;
use crate::record::json::{text_member, with_string};
use crate::sys::lock;

use super::agent::Agent;
use super::fork::{Origin, fork};
use super::link::{Link, Pending};
use super::past::Past;
use super::policy::Policy;
use super::restore::{self, How, Restored};
use super::route::Route;
use super::said::with_members;
use super::screens;
use super::settings::Settings;
use super::shape::{Marks, session_of};
use super::transcript::{self, Reason};

/// How long an agent may take to end a turn that was cancelled.
const CANCELS: Duration = Duration::from_secs(10);

/// A conversation with the agent. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Talk(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    agent: Arc<Agent>,
    policy: Policy,
    opening: Opening,
    wanted: Mutex<Wanted>,
    /// Held while the agent is brought to where the session is.
    attaching: tokio::sync::Mutex<()>,
    live: Mutex<Option<Live>>,
    settings: Arc<Mutex<Settings>>,
    /// How the agent knew the session last, for sessions that have no log.
    last: Mutex<Option<String>>,
}

/// A session that is open in an agent that runs.
#[derive(Clone, Debug)]
struct Live {
    link: Arc<Link>,
    inner: String,
    route: Arc<Route>,
    /// What the agent answered when it opened the session.
    answer: String,
    /// What the session was wanted like then.
    key: String,
    /// Whether a turn runs.
    busy: Arc<AtomicBool>,
    /// Why the next prompt has to bring a transcript along.
    fold: Option<Reason>,
}

impl Talk {
    pub(super) fn new(agent: Arc<Agent>, policy: Policy, opening: Opening) -> Self {
        Self(Arc::new(Shared {
            agent,
            policy,
            wanted: Mutex::new(opening.wanted.clone()),
            opening,
            attaching: tokio::sync::Mutex::default(),
            live: Mutex::default(),
            settings: Arc::default(),
            last: Mutex::default(),
        }))
    }
}

impl Conversation for Talk {
    fn commands(&self) -> Option<String> {
        None
    }

    fn moved(&self, wanted: Wanted) {
        *lock(&self.0.wanted) = wanted;
    }

    fn attach(&self, how: Attach) -> Doing<'static, Result<Attached, EngineError>> {
        let shared = self.0.clone();
        Box::pin(async move {
            match shared.ready(how).await {
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

    fn prompt(&self, prompt: Prompt, cancel: Cancel) -> Doing<'static, Result<Ended, EngineError>> {
        let shared = self.0.clone();
        // What is asked for first comes first, so it is sent before anything is waited for.
        if let Some(live) = shared.live().filter(|live| live.fold.is_none()) {
            let sent = live.prompt(&prompt.params, &prompt.params);
            return Box::pin(async move { live.turn(sent, cancel).await });
        }
        Box::pin(async move {
            let attached = tokio::select! {
                biased;
                attached = shared.ready(Attach::Again) => attached?,
                () = cancel.cancelled() => return Ok(Ended::Because(StopReason::Cancelled)),
            };
            shared.prompt(prompt, attached, cancel).await
        })
    }

    fn call(
        &self,
        method: &str,
        params: String,
        cancelled: Doing<'static, ()>,
    ) -> Doing<'static, Result<Called, EngineError>> {
        let (shared, method) = (self.0.clone(), method.to_owned());
        let live = shared.live();
        let sent = live.map(|live| (live.call(&method, &params), live));
        Box::pin(async move {
            let (sent, live) = if let Some(sent) = sent {
                sent
            } else {
                let attached = shared.ready(Attach::Again).await?;
                shared.write_down(attached).await?;
                let live = shared.live().ok_or_else(|| shared.lost())?;
                (live.call(&method, &params), live)
            };
            let result = sent.outcome_unless(cancelled).await?;
            let info = lock(&shared.settings).served(&method, &params, &result);
            let result = match session_of(&result) {
                Some(session) if session.id == live.inner => {
                    let name = lock(&shared.wanted).name.clone();
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

    fn part(&self, how: Parting) {
        let Some(live) = lock(&self.0.live).take() else {
            return;
        };
        let abilities = live.link.abilities();
        let params = json!({ "sessionId": live.inner }).to_string();
        // Nobody waits for the answers.
        if abilities.close {
            drop(live.link.request("session/close", &params));
        }
        if how == Parting::Deleted && abilities.delete {
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

    fn route(&self, marks: Marks, infos: HashMap<String, String>) -> Arc<Route> {
        Route::new(
            self.opening.out.clone(),
            marks,
            self.settings.clone(),
            infos,
        )
    }

    /// Makes sure that the agent has the session open.
    async fn ready(&self, how: Attach) -> Result<Attached, EngineError> {
        let _alone = self.attaching.lock().await;
        let wanted = lock(&self.wanted).clone();
        let key = key(&wanted.params.0);
        if let Some(live) = self.live()
            && (live.key == key || live.busy.load(Ordering::Acquire))
        {
            return Ok(Attached {
                answer: Some(lock(&self.settings).apply(&live.answer)),
                ..Attached::default()
            });
        }
        let link = self.agent.link().await?;
        let params = &wanted.params.0;
        match how {
            Attach::New => {
                let marks = Marks::new(self.opening.ids.clone());
                let route = self.route(marks, HashMap::new());
                let restored = restore::fresh(&link, params, &route).await?;
                let mut settings = Settings::default();
                settings.opened(&restored.answer);
                Ok(self.attached(link, route, restored, settings, key, None))
            }
            Attach::Again | Attach::Fork => self.again(link, params, key, how).await,
            Attach::Import => self.import(link, &wanted, key).await,
        }
    }

    async fn again(
        &self,
        link: Arc<Link>,
        params: &str,
        key: String,
        how: Attach,
    ) -> Result<Attached, EngineError> {
        let (history, ids) = (&*self.opening.history, &self.opening.ids);
        let mut past = Past::read(history, self.agent.name(), ids.clone())?;
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
        let route = self.route(past.marks, past.infos);
        let origin = self.opening.origin.as_deref();
        let origin = origin.filter(|_| how == Attach::Fork && !self.policy.adopt);
        let known = match (&past.inner, origin) {
            (_, Some(inner)) => {
                let prompts = past.prompts;
                let origin = Origin { inner, prompts };
                fork(&link, params, &route, origin, ids.clone()).await?
            }
            (Some(inner), None) => {
                restore::again(&link, params, &route, inner, past.prompts).await?
            }
            (None, None) => None,
        };
        let restored = if let Some(restored) = known {
            restored
        } else {
            let mut restored = restore::fresh(&link, params, &route).await?;
            restored.how = How::Transcript;
            restored
        };
        let reason = match past.other {
            Some(other) => Reason::Other(other),
            None if past.forked && past.inner.is_none() => Reason::Forked,
            None if self.policy.adopt => Reason::Adopted,
            None => Reason::Forgot,
        };
        let fold = (restored.how == How::Transcript && past.prompts > 0).then_some(reason);
        let (answer, settings) =
            restore::settle(&link, &restored.inner, &restored.answer, &past.settings).await;
        let new = past.inner.as_deref() != Some(&restored.inner);
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
        wanted: &Wanted,
        key: String,
    ) -> Result<Attached, EngineError> {
        let ids = self.opening.ids.clone();
        let route = self.route(Marks::new(ids.clone()), HashMap::new());
        let (restored, block) = restore::import(&link, wanted, &route, ids).await?;
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
        let abilities = link.abilities();
        let inner = json!({
            "id": restored.inner,
            "agent": {
                "name": self.agent.name(),
                "version": abilities.version,
            },
            "how": restored.how.as_str(),
        });
        *lock(&self.last) = Some(restored.inner.clone());
        *lock(&self.settings) = settings;
        *lock(&self.live) = Some(Live {
            link,
            inner: restored.inner,
            route,
            answer: restored.answer.clone(),
            key,
            busy: Arc::default(),
            fold,
        });
        Attached {
            answer: Some(restored.answer),
            inner: Some(inner.to_string()),
            snapshots: restored.snapshots,
            gone: Vec::new(),
            imported: Vec::new(),
        }
    }

    /// Writes down how the agent knows the session now, where no request does.
    async fn write_down(&self, attached: Attached) -> Result<(), EngineError> {
        let mut block = Block::default();
        if let Some(inner) = attached.inner {
            block.push(Kind::Inner, &inner);
        }
        for snapshot in &attached.snapshots {
            block.push(Kind::Info, snapshot);
        }
        if !block.is_empty() {
            self.opening.out.say(Said::Block(block)).await?;
        }
        Ok(())
    }

    /// Answers a prompt for which the agent had to be brought to where the session is.
    async fn prompt(
        &self,
        prompt: Prompt,
        attached: Attached,
        cancel: Cancel,
    ) -> Result<Ended, EngineError> {
        self.write_down(attached).await?;
        let live = self.live().ok_or_else(|| self.lost())?;
        let reason = {
            let mut live = lock(&self.live);
            live.as_mut().and_then(|live| live.fold.take())
        };
        let told = match reason {
            Some(reason) => self.tell(&prompt.params, &reason).await?,
            None => None,
        };
        let sent = live.prompt(&prompt.params, told.as_deref().unwrap_or(&prompt.params));
        live.turn(sent, cancel).await
    }

    /// Tells the user that the agent is given a transcript. Answers with a prompt that has one.
    async fn tell(&self, params: &str, reason: &Reason) -> Result<Option<String>, EngineError> {
        let history = self.opening.history.clone();
        let budget = self.policy.context_budget;
        let transcript = transcript::of(&*history, budget)?;
        let (agent, id) = (self.agent.name(), self.opening.ids.message());
        let note = transcript::note(reason, agent, transcript.is_some(), &id);
        let block = Block::of(Kind::Update, note);
        self.opening.out.say(Said::Block(block)).await?;
        Ok(transcript.map(|transcript| transcript::before(params, &transcript)))
    }
}

impl Live {
    /// Sends a prompt. `own` is what the user sent, which the agent may repeat.
    fn prompt(&self, own: &str, params: &str) -> Pending {
        self.busy.store(true, Ordering::Release);
        self.route.turn_begins(own);
        let id = serde_json::Value::from(self.inner.as_str()).to_string();
        let params = with_members(params, &[], &[("sessionId", &id)]);
        self.link.request("session/prompt", &params)
    }

    /// Waits for the end of a turn.
    async fn turn(self, sent: Pending, cancel: Cancel) -> Result<Ended, EngineError> {
        let outcome = sent.outcome();
        tokio::pin!(outcome);
        let result = tokio::select! {
            biased;
            result = &mut outcome => Some(result),
            () = cancel.cancelled() => {
                let params = json!({ "sessionId": self.inner }).to_string();
                self.link.notify("session/cancel", &params);
                tokio::time::timeout(CANCELS, outcome).await.ok()
            }
        };
        self.busy.store(false, Ordering::Release);
        self.route.with_marks(Marks::turn_ends);
        let shown = self.route.with_terminals(|terminals| {
            let updates = terminals.flush();
            terminals.turn_ends();
            updates
        });
        screens::write(&self.route, shown).await;
        match result {
            Some(Ok(result)) if text_member(&result, "stopReason").is_some() => {
                Ok(Ended::With(result))
            }
            Some(Ok(_)) => Ok(Ended::Because(StopReason::EndTurn)),
            Some(Err(error)) => Err(error),
            None => {
                tracing::warn!("the agent does not end a turn that was cancelled");
                Ok(Ended::Because(StopReason::Cancelled))
            }
        }
    }

    fn call(&self, method: &str, params: &str) -> Pending {
        self.link.request(method, &self.renamed(params))
    }

    /// Parameters of the client as the agent knows what they name.
    fn renamed(&self, params: &str) -> String {
        let inward = self.route.with_marks(|marks| marks.inward(params));
        let params = inward.as_deref().unwrap_or(params);
        match session_of(params) {
            Some(session) => with_string(params, &session.range, &self.inner),
            None => params.to_owned(),
        }
    }
}

/// What of a request decides whether an open session has to be opened anew.
fn key(params: &str) -> String {
    let part = |name: &str| match text_member(params, name) {
        None | Some("null" | "[]") => "",
        Some(value) => value,
    };
    let parts = ["cwd", "additionalDirectories", "mcpServers"].map(part);
    parts.join("\n")
}

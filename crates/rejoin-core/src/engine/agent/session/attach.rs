//! Attaches a session: makes sure that the agent has it open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engine::{AttachOutcome, AttachReason, Block, EngineError, EngineEvent, SessionConfig};
use crate::protocol::{UpdateKind, method, v2};
use crate::record::Kind;
use crate::record::metadata::{SYSTEM_PROMPT, system_prompt};
use crate::sys::lock;

use super::agent_session::AgentSessionInner;
use super::hand_over::{BriefingReason, HandOver, words};
use super::import::import;
use super::listed_title::of_imported;
use super::live::{LiveSession, key};
use super::replayed_state::ReplayedState;
use super::restore::{self, Continued, ForkOrigin, KnownPrompts, Strategy, Task, fork};
use super::restored::{RestoreMethod, Restored};
use crate::engine::agent::ids::IdNormalizer;
use crate::engine::agent::route::SessionRoute;
use crate::engine::agent::route::settings::{self, AgentSettings};
use crate::engine::agent::wire::connection::AgentConnection;
use crate::engine::agent::wire::extensions::for_client;
use crate::engine::agent::wire::list;
use crate::json::with_members;

/// A session that the agent has opened.
struct Restoration {
    restored: Restored,
    settings: AgentSettings,
    /// The workspace that was requested.
    key: String,
    /// The reason and the server for the briefing before the next prompt, if it needs one.
    hand_over: Option<HandOver>,
    /// The agent's session that it could not open, and that is tried again next time.
    instead: Option<String>,
    /// What has changed by the values that the client has given options.
    given: Vec<String>,
}

impl AgentSessionInner {
    fn route(
        &self,
        connection: &AgentConnection,
        normalizer: IdNormalizer,
        snapshots: HashMap<String, String>,
    ) -> Arc<SessionRoute> {
        let config = lock(&self.config).clone();
        SessionRoute::new(
            self.opening.out.clone(),
            Some(self.opening.session.clone()),
            (config.name, config.workspace.cwd),
            connection.is_native(),
            normalizer,
            self.settings.clone(),
            snapshots,
        )
    }

    /// Makes sure that the agent has the session open.
    pub(super) async fn ensure_attached(
        &self,
        how: AttachReason,
        strategy: Strategy,
    ) -> Result<AttachOutcome, EngineError> {
        let _guard = self.attaching.lock().await;
        let config = lock(&self.config).clone();
        let recorded = self.opening.history.current_settings().system_prompt;
        let recorded = recorded.filter(|_| system_prompt(&config.params.0).is_none());
        let params = match &recorded {
            Some(prompt) => with_members(&config.params.0, &[], &[(SYSTEM_PROMPT, prompt)]),
            None => config.params.0.to_string(),
        };
        let key = key(&params);
        let given = config.given_options();
        lock(&self.config).remove_given_options();
        if let Some(live) = self.live()
            && (live.key == key && !restore::is_held_elsewhere(&live.answer)
                || lock(&live.turns).running > 0)
        {
            let before = lock(&self.settings).clone();
            let opened = (before.apply(&live.answer), before);
            let (connection, session_id) = (&live.connection, &live.session_id);
            let (given, limit) = (given.as_deref(), self.policy.load_timeout);
            let (answer, settings, given) =
                restore::give(connection, session_id, given, opened, limit).await;
            if !given.is_empty() {
                *lock(&self.settings) = settings;
            }
            return Ok(AttachOutcome {
                answer: Some(answer),
                ..with_given(&live.route, &given)
            });
        }
        let connection = self.agent.connection().await?;
        // Unlike what the client has just sent, this is ours to answer for.
        let unfit = |prompt| !connection.capabilities().takes_system_prompt(prompt);
        let params = match recorded.as_deref() {
            Some(prompt) if unfit(prompt) => &config.params.0,
            _ => &params,
        };
        match how {
            AttachReason::New => {
                let normalizer = IdNormalizer::new(self.opening.ids.clone());
                let route = self.route(&connection, normalizer, HashMap::new());
                let restored = restore::create(&connection, self.task(params, &route)).await?;
                let restoration = self.created(&connection, restored, given, key).await;
                Ok(self.attached(connection, route, restoration))
            }
            AttachReason::Again | AttachReason::Fork => {
                let given = given.as_deref();
                self.reattach(connection, params, given, key, how, strategy)
                    .await
            }
            AttachReason::Import => self.import(connection, &config, given, key).await,
            AttachReason::Elsewhere => Ok(self.recorded_state()),
        }
    }

    /// A session that rejoin has no log of yet, with the values that the client gives options.
    async fn created(
        &self,
        connection: &Arc<AgentConnection>,
        restored: Restored,
        given: Option<String>,
        key: String,
    ) -> Restoration {
        let mut settings = AgentSettings::default();
        settings.opened(&restored.answer);
        let opened = (restored.answer.clone(), settings);
        let (session_id, limit) = (&restored.session_id, self.policy.load_timeout);
        // An agent may pass over what it does not know.
        let (answer, settings, given) =
            restore::give(connection, session_id, given.as_deref(), opened, limit).await;
        Restoration {
            restored: Restored { answer, ..restored },
            settings,
            key,
            hand_over: None,
            instead: None,
            given,
        }
    }

    /// The state of a session that another process has open, according to its log.
    pub(super) fn recorded_state(&self) -> AttachOutcome {
        let current = self.opening.history.current_settings();
        let answer = AgentSettings::response_from_log(&current, self.agent.name());
        let answer = if self.agent.is_native() {
            v2::answer(&answer, None)
        } else {
            answer
        };
        AttachOutcome {
            answer: Some(answer),
            ..AttachOutcome::default()
        }
    }

    fn task<'a>(&'a self, params: &'a str, route: &'a Arc<SessionRoute>) -> Task<'a> {
        Task {
            agent: &self.agent,
            params,
            route,
            limit: self.policy.load_timeout,
        }
    }

    async fn reattach(
        &self,
        mut connection: Arc<AgentConnection>,
        params: &str,
        given: Option<&str>,
        key: String,
        how: AttachReason,
        strategy: Strategy,
    ) -> Result<AttachOutcome, EngineError> {
        let (history, ids) = (&*self.opening.history, &self.opening.ids);
        let is_native = connection.is_native();
        let mut replayed = ReplayedState::read(history, &self.agent, ids.clone(), is_native)?;
        if replayed.own.id.is_none() && !replayed.own.has_left {
            replayed.own.id.clone_from(&lock(&self.last_id));
        }
        if self.policy.adopt {
            replayed.own.leave();
        }
        if replayed.settings == AgentSettings::default() {
            // The settings of a session without a log are only here.
            replayed.settings = lock(&self.settings).clone();
        }
        let unsure = replayed.is_unsure(&self.agent);
        let recorded = replayed.recorded.as_deref();
        let renamed = recorded.is_some_and(|name| name != self.agent.name());
        let unknown = replayed.reason(&self.agent, self.policy.adopt);
        let route = self.route(&connection, replayed.normalizer, replayed.snapshots);
        let cwd = lock(&self.config).workspace.cwd.clone();
        let offer = |connection: &AgentConnection| {
            let recall = self.policy.recall.as_ref()?;
            recall.offer(params, &cwd, &connection.capabilities())
        };
        // The server that its briefing names has to be there again.
        let is_briefed = replayed.prompts_since_briefing.is_some();
        let again = is_briefed.then(|| offer(&connection)).flatten();
        let (again, mut server) = again.unzip();
        let task = self.task(again.as_deref().unwrap_or(params), &route);
        let origin = self.opening.origin.as_ref();
        let origin = origin.filter(|_| how == AttachReason::Fork);
        let origin = origin.or(replayed.own.origin.as_ref());
        let origin = origin.filter(|_| !self.policy.adopt);
        let strategy = match strategy {
            // An agent may accept the id of a session that it has not created.
            Strategy::Any if unsure => Strategy::LoadOnly,
            strategy => strategy,
        };
        let mut restored = None;
        // The agent's session that it cannot open now, and why.
        let mut unavailable = None;
        if let Some(origin) = origin {
            let origin = ForkOrigin {
                session_id: &origin.session.id,
                cursor: origin.cursor.as_deref(),
                prompts: replayed.prompts.count(),
            };
            restored = fork(&mut connection, task, origin, ids.clone()).await?;
        } else {
            // The one that it could not open last time is its own, so that comes first.
            let instead_of = replayed.own.instead_of.iter();
            for session_id in instead_of.chain(&replayed.own.id) {
                let knows = replayed.own.knows(session_id);
                let has_one_prompt = replayed.own.id.as_ref() == Some(session_id)
                    && replayed.prompts_since_briefing == Some(1);
                let strategy = match strategy {
                    // All that this session has came with one prompt, and is lost if the agent was
                    // killed before it has written that to its files. The replay shows whether it is
                    // there, and is short.
                    Strategy::Any if has_one_prompt => Strategy::LoadFirst,
                    strategy => strategy,
                };
                let known = KnownPrompts {
                    count: knows,
                    said: Some(&replayed.prompts),
                };
                let continued =
                    restore::continue_session(&mut connection, task, session_id, known, strategy);
                match continued.await? {
                    Continued::Opened(opened) => {
                        restored = Some(opened);
                        break;
                    }
                    Continued::Failed(error) if unavailable.is_none() && !unsure => {
                        unavailable = Some((session_id.clone(), error));
                    }
                    Continued::Failed(_) | Continued::NotFound => {}
                }
            }
        }
        let restored = if let Some(restored) = restored {
            restored
        } else {
            if connection.life.is_dead() {
                connection = self.agent.connection().await?;
            }
            let (offered, name) = offer(&connection).unzip();
            server = name;
            let task = self.task(offered.as_deref().unwrap_or(params), &route);
            let mut restored = restore::create(&connection, task).await?;
            restored.how = RestoreMethod::Transcript;
            restored
        };
        let is_same = replayed.own.id.as_deref() == Some(&*restored.session_id);
        let knows = match replayed.own.knows(&restored.session_id) {
            // What the log does not have is not missed.
            _ if restored.how == RestoreMethod::Fork => replayed.prompts.count(),
            knows => knows,
        };
        let interrupted = replayed.interrupted && !connection.capabilities().history;
        let reason = match restored.how {
            RestoreMethod::Transcript if is_same => Some(BriefingReason::SameSession),
            RestoreMethod::Transcript => match &unavailable {
                Some((session_id, error)) if replayed.other.is_none() => {
                    let error = error.clone().renamed(session_id, &lock(&self.config).name);
                    Some(BriefingReason::Unavailable(words(&error)))
                }
                _ => Some(unknown),
            },
            RestoreMethod::EmptyLoad => Some(BriefingReason::EmptyLoad),
            RestoreMethod::PartialLoad(kept) => Some(BriefingReason::Lost(kept)),
            _ if knows == 0 => Some(unknown),
            _ if knows < replayed.prompts.count() => Some(BriefingReason::Missed(knows)),
            RestoreMethod::Resume | RestoreMethod::Load if interrupted => {
                Some(BriefingReason::Interrupted)
            }
            _ => None,
        };
        let reason = reason.filter(|_| replayed.prompts.count() > 0);
        let hand_over = reason.map(|reason| HandOver { reason, server });
        let instead = match strategy {
            // What it has opened last, it does not have: that was the one in the other's place, or that.
            Strategy::Nothing => {
                let last = lock(&self.last_id).clone();
                replayed
                    .own
                    .instead_of
                    .clone()
                    .filter(|session_id| Some(session_id) != last.as_ref())
            }
            Strategy::Any | Strategy::LoadFirst | Strategy::LoadOnly => {
                unavailable.map(|(session_id, _)| session_id)
            }
        };
        let instead = instead.filter(|session_id| *session_id != restored.session_id);
        let (session_id, answer) = (&restored.session_id, &restored.answer);
        let limit = self.policy.load_timeout;
        let wanted = &replayed.settings;
        let opened =
            restore::restore_settings(&connection, session_id, answer, wanted, limit).await;
        let (answer, settings, given) =
            restore::give(&connection, session_id, given, opened, limit).await;
        // A log of an earlier version does not have the modes and options that the agent reports.
        let reported = settings::reported(&restored.answer).is_some();
        let unrecorded = self.opening.history.current_settings().answer.is_none();
        let new = renamed
            || !is_same
            || instead != replayed.own.instead_of
            || reported && unrecorded
            || replayed.own.is_rewound;
        let (changed, gone) = settings.changes_since(&replayed.settings);
        let mut restored = Restored { answer, ..restored };
        let changed = changed.into_iter().filter(|update| !given.contains(update));
        restored
            .snapshots
            .extend(changed.map(|update| route.payload(update)));
        let restoration = Restoration {
            restored,
            settings,
            key,
            hand_over,
            instead,
            given,
        };
        let mut attached = self.attached(connection, route, restoration);
        attached.gone.extend(gone);
        if !new {
            attached.agent_session_id = None;
        }
        Ok(attached)
    }

    async fn import(
        &self,
        connection: Arc<AgentConnection>,
        config: &SessionConfig,
        given: Option<String>,
        key: String,
    ) -> Result<AttachOutcome, EngineError> {
        let ids = self.opening.ids.clone();
        let route = self.route(&connection, IdNormalizer::new(ids.clone()), HashMap::new());
        let task = self.task(&config.params.0, &route);
        let cwd = &config.workspace.cwd;
        let listed = list::look_up(&connection, &config.name, Some(cwd));
        let (imported, listed) = tokio::join!(import(&connection, config, task, ids), listed);
        let (restored, block) = imported?;
        let restoration = self.created(&connection, restored, given, key).await;
        let mut attached = self.attached(connection, route, restoration);
        let entry = listed.entry();
        let title = entry.title.and_then(|title| of_imported(&block, &title));
        attached.imported = vec![block];
        if let (Some(title), Some(live)) = (title, self.live()) {
            let payload = live.route.payload(title);
            let titled = Block::of(live.route.snapshot_kind(), payload);
            attached.imported.push(titled);
        }
        attached.listed = entry.times;
        Ok(attached)
    }

    /// Records that the agent has opened the session.
    fn attached(
        &self,
        connection: Arc<AgentConnection>,
        route: Arc<SessionRoute>,
        restoration: Restoration,
    ) -> AttachOutcome {
        let Restoration {
            restored,
            settings,
            key,
            hand_over,
            instead,
            given,
        } = restoration;
        let answer = for_client(&connection.routes, method::SESSION_LOAD, restored.answer);
        let restored = Restored { answer, ..restored };
        let snapshots = Block::of_all(route.snapshot_kind(), restored.snapshots.iter().cloned());
        let version = connection.capabilities().version.clone();
        let session_id = restored.record(self.agent.name(), version.as_deref(), instead.as_deref());
        let given = with_given(&route, &given);
        *lock(&self.last_id) = Some(restored.session_id.clone());
        *lock(&self.settings) = settings;
        *lock(&self.live) = Some(LiveSession {
            connection,
            agent: self.agent.name().to_owned(),
            session_id: restored.session_id,
            route,
            answer: restored.answer.clone(),
            key,
            turns: Arc::default(),
            unproven: Arc::new(AtomicBool::new(restored.how.is_unproven())),
            how: restored.how,
            hand_over,
        });
        AttachOutcome {
            answer: Some(restored.answer),
            agent_session_id: Some(session_id),
            way: Some(restored.how.as_str()),
            snapshots,
            ..given
        }
    }

    /// Logs how the session was attached, if that happened outside of a request to open it.
    pub(super) async fn log_attached(&self, attached: AttachOutcome) -> Result<(), EngineError> {
        if let Some(way) = attached.way {
            let session = &lock(&self.config).name;
            tracing::info!(%session, agent = self.agent.name(), way, "opened in the agent again");
        }
        let mut block = Block::default();
        if let Some(session_id) = attached.agent_session_id {
            block.push(Kind::AgentSessionId, &session_id);
        }
        for snapshot in attached.info.iter().chain(attached.snapshots.iter()) {
            block.push(snapshot.kind, snapshot.payload);
        }
        if !block.is_empty() {
            self.opening.out.send(EngineEvent::Block(block)).await?;
        }
        Ok(())
    }
}

/// The values that the client has given options were set, with these changes: they are logged, and the client
/// learns of them from the answer.
fn with_given(route: &SessionRoute, given: &[String]) -> AttachOutcome {
    let payloads = given.iter().map(|update| route.payload(update.clone()));
    let kinds = given.iter().map(|update| UpdateKind::of(update.as_bytes()));
    let snapshots = kinds.filter(|kind| kind.is_snapshot());
    AttachOutcome {
        info: Block::of_all(route.snapshot_kind(), payloads),
        gone: snapshots.map(UpdateKind::name).collect(),
        ..AttachOutcome::default()
    }
}

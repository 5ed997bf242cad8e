//! Performs the effects of the machine in their order: those on log and engine by the owner, those on the
//! client by the front.

use crate::engine::{AttachReason, CloseReason, SessionConfig};
use crate::protocol::EngineCall;
use crate::record::metadata::MetadataChange;
use crate::session::effect::{Batch, Effect};
use crate::session::front::Outgoing;
use crate::session::front::deliver::Delivery;
use crate::session::front::load::ReplayStart;
use crate::session::link::message::{Passed, Route};
use crate::session::link::to_owner::OwnerLink;
use crate::session::outcome::{Done, Refusal};
use crate::session::owner::life::rewind;
use crate::session::owner::open_session::OpenSession;
use crate::session::reply::Reply;
use crate::store::ForkPoint;

use super::SessionTask;

impl SessionTask {
    /// Performs batches until the machine returns no more.
    pub(super) async fn perform(&mut self, mut batch: Batch<Reply>) {
        loop {
            self.inform();
            let mut effects = batch.into_iter();
            let mut refusal = None;
            for effect in effects.by_ref() {
                let performed = self.effect(effect).await;
                self.delivery().note_log();
                if let Err(reason) = performed {
                    refusal = Some(reason);
                    break;
                }
            }
            batch = match refusal {
                None => {
                    self.delivery().flush().await;
                    self.front.settle(!self.owner.turns.is_empty());
                    match self.machine.advance() {
                        Some(batch) => batch,
                        None => return,
                    }
                }
                Some(refusal) => {
                    // What ends the turns waits behind what has failed, and came before its answer.
                    let is_ended = !refusal.is_recoverable_at_once() && self.mail.ends.any();
                    if is_ended {
                        self.machine.end_meanwhile();
                    }
                    for effect in effects {
                        self.drop_effect(effect, &refusal, is_ended).await;
                    }
                    self.front.settle(!self.owner.turns.is_empty());
                    self.machine.failed(refusal)
                }
            };
        }
    }

    /// The front at work, with what it has to know of the session.
    pub(super) fn delivery(&mut self) -> Delivery<'_> {
        Delivery {
            front: &mut self.front,
            owner: &mut self.owner,
            link: self.other.link(),
        }
    }

    /// Answers what an effect that is not performed would have answered: with the failure, or as
    /// cancelled if `is_ended`, since the client has cancelled meanwhile.
    async fn drop_effect(&mut self, effect: Effect<Reply>, refusal: &Refusal, is_ended: bool) {
        let reason = if is_ended {
            &Refusal::Cancelled
        } else {
            refusal
        };
        match effect {
            Effect::Answer(reply, Ok(Done::Stopped(ended))) => {
                let result = refusal.of_turn(is_ended || ended.is_cancelled());
                let result = result.map(Done::Stopped);
                self.delivery().answer(reply, result).await;
            }
            Effect::Answer(reply, _)
            | Effect::Call { reply, .. }
            | Effect::Pass(Route::Pass(reply, _)) => {
                self.delivery().answer(reply, Err(reason.clone())).await;
            }
            Effect::Ask(request) => self.owner.questions.respond(&request.id, None),
            Effect::Respond(id, _) => self.owner.questions.respond(&id, None),
            _ => {}
        }
    }

    async fn effect(&mut self, effect: Effect<Reply>) -> Result<(), Refusal> {
        match effect {
            Effect::Create {
                agent_session_id,
                imported,
                listed,
            } => {
                let id = agent_session_id.as_deref();
                self.owner.create(id, &imported, listed)?;
                self.delivery().log_opened();
            }
            Effect::Fork(config, at) => return self.fork(config, at).await,
            Effect::MetadataChange(change) => return self.change_metadata(&change).await,
            Effect::Open(config) => return self.open(config).await,
            Effect::Check => return self.deps.library.check(&self.owner.id),
            Effect::Claim => return self.delivery().claim().await,
            Effect::FindKey { key, message_id } => {
                if let Some(found) = self.owner.find_key(&key, &message_id)? {
                    self.machine.key_found(found);
                }
            }
            Effect::Rewind { target, client } => {
                self.owner.questions.withdraw();
                let session = self.owner.session.as_mut().ok_or(Refusal::NotOpen)?;
                rewind(session, &target, client)?;
                self.delivery().note_log();
                return self.delivery().send_missed().await;
            }
            Effect::RecordWorkspaceChange => {
                let session = self.owner.session.as_mut();
                return session.map_or(Ok(()), OpenSession::record_workspace_change);
            }
            Effect::Append(block, sync) => return self.delivery().append(&block, sync).await,
            Effect::Replay { open: None, from } => return self.start_replay(from),
            Effect::Replay {
                open: Some(config), ..
            } => return self.open_and_replay(config),
            Effect::AbandonReplay => {
                self.front.abandon_load();
                return self.delivery().send_missed().await;
            }
            Effect::Release(CloseReason::Deleted) => {
                self.owner.delete()?;
                self.front.release();
            }
            // The others cannot fail.
            effect => self.effect_on_client(effect).await,
        }
        Ok(())
    }

    async fn effect_on_client(&mut self, effect: Effect<Reply>) {
        match effect {
            Effect::Prepare(config) => {
                self.begin_opening("created", &config);
                self.owner.prepare(config);
            }
            Effect::ReadForFork => self.owner.read_for_fork(),
            Effect::RetryRecovery => self.delivery().retry_recovery().await,
            Effect::CatchUp(snapshots, gone) => self.delivery().catch_up(snapshots, gone),
            Effect::Send(block) => self.delivery().show(&block).await,
            Effect::Notify(notification) => self.delivery().notify(notification).await,
            Effect::Attach(how) => self.attach(how).await,
            Effect::KeepAgentSessionId(payload) => {
                if let Some(session) = &mut self.owner.session {
                    session.keep_agent_session_id(payload);
                }
            }
            Effect::Begin(prompt) => {
                self.delivery().show_prompt_of_other(&prompt).await;
                self.owner.begin(prompt);
            }
            Effect::Skip(prompt) => {
                self.delivery().show_prompt_of_other(&prompt).await;
                self.owner.skip(&prompt);
            }
            Effect::Pass(route) => {
                if let Route::Pass(_, Passed::Prompt { message_id, .. }) = &route {
                    self.own_prompt(message_id);
                }
                self.other.pass(route).await;
            }
            Effect::Ask(request) => {
                if let Some(question) = self.owner.ask(request) {
                    self.delivery().give(Outgoing::Ask(question)).await;
                }
            }
            Effect::Answer(reply, result) => self.delivery().answer(reply, result).await,
            Effect::Release(reason) => self.release(reason),
            effect => self.effect_on_engine(effect),
        }
    }

    fn effect_on_engine(&mut self, effect: Effect<Reply>) {
        match effect {
            Effect::Cancel(work) => {
                self.other.cancel(&work);
                self.owner.cancel(&work);
            }
            Effect::Respond(id, outcome) => self.owner.questions.respond(&id, outcome),
            Effect::Call {
                reply,
                method,
                params,
            } => {
                let view = &self.front.screen.view;
                let call = if reply.is_of_link() {
                    EngineCall {
                        method,
                        params,
                        mode: None,
                    }
                } else {
                    view.call(method, params)
                };
                self.owner.call(reply, call);
            }
            Effect::Forward { method, params } => {
                if let Some(session) = &self.owner.session {
                    session.conversation.notify(&method, params);
                }
            }
            // The others are performed by `effect` and `effect_on_client`.
            _ => {}
        }
    }

    /// The session begins to be `created`, `forked` or `opened`.
    fn begin_opening(&mut self, what: &'static str, config: &SessionConfig) {
        self.owner
            .trace
            .opening(what, self.deps.library.sys.clock.now());
        self.owner.fronts.client_id.clone_from(&config.name);
        self.front.screen.client_id.clone_from(&config.name);
    }

    async fn fork(&mut self, config: SessionConfig, at: Option<ForkPoint>) -> Result<(), Refusal> {
        self.begin_opening("forked", &config);
        let request = self.machine.attaching().map(Reply::cancellation);
        let forked = self.owner.fork(config, at, request).await;
        self.delivery().log_opened();
        forked
    }

    async fn change_metadata(&mut self, change: &MetadataChange) -> Result<(), Refusal> {
        self.delivery().claim().await?;
        match &mut self.owner.session {
            Some(session) => session.change_metadata(change),
            None => self.deps.library.change_metadata(&self.owner.id, change),
        }
    }

    /// Opens the session, or configures one that is open.
    async fn open(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        self.begin_opening("opened", &config);
        if let Some(session) = &mut self.owner.session {
            session.configure(config);
            self.other.looks_on(self.owner.is_observed());
            self.delivery().retry_recovery().await;
            // What cannot be recovered can be read.
            self.owner.check_claim();
            let session = self.owner.session.as_mut();
            return session.map_or(Ok(()), OpenSession::try_lock);
        }
        self.owner.open(config)?;
        self.delivery().log_opened();
        Ok(())
    }

    /// Begins to replay an open session.
    fn start_replay(&mut self, message: Option<String>) -> Result<(), Refusal> {
        let (Some(session), Some(reply)) = (&self.owner.session, self.machine.load_under_way())
        else {
            return Err(Refusal::NotOpen);
        };
        self.front.start_replay(ReplayStart {
            prompts: session.summary.prompts,
            message,
            request: reply.cancellation(),
            end: session.log_end(),
        })
    }

    /// Begins to replay a session, which is opened on the way.
    fn open_and_replay(&mut self, config: SessionConfig) -> Result<(), Refusal> {
        self.begin_opening("opened", &config);
        if self.deps.replay.tail.is_some() {
            // The log must be read first to find where the last turns begin.
            self.owner.open(config)?;
            self.delivery().log_opened();
            return self.start_replay(None);
        }
        match self.machine.load_under_way() {
            Some(reply) if !self.deps.library.has_expired(&self.owner.id) => {
                self.front.open_and_replay(config, reply.cancellation())
            }
            _ => Err(Refusal::NotFound),
        }
    }

    async fn attach(&mut self, how: AttachReason) {
        // What another process has written precedes snapshots. What cannot be sent yet is
        // sent before the answer.
        self.delivery().send_missed().await.ok();
        if self.owner.elsewhere().is_some() || self.other.link().is_some() {
            self.search_to_attach(how);
        } else {
            self.attach_engine(how);
        }
    }

    /// Has the engine attach, or the owner in another task say how the session is.
    pub(super) fn attach_engine(&mut self, how: AttachReason) {
        let describe = self.other.link().map(OwnerLink::describe);
        let request = self.machine.attaching().map(Reply::cancellation);
        self.owner.attach(how, describe, request);
    }

    /// Releases log and engine, and a replay that is not finished.
    pub(super) fn release(&mut self, reason: CloseReason) {
        self.front.release();
        self.owner.release(reason);
    }
}

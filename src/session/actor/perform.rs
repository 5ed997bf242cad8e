//! Performs the effects of a session's machine, one at a time.

use crate::engine::{AttachOutcome, AttachReason, Cancel, CloseReason, EngineError, Prompt, begun};
use crate::index::first_title;
use crate::json;
use crate::protocol::method::SESSION_CANCEL;
use crate::protocol::{EngineCall, UpdateKind};
use crate::record::{AgentSessionId, Kind, snapshot_of};
use crate::session::effect::{Effect, Work};
use crate::session::open_session::LogAccess;
use crate::session::outcome::Refusal;
use crate::session::reply::Reply;
use crate::session::request::Updates;
use crate::store::Sync;
use crate::sys::blocking;

use super::engine_events::{End, RunningTurn};
use super::front::SEARCH;
use super::links::sent_by;
use super::{Actor, RunningAttach, ServedCall, TaskResult, panicked};

impl Actor {
    pub(super) async fn effect(&mut self, effect: Effect<Reply>) -> Result<(), Refusal> {
        match effect {
            Effect::Create {
                agent_session_id,
                imported,
                listed,
            } => return self.create(agent_session_id.as_deref(), &imported, listed),
            Effect::Fork(config, at) => {
                self.trace_opening("forked");
                return self.fork(config, at).await;
            }
            Effect::MetadataChange(change) => return self.change_metadata(&change).await,
            Effect::Open(config) => {
                self.trace_opening("opened");
                self.name.clone_from(&config.name);
                return self.open(config).await;
            }
            Effect::Check => return self.check(),
            Effect::Claim => return self.claim().await,
            Effect::RecordWorkspaceChange => return self.record_workspace_change(),
            Effect::Append(block, sync) => return self.append_block(&block, sync).await,
            Effect::Replay { open: None, from } => return self.start_replay(from),
            Effect::Replay {
                open: Some(config), ..
            } => {
                self.trace_opening("opened");
                return self.open_and_replay(config).await;
            }
            Effect::CatchUp(snapshots, gone) => return self.catch_up(snapshots, gone).await,
            Effect::AbandonReplay => return self.abandon_replay().await,
            Effect::Release(CloseReason::Deleted) => return self.delete().await,
            // The others cannot fail.
            Effect::Prepare(config) => {
                self.trace_opening("created");
                self.name.clone_from(&config.name);
                self.prepare(config);
            }
            Effect::ReadForFork => self.read_for_fork(),
            Effect::RetryRecovery => self.retry_recovery().await,
            Effect::Send(block) => {
                self.announce_alias().await;
                self.send_logged(&block).await;
                if let Some(session) = &mut self.session
                    && std::mem::take(&mut session.has_reported_aliases)
                {
                    // What it has reported replaces what the client knew.
                    session.has_new_alias = true;
                    self.announce_alias().await;
                }
            }
            Effect::Notify(notification) => self.notify(notification).await,
            Effect::Attach(how) => {
                // What another process has written precedes snapshots. What cannot be sent yet is
                // sent before the answer.
                self.send_missed().await.ok();
                self.check_owner().await;
                self.find_owner(SEARCH).await;
                self.attach(how);
            }
            Effect::KeepAgentSessionId(payload) => self.keep_agent_session_id(payload),
            Effect::Begin(prompt) => {
                self.show_prompt(&prompt).await;
                self.begin(prompt);
            }
            Effect::Skip(prompt) => {
                self.show_prompt(&prompt).await;
                self.skip(&prompt);
            }
            Effect::Pass(route) => self.pass(route).await,
            Effect::Cancel(work) => self.cancel(&work),
            Effect::Ask(request) => self.ask(request).await,
            Effect::Respond(id, outcome) => self.client_requests.respond(&id, outcome),
            Effect::Call {
                reply,
                method,
                params,
            } if reply.is_of_link() => self.call(
                reply,
                EngineCall {
                    method,
                    params,
                    mode: None,
                },
            ),
            Effect::Call {
                reply,
                method,
                params,
            } => self.call(reply, self.view.call(method, params)),
            Effect::Forward { method, params } => {
                if let Some(session) = &self.session {
                    session.conversation.notify(&method, params);
                }
            }
            Effect::Answer(reply, result) => self.answer(reply, result).await,
            Effect::Release(reason) => self.release(reason),
        }
        Ok(())
    }

    async fn append_block(&mut self, block: &Updates, sync: Sync) -> Result<(), Refusal> {
        let new = block.iter().filter(|entry| !entry.known);
        let records = new.map(|entry| (entry.kind, entry.id, entry.payload));
        if let Some((Kind::End, id, payload)) = records.clone().next() {
            return self.append_end(id, payload, sync).await;
        }
        if let Some((Kind::Prompt, Some(id), payload)) = records.clone().next()
            && let Some(client) = self.sender_of(id)
        {
            let payload = sent_by(payload, &client);
            return self.append(Kind::Prompt, Some(id), &payload, sync);
        }
        self.append_all(records, sync)
    }

    /// Appends the end of a turn, and before it a title, if the session has none by now.
    async fn append_end(
        &mut self,
        id: Option<&str>,
        payload: &str,
        sync: Sync,
    ) -> Result<(), Refusal> {
        let title = self.own_title();
        let title_record = title.iter().map(|title| (Kind::Info, None, title.as_str()));
        let end = std::iter::once((Kind::End, id, payload));
        self.append_all(title_record.chain(end), sync)?;
        self.trace_end(id, payload);
        if let (Some(title), Some(session)) = (&title, &mut self.session) {
            session.own_title = Some(title.clone());
        }
        // A replay on its way reaches it, and so does what sends all that was missed.
        if let Some(title) = title
            && self.replay.is_none()
            && !self.has_missed()
        {
            self.send_live(Kind::Info, &title).await;
            self.all_is_sent();
        }
        Ok(())
    }

    /// The `info` record that names the session after its first prompt. `None` if it was given a
    /// title: an agent may do so until the first turn ends.
    pub(super) fn own_title(&self) -> Option<String> {
        let session = self.session.as_ref()?;
        let title = session.summary.title.as_deref()?;
        (!session.history.is_titled()).then(|| {
            json::Object::new()
                .string("sessionUpdate", UpdateKind::SessionInfo.name())
                .string("title", title)
                .end()
        })
    }

    pub(super) fn append(
        &mut self,
        kind: Kind,
        id: Option<&str>,
        payload: &str,
        sync: Sync,
    ) -> Result<(), Refusal> {
        self.append_all(std::iter::once((kind, id, payload)), sync)
    }

    /// Appends records, all of them or none, and updates the catalog's entry.
    fn append_all<'a>(
        &mut self,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)> + Clone,
        sync: Sync,
    ) -> Result<(), Refusal> {
        let Some(session) = &mut self.session else {
            return Err(Refusal::NotOpen);
        };
        let log = match &mut session.log {
            LogAccess::Memory => {
                let at = self.deps.sys.clock.now();
                for (kind, id, payload) in records {
                    session.history.note(kind, payload);
                    session.summary.apply(kind, id, &at, payload);
                }
                return Ok(());
            }
            LogAccess::Shared(_) | LogAccess::Failed(_) => {
                return Err(Refusal::Storage("the log is not locked".to_owned()));
            }
            LogAccess::ReadOnly(reason) => return Err(Refusal::Storage(reason.clone())),
            LogAccess::Own(log) => log,
        };
        let Some((first, ..)) = records.clone().next() else {
            return Ok(());
        };
        if let (Kind::Prompt, Some(catalog)) = (first, &self.deps.catalog) {
            // If this process dies before it updates the entry, the next list reads the log.
            blocking(|| catalog.opened(&self.id));
        }
        let before = log.end();
        let result = if log.waits(sync) {
            blocking(|| log.append_all(records.clone(), sync))
        } else {
            log.append_all(records.clone(), sync)
        };
        // A request is answered when such a record is in the log.
        let result = if first == Kind::Prompt || sync == Sync::Turn {
            result.and_then(|appended| blocking(|| log.check_name()).map(|()| appended))
        } else {
            result
        };
        let appended = result.map_err(|error| {
            tracing::error!(session = %self.id, %error, "cannot append to the log");
            session.failed_to_append(&error);
            Refusal::from(error)
        })?;
        session.last_offset = Some(appended.offset);
        let is_activity =
            |kind: Kind, payload| kind.is_activity() && snapshot_of(kind, payload).is_none();
        if records
            .clone()
            .any(|(kind, _, payload)| is_activity(kind, payload))
        {
            session.active_at = Some(appended.at);
        }
        // What is logged is sent next, unless earlier records are still unsent.
        if self.replay.is_none() && session.shown == before {
            session.shown = appended.end;
            session.unsent.get_or_insert(before);
        }
        session.summary.scanned = appended.end;
        let had_title = session.summary.title.is_some();
        let mut summarized = false;
        for (kind, id, payload) in records {
            let info = snapshot_of(kind, payload);
            let (kind, payload) = match &info {
                Some(info) => (Kind::Info, info.as_str()),
                None => (kind, payload),
            };
            if matches!(kind, Kind::Update | Kind::UpdateV2) {
                // Nearly all records are: they are only part of the history.
                continue;
            }
            session.history.note(kind, payload);
            let changed = session.summary.apply(kind, id, &appended.at, payload);
            session.has_new_alias |= changed && kind == Kind::AgentSessionId;
            session.has_reported_aliases |=
                kind == Kind::Info && !AgentSessionId::reported(payload).is_empty();
            summarized |= changed;
        }
        if had_title
            && session.summary.title.is_none()
            && session.summary.prompts > 0
            && let Some(store) = &self.deps.store
        {
            // The agent has removed the title that it gave.
            match blocking(|| first_title(&mut store.read(&self.id)?)) {
                Ok(title) => session.summary.title = title,
                Err(error) => tracing::debug!(session = %self.id, %error, "cannot read a title"),
            }
        }
        if summarized && let Some(catalog) = &self.deps.catalog {
            blocking(|| catalog.put(&self.id, &session.summary));
        }
        Ok(())
    }

    fn begin(&mut self, prompt: Prompt) {
        self.trace_turn(&prompt.message_id);
        let Some(session) = &mut self.session else {
            return;
        };
        session.history.begin(session.prompt_offset(), &prompt);
        let cancel = Cancel::default();
        let message_id = prompt.message_id.clone();
        // Not in a task: messages to an agent are sent in the order in which they came.
        let turn = session.conversation.prompt(prompt, cancel.clone());
        self.turns.push(RunningTurn {
            message_id,
            cancel,
            task: tokio::spawn(turn),
            end: End::NotYet,
        });
    }

    /// Counts the prompt that was appended last as an earlier one.
    fn skip(&mut self, prompt: &Prompt) {
        if let Some(session) = &mut self.session {
            session.history.begin(session.prompt_offset(), prompt);
            session.history.end(&prompt.message_id);
        }
        self.links.forget(&prompt.message_id);
    }

    fn cancel(&mut self, work: &Work) {
        match work {
            Work::Attach => {
                if let Some(attach) = &self.attach {
                    attach.abort.cancel();
                }
            }
            Work::Turns => self.turns.iter().for_each(|turn| turn.cancel.cancel()),
            Work::FailedTurns => self.turns.iter().for_each(|turn| turn.cancel.abandon()),
            Work::Turn(message_id) => {
                let mut turns = self.turns.iter();
                if let Some(turn) = turns.find(|turn| turn.message_id == *message_id) {
                    turn.cancel.cancel_request();
                }
            }
            Work::OwnWork => {
                if let Some(session) = &self.session {
                    let params = json::Object::new().string("sessionId", &self.name).end();
                    session.conversation.notify(SESSION_CANCEL, params);
                }
            }
            Work::ClientRequests => self.client_requests.withdraw(),
        }
    }

    fn attach(&mut self, how: AttachReason) {
        let attach = self.session.as_ref().map(|session| {
            if let Some(front) = &self.front {
                return front.describe();
            }
            // The process that has the log has the conversation, too.
            let how = if session.is_unlocked() {
                AttachReason::Elsewhere
            } else {
                how
            };
            let attach = session.conversation.attach(how);
            // What a new session needs is requested before what the client sends next.
            if how == AttachReason::New {
                begun(attach)
            } else {
                attach
            }
        });
        let request = self.machine.attaching().map(Reply::cancellation);
        // The client cancels the request, or the session is to be closed.
        let abort = request.unwrap_or_default().child_token();
        let aborted = abort.clone();
        let task = tokio::spawn(async move {
            let Some(attach) = attach else {
                return Ok(AttachOutcome::default());
            };
            // An engine that is ready at once is never asked to stop.
            tokio::select! {
                biased;
                result = attach => result,
                () = aborted.cancelled() => Err(EngineError::cancelled()),
            }
        });
        self.attach = Some(RunningAttach { abort, task });
    }

    fn call(&self, reply: Reply, call: EngineCall) {
        let Some(session) = &self.session else { return };
        let cancelled = Box::pin(reply.cancellation().cancelled_owned());
        let EngineCall {
            method,
            params,
            mode,
        } = call;
        let call = session.conversation.call(&method, params, cancelled);
        let (id, results) = (self.id.clone(), self.results.clone());
        let call = tokio::spawn(call);
        tokio::spawn(async move {
            let result = call.await;
            let result = result.unwrap_or_else(|error| Err(panicked(&id, &error)));
            let served = ServedCall {
                reply,
                method,
                mode,
                result,
            };
            results.send(TaskResult::Called(served)).ok();
        });
    }
}

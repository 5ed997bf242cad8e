//! Performs the effects of a session's machine, one at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Attach, Attached, Block, Cancel, EngineError, Prompt};
use crate::index::first_title;
use crate::record::Kind;
use crate::replay::live_record_line;
use crate::store::Sync;
use crate::sys::blocking;

use super::actor::{Actor, RunningAttach, TaskResult};
use super::effect::Effect;
use super::open_session::{LogAccess, OpenSession};
use super::outcome::{Done, Refusal};
use super::refusal::storage;
use super::reply::{Answer, Reply};
use super::running::{End, RunningTurn};
use super::version::ProtocolVersion;

/// How often it is looked whether a request was cancelled whose engine makes ready.
const ASKED_AGAIN: Duration = Duration::from_millis(50);

/// A longer line's memory is given back, in bytes.
const LINE_KEPT: usize = 256 * 1024;

impl Actor {
    pub(super) async fn effect(&mut self, effect: Effect<Reply>) -> Result<(), Refusal> {
        match effect {
            Effect::Prepare(config) => {
                self.note_opening();
                self.name.clone_from(&config.name);
                self.prepare(config);
                Ok(())
            }
            Effect::Create { inner, imported } => self.create(inner.as_deref(), &imported),
            Effect::Fork(config, forking) => {
                self.note_opening();
                self.fork(config, forking).await
            }
            Effect::ReadForFork(to) => {
                self.lend(to);
                Ok(())
            }
            Effect::MetadataChange(note) => self.note(&note).await,
            Effect::Open(config) => {
                self.note_opening();
                self.name.clone_from(&config.name);
                self.open(config).await
            }
            Effect::Check => self.check(),
            Effect::Claim => self.claim().await,
            Effect::RetryRecovery => {
                self.retry_recovery().await;
                Ok(())
            }
            Effect::RecordWorkspaceChange => self.record_workspace_change(),
            Effect::Append {
                kind: Kind::End,
                id,
                payload,
                sync,
            } => self.append_end(id.as_deref(), &payload, sync).await,
            Effect::Append {
                kind,
                id,
                payload,
                sync,
            } => self.append(kind, id.as_deref(), &payload, sync),
            Effect::AppendBlock(block) => self.append_block(&block),
            Effect::SendBlock(block) => {
                if self.has_missed() {
                    self.send_missed().await.ok();
                } else {
                    self.send_block(&block).await;
                }
                Ok(())
            }
            Effect::SendSnapshots(snapshots) => {
                for snapshot in snapshots {
                    self.send_live(Kind::Info, &snapshot).await;
                }
                Ok(())
            }
            Effect::Attach(how) => {
                // What another process has written comes before how things are now. What cannot be
                // sent yet is sent before the answer.
                self.send_missed().await.ok();
                self.attach(how);
                Ok(())
            }
            Effect::AbortAttach => {
                if let Some(attach) = &self.pending_attach {
                    attach.canceller.cancel();
                }
                Ok(())
            }
            Effect::KeepInner(inner) => {
                self.keep_inner(inner);
                Ok(())
            }
            Effect::Ask(asking) => {
                self.ask(asking).await;
                Ok(())
            }
            Effect::Withdraw => {
                self.withdraw();
                Ok(())
            }
            Effect::Deliver(answered) => {
                // An engine that has gone meanwhile needs no answer.
                answered.reply.send(answered.outcome).ok();
                Ok(())
            }
            Effect::Call {
                reply,
                method,
                params,
            } => {
                self.call(reply, &method, params);
                Ok(())
            }
            Effect::Notify { method, params } => {
                if let Some(session) = &self.session {
                    session.conversation.notify(&method, params);
                }
                Ok(())
            }
            Effect::Send(payload) => {
                if self.has_missed() {
                    // What is still unsent afterwards is sent before the turn is answered.
                    self.send_missed().await.ok();
                } else {
                    self.send_live(Kind::Update, &payload).await;
                }
                Ok(())
            }
            Effect::Begin { message_id, params } => {
                self.begin(Prompt { message_id, params });
                Ok(())
            }
            Effect::Skip { message_id, params } => {
                self.skip(&Prompt { message_id, params });
                Ok(())
            }
            Effect::CancelTurns => {
                for turn in &self.turns {
                    turn.canceller.cancel();
                }
                Ok(())
            }
            Effect::CancelTurn(message_id) => {
                let mut turns = self.turns.iter();
                if let Some(turn) = turns.find(|turn| turn.message_id == message_id) {
                    turn.canceller.cancel_request();
                }
                Ok(())
            }
            Effect::Seek(message) => {
                self.sought = Some(message);
                Ok(())
            }
            Effect::Replay => self.start_replay(),
            Effect::OpenAndReplay(config) => {
                self.note_opening();
                self.open_and_replay(config).await
            }
            Effect::CatchUp(snapshots, gone) => self.catch_up(snapshots, gone).await,
            Effect::SendHeld => self.send_held().await,
            Effect::Announce => {
                self.announce().await;
                Ok(())
            }
            Effect::Echo { message_id, params } => {
                self.echo(&message_id, &params).await;
                Ok(())
            }
            Effect::Tell(phase) => {
                self.tell(&phase).await;
                Ok(())
            }
            Effect::Answer(reply, result) => {
                self.answer(reply, result).await;
                Ok(())
            }
            Effect::Release(how) => {
                self.release(how);
                Ok(())
            }
            Effect::Trash => self.trash().await,
        }
    }

    /// Answers a request, and waits until the answer is in front of all updates that follow: those
    /// of a prompt that was sent without waiting belong behind it.
    pub(super) async fn answer(&mut self, reply: Reply, mut result: Result<Done, Refusal>) {
        if let Err(refusal) = self.send_missed().await {
            tracing::warn!(session = %self.id, error = %refusal, "updates cannot be sent yet");
            // Who is told that a turn has ended has been told all of it.
            if let Ok(Done::Stopped(_)) = result {
                result = Err(refusal);
            }
        }
        self.note_answer(&result);
        let damage = match &mut self.session {
            // What is told of a fork is wrong with the session that it was made of.
            Some(session) if matches!(result, Ok(Done::Forked(_))) => {
                std::mem::replace(&mut session.damage, Arc::from([]))
            }
            Some(session) => session.damage.clone(),
            None => Arc::from([]),
        };
        let goes_on = matches!(result, Ok(Done::Taken(_)));
        let session = self.session.as_ref();
        let elsewhere = session.and_then(OpenSession::elsewhere).cloned();
        let read_only = session.and_then(OpenSession::read_only).map(str::to_owned);
        let answer = result.map(|done| Answer {
            done: self.shown(done),
            damage,
            elsewhere,
            read_only,
        });
        let busy = reply.send(answer.map_err(|refusal| self.named(refusal)));
        if goes_on {
            self.prompted = Some(busy);
        } else {
            self.answered.push(busy);
        }
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

    fn append_block(&mut self, block: &Block) -> Result<(), Refusal> {
        let new = block.iter().filter(|entry| !entry.known);
        let records = new.map(|entry| (entry.kind, entry.id, entry.payload));
        self.append_all(records, Sync::Buffered)
    }

    /// Appends records, all of them or none, and tells the catalog what it shows of them.
    pub(super) fn append_all<'a>(
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
                for (kind, _, payload) in records {
                    session.history.note(kind, payload);
                    session.summary.apply(kind, &at, payload);
                }
                return Ok(());
            }
            LogAccess::Shared(_) => {
                return Err(Refusal::Storage("the log is not locked".to_owned()));
            }
            LogAccess::ReadOnly(reason) => return Err(Refusal::Storage(reason.clone())),
            LogAccess::Own(log) => log,
        };
        let Some((first, ..)) = records.clone().next() else {
            return Ok(());
        };
        if let (Kind::Prompt, Some(catalog)) = (first, &self.deps.catalog) {
            // If this process dies before it can tell of the prompt, the next list looks.
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
            storage(&error)
        })?;
        session.last_offset = Some(appended.offset);
        if records.clone().any(|(kind, ..)| kind.is_activity()) {
            session.active_at = Some(appended.at);
        }
        // What is logged is sent next, unless what was logged before is still unsent.
        if self.replay.is_none() && session.shown == before {
            session.shown = appended.end;
        }
        session.summary.scanned = appended.end;
        let was_named = session.summary.title.is_some();
        let mut summarized = false;
        for (kind, _, payload) in records {
            session.history.note(kind, payload);
            summarized |= session.summary.apply(kind, &appended.at, payload);
        }
        if was_named
            && session.summary.title.is_none()
            && session.summary.prompts > 0
            && let Some(store) = &self.deps.store
        {
            // Its agent took back the title that it gave.
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

    /// Sends a payload as the client is to see it live.
    pub(super) async fn send_live(&mut self, kind: Kind, payload: &str) {
        self.line.clear();
        live_record_line(&self.name, kind, payload, &mut self.line);
        self.put_lines().await;
    }

    async fn send_block(&mut self, block: &Block) {
        self.line.clear();
        for entry in block.iter() {
            live_record_line(&self.name, entry.kind, entry.payload, &mut self.line);
        }
        self.put_lines().await;
    }

    async fn put_lines(&mut self) {
        let lines = match &mut self.view {
            None => &self.line,
            Some(view) => {
                self.shown.clear();
                view.lines(&self.line, &mut self.shown);
                &self.shown
            }
        };
        // A client that is gone needs no update; the log has it.
        self.deps.wire.writer.control(lines).await.ok();
        if self.shown.capacity() > LINE_KEPT {
            self.shown = Vec::new();
        }
        if self.line.capacity() > LINE_KEPT {
            self.line = Vec::new();
        }
    }

    fn begin(&mut self, prompt: Prompt) {
        self.note_turn();
        let Some(session) = &mut self.session else {
            return;
        };
        session.history.begin(session.prompt_offset(), &prompt);
        let (canceller, cancel) = Cancel::new();
        let message_id = prompt.message_id.clone();
        // What goes to an agent goes in the order in which it came, so it is not left to a task.
        let turn = session.conversation.prompt(prompt, cancel);
        self.turns.push(RunningTurn {
            message_id,
            canceller,
            task: tokio::spawn(turn),
            end: End::NotYet,
        });
    }

    /// Counts the prompt that was appended last among the earlier ones.
    fn skip(&mut self, prompt: &Prompt) {
        if let Some(session) = &mut self.session {
            session.history.begin(session.prompt_offset(), prompt);
            session.history.end(&prompt.message_id);
        }
    }

    fn attach(&mut self, how: Attach) {
        let pending_attach = self.session.as_ref().map(|session| {
            // Whoever has the log has the conversation, too.
            let how = if session.reads_only() {
                Attach::Elsewhere
            } else {
                how
            };
            session.conversation.attach(how)
        });
        let cancelled = self.machine.pending_attach().map(Reply::cancelled);
        let (canceller, abort) = Cancel::new();
        let task = tokio::spawn(async move {
            let Some(pending_attach) = pending_attach else {
                return Ok(Attached::default());
            };
            // An engine that is ready at once is never told to stop.
            tokio::select! {
                biased;
                result = pending_attach => result,
                () = until(cancelled) => Err(EngineError::cancelled()),
                () = abort.cancelled() => Err(EngineError::cancelled()),
            }
        });
        self.pending_attach = Some(RunningAttach { canceller, task });
    }

    fn call(&self, reply: Reply, method: &str, params: String) {
        let Some(session) = &self.session else { return };
        let cancelled = Box::pin(until(Some(reply.cancelled())));
        let call = session.conversation.call(method, params, cancelled);
        let tell = self.tell.clone();
        tokio::spawn(async move {
            let result = call.await;
            tell.send(TaskResult::Called(reply, result)).ok();
        });
    }

    async fn announce(&mut self) {
        // Other clients find them in the answer.
        if self.deps.version() == ProtocolVersion::V1
            && let Some(update) = self.commands()
        {
            self.send_live(Kind::Info, &update).await;
        }
    }
}

/// Resolves when the client has cancelled its request.
async fn until(cancelled: Option<Arc<dyn Fn() -> bool + Send + std::marker::Sync>>) {
    let Some(cancelled) = cancelled else {
        return std::future::pending().await;
    };
    while !cancelled() {
        tokio::time::sleep(ASKED_AGAIN).await;
    }
}

//! Performs the effects of a session's machine, one at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Attach, Attached, Block, Cancel, EngineError, Prompt};
use crate::record::Kind;
use crate::replay::live_record_line;
use crate::store::Sync;
use crate::sys::blocking;

use super::actor::{Actor, RunningAttach, RunningTurn, Told};
use super::dialect::{Dialect, unknown_method};
use super::effect::Effect;
use super::logs::{first_title, note_payload};
use super::outcome::{Done, Refusal};
use super::refusal::storage;
use super::reply::{Answer, Reply};
use super::request::Asking;
use super::seat::Hold;
use super::withdrawn;

/// How often it is looked whether a request was cancelled whose engine makes ready.
const ASKED_AGAIN: Duration = Duration::from_millis(50);

/// A longer line's memory is given back, in bytes.
const LINE_KEPT: usize = 256 * 1024;

impl Actor {
    pub(super) async fn effect(&mut self, effect: Effect<Reply>) -> Result<(), Refusal> {
        match effect {
            Effect::Prepare(wanted) => {
                self.name.clone_from(&wanted.name);
                self.prepare(wanted);
                Ok(())
            }
            Effect::Create { inner, imported } => self.create(inner.as_deref(), &imported),
            Effect::Fork(wanted, forking) => self.fork(wanted, forking).await,
            Effect::Lend(to) => {
                self.lend(to);
                Ok(())
            }
            Effect::Note(note) => self.note(&note).await,
            Effect::Open(wanted) => {
                self.name.clone_from(&wanted.name);
                self.open(wanted)
            }
            Effect::Check => self.check(),
            Effect::Claim => self.claim().await,
            Effect::Mend => {
                self.mend().await;
                Ok(())
            }
            Effect::Reopened => self.reopened(),
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
                self.attach(how);
                Ok(())
            }
            Effect::AbortAttach => {
                if let Some(attach) = &self.attaching {
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
                if let Some(seat) = &self.seat {
                    seat.conversation.notify(&method, params);
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
            Effect::CancelTurn => {
                if let Some(turn) = &self.turn {
                    turn.canceller.cancel();
                }
                Ok(())
            }
            Effect::Seek(message) => {
                self.sought = Some(message);
                Ok(())
            }
            Effect::Replay => self.start_replay(),
            Effect::OpenAndReplay(wanted) => self.open_and_replay(wanted),
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
            Effect::Trash => self.trash(),
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
        let damage = match &mut self.seat {
            // What is told of a fork is wrong with the session that it was made of.
            Some(seat) if matches!(result, Ok(Done::Forked(_))) => {
                std::mem::replace(&mut seat.damage, Arc::from([]))
            }
            Some(seat) => seat.damage.clone(),
            None => Arc::from([]),
        };
        let goes_on = matches!(result, Ok(Done::Taken(_)));
        let result = result.map(|done| self.shown(done));
        let (delivery, busy) = reply.send(result.map(|done| Answer { done, damage }));
        if goes_on {
            self.prompted = Some(busy);
        } else {
            self.answered.push(busy);
        }
        delivery.await;
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
    fn append_all<'a>(
        &mut self,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)> + Clone,
        sync: Sync,
    ) -> Result<(), Refusal> {
        let Some(seat) = &mut self.seat else {
            return Err(Refusal::NotOpen);
        };
        let log = match &mut seat.hold {
            Hold::Memory => {
                for (kind, _, payload) in records {
                    seat.history.note(kind, payload);
                }
                return Ok(());
            }
            Hold::Shared => return Err(Refusal::Storage("the log is not locked".to_owned())),
            Hold::Own(log) => log,
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
        let appended = result.map_err(|error| {
            tracing::error!(session = %self.id, %error, "cannot append to the log");
            seat.broken = true;
            storage(&error)
        })?;
        seat.last_offset = Some(appended.offset);
        // What is logged is sent next, unless what was logged before is still unsent.
        if self.replay.is_none() && seat.shown == before {
            seat.shown = appended.end;
        }
        seat.summary.scanned = appended.end;
        let was_named = seat.summary.title.is_some();
        let mut summarized = false;
        for (kind, _, payload) in records {
            seat.history.note(kind, payload);
            summarized |= note_payload(&mut seat.summary, kind, &appended.at, payload);
        }
        if was_named
            && seat.summary.title.is_none()
            && seat.summary.prompts > 0
            && let Some(store) = &self.deps.store
        {
            // Its agent took back the title that it gave.
            match blocking(|| first_title(&mut store.read(&self.id)?)) {
                Ok(title) => seat.summary.title = title,
                Err(error) => tracing::debug!(session = %self.id, %error, "cannot read a title"),
            }
        }
        if summarized && let Some(catalog) = &self.deps.catalog {
            blocking(|| catalog.put(&self.id, &seat.summary));
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
        let Some(seat) = &mut self.seat else { return };
        let offset = seat
            .last_offset
            .filter(|_| matches!(seat.hold, Hold::Own(_)));
        seat.history.begin(offset, &prompt);
        let (canceller, cancel) = Cancel::new();
        // What goes to an agent goes in the order in which it came, so it is not left to a task.
        let turn = seat.conversation.prompt(prompt, cancel);
        self.turn = Some(RunningTurn {
            canceller,
            task: tokio::spawn(turn),
            ended: None,
        });
    }

    fn attach(&mut self, how: Attach) {
        // Whoever has the log has the conversation, too.
        let seat = self.seat.as_ref();
        let seat = seat.filter(|seat| !matches!(seat.hold, Hold::Shared));
        let attaching = seat.map(|seat| seat.conversation.attach(how));
        let cancelled = self.machine.attaching().map(Reply::cancelled);
        let (canceller, abort) = Cancel::new();
        let task = tokio::spawn(async move {
            let Some(attaching) = attaching else {
                return Ok(Attached::default());
            };
            // An engine that is ready at once is never told to stop.
            tokio::select! {
                biased;
                result = attaching => result,
                () = until(cancelled) => Err(EngineError::cancelled()),
                () = abort.cancelled() => Err(EngineError::cancelled()),
            }
        });
        self.attaching = Some(RunningAttach { canceller, task });
    }

    async fn ask(&mut self, mut asking: Asking) {
        let (wire, tell) = (self.deps.wire.clone(), self.tell.clone());
        let dialect = self.deps.dialect();
        let Some(params) = dialect.question(&asking.method, &asking.params) else {
            let unknown = Err(unknown_method(&asking.method));
            tell.send(Told::Answered(asking.answered(unknown))).ok();
            return;
        };
        // Sent here, so that nothing that is said later overtakes it.
        let Some(mut call) = wire.ask(&asking.method, &params).await else {
            return;
        };
        let withdrawn = self.withdrawal.1.clone();
        tokio::spawn(async move {
            let is_withdrawn = tokio::select! {
                biased;
                outcome = &mut call => {
                    // A client that is gone answers nothing, and neither do we in its place.
                    if let Some(outcome) = outcome {
                        let outcome = dialect.outcome(&asking.method, outcome);
                        tell.send(Told::Answered(asking.answered(outcome))).ok();
                    }
                    return;
                }
                () = withdrawn.cancelled() => true,
                () = asking.unwanted() => false,
            };
            wire.take_back(&call).await;
            if is_withdrawn {
                let outcome = withdrawn::outcome(&asking.method);
                tell.send(Told::Answered(asking.answered(outcome))).ok();
                // The client answers all the same, which nobody shall wonder at.
                call.await;
            } else if let Some(outcome) = call.await {
                let outcome = dialect.outcome(&asking.method, outcome);
                tell.send(Told::Answered(asking.answered(outcome))).ok();
            }
        });
    }

    /// Takes back what the client was asked for and has not answered, in its place.
    pub(super) fn withdraw(&mut self) {
        let (canceller, _) = std::mem::replace(&mut self.withdrawal, Cancel::new());
        canceller.cancel();
    }

    fn call(&self, reply: Reply, method: &str, params: String) {
        let Some(seat) = &self.seat else { return };
        let cancelled = Box::pin(until(Some(reply.cancelled())));
        let call = seat.conversation.call(method, params, cancelled);
        let tell = self.tell.clone();
        tokio::spawn(async move {
            let result = call.await;
            tell.send(Told::Called(reply, result)).ok();
        });
    }

    async fn announce(&mut self) {
        // Other clients find them in the answer.
        if self.deps.dialect() == Dialect::Answered
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

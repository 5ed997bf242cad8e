//! Performs the effects of a session's machine, one at a time.

use std::sync::Arc;

use crate::engine::{Cancel, Outlet, Prompt};
use crate::record::Kind;
use crate::record::title::title;
use crate::replay::live_record_line;
use crate::store::Sync;
use crate::sys::blocking;

use super::actor::{Actor, RunningTurn};
use super::effect::Effect;
use super::logs::prompted;
use super::outcome::{Done, Refusal};
use super::refusal::storage;
use super::reply::{Answer, Reply};
use super::seat::Hold;

/// A longer line's memory is given back, in bytes.
const LINE_KEPT: usize = 64 * 1024;

impl Actor {
    pub(super) async fn effect(&mut self, effect: Effect<Reply>) -> Result<(), Refusal> {
        match effect {
            Effect::Create(place) => self.create(place),
            Effect::Open(place) => self.open(place),
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
            Effect::Send(payload) => {
                if self.has_missed() {
                    // What is still unsent afterwards is sent before the turn is answered.
                    self.send_missed().await.ok();
                } else {
                    self.send_live(&payload).await;
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
            Effect::Replay => self.start_replay(),
            Effect::OpenAndReplay(place) => self.open_and_replay(place),
            Effect::CatchUp => self.catch_up().await,
            Effect::SendHeld => self.send_held().await,
            Effect::Announce => {
                self.announce().await;
                Ok(())
            }
            Effect::Answer(reply, result) => {
                self.answer(reply, result).await;
                Ok(())
            }
            Effect::Release => {
                self.release();
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
        let damage = match &self.seat {
            Some(seat) => seat.damage.clone(),
            None => Arc::from([]),
        };
        let (delivery, busy) = reply.send(result.map(|done| Answer { done, damage }));
        self.answered.push(busy);
        delivery.await;
    }

    fn append(
        &mut self,
        kind: Kind,
        id: Option<&str>,
        payload: &str,
        sync: Sync,
    ) -> Result<(), Refusal> {
        let Some(seat) = &mut self.seat else {
            return Err(Refusal::NotOpen);
        };
        match &mut seat.hold {
            Hold::Memory => {}
            Hold::Shared => return Err(Refusal::Storage("the log is not locked".to_owned())),
            Hold::Own(log) => {
                if let (Kind::Prompt, Some(catalog)) = (kind, &self.deps.catalog) {
                    // If this process dies before it can tell of the prompt, the next list looks.
                    blocking(|| catalog.opened(&self.id));
                }
                let before = log.end();
                let result = if log.waits(sync) {
                    blocking(|| log.append(kind, id, payload, sync))
                } else {
                    log.append(kind, id, payload, sync)
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
                if kind == Kind::Prompt {
                    seat.summary.prompts += 1;
                    prompted(&mut seat.summary, &appended.at.to_string());
                    seat.summary.title = seat.summary.title.take().or_else(|| title(payload));
                    if let Some(catalog) = &self.deps.catalog {
                        blocking(|| catalog.put(&self.id, &seat.summary));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) async fn send_live(&mut self, payload: &str) {
        self.send_record(Kind::Update, payload).await;
    }

    /// Sends what a record of this kind is sent as live, if it is sent at all.
    pub(super) async fn send_record(&mut self, kind: Kind, payload: &str) {
        self.line.clear();
        live_record_line(self.id.as_str(), kind, payload, &mut self.line);
        if self.line.is_empty() {
            return;
        }
        // A client that is gone needs no update; the log has it.
        self.deps.wire.writer.control(&self.line).await.ok();
        if self.line.capacity() > LINE_KEPT {
            self.line = Vec::new();
        }
    }

    fn begin(&mut self, prompt: Prompt) {
        let Some(seat) = &mut self.seat else { return };
        if seat.stale || seat.conversation.is_none() {
            seat.reopen_conversation(&self.id, &self.deps);
        }
        let offset = seat
            .last_offset
            .filter(|_| matches!(seat.hold, Hold::Own(_)));
        seat.history.begin(offset, &prompt);
        let Some(mut conversation) = seat.conversation.take() else {
            return;
        };
        let (outlet, updates) = Outlet::new();
        let (canceller, cancel) = Cancel::new();
        let task = tokio::spawn(async move {
            let result = conversation.prompt(&prompt, &outlet, &cancel).await;
            (conversation, result)
        });
        self.turn = Some(RunningTurn {
            updates,
            canceller,
            task,
            ended: None,
        });
    }

    async fn announce(&mut self) {
        let Some(commands) = self.seat.as_ref().and_then(|seat| seat.commands.as_deref()) else {
            return;
        };
        let update = format!(
            r#"{{"sessionUpdate":"available_commands_update","availableCommands":{commands}}}"#
        );
        self.send_live(&update).await;
    }
}

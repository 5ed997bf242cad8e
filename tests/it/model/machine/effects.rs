//! The task that performs a machine's effects on the world.

use rejoin::engine::{AttachReason, CloseReason, Prompt};
use rejoin::record::Kind;
use rejoin::session::effect::{Batch, Effect, Notification, Work};
use rejoin::session::machine::Machine;
use rejoin::session::request::ClientRequest;
use rejoin::session::{AnswerDue, Refusal};

use super::world::{Ask, Replaying, World, records};

impl World {
    /// As the session's task does it.
    pub(super) fn perform(&mut self, mut batch: Batch<usize>) {
        loop {
            let mut effects = batch.into_iter();
            let mut refusal = None;
            for effect in effects.by_ref() {
                if let Err(reason) = self.effect(effect) {
                    refusal = Some(reason);
                    break;
                }
            }
            self.flush();
            batch = if let Some(refusal) = refusal {
                for effect in effects {
                    match effect {
                        Effect::Answer(number, _) => self.answer(number, &Err(refusal.clone())),
                        Effect::Ask(ClientRequest { id, .. }) | Effect::Respond(id, _) => {
                            self.respond(&id);
                        }
                        _ => {}
                    }
                }
                self.machine.failed(refusal)
            } else if let Some(result) = self.caught_up.take() {
                self.machine.caught_up(result)
            } else if let Some(batch) = self.machine.advance() {
                batch
            } else {
                break;
            };
        }
        if self.machine.is_over() {
            // The task ends; there may be another one later.
            assert!(!self.is_open, "left behind");
            assert!(self.serving.is_empty(), "no task is there to answer");
            self.machine = Machine::new(self.overlaps);
            // Nor is there one to receive the client's responses.
            assert_eq!(self.engine_waits.len(), self.questions.len());
            self.questions.clear();
            self.engine_waits.clear();
        }
    }

    fn effect(&mut self, effect: Effect<usize>) -> Result<(), Refusal> {
        match effect {
            Effect::Prepare(_) => {
                assert!(!self.exists() && !self.is_open);
                (self.is_open, self.unborn) = (true, true);
            }
            Effect::Create {
                agent_session_id,
                imported,
                ..
            } => {
                assert!(!self.exists() && self.is_open && self.unborn);
                self.may_fail()?;
                self.log.push((Kind::Session, "{}".to_owned()));
                self.log
                    .extend(agent_session_id.map(|id| (Kind::AgentSessionId, id)));
                self.log.extend(imported.iter().flat_map(records));
                self.shown = self.log.len();
            }
            Effect::Fork(..) => {
                assert!(!self.exists() && !self.is_open);
                self.unborn = true;
                self.may_fail()?;
                let copied = [
                    (Kind::Session, "{}"),
                    (Kind::Prompt, "0"),
                    (Kind::End, "{}"),
                ];
                let copied = copied.map(|(kind, payload)| (kind, payload.to_owned()));
                self.log.extend(copied);
                self.shown = self.log.len();
                self.is_open = true;
            }
            Effect::MetadataChange(_) => {
                if self.is_open {
                    self.claim()?;
                    self.may_append()?;
                    self.append(vec![(Kind::Info, "changed".to_owned())]);
                } else {
                    self.check()?;
                    self.may_fail()?;
                    self.recover();
                    self.log.push((Kind::Info, "changed".to_owned()));
                    self.shown = self.log.len();
                }
            }
            Effect::Rewind { .. } => {
                assert!(self.turns.is_empty(), "gone back while a turn runs");
                self.may_append()?;
                let records = [(Kind::Rewind, "{}"), (Kind::Update, "back")];
                let records = records.map(|(kind, payload)| (kind, payload.to_owned()));
                self.append(records.into());
                self.shown = self.log.len();
            }
            Effect::Pass(_) => panic!("no other process has the session"),
            Effect::ReadForFork => assert!(!self.unborn, "read before it is there"),
            Effect::Open(_) => {
                if !self.is_open {
                    self.check()?;
                    self.may_fail()?;
                    self.recover();
                    (self.is_open, self.shown) = (true, self.log.len());
                } else if self.broken && self.turns.is_empty() {
                    self.claim().ok();
                }
            }
            Effect::Check => self.check()?,
            Effect::Claim => self.claim()?,
            Effect::FindKey { .. } => panic!("no prompt has a key"),
            Effect::RetryRecovery => {
                if self.broken && self.turns.is_empty() {
                    self.claim().ok();
                }
            }
            Effect::RecordWorkspaceChange => {
                assert!(self.is_open && !self.broken);
                self.may_write()?;
                if let Some(inner) = self.inner.take() {
                    self.append(vec![(Kind::AgentSessionId, inner)]);
                }
            }
            Effect::Append(block, _) => {
                self.may_append()?;
                self.append(records(&block));
            }
            Effect::Send(block) => {
                assert!(self.log.ends_with(&records(&block)), "sent and not logged");
                // The front leaves what a replay reaches to that.
                assert!(!self.unborn, "sent before the session exists");
            }
            Effect::Notify(notification) => self.notified(notification),
            Effect::Attach(how) => {
                assert!(self.is_open && self.attach.is_none());
                assert_eq!(how != AttachReason::Again, self.unborn);
                self.attach = Some((how, false));
            }
            Effect::Cancel(Work::Attach) => {
                let (_, aborted) = self.attach.as_mut().expect("something to stop");
                assert!(!*aborted, "stopped twice");
                *aborted = true;
            }
            Effect::KeepAgentSessionId(inner) => {
                assert!(self.is_open && !self.unborn);
                self.inner = Some(inner);
            }
            Effect::Ask(asking) => {
                assert!(self.is_open);
                if asking.logged {
                    let last = self.log.last().map(|(kind, _)| *kind);
                    assert_eq!(last, Some(Kind::Ask));
                }
                self.questions.push_back(asking);
            }
            Effect::Respond(id, outcome) => {
                if outcome.is_some() && self.engine_waits[&id] && self.is_open {
                    let last = self.log.last().map(|(kind, _)| *kind);
                    assert_eq!(last, Some(Kind::Answer));
                }
                self.respond(&id);
            }
            Effect::Call { reply, method, .. } => {
                assert!(self.is_open && method == reply.to_string());
                self.serving.push_back(reply);
            }
            Effect::Begin(Prompt { message_id, .. }) => {
                let last = self.log.last().expect("there is a header");
                assert_eq!(*last, (Kind::Prompt, message_id.clone()));
                let number: usize = message_id.parse().expect("a number");
                let mut all = self.turns.iter().map(|(turn, _)| *turn).chain([number]);
                let overlaps = self.overlaps
                    && all.all(|turn| self.asked[turn].0 == Ask::Prompt(AnswerDue::TurnEnds));
                assert!(overlaps || self.turns.is_empty(), "two turns at once");
                let stopped = |(_, stopped): &(usize, bool)| *stopped;
                let ending = !self.turns.is_empty() && self.turns.iter().all(stopped);
                assert!(!ending, "begun before what was cancelled has ended");
                self.turns.push((number, false));
            }
            Effect::Skip(Prompt { message_id, .. }) => {
                assert_eq!(self.log.last(), Some(&(Kind::Prompt, message_id)));
            }
            Effect::Cancel(Work::Turns | Work::FailedTurns) => {
                for (_, stopped) in &mut self.turns {
                    *stopped = true;
                }
            }
            Effect::Cancel(Work::Turn(message_id)) => {
                assert!(self.turns.len() > 1);
                let mut turns = self.turns.iter();
                assert!(turns.any(|(turn, _)| turn.to_string() == message_id));
            }
            Effect::Replay { open: None, .. } => {
                assert!(self.is_open && self.replay.is_none());
                self.may_fail()?;
                self.replayed = 0;
                self.replay = Some(Replaying {
                    end: self.log.len(),
                    opens: false,
                    done: false,
                });
                self.unborn = false;
            }
            Effect::Replay { open: Some(_), .. } => {
                assert!(!self.is_open && self.replay.is_none());
                self.replayed = 0;
                self.replay = Some(Replaying {
                    end: self.log.len(),
                    opens: true,
                    done: false,
                });
            }
            Effect::CatchUp(snapshots, _) => {
                let replaying = self.replay.take();
                assert!(replaying.is_some_and(|replaying| replaying.done));
                let result = self.may_fail();
                if result.is_ok() {
                    self.got(&snapshots);
                    (self.replayed, self.shown) = (self.log.len(), self.log.len());
                }
                self.caught_up = Some(result);
            }
            Effect::AbandonReplay => {
                self.replay = None;
                // It is sent once more when the log is claimed.
                self.shown = self.log.len();
            }
            // What is withdrawn is answered like other questions, and later.
            Effect::Cancel(Work::ClientRequests | Work::OwnWork) | Effect::Forward { .. } => {
                assert!(self.is_open);
            }
            Effect::Answer(number, result) => self.give(number, result),
            Effect::Release(reason) => {
                assert!(!self.is_in_use(), "released in use");
                if reason == CloseReason::Deleted {
                    self.may_fail()?;
                } else {
                    assert_eq!(reason == CloseReason::Refused, self.unborn);
                }
                if reason != CloseReason::Closed {
                    self.log.clear();
                }
                self.leave();
            }
        }
        Ok(())
    }

    fn notified(&mut self, notification: Notification) {
        match notification {
            Notification::Snapshots(snapshots) => self.got(&snapshots),
            Notification::Commands => assert!(self.is_open),
            Notification::UserMessage(Prompt { message_id, .. }) => {
                assert_eq!(self.log.last(), Some(&(Kind::Prompt, message_id)));
                assert!(self.replay.is_none(), "sent into a replay");
            }
            // The front keeps it until the end of the load, which has a state of its own.
            Notification::State(_) if self.is_loading() => {}
            Notification::State(phase) => self.notified_state(phase),
        }
    }
}

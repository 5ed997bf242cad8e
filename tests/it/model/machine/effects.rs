//! The actor that performs a machine's effects on the world.

use rejoin::engine::{Attach, CloseReason};
use rejoin::record::Kind;
use rejoin::session::effect::{Batch, Effect};
use rejoin::session::machine::Machine;
use rejoin::session::{ProtocolVersion, Refusal};

use super::world::{Replaying, World, records};

impl World {
    /// As the session's actor does it.
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
            batch = if let Some(refusal) = refusal {
                for effect in effects {
                    if let Effect::Answer(number, _) = effect {
                        self.answer(number, &Err(refusal.clone()));
                    }
                }
                self.machine.failed(refusal)
            } else if let Some(batch) = self.machine.advance() {
                batch
            } else {
                break;
            };
        }
        if self.machine.is_over() {
            // The actor goes; another one may come.
            assert!(!self.seat, "left behind");
            assert!(self.serving.is_empty(), "no engine is there to answer");
            self.machine = Machine::new(self.version, self.overlaps);
            // Nor is anybody there to take what the client answers.
            self.questions.clear();
        }
    }

    fn effect(&mut self, effect: Effect<usize>) -> Result<(), Refusal> {
        match effect {
            Effect::Prepare(_) => {
                assert!(!self.exists() && !self.seat);
                (self.seat, self.unborn) = (true, true);
            }
            Effect::Create { inner, imported } => {
                assert!(!self.exists() && self.seat && self.unborn);
                self.may_fail()?;
                self.log.push((Kind::Session, "{}".to_owned()));
                self.log
                    .extend(inner.map(|inner| (Kind::AgentSessionId, inner)));
                self.log.extend(imported.iter().flat_map(records));
                self.shown = self.log.len();
            }
            Effect::Fork(..) => {
                assert!(!self.exists() && !self.seat);
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
                self.seat = true;
            }
            Effect::MetadataChange(_) => {
                if self.seat {
                    self.claim()?;
                    self.may_append()?;
                    self.append(vec![(Kind::Info, "noted".to_owned())]);
                } else {
                    self.check()?;
                    self.may_fail()?;
                    self.recover();
                    self.log.push((Kind::Info, "noted".to_owned()));
                    self.shown = self.log.len();
                }
            }
            Effect::ReadForFork(_) => assert!(!self.unborn, "lent before it is there"),
            Effect::Open(_) => {
                if !self.seat {
                    self.check()?;
                    self.may_fail()?;
                    self.recover();
                    (self.seat, self.shown) = (true, self.log.len());
                }
            }
            Effect::Check => self.check()?,
            Effect::Claim => self.claim()?,
            Effect::RetryRecovery => {
                if self.broken && self.turns.is_empty() {
                    self.claim().ok();
                }
            }
            Effect::RecordWorkspaceChange => {
                assert!(self.seat && !self.broken);
                self.may_write()?;
                if let Some(inner) = self.inner.take() {
                    self.append(vec![(Kind::AgentSessionId, inner)]);
                }
            }
            Effect::Append { kind, payload, .. } => {
                self.may_append()?;
                self.append(vec![(kind, payload)]);
            }
            Effect::AppendBlock(block) => {
                self.may_append()?;
                self.append(records(&block));
            }
            Effect::SendBlock(block) => {
                assert!(self.log.ends_with(&records(&block)), "sent and not logged");
                assert!(self.replay.is_none(), "sent into a replay");
                assert!(!self.unborn, "sent before the session exists");
            }
            Effect::SendSnapshots(snapshots) => self.got(&snapshots),
            Effect::Attach(how) => {
                assert!(self.seat && self.attach.is_none());
                assert_eq!(how != Attach::Again, self.unborn);
                self.attach = Some((how, false));
            }
            Effect::AbortAttach => {
                let (_, aborted) = self.attach.as_mut().expect("something to stop");
                assert!(!*aborted, "stopped twice");
                *aborted = true;
            }
            Effect::KeepInner(inner) => {
                assert!(self.seat && !self.unborn);
                self.inner = Some(inner);
            }
            Effect::Ask(asking) => {
                assert!(self.seat && self.replay.is_none());
                if asking.logged {
                    let last = self.log.last().map(|(kind, _)| *kind);
                    assert_eq!(last, Some(Kind::Ask));
                }
                self.questions.push_back(asking);
            }
            Effect::Deliver(answered) => {
                if answered.logged && self.seat {
                    let last = self.log.last().map(|(kind, _)| *kind);
                    assert_eq!(last, Some(Kind::Answer));
                }
                answered.reply.send(answered.outcome).ok();
            }
            Effect::Call { reply, method, .. } => {
                assert!(self.seat && method == reply.to_string());
                self.serving.push_back(reply);
            }
            Effect::Send(update) => {
                let last = self.log.last().expect("there is a header");
                assert_eq!(*last, (Kind::Update, update), "sent and not logged");
                assert!(self.replay.is_none(), "sent into a replay");
                assert!(self.is_in_turn(), "sent with no prompt to answer");
            }
            Effect::Begin { message_id, .. } => {
                let last = self.log.last().expect("there is a header");
                assert_eq!(*last, (Kind::Prompt, message_id.clone()));
                let overlaps = self.overlaps && self.version == ProtocolVersion::V1;
                assert!(overlaps || self.turns.is_empty(), "two turns at once");
                let stopped = |(_, stopped): &(usize, bool)| *stopped;
                let ending = !self.turns.is_empty() && self.turns.iter().all(stopped);
                assert!(!ending, "begun before what was cancelled has ended");
                let number = message_id.parse().expect("a number");
                self.turns.push((number, false));
            }
            Effect::Skip { message_id, .. } => {
                assert_eq!(self.log.last(), Some(&(Kind::Prompt, message_id)));
            }
            Effect::Echo { message_id, .. } => {
                assert_eq!(self.log.last(), Some(&(Kind::Prompt, message_id)));
                assert!(self.replay.is_none(), "sent into a replay");
            }
            Effect::Tell(phase) => self.told(phase),
            Effect::Seek(_) => {}
            Effect::CancelTurns => {
                for (_, stopped) in &mut self.turns {
                    *stopped = true;
                }
            }
            Effect::CancelTurn(message_id) => {
                assert!(self.turns.len() > 1);
                let mut turns = self.turns.iter();
                assert!(turns.any(|(turn, _)| turn.to_string() == message_id));
            }
            Effect::Replay => {
                assert!(self.seat && self.replay.is_none());
                self.may_fail()?;
                self.replayed = 0;
                self.replay = Some(Replaying {
                    end: self.log.len(),
                    opens: false,
                    done: false,
                });
                self.unborn = false;
            }
            Effect::OpenAndReplay(_) => {
                assert!(!self.seat && self.replay.is_none());
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
                self.may_fail()?;
                self.got(&snapshots);
                (self.replayed, self.shown) = (self.log.len(), self.log.len());
            }
            Effect::SendHeld => {
                self.replay = None;
                // It is sent once more when the log is claimed.
                self.shown = self.log.len();
            }
            // What is withdrawn is answered like other questions, and later.
            Effect::Withdraw | Effect::Notify { .. } | Effect::Announce => assert!(self.seat),
            Effect::Answer(number, result) => self.answer(number, &result),
            Effect::Release(how) => {
                assert!(!self.is_in_use(), "released in use");
                let expected = if self.unborn {
                    CloseReason::Refused
                } else {
                    CloseReason::Closed
                };
                assert_eq!(how, expected);
                // What was not made whole is gone again.
                if self.unborn {
                    self.log.clear();
                }
                self.leave();
            }
            Effect::Trash => {
                assert!(!self.is_in_use(), "deleted in use");
                self.may_fail()?;
                self.log.clear();
                self.leave();
            }
        }
        Ok(())
    }
}

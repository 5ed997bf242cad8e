//! The transitions of a session when its engine has attached, or has failed to.

use std::sync::Arc;

use crate::engine::{AttachOutcome, Block, CloseReason};
use crate::record::Kind;

use super::lifecycle::{AttachRequest, Lifecycle, Opened};
use super::{Machine, Purpose};
use crate::session::effect::{Batch, Effect, Notification};
use crate::session::outcome::{Done, Refusal};
use crate::session::request::AttachResult;
use crate::store::Sync;

impl<R> Machine<R> {
    /// The request that waits for the engine to attach.
    pub fn attaching(&self) -> Option<&R> {
        match &self.lifecycle {
            Lifecycle::Attaching { reply, .. } => Some(reply),
            _ => None,
        }
    }

    /// Whether the session is being created, so that updates of the engine must wait.
    pub fn is_being_created(&self) -> bool {
        self.lifecycle.is_being_created()
    }

    /// The engine has attached, or has failed to.
    pub fn attached(&mut self, result: AttachResult) -> Batch<R> {
        let was_open = self.lifecycle.was_open();
        let (reply, request) = match std::mem::replace(&mut self.lifecycle, Lifecycle::Open) {
            Lifecycle::Attaching { reply, request, .. } => (reply, request),
            other => {
                self.lifecycle = other;
                return Vec::new();
            }
        };
        match result {
            Ok(attached) => self.proceed(reply, request, attached),
            Err(refusal) => self.not_attached(reply, request, was_open, refusal),
        }
    }

    fn proceed(
        &mut self,
        reply: R,
        request: AttachRequest,
        mut attached: AttachOutcome,
    ) -> Batch<R> {
        match request {
            AttachRequest::New => {
                let mut batch = self.create_log(&mut attached);
                batch.extend(log_info(&mut attached));
                batch.extend(introduce(
                    reply,
                    Done::Created(attached.answer),
                    attached.snapshots,
                ));
                batch
            }
            AttachRequest::Fork => {
                self.purpose = Purpose::Create;
                // The agent's copy is lost without this record, so it is synced like the rest.
                let record = |payload: &String| Effect::synced(Kind::AgentSessionId, None, payload);
                let mut batch: Batch<R> = attached.agent_session_id.iter().map(record).collect();
                batch.extend(log_info(&mut attached));
                batch.extend(introduce(
                    reply,
                    Done::Forked(attached.answer),
                    attached.snapshots,
                ));
                batch
            }
            AttachRequest::Import { replay } => {
                let mut batch = self.create_log(&mut attached);
                batch.extend(log_info(&mut attached));
                self.imported = true;
                if replay {
                    batch.push(self.replay(reply, attached));
                } else {
                    batch.extend(self.resume(reply, attached));
                }
                batch
            }
            AttachRequest::BeforeReplay => {
                self.purpose = Purpose::Open;
                let mut batch = keep(&mut attached);
                batch.push(self.replay(reply, attached));
                batch
            }
            AttachRequest::AfterReplay { was_open } => {
                self.purpose = Purpose::Open;
                let mut batch = keep(&mut attached);
                batch.push(Effect::CatchUp(attached.snapshots, attached.gone));
                self.lifecycle = Lifecycle::CatchingUp {
                    reply,
                    answer: attached.answer,
                    was_open,
                };
                batch
            }
            AttachRequest::Resume { .. } => {
                self.purpose = Purpose::Log;
                let mut batch = keep(&mut attached);
                batch.extend(self.resume(reply, attached));
                batch
            }
        }
    }

    /// What was logged since the replay began was replayed, too, or could not be.
    pub fn caught_up(&mut self, result: Result<(), Refusal>) -> Batch<R> {
        let (reply, answer) = match std::mem::replace(&mut self.lifecycle, Lifecycle::Open) {
            Lifecycle::CatchingUp { reply, answer, .. } => (reply, answer),
            other => {
                self.lifecycle = other;
                return Vec::new();
            }
        };
        match result {
            Ok(()) => vec![
                Effect::Notify(Notification::Commands),
                self.notify_state(),
                Effect::Answer(reply, Ok(Done::Loaded(answer))),
            ],
            Err(refusal) => {
                let mut batch = vec![Effect::Answer(reply, Err(refusal))];
                batch.extend(self.abandon_replay());
                batch
            }
        }
    }

    /// Replays a session that was opened for that, and whose engine has attached.
    fn replay(&mut self, reply: R, attached: AttachOutcome) -> Effect<R> {
        let session = Opened::ForLoad(Some(Box::new(attached)));
        self.lifecycle = Lifecycle::Replaying { reply, session };
        let (open, from) = (None, None);
        Effect::Replay { open, from }
    }

    /// Continues without a replay.
    fn resume(&mut self, reply: R, attached: AttachOutcome) -> Batch<R> {
        vec![
            Effect::Notify(Notification::Commands),
            Effect::Notify(Notification::Snapshots(attached.snapshots)),
            self.notify_state(),
            Effect::Answer(reply, Ok(Done::Resumed(attached.answer))),
        ]
    }

    fn not_attached(
        &mut self,
        reply: R,
        request: AttachRequest,
        was_open: bool,
        refusal: Refusal,
    ) -> Batch<R> {
        let mut batch = Vec::new();
        let is_import = matches!(request, AttachRequest::Import { .. });
        match request {
            AttachRequest::New | AttachRequest::Fork | AttachRequest::Import { .. } => {
                batch.push(Effect::Release(CloseReason::Refused));
            }
            AttachRequest::AfterReplay { .. } if was_open => batch.extend(self.abandon_replay()),
            AttachRequest::BeforeReplay
            | AttachRequest::AfterReplay { .. }
            | AttachRequest::Resume { .. } => {
                let release = Effect::Release(CloseReason::Closed);
                batch.extend((!was_open).then_some(release));
            }
        }
        if !was_open {
            self.lifecycle = Lifecycle::Closed;
        }
        let refusal = match refusal {
            Refusal::Engine(error) if is_import && error.is_unknown_session() => Refusal::NotFound,
            refusal => refusal,
        };
        batch.push(Effect::Answer(reply, Err(refusal)));
        batch
    }

    /// Writes the log of a new session.
    fn create_log(&mut self, attached: &mut AttachOutcome) -> Batch<R> {
        self.purpose = Purpose::Create;
        vec![Effect::Create {
            agent_session_id: attached.agent_session_id.take(),
            imported: std::mem::take(&mut attached.imported),
            listed: attached.listed,
        }]
    }
}

/// Answers with a new session. Snapshots follow, since the client does not know its id before.
fn introduce<R>(reply: R, done: Done, snapshots: Block) -> [Effect<R>; 3] {
    [
        Effect::Answer(reply, Ok(done)),
        Effect::Notify(Notification::Snapshots(snapshots)),
        Effect::Notify(Notification::Commands),
    ]
}

/// Keeps what the engine has to record.
fn keep<R>(attached: &mut AttachOutcome) -> Batch<R> {
    let id = attached.agent_session_id.take();
    let kept = id.map(Effect::KeepAgentSessionId);
    kept.into_iter().chain(log_info(attached)).collect()
}

/// Logs what the client learns from the answer.
fn log_info<R>(attached: &mut AttachOutcome) -> Option<Effect<R>> {
    let info = std::mem::take(&mut attached.info);
    (!info.is_empty()).then(|| Effect::Append(Arc::new(info), Sync::Buffered))
}

#[cfg(test)]
#[path = "attach_tests.rs"]
mod tests;

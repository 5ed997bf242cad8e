//! What a session does when its engine is ready, or cannot be.

use crate::engine::{Attached, CloseReason, EngineError};
use crate::record::Kind;
use crate::store::Sync;

use super::effect::{Batch, Effect};
use super::machine::{Machine, Stage};
use super::outcome::{Done, Refusal};
use super::pending_attach::PendingAttach;
use super::request::AttachResult;

impl<R> Machine<R> {
    /// The request that waits for the engine to be ready.
    pub fn pending_attach(&self) -> Option<&R> {
        match self.attach.as_ref()? {
            PendingAttach::New(reply)
            | PendingAttach::Fork(reply)
            | PendingAttach::Import(reply, _)
            | PendingAttach::Resume(reply, _) => Some(reply),
            PendingAttach::BeforeReplay | PendingAttach::Load { .. } => self.replay.as_ref(),
        }
    }

    /// Whether what the engine says must wait for the session to exist.
    pub fn is_unborn(&self) -> bool {
        let attach = self.attach.as_ref();
        attach.is_some_and(|attach| {
            matches!(
                attach,
                PendingAttach::New(_) | PendingAttach::Fork(_) | PendingAttach::Import(..)
            )
        })
    }

    /// Whether a replay is to begin when the engine is ready: until then nothing is sent.
    pub fn is_replay_due(&self) -> bool {
        matches!(self.attach, Some(PendingAttach::BeforeReplay))
    }

    /// The engine is ready, or cannot be.
    pub fn attached(&mut self, result: AttachResult) -> Batch<R> {
        self.aborting = false;
        match (self.attach.take(), result) {
            (None, _) => Vec::new(),
            (Some(pending_attach), Ok(attached)) => self.ready(pending_attach, attached),
            (Some(pending_attach), Err(refusal)) => self.unready(pending_attach, refusal),
        }
    }

    fn ready(&mut self, pending_attach: PendingAttach<R>, mut attached: Attached) -> Batch<R> {
        match pending_attach {
            PendingAttach::New(reply) => {
                let mut batch = self.make(&mut attached);
                batch.push(Effect::Answer(reply, Ok(Done::Created(attached.answer))));
                batch.push(Effect::SendSnapshots(attached.snapshots));
                batch.push(Effect::Announce);
                batch
            }
            PendingAttach::Fork(reply) => {
                self.stage = Stage::Making;
                let mut batch: Batch<R> = Vec::new();
                // What the agent has of it is lost without that, so it is as safe as the rest.
                batch.extend(attached.inner.map(|payload| Effect::Append {
                    kind: Kind::AgentSessionId,
                    id: None,
                    payload,
                    sync: Sync::Turn,
                }));
                batch.push(Effect::Answer(reply, Ok(Done::Forked(attached.answer))));
                batch.push(Effect::SendSnapshots(attached.snapshots));
                batch.push(Effect::Announce);
                batch
            }
            PendingAttach::Import(reply, replay) => {
                let mut batch = self.make(&mut attached);
                self.made = true;
                if replay {
                    self.replay = Some(reply);
                    self.opened = true;
                    self.imported = Some(attached);
                    batch.push(Effect::Replay);
                } else {
                    batch.extend(self.going_on(reply, attached));
                }
                batch
            }
            PendingAttach::BeforeReplay => {
                self.stage = Stage::Opening { was_open: false };
                let mut batch: Batch<R> = Vec::new();
                batch.extend(attached.inner.take().map(Effect::KeepInner));
                self.imported = Some(attached);
                batch.push(Effect::Replay);
                batch
            }
            PendingAttach::Load { .. } => {
                self.stage = Stage::CatchingUp;
                let mut batch: Batch<R> = Vec::new();
                batch.extend(attached.inner.map(Effect::KeepInner));
                batch.push(Effect::CatchUp(attached.snapshots, attached.gone));
                batch.push(Effect::Announce);
                let done = Done::Loaded(attached.answer);
                let reply = self.replay.take();
                batch.extend(self.tell());
                batch.extend(reply.map(|reply| Effect::Answer(reply, Ok(done))));
                batch
            }
            PendingAttach::Resume(reply, _) => {
                let mut batch: Batch<R> = Vec::new();
                batch.extend(attached.inner.take().map(Effect::KeepInner));
                batch.extend(self.going_on(reply, attached));
                batch
            }
        }
    }

    /// How a session goes on that is not replayed.
    fn going_on(&mut self, reply: R, attached: Attached) -> Batch<R> {
        let mut batch = vec![Effect::Announce, Effect::SendSnapshots(attached.snapshots)];
        batch.extend(self.tell());
        batch.push(Effect::Answer(reply, Ok(Done::Resumed(attached.answer))));
        batch
    }

    fn unready(&mut self, pending_attach: PendingAttach<R>, refusal: Refusal) -> Batch<R> {
        let refusal = match (&pending_attach, refusal) {
            (PendingAttach::Import(..), Refusal::Engine(error))
                if error.code == EngineError::NOT_FOUND =>
            {
                Refusal::NotFound
            }
            (_, refusal) => refusal,
        };
        let (parting, reply) = match pending_attach {
            PendingAttach::New(reply)
            | PendingAttach::Fork(reply)
            | PendingAttach::Import(reply, _) => (Some(CloseReason::Refused), Some(reply)),
            PendingAttach::Load { was_open: true } => {
                let reply = self.replay.take();
                let answer = reply.map(|reply| Effect::Answer(reply, Err(refusal)));
                return self.not_shown().into_iter().chain(answer).collect();
            }
            PendingAttach::BeforeReplay | PendingAttach::Load { was_open: false } => {
                (Some(CloseReason::Closed), self.replay.take())
            }
            PendingAttach::Resume(reply, true) => (None, Some(reply)),
            PendingAttach::Resume(reply, false) => (Some(CloseReason::Closed), Some(reply)),
        };
        if parting.is_some() {
            self.open = false;
        }
        let answer = reply.map(|reply| Effect::Answer(reply, Err(refusal)));
        parting
            .map(Effect::Release)
            .into_iter()
            .chain(answer)
            .collect()
    }

    /// The log of a session that is to be, with how the engine knows it.
    fn make(&mut self, attached: &mut Attached) -> Batch<R> {
        self.stage = Stage::Making;
        vec![Effect::Create {
            inner: attached.inner.take(),
            imported: std::mem::take(&mut attached.imported),
        }]
    }
}

#[cfg(test)]
#[path = "attached_tests.rs"]
mod tests;

//! What a session does when its engine is ready, or cannot be.

use crate::engine::{Attached, EngineError, Parting};
use crate::record::Kind;
use crate::store::Sync;

use super::attaching::Attaching;
use super::effect::{Batch, Effect};
use super::machine::{Machine, Stage};
use super::outcome::{Done, Refusal};
use super::request::AttachResult;

impl<R> Machine<R> {
    /// The request that waits for the engine to be ready.
    pub fn attaching(&self) -> Option<&R> {
        match self.attach.as_ref()? {
            Attaching::New(reply)
            | Attaching::Fork(reply)
            | Attaching::Import(reply, _)
            | Attaching::Resume(reply, _) => Some(reply),
            Attaching::Load { .. } => self.replay.as_ref(),
        }
    }

    /// Whether what the engine says must wait for the session to exist.
    pub fn is_unborn(&self) -> bool {
        let attach = self.attach.as_ref();
        attach.is_some_and(|attach| {
            matches!(
                attach,
                Attaching::New(_) | Attaching::Fork(_) | Attaching::Import(..)
            )
        })
    }

    /// The engine is ready, or cannot be.
    pub fn attached(&mut self, result: AttachResult) -> Batch<R> {
        self.aborting = false;
        match (self.attach.take(), result) {
            (None, _) => Vec::new(),
            (Some(attaching), Ok(attached)) => self.ready(attaching, attached),
            (Some(attaching), Err(refusal)) => self.unready(attaching, refusal),
        }
    }

    fn ready(&mut self, attaching: Attaching<R>, mut attached: Attached) -> Batch<R> {
        match attaching {
            Attaching::New(reply) => {
                let mut batch = self.make(&mut attached);
                batch.push(Effect::Answer(reply, Ok(Done::Created(attached.answer))));
                batch.push(Effect::SendSnapshots(attached.snapshots));
                batch.push(Effect::Announce);
                batch
            }
            Attaching::Fork(reply) => {
                self.stage = Stage::Making;
                let mut batch: Batch<R> = Vec::new();
                // What the agent has of it is lost without that, so it is as safe as the rest.
                batch.extend(attached.inner.map(|payload| Effect::Append {
                    kind: Kind::Inner,
                    id: None,
                    payload,
                    sync: Sync::Turn,
                }));
                batch.push(Effect::Answer(reply, Ok(Done::Forked(attached.answer))));
                batch.push(Effect::SendSnapshots(attached.snapshots));
                batch.push(Effect::Announce);
                batch
            }
            Attaching::Import(reply, replay) => {
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
            Attaching::Load { .. } => {
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
            Attaching::Resume(reply, _) => {
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

    fn unready(&mut self, attaching: Attaching<R>, refusal: Refusal) -> Batch<R> {
        let refusal = match (&attaching, refusal) {
            (Attaching::Import(..), Refusal::Engine(error))
                if error.code == EngineError::NOT_FOUND =>
            {
                Refusal::NotFound
            }
            (_, refusal) => refusal,
        };
        let (parting, reply) = match attaching {
            Attaching::New(reply) | Attaching::Fork(reply) | Attaching::Import(reply, _) => {
                (Some(Parting::Refused), Some(reply))
            }
            Attaching::Load { was_open: true } => {
                let reply = self.replay.take();
                let answer = reply.map(|reply| Effect::Answer(reply, Err(refusal)));
                return self.not_shown().into_iter().chain(answer).collect();
            }
            Attaching::Load { was_open: false } => (Some(Parting::Closed), self.replay.take()),
            Attaching::Resume(reply, true) => (None, Some(reply)),
            Attaching::Resume(reply, false) => (Some(Parting::Closed), Some(reply)),
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

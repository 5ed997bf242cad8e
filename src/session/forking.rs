//! Makes a session out of another one: what that lends, and what becomes of it.

use std::sync::Arc;

use crate::engine::{Attach, Wanted};
use crate::index::Catalog;
use crate::record::header::ForkedFrom;
use crate::store::{ForkError, Forked, Store, StoreError};
use crate::sys::blocking;

use super::actor::Actor;
use super::attaching::Attaching;
use super::effect::{Batch, Effect};
use super::history::SessionHistory;
use super::logs::summary;
use super::machine::{Machine, Stage};
use super::outcome::Refusal;
use super::refusal::storage;
use super::reply::Reply;
use super::request::{Forking, Lending};
use super::seat::{Furniture, Hold, Seat};

impl<R> Machine<R> {
    /// What it takes to make a session out of another one.
    pub(super) fn fork(&mut self, reply: R, wanted: Wanted, forking: Forking) -> Batch<R> {
        self.attach = Some(Attaching::Fork(reply));
        self.stage = Stage::Making;
        self.open = true;
        vec![Effect::Fork(wanted, forking), Effect::Attach(Attach::Fork)]
    }
}

impl Actor {
    /// Opens the log for whoever makes another session out of it. What happens to this one
    /// afterwards, its deletion included, is nothing to that.
    pub(super) fn lend(&self, to: Lending) {
        let lent = || {
            let Some(store) = &self.deps.store else {
                return Err(Refusal::NotFound);
            };
            if self.seat.is_none() {
                self.check()?;
            }
            let mut log = blocking(|| store.read(&self.id)).map_err(|error| storage(&error))?;
            if let Some(end) = self.seat.as_ref().and_then(Seat::log_end) {
                log.limit(end);
            }
            Ok(log)
        };
        // Whoever wanted it may have gone.
        to.send(lent()).ok();
    }

    /// Makes the log out of the one that is lent, and opens the engine's conversation.
    pub(super) async fn fork(&mut self, wanted: Wanted, forking: Forking) -> Result<(), Refusal> {
        self.name.clone_from(&wanted.name);
        let Some(store) = self.deps.store.clone() else {
            return Err(Refusal::NotFound);
        };
        // The other session is let go of without a word only at the end of everything.
        let mut source = forking.lent.await.map_err(|_| Refusal::Gone)??;
        let from = ForkedFrom {
            session_id: source.id().to_string(),
            message_id: forking.at.clone(),
        };
        let header = self.header(&wanted.place, Some(from));
        let catalog = self.deps.catalog.clone();
        let cancelled = self.machine.attaching().map(Reply::cancelled);
        let (id, at) = (self.id.clone(), forking.at);
        let work = move || {
            let cancelled = || cancelled.as_ref().is_some_and(|cancelled| cancelled());
            let before = catalog.as_deref().map(Catalog::before_change);
            let forked = store.fork(&mut source, &id, &header, at.as_deref(), &cancelled)?;
            if let (Some(catalog), Some(before)) = (catalog, before) {
                catalog.created(&id, &summary(&forked.scan), before);
            }
            Ok((store, forked))
        };
        // It may take a while, and is nobody else's business.
        let forked = tokio::task::spawn_blocking(work).await;
        let forked = forked
            .map_err(|_| Refusal::Storage("the fork failed unexpectedly".to_owned()))?
            .map_err(refusal);
        let (store, forked) = forked?;
        self.take(&store, forked, wanted);
        Ok(())
    }

    fn take(&mut self, store: &Store, forked: Forked, wanted: Wanted) {
        for damage in &forked.damage {
            tracing::warn!(session = %self.id, %damage, "the log of the forked session is damaged");
        }
        let Forked {
            log,
            scan,
            damage,
            inner,
        } = forked;
        let agent = self.deps.engine.identity().name;
        let history = SessionHistory::of_log(self.id.clone(), store.clone());
        history.reset(&scan);
        let furniture = Furniture {
            shown: log.end(),
            hold: Hold::Own(log),
            history,
            wanted,
            recorded: scan.place.clone(),
            summary: summary(&scan),
            titled: scan.titles.set().map(str::to_owned),
            damage: Arc::from(damage),
            origin: inner
                .filter(|inner| inner.agent == agent)
                .map(|inner| inner.id),
        };
        self.seat = Some(Seat::new(&self.id, &self.deps, furniture));
    }
}

fn refusal(error: ForkError) -> Refusal {
    match error {
        ForkError::Store(StoreError::NotFound { .. }) => Refusal::NotFound,
        ForkError::Store(error) => storage(&error),
        ForkError::UnknownMessage => Refusal::UnknownMessage,
        ForkError::Cancelled => Refusal::Cancelled,
    }
}

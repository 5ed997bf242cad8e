//! Makes a session out of another one: what that lends, and what becomes of it.

use std::sync::Arc;

use crate::engine::{Attach, SessionConfig};
use crate::index::{Catalog, Summary};
use crate::record::header::ForkedFrom;
use crate::store::{ForkError, Forked, Store, StoreError};
use crate::sys::blocking;

use super::actor::Actor;
use super::effect::{Batch, Effect};
use super::history::SessionHistory;
use super::machine::{Machine, Stage};
use super::open_session::{LogAccess, OpenSession, OpenSessionParts};
use super::outcome::Refusal;
use super::pending_attach::PendingAttach;
use super::refusal::storage;
use super::reply::Reply;
use super::request::{ForkReader, ForkSource};

impl<R> Machine<R> {
    /// What it takes to make a session out of another one.
    pub(super) fn fork(
        &mut self,
        reply: R,
        config: SessionConfig,
        forking: ForkSource,
    ) -> Batch<R> {
        self.attach = Some(PendingAttach::Fork(reply));
        self.stage = Stage::Making;
        self.open = true;
        vec![Effect::Fork(config, forking), Effect::Attach(Attach::Fork)]
    }
}

impl Actor {
    /// Opens the log for whoever makes another session out of it. What happens to this one
    /// afterwards, its deletion included, is nothing to that.
    pub(super) fn lend(&self, to: ForkReader) {
        let lent = || {
            let Some(store) = &self.deps.store else {
                return Err(Refusal::NotFound);
            };
            if self.session.is_none() {
                self.check()?;
            }
            let mut log = blocking(|| store.read(&self.id)).map_err(|error| storage(&error))?;
            if let Some(end) = self.session.as_ref().and_then(OpenSession::log_end) {
                log.limit(end);
            }
            Ok(log)
        };
        // Whoever wanted it may have gone.
        to.send(lent()).ok();
    }

    /// Makes the log out of the one that is lent, and opens the engine's conversation.
    pub(super) async fn fork(
        &mut self,
        config: SessionConfig,
        forking: ForkSource,
    ) -> Result<(), Refusal> {
        self.name.clone_from(&config.name);
        let Some(store) = self.deps.store.clone() else {
            return Err(Refusal::NotFound);
        };
        // The other session is let go of without a word only at the end of everything.
        let mut source = forking.lent.await.map_err(|_| Refusal::Gone)??;
        let from = ForkedFrom {
            session_id: source.id().to_string(),
            message_id: forking.at.clone(),
        };
        let header = self.header(&config.place, Some(from));
        let catalog = self.deps.catalog.clone();
        let cancelled = self.machine.pending_attach().map(Reply::cancelled);
        let (id, at) = (self.id.clone(), forking.at);
        let work = move || {
            let cancelled = || cancelled.as_ref().is_some_and(|cancelled| cancelled());
            let before = catalog.as_deref().map(Catalog::before_change);
            let forked = store.fork(&mut source, &id, &header, at.as_deref(), &cancelled)?;
            if let (Some(catalog), Some(before)) = (catalog, before) {
                catalog.created(&id, &Summary::of(&forked.scan), before);
            }
            Ok((store, forked))
        };
        // It may take a while, and is nobody else's business.
        let forked = tokio::task::spawn_blocking(work).await;
        let forked = forked
            .map_err(|_| Refusal::Storage("the fork failed unexpectedly".to_owned()))?
            .map_err(refusal);
        let (store, forked) = forked?;
        self.take(&store, forked, config);
        Ok(())
    }

    fn take(&mut self, store: &Store, forked: Forked, config: SessionConfig) {
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
        let parts = OpenSessionParts {
            shown: log.end(),
            log: LogAccess::Own(log),
            history,
            config,
            recorded: scan.place.clone(),
            summary: Summary::of(&scan),
            titled: scan.titles.set().map(str::to_owned),
            damage: Arc::from(damage),
            origin: inner
                .filter(|inner| inner.agent == agent)
                .map(|inner| inner.id),
        };
        self.session = Some(OpenSession::new(&self.id, &self.deps, parts));
    }
}

fn refusal(error: ForkError) -> Refusal {
    match error {
        ForkError::Store(StoreError::NotFound { .. }) => Refusal::NotFound,
        ForkError::Store(error) => storage(&error),
        ForkError::ForkPointNotFound => Refusal::ForkPointNotFound,
        ForkError::Cancelled => Refusal::Cancelled,
    }
}

//! Forks a session: the log of one becomes the beginning of another.

use std::sync::Arc;

use crate::engine::SessionConfig;
use crate::index::{Catalog, Summary};
use crate::record::header::ForkedFrom;
use crate::session::open_session::{LogAccess, OpenSession};
use crate::session::outcome::Refusal;
use crate::session::reply::Reply;
use crate::store::{ForkError, Forked, LogReader, StoreError};
use crate::sys::blocking;

use super::Actor;

impl Actor {
    /// Opens the log for another session. Later events of this session, such as its deletion, do
    /// not matter to that one.
    pub(super) fn read_for_fork(&mut self) {
        let log = self.open_for_fork();
        if let Some(reader) = self.fork_readers.pop_front() {
            // The other session may have ended.
            reader.send(log).ok();
        }
    }

    fn open_for_fork(&self) -> Result<LogReader, Refusal> {
        let Some(store) = &self.deps.store else {
            return Err(Refusal::NotFound);
        };
        if self.session.is_none() {
            self.check()?;
        }
        let mut log = blocking(|| store.read(&self.id))?;
        if let Some(end) = self.session.as_ref().and_then(OpenSession::log_end) {
            log.limit(end);
        }
        Ok(log)
    }

    /// Writes the log as a copy of the other session's, and opens the engine's conversation.
    pub(super) async fn fork(
        &mut self,
        config: SessionConfig,
        at: Option<String>,
    ) -> Result<(), Refusal> {
        self.name.clone_from(&config.name);
        let (Some(store), Some(source)) = (self.deps.store.clone(), self.fork_source.take()) else {
            return Err(Refusal::NotFound);
        };
        // The other session's actor ends without sending it only at the end of the connection.
        let mut source = source.await.map_err(|_| Refusal::Gone)??;
        let from = ForkedFrom {
            session_id: source.id().to_string(),
            message_id: at.clone(),
        };
        let header = self.header(&config.place, Some(from));
        let catalog = self.deps.catalog.clone();
        let request = self.machine.attaching().map(Reply::cancellation);
        let id = self.id.clone();
        let work = move || {
            let cancelled = || {
                request
                    .as_ref()
                    .is_some_and(tokio_util::sync::CancellationToken::is_cancelled)
            };
            let before = catalog.as_deref().map(Catalog::before_change);
            let forked = store.fork(&mut source, &id, &header, at.as_deref(), &cancelled)?;
            if let (Some(catalog), Some(before)) = (catalog, before) {
                catalog.created(&id, &Summary::of(&forked.scan), before);
            }
            Ok(forked)
        };
        // It may take a while, and other sessions must not wait for it.
        let forked = tokio::task::spawn_blocking(work).await;
        let forked = forked
            .map_err(|_| Refusal::Storage("the fork failed unexpectedly".to_owned()))?
            .map_err(refusal);
        self.install_fork(forked?, config);
        self.record_workspace_change()
    }

    fn install_fork(&mut self, forked: Forked, config: SessionConfig) {
        for damage in &forked.damage {
            tracing::warn!(session = %self.id, %damage, "the log of the forked session is damaged");
        }
        let agent = self.deps.engine.identity().name;
        let origin = forked.inner.filter(|known| known.agent == agent);
        let end = forked.log.end();
        let opened = (LogAccess::Own(forked.log), forked.scan);
        let origin = origin.map(|known| known.id);
        let mut session =
            OpenSession::with_log(&self.id, &self.deps, &self.client, config, opened, origin);
        session.shown = end;
        session.damage = Arc::from(forked.damage);
        self.session = Some(session);
    }
}

fn refusal(error: ForkError) -> Refusal {
    match error {
        ForkError::Store(StoreError::NotFound { .. }) => Refusal::NotFound,
        ForkError::Store(error) => error.into(),
        ForkError::ForkPointNotFound => Refusal::ForkPointNotFound,
        ForkError::Cancelled => Refusal::Cancelled,
    }
}

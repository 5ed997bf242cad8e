//! Closes and deletes a session.

use std::mem;
use std::sync::Arc;

use crate::engine::{CloseReason, History};
use crate::record::{AgentSessionId, Kind};
use crate::session::Deps;
use crate::session::effect::Batch;
use crate::session::history::SessionHistory;
use crate::session::open_session::LogAccess;
use crate::session::outcome::Refusal;
use crate::session::reply::Reply;
use crate::store::Store;
use crate::sys::{SessionId, blocking};

use super::Actor;
use super::lock::released;

impl Actor {
    pub(super) fn release(&mut self, reason: CloseReason) {
        // A replay that is not finished ends here.
        self.replay = None;
        self.attach = None;
        let is_import = self.known_as().is_some();
        let Some(mut session) = self.session.take() else {
            return;
        };
        self.client_requests.withdraw();
        // Nothing reads its events any longer, so the engine must not wait for that.
        session.events.close();
        session.conversation.close(reason);
        let refused = reason == CloseReason::Refused;
        match session.log {
            // It was created, but not whole, and the client does not know of it. An imported log is
            // whole, and may be loaded later.
            log @ (LogAccess::Own(_) | LogAccess::Failed(Some(_))) if refused && !is_import => {
                if let Err(error) = self.move_to_trash(log) {
                    tracing::warn!(session = %self.id, %error, "an incomplete session remains");
                }
            }
            LogAccess::Own(log) | LogAccess::Failed(Some(log)) => {
                // While the log is locked, so that this cannot overwrite a later entry.
                if let Some(catalog) = &self.deps.catalog {
                    // Updates between two turns count, too.
                    if let Some(at) = session.active_at.filter(|_| session.summary.prompts > 0) {
                        session.summary.set_active(&at.to_string());
                    }
                    blocking(|| catalog.closed(&self.id, &session.summary));
                }
                drop(log);
            }
            LogAccess::Memory if !refused => self.deps.close_in_memory(&self.id),
            _ => {}
        }
    }

    pub(super) async fn delete(&mut self) -> Result<(), Refusal> {
        if let Some(store) = self.deps.store.clone() {
            released(&store, &self.id).await;
        }
        // The conversation of an open session knows the agent's ids.
        let agent_ids = match (&self.session, &self.deps.store) {
            (None, Some(store)) => match agent_session_ids(&self.deps, store, &self.id) {
                // A session that was to be imported and was not has only its agent's id.
                ids if ids.is_empty() => self.known_as().into_iter().collect(),
                ids => ids,
            },
            _ => Vec::new(),
        };
        let log = match &mut self.session {
            Some(session) => mem::replace(&mut session.log, LogAccess::Failed(None)),
            None => LogAccess::Failed(None),
        };
        self.move_to_trash(log)?;
        self.notify_stopped();
        if let Some(mut session) = self.session.take() {
            session.events.close();
            session.conversation.close(CloseReason::Deleted);
        }
        delete_at_agent(&self.deps, agent_ids);
        Ok(())
    }

    /// The actor's own client has gone. The session stays open for others, and as long as a turn
    /// runs.
    pub(super) fn detach(&mut self) -> Batch<Reply> {
        self.links.is_detached = true;
        if self.front.is_some() {
            self.leave_owner();
        }
        Vec::new()
    }

    fn move_to_trash(&self, log: LogAccess) -> Result<(), Refusal> {
        let Some(store) = &self.deps.store else {
            return Err(Refusal::NotFound);
        };
        let catalog = self.deps.catalog.as_ref();
        let before = catalog.map(|catalog| catalog.before_change());
        blocking(|| match log {
            // A file that another program has put in its place is part of the session, too.
            LogAccess::Own(log) | LogAccess::Failed(Some(log)) => {
                Ok(log.trash()? || store.trash(&self.id)?)
            }
            _ => store.trash(&self.id),
        })?;
        if let (Some(catalog), Some(before)) = (catalog, before) {
            blocking(|| catalog.removed(&self.id, before));
        }
        Ok(())
    }
}

/// The ids by which the agent behind the engine knows a session, according to its log.
fn agent_session_ids(deps: &Deps, store: &Store, id: &SessionId) -> Vec<String> {
    if !deps.engine.wraps_agent() {
        return Vec::new();
    }
    let agent = deps.engine.identity().name;
    let mut ids = Vec::new();
    let history = SessionHistory::new(id.clone(), Some(store.clone()));
    let walked = history.walk(&mut |record| {
        if record.kind == Kind::AgentSessionId
            && let Some(known) = AgentSessionId::read(record.payload)
            && known.agent == agent
            && !ids.contains(&known.id)
        {
            ids.push(known.id);
        }
    });
    if let Err(error) = walked {
        tracing::debug!(session = %id, %error, "cannot find the agent's ids of a session");
    }
    ids
}

/// Has the agent delete its sessions. Does not wait.
fn delete_at_agent(deps: &Arc<Deps>, ids: Vec<String>) {
    let Some(agent) = deps.engine.upstream() else {
        return;
    };
    for id in ids {
        let deleted = agent.delete(&id);
        tokio::spawn(async move {
            if let Err(error) = deleted.await {
                tracing::info!(%error, "the agent does not delete its session");
            }
        });
    }
}

//! Looks at single sessions as the list shows them, and reports those that this process changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use crate::record::AgentSessionId;
use crate::sys::{SessionId, lock};

use super::agent_ids;
use super::catalog::{Catalog, ListError, Listed, listed};
use super::filter::{Archived, Filter};
use super::remote::Remote;
use super::session_rows::{self, CatalogRow};

/// The state of a session in a list without a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedSession {
    /// An entry, archived or not.
    Listed(Box<Listed>),
    /// Nothing: it was never prompted, has expired, or is another session's in the agent.
    Hidden,
    /// Nothing: it has no log.
    Gone,
}

/// Called with each session that this process has changed.
type Observe = Box<dyn Fn(&SessionId) + Send>;

/// The observer of changes.
#[derive(Default)]
pub(super) struct Observer(Mutex<Option<Observe>>);

impl Observer {
    /// A session has changed.
    pub(super) fn changed(&self, id: &SessionId) {
        if let Some(observe) = &*lock(&self.0) {
            observe(id);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl Catalog {
    /// From now on, `observe` is called with each session that this process changes. It must not wait,
    /// and must not use the catalog. `None` ends this.
    pub fn observe(&self, observe: Option<Observe>) {
        *lock(&self.observer.0) = observe;
    }

    /// The states of these sessions in the list now. Reads what was added to their logs.
    pub fn look(
        &self,
        ids: &[SessionId],
        since: Option<String>,
    ) -> Result<BTreeMap<SessionId, ObservedSession>, ListError> {
        if let Some(remote) = &self.remote {
            return self.look_in(&**remote, ids, since);
        }
        let refresh = self.refresh();
        let known = self.database.read(|tx| {
            let rows = ids.iter().map(|id| session_rows::one(tx, id));
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let is_new =
            |row: &Option<CatalogRow>| row.as_ref().is_none_or(|row| row.summary.tool.is_some());
        let new = ids.iter().zip(&known).filter(|(_, row)| is_new(row));
        refresh.read_new(&new.map(|(id, _)| id.clone()).collect::<Vec<_>>())?;
        refresh.read_stale(known.iter().flatten(), false)?;
        let filter = Filter {
            archived: Archived::Include,
            since,
            ..Filter::default()
        };
        let rows = self.database.read(|tx| {
            let rows = ids.iter().map(|id| {
                let row = session_rows::listed(tx, id, &filter, &self.tools)?;
                let known = row.as_ref().map(|_| agent_ids::of(tx, id)).transpose()?;
                Ok((row, known.unwrap_or_default()))
            });
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let seen = ids.iter().zip(rows).map(|(id, (row, agent_ids))| {
            let seen = match row {
                Some(row) => {
                    let mut listed = listed(row);
                    listed.summary.agent_ids = agent_ids;
                    ObservedSession::Listed(Box::new(listed))
                }
                // A session whose log cannot be checked may exist.
                None if matches!(self.logs.store.len_of(id), Ok(None)) => ObservedSession::Gone,
                None => ObservedSession::Hidden,
            };
            (id.clone(), seen)
        });
        Ok(seen.collect())
    }

    fn look_in(
        &self,
        remote: &dyn Remote,
        ids: &[SessionId],
        since: Option<String>,
    ) -> Result<BTreeMap<SessionId, ObservedSession>, ListError> {
        let filter = Filter {
            archived: Archived::Include,
            since,
            ..Filter::default()
        };
        let mut seen = BTreeMap::new();
        for id in ids {
            let seen_now = match remote.listed(id, &filter)? {
                Some(listed) => ObservedSession::Listed(Box::new(listed)),
                None if matches!(self.logs.store.len_of(id), Ok(None)) => ObservedSession::Gone,
                None => ObservedSession::Hidden,
            };
            seen.insert(id.clone(), seen_now);
        }
        Ok(seen)
    }

    /// The sessions whose logs this or another process may write to, and has written to since they
    /// were read.
    pub fn behind(&self) -> Result<Vec<SessionId>, ListError> {
        if let Some(remote) = &self.remote {
            return remote.behind();
        }
        let dirty = self.database.read(session_rows::dirty)?;
        let refresh = self.refresh();
        let behind = dirty
            .into_iter()
            .filter(|row| refresh.is_behind(&row.id, row.len));
        Ok(behind.map(|row| row.id).collect())
    }

    /// The ids that agents have or had for a session, which may be deleted.
    pub fn agent_ids(&self, id: &SessionId) -> Vec<AgentSessionId> {
        let known = if let Some(remote) = &self.remote {
            let known = remote.agent_ids(&[id]);
            known.map(|mut ids| ids.pop().unwrap_or_default())
        } else {
            let known = self.database.read(|tx| agent_ids::of(tx, id));
            known.map_err(ListError::from)
        };
        known.unwrap_or_else(|error| {
            tracing::debug!(session = %id, %error, "cannot find the agent's ids of a session");
            Vec::new()
        })
    }
}

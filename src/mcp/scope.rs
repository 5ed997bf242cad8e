//! Which sessions the tools may show.

use crate::index::Archived;
use crate::index::{Catalog, Filter, Summary};
use crate::store::{Store, StoreError};
use crate::sys::{SessionId, path};

use super::tools::Refused;

/// The sessions that may be shown: those of one working directory, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(Option<String>);

impl Scope {
    /// The sessions of all working directories.
    pub const ALL: Self = Self(None);

    /// Those with exactly this working directory.
    pub fn folder(folder: &str) -> Self {
        Self(Some(path::normalize(folder)))
    }

    /// The working directory.
    pub(super) fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The sessions that a list is about, if they may be shown. Without a folder that is all of
    /// them.
    pub(super) fn filter(&self, folder: Option<&str>) -> Result<Filter, Refused> {
        let folder = folder.map(path::normalize);
        let cwd = match (&self.0, folder) {
            (Some(own), Some(asked)) if *own != asked => return Err(self.refuse(&asked)),
            (Some(own), _) => Some(own.clone()),
            (None, asked) => asked,
        };
        Ok(Filter {
            cwd,
            archived: Archived::Include,
            ..Filter::default()
        })
    }

    fn refuse(&self, folder: &str) -> Refused {
        let own = self.0.as_deref().unwrap_or_default();
        Refused(format!(
            "conversations in {folder} are not shown here, only those in {own}; the user can \
             allow more with `rejoin mcp --all` or `rejoin mcp --cwd {folder}`"
        ))
    }
}

/// The sessions of a store that the tools may show.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) store: Store,
    pub(super) catalog: Catalog,
    pub(super) scope: Scope,
}

/// Whether a call has been cancelled. It is called now and then.
pub(super) type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

impl Sessions {
    /// Whether the store exists. Reading does not create it.
    pub(super) fn exist(&self) -> Result<bool, Refused> {
        let exists = Store::is_at(self.store.root(), self.store.sys());
        exists.map_err(|error| Refused(format!("cannot read the store: {error}")))
    }

    /// The session with this id, if it may be shown.
    pub(super) fn find(&self, name: &str) -> Result<(SessionId, Summary), Refused> {
        let unknown = || {
            Refused(format!(
                "there is no session {name:?}; `list` and `search` name those there are"
            ))
        };
        if !self.exist()? {
            return Err(unknown());
        }
        let known = || {
            let known = self.catalog.known_as(name);
            known.map_err(|error| Refused(format!("cannot look up the session: {error}")))
        };
        let id = match SessionId::parse(name) {
            Some(id) => id,
            None => known()?.ok_or_else(unknown)?,
        };
        let Some(summary) = self.catalog.find(&id) else {
            // One that cannot be read has no summary, either.
            return Err(match self.store.read(&id) {
                Ok(_) | Err(StoreError::NotFound { .. }) => unknown(),
                Err(error) => Refused(format!("cannot read the session: {error}")),
            });
        };
        match &self.scope.0 {
            Some(own) if *own != summary.cwd => Err(self.scope.refuse(&summary.cwd)),
            _ => Ok((id, summary)),
        }
    }
}

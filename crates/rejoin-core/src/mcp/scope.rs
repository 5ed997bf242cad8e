//! Which sessions the tools may show.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use crate::index::Archived;
use crate::index::{Catalog, Filter, Summary};
use crate::sources::LiveSources;
use crate::store::{LogReader, Store, StoreError};
use crate::sys::worktrees::counterparts;
use crate::sys::{SessionId, path, with_causes};

use super::answer::Refused;

/// The sessions that may be shown: those of one working directory and its counterparts in other
/// worktrees of its repository, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(Option<String>);

impl Scope {
    /// The sessions of all working directories.
    pub const ALL: Self = Self(None);

    /// The sessions with this working directory, or the same one in another worktree.
    pub fn folder(folder: &str) -> Self {
        Self(Some(path::normalize(folder)))
    }

    /// The working directory.
    pub(super) fn name(&self) -> Option<&str> {
        self.0.as_deref()
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
    /// The tools whose conversations are shown, too.
    pub(super) tools: Option<Arc<LiveSources>>,
    pub(super) scope: Scope,
}

/// How many times some conversations of other tools are read as a whole for one search.
const READ: usize = 32;

/// Whether a call has been cancelled. It is called now and then.
pub(super) type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

impl Sessions {
    /// Whether there are any: a store, which reading does not create without need, or conversations of
    /// other tools.
    pub(super) fn exist(&self) -> Result<bool, Refused> {
        if self.tools.as_ref().is_some_and(|tools| tools.are_there()) {
            return Ok(true);
        }
        let exists = self.store.is_there();
        exists.map_err(|error| Refused(format!("cannot read the store: {error}")))
    }

    /// The sessions that a list is about, if they may be shown. Without a folder that is all of
    /// them.
    pub(super) fn filter(&self, folder: Option<&str>) -> Result<Filter, Refused> {
        let folder = folder.map(path::normalize);
        let (cwd, worktrees) = match (self.scope.name(), folder) {
            (Some(own), None) => (Some(own.to_owned()), Some(self.worktrees(own))),
            (Some(own), Some(asked)) if !self.is_shown(own, &asked) => {
                return Err(self.scope.refuse(&asked));
            }
            (_, asked) => (asked, None),
        };
        Ok(Filter {
            cwd,
            worktrees,
            archived: Archived::Include,
            ..Filter::default()
        })
    }

    /// Whether sessions in this folder are shown beside those in `own`.
    fn is_shown(&self, own: &str, folder: &str) -> bool {
        own == folder || self.worktrees(own).iter().any(|other| other == folder)
    }

    /// The counterparts of a folder in the worktrees that its repository has now.
    fn worktrees(&self, folder: &str) -> Vec<String> {
        counterparts(&*self.store.sys().disk, Path::new(folder))
    }

    /// Brings the conversations of other tools up to date.
    pub(super) fn scan(&self) -> Result<(), Refused> {
        match &self.tools {
            Some(tools) if tools.are_there() => {
                // The index is in the store.
                self.store.prepare().map_err(|error| unread_tools(&error))?;
                let scanned = tools.scan(&self.store, &self.catalog);
                scanned.map_err(|error| unread_tools(&error))
            }
            _ => Ok(()),
        }
    }

    /// Brings the conversations of other tools up to date, and reads some of those that no search
    /// covers yet.
    pub(super) fn scan_words(&self, cancelled: Cancelled<'_>) -> Result<(), Refused> {
        self.scan()?;
        let Some(tools) = &self.tools else {
            return Ok(());
        };
        for _ in 0..READ {
            let any = tools.count_some(&self.catalog);
            if cancelled() || !any.map_err(|error| unread_tools(&error))? {
                break;
            }
        }
        Ok(())
    }

    /// The log of a session, or the one that a conversation of another tool would have.
    pub(super) fn read(&self, id: &SessionId) -> Result<LogReader, Refused> {
        let read = match (self.store.read(id), &self.tools) {
            (Err(StoreError::NotFound { id }), Some(tools)) => {
                let read = tools.read(&self.catalog, &id);
                let read = read.map_err(|error| unread_tools(&error))?;
                read.ok_or(StoreError::NotFound { id })
            }
            (read, _) => read,
        };
        read.map_err(|error| Refused(format!("cannot read the session: {error}")))
    }

    /// The summary of a conversation of another tool. Fails if it is a session of the store, which
    /// has no summary if it cannot be read.
    fn summary_of_tool(&self, id: &SessionId) -> Result<Option<Summary>, Refused> {
        let unreadable = |error| Refused(format!("cannot read the session: {error}"));
        match (self.store.read(id), &self.tools) {
            (Err(StoreError::NotFound { .. }), Some(tools)) => {
                let read = tools.read(&self.catalog, id);
                let read = read.map_err(|error| unread_tools(&error))?;
                let scanned = read.map(|mut log| log.scan()).transpose();
                Ok(scanned.map_err(unreadable)?.map(|scan| Summary::of(&scan)))
            }
            (Ok(_) | Err(StoreError::NotFound { .. }), _) => Ok(None),
            (Err(error), _) => Err(unreadable(error)),
        }
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
        self.scan()?;
        let known = || {
            let known = self.catalog.known_as(name);
            let known = known.and_then(|known| match known {
                Some(id) => Ok(Some(id)),
                None => self.catalog.tool_files().named(name),
            });
            known.map_err(|error| Refused(format!("cannot look up the session: {error}")))
        };
        let id = match SessionId::parse(name) {
            Some(id) => id,
            None => known()?.ok_or_else(unknown)?,
        };
        let summary = match self.catalog.find(&id) {
            Some(summary) => summary,
            None => self.summary_of_tool(&id)?.ok_or_else(unknown)?,
        };
        match &self.scope.0 {
            Some(own) if !self.is_shown(own, &summary.cwd) => Err(self.scope.refuse(&summary.cwd)),
            _ => Ok((id, summary)),
        }
    }
}

fn unread_tools(error: &dyn Error) -> Refused {
    let why = with_causes(error);
    Refused(format!("cannot read conversations of other tools: {why}"))
}

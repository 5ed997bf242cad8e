//! Copies a conversation of another tool into the store.
//!
//! The copy is a session of the tool's ACP agent, so a wrap of that agent goes on with it by the
//! tool's own id. A conversation that has grown since is continued in the copy. A copy that was
//! continued here, or that the user deleted, is left as it is.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use serde_json::json;

use crate::index::{Catalog, ListError};
use crate::record::header::{Implementation, Workspace};
use crate::record::{Header, Kind};
use crate::store::{Store, StoreError};
use crate::sys::{SessionId, path};

use super::{Conversation, Entry, Found, Source};

/// What became of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is a new session.
    Imported,
    /// It has grown, and so has its session.
    Extended,
    /// Its session has all of it.
    Unchanged,
    /// It differs from its session, which was continued here, or from which the tool has removed
    /// something since.
    Differs,
    /// It ran behind rejoin, so its session is there.
    Recorded,
    /// The user has deleted its session, which is in the trash.
    Deleted,
    /// It has no prompt, or it is a part of another one.
    Empty,
}

/// A conversation that was looked at.
#[derive(Debug)]
pub struct Report {
    /// What became of it.
    pub outcome: Outcome,
    /// How many of its records were not understood, and left out.
    pub unknown: usize,
    /// How many of its lines were damaged.
    pub damaged: usize,
}

/// Why a conversation could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The tool's file could not be read.
    #[error("cannot read it")]
    Read(#[from] io::Error),
    /// The session could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalog could not be asked for it.
    #[error("cannot look it up in the catalog")]
    Catalog(#[from] ListError),
}

/// Copies conversations into a store.
#[derive(Debug)]
pub struct Importer<'a> {
    store: &'a Store,
    catalog: &'a Catalog,
    /// The folder of a session whose tool has recorded none.
    home: &'a Path,
    deleted: Vec<SessionId>,
}

impl<'a> Importer<'a> {
    /// An importer into this store.
    pub fn new(store: &'a Store, catalog: &'a Catalog, home: &'a Path) -> Result<Self, StoreError> {
        let deleted = store.trashed()?.into_iter().map(|trashed| trashed.id);
        Ok(Self {
            store,
            catalog,
            home,
            deleted: deleted.collect(),
        })
    }

    /// Imports a conversation, or what is new of it.
    pub fn import(&self, source: &Source, found: &Found) -> Result<Report, ImportError> {
        let conversation = source.read(found)?;
        let (unknown, damaged) = (conversation.unknown, conversation.damaged);
        if unknown + damaged > 0 {
            let path = found.path.display();
            tracing::info!(%path, unknown, damaged, "records were left out");
        }
        let outcome = if conversation.entries.is_empty() {
            Outcome::Empty
        } else {
            self.write(source, &conversation)?
        };
        Ok(Report {
            outcome,
            unknown,
            damaged,
        })
    }

    fn write(&self, source: &Source, conversation: &Conversation) -> Result<Outcome, ImportError> {
        let id = SessionId::of_foreign(source.agent, &conversation.id);
        if self.store.exists(&id)? {
            return Ok(self.extend(&id, conversation)?);
        }
        if self.deleted.contains(&id) {
            return Ok(Outcome::Deleted);
        }
        if self
            .catalog
            .of_inner(source.agent, &conversation.id)?
            .is_some()
        {
            return Ok(Outcome::Recorded);
        }
        let header = self.header(&id, source, conversation);
        let agent = json!({
            "id": conversation.id,
            "agent": { "name": source.agent },
            "how": "import",
        });
        let agent = agent.to_string();
        let began = conversation.entries.first().map(|entry| entry.at);
        let first = began.map(|at| (at, Kind::AgentSessionId, None, agent.as_str()));
        let history = conversation.entries.iter().map(Entry::as_record);
        match self
            .store
            .create_dated(&id, &header, first.into_iter().chain(history))
        {
            Ok(_) => Ok(Outcome::Imported),
            // Another process was first.
            Err(StoreError::Exists { .. }) => Ok(Outcome::Unchanged),
            Err(error) => Err(error.into()),
        }
    }

    fn header(&self, id: &SessionId, source: &Source, conversation: &Conversation) -> Header {
        let cwd = conversation.cwd.as_deref();
        let cwd = cwd.filter(|cwd| Path::new(cwd).is_absolute());
        let home = self.home.to_string_lossy();
        Header {
            known_as: Some(conversation.id.clone()),
            place: Workspace::at(&path::normalize(cwd.unwrap_or(&home))),
            engine: Implementation {
                name: source.agent.to_owned(),
                version: None,
            },
            ..Header::new(id, "")
        }
    }

    /// Appends what is new of a conversation to its session.
    fn extend(&self, id: &SessionId, conversation: &Conversation) -> Result<Outcome, StoreError> {
        let mut new: VecDeque<&Entry> = conversation.entries.iter().collect();
        let mut is_beginning = true;
        let mut reader = self.store.read(id)?;
        while let Some(entry) = reader.next()? {
            let record = entry.record;
            if !is_history(record.kind) {
                continue;
            }
            // How the last turn ended was not known while it went on.
            while new.front().is_some_and(|next| !is_history(next.kind)) {
                new.pop_front();
            }
            let same = new
                .pop_front()
                .is_some_and(|next| next.kind == record.kind && next.payload == record.payload);
            if !same {
                is_beginning = false;
                break;
            }
        }
        if !is_beginning {
            return Ok(Outcome::Differs);
        }
        if !new.iter().any(|entry| is_history(entry.kind)) {
            return Ok(Outcome::Unchanged);
        }
        // The session's last turn has an end already.
        while new.front().is_some_and(|next| !is_history(next.kind)) {
            new.pop_front();
        }
        let mut opened = self.store.open_log(id)?;
        let records = new.into_iter().map(Entry::as_record);
        opened.log.append_dated(records)?;
        Ok(Outcome::Extended)
    }
}

/// Whether records of this kind are compared: what was said and done, not how turns ended.
fn is_history(kind: Kind) -> bool {
    matches!(kind, Kind::Prompt | Kind::Update)
}

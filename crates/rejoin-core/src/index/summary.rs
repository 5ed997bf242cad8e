//! The summary of a session in the catalog, and how a log's records change it.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::record::header::{Header, Implementation, Workspace};
use crate::record::metadata::{archived, restored, title_of_client};
use crate::record::title::{MadeTitle, named};
use crate::record::{Activity, AgentSessionId, Kind, Record, snapshot_of};
use crate::store::Scan;

/// The summary of a session, for lists.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The working directory, as last recorded.
    pub cwd: String,
    /// The id by which clients know it, if it is not its own: that of the agent that created it.
    pub known_as: Option<String>,
    /// The agents' ids of it, as far as the last read found them. The catalog keeps earlier ones.
    pub agent_ids: Vec<AgentSessionId>,
    /// Further directories of the workspace, as last recorded.
    pub additional_directories: Vec<String>,
    /// The name of the engine in the log's header, which answers the prompts.
    pub source: String,
    /// A line of text that distinguishes the session from others.
    pub title: Option<String>,
    /// The title that is made of its first prompt, which it has as long as nobody gives it another one.
    pub made: Option<MadeTitle>,
    /// Whether a client has set the title.
    pub is_title_set: bool,
    /// When the session was created, as [`Timestamp`](crate::sys::Timestamp) is displayed.
    pub created_at: String,
    /// The latest time of its prompts, in the same format; none if it was never prompted. It must
    /// not go back when the clock does, since lists are ordered by it.
    pub updated_at: Option<String>,
    /// When it was last restored from the trash, in the same format.
    pub restored_at: Option<String>,
    /// Whether lists leave it out by default.
    pub archived: bool,
    /// The session's present and last activity. The times are those of records, as `updated_at`.
    pub activity: Activity,
    /// The session that it was forked from.
    pub forked_from: Option<String>,
    /// The source of a conversation that another tool keeps, and that has no log here.
    pub tool: Option<String>,
    /// The branch of the repository, if another tool recorded it.
    pub branch: Option<String>,
    /// How many prompts it has; 0 if they were not counted yet.
    pub prompts: u64,
    /// How many bytes of the log this summary covers, up to the end of a record.
    pub scanned: u64,
}

impl Summary {
    /// The summary of a log that was read as a whole.
    pub fn of(scan: &Scan) -> Self {
        Self {
            cwd: scan.workspace.cwd.clone(),
            additional_directories: scan.workspace.additional_directories.clone(),
            source: Implementation::shown(&scan.header.engine.name).to_owned(),
            known_as: scan.header.known_as.clone(),
            agent_ids: agent_session_ids(scan),
            title: scan.titles.title().map(str::to_owned),
            made: scan.titles.made().cloned(),
            is_title_set: scan.titles.set().is_some(),
            archived: scan.archived,
            restored_at: scan.restored_at.clone(),
            created_at: scan.created_at.clone(),
            updated_at: scan.updated_at.clone(),
            activity: scan.activity.clone(),
            forked_from: forked_from(&scan.header),
            tool: None,
            branch: None,
            prompts: scan.prompts.len() as u64,
            scanned: scan.end,
        }
    }

    /// The sessions of agents that this one is or was, as those know it, the oldest first; of a
    /// conversation that another tool keeps, that one.
    pub fn agent_sessions(&self) -> Vec<AgentSessionId> {
        match (&self.tool, &self.known_as) {
            (Some(_), Some(id)) => vec![AgentSessionId {
                agent: self.source.clone(),
                id: id.clone(),
            }],
            _ => self.agent_ids.clone(),
        }
    }

    /// How many prompts it has, if they were counted.
    pub fn counted_prompts(&self) -> Option<u64> {
        (self.tool.is_none() || self.prompts > 0).then_some(self.prompts)
    }

    /// Applies the next record of the log.
    pub fn apply_record(&mut self, record: &Record<'_>) {
        if let Some(info) = snapshot_of(record.kind, record.payload) {
            let (kind, payload) = (Kind::Info, info.as_str());
            return self.apply_record(&Record {
                kind,
                payload,
                ..*record
            });
        }
        self.apply(record.kind, record.id, &record.at, record.payload);
        // What precedes the first prompt is not a conversation.
        if record.kind.is_activity() && self.prompts > 0 {
            self.set_active(record.at);
        }
    }

    /// Applies a record that was just written; returns whether the summary may have changed.
    /// Updates are left out: the session reports once, at the end, when they were.
    pub fn apply(&mut self, kind: Kind, id: Option<&str>, at: &dyn Display, payload: &str) -> bool {
        if let Some(info) = snapshot_of(kind, payload) {
            return self.apply(Kind::Info, id, at, &info);
        }
        self.activity.note(kind, id, at, payload);
        match kind {
            Kind::Prompt => {
                let before = self.made_title();
                MadeTitle::take(&mut self.made, payload);
                if self.title == before {
                    self.title = self.made_title();
                }
                self.prompts += 1;
                self.set_active(&at.to_string());
                true
            }
            Kind::End if self.prompts > 0 => {
                self.set_active(&at.to_string());
                true
            }
            Kind::Reopen => match serde_json::from_str::<Workspace>(payload) {
                Ok(workspace) => {
                    self.set_workspace(&workspace);
                    true
                }
                Err(_) => false,
            },
            Kind::Info => self.apply_info(at, payload),
            Kind::AgentSessionId => match AgentSessionId::read(payload) {
                Some(inner) if !self.agent_ids.contains(&inner) => {
                    self.agent_ids.push(inner);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn apply_info(&mut self, at: &dyn Display, payload: &str) -> bool {
        let has_new_id = AgentSessionId::add_reported(&mut self.agent_ids, payload);
        let is_set = self.is_title_set || title_of_client(payload).is_some();
        let named = named(payload).map(|named| named.or_else(|| self.made_title()));
        match (named, archived(payload)) {
            (Some(named), _) if named != self.title || is_set != self.is_title_set => {
                self.title = named;
                self.is_title_set = is_set;
            }
            (None, Some(archived)) if archived != self.archived => self.archived = archived,
            (None, None) if restored(payload) => self.restored_at = Some(at.to_string()),
            _ => return has_new_id,
        }
        true
    }

    fn made_title(&self) -> Option<String> {
        self.made.as_ref().map(|made| made.title.clone())
    }

    /// Whether nobody has given the session a title, so that it has the one made of its first prompt.
    pub fn has_made_title(&self) -> bool {
        !self.is_title_set && self.title.is_some() && self.title == self.made_title()
    }

    /// Records the time of a record of the conversation. It does not go back when the clock does.
    pub fn set_active(&mut self, at: &str) {
        match &mut self.updated_at {
            Some(last) if last.as_str() < at => at.clone_into(last),
            Some(_) => {}
            None => self.updated_at = Some(at.to_owned()),
        }
    }

    /// Records the current workspace.
    pub fn set_workspace(&mut self, workspace: &Workspace) {
        self.cwd.clone_from(&workspace.cwd);
        self.additional_directories
            .clone_from(&workspace.additional_directories);
    }
}

/// The session that the one with this header was forked from.
fn forked_from(header: &Header) -> Option<String> {
    let from = header.forked_from.as_ref()?;
    Some(from.session_id.clone())
}

/// The agents' ids of a session. If an agent created it, the agent's id is one of them, whatever
/// the records say.
fn agent_session_ids(scan: &Scan) -> Vec<AgentSessionId> {
    let first = scan.header.known_as.as_ref().map(|id| AgentSessionId {
        agent: scan.header.engine.name.clone(),
        id: id.clone(),
    });
    let mut ids = scan.agent_ids.clone();
    ids.extend(first.filter(|first| !scan.agent_ids.contains(first)));
    ids
}

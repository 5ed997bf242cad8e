//! An entry of a list, as a client sees it.

use serde_json::{Map, Value, json};

use crate::history::entry;
use crate::index::{Catalog, Listed, PINNED, TOOL_BRANCH};
use crate::protocol::method::{INDEX_CHANGES, SESSION_LIST_CHANGES, SESSION_LIST_RESYNC};
use crate::protocol::{ProtocolVersion, jetbrains};
use crate::record::{ActivityState, AgentSessionId};
use crate::sys::SessionId;

use super::changes::ListChanges;
use super::context::{ConnectionContext, client_id, id_of_agents_session};
use super::list_v2::row_in_v2;

/// The form of the entries of lists for a client.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether entries have certain members"
)]
pub(super) struct RowForm {
    /// The names of the wrapped agent: clients know the sessions that it created by its ids.
    pub(super) agent: Vec<String>,
    /// Whether they say which sessions are archived.
    pub(super) archives: bool,
    /// Whether they have the members of the protocol's unstable list extensions.
    pub(super) extended: bool,
    /// Whether they have the same members where JetBrains' clients look for them.
    pub(super) indexed: bool,
    /// Whether they have the wrapped agent's ids of a session.
    pub(super) aliases: bool,
    /// The client's version of the protocol.
    pub(super) version: ProtocolVersion,
    /// The names of notifications.
    pub(super) names: Names,
    /// Who remembers what the client is shown.
    pub(super) reported_to: Option<ListChanges>,
}

impl RowForm {
    /// For the client of this connection.
    pub(super) fn of(context: &ConnectionContext) -> Self {
        Self {
            version: context.version(),
            names: Names::Protocol,
            agent: context.deps().engine.agent_names(),
            archives: context.offers("archive"),
            extended: context.offers("list.limit"),
            aliases: context.deps().offers_aliases(),
            indexed: context.has_session_index(),
            reported_to: None,
        }
    }

    /// Whether lists are sorted by the last prompt, and entries say what sessions are doing.
    pub(super) fn is_by_prompt(&self) -> bool {
        self.extended || self.indexed
    }

    /// An entry. May read files.
    pub(super) fn row(&self, catalog: Option<&Catalog>, listed: Listed) -> Value {
        let state = match catalog {
            Some(catalog) if self.is_by_prompt() => catalog.state(&listed),
            _ => ActivityState::Idle,
        };
        if let Some(changes) = &self.reported_to {
            changes.shown(&listed, state);
        }
        self.row_in(catalog, listed, state)
    }

    /// The text of an entry in the version of the client.
    pub(super) fn text(
        &self,
        catalog: Option<&Catalog>,
        listed: Listed,
        state: ActivityState,
    ) -> String {
        let row = self.row_in(catalog, listed, state).to_string();
        match self.version {
            ProtocolVersion::V1 => row,
            ProtocolVersion::V2 => row_in_v2(&row),
        }
    }

    fn row_in(&self, catalog: Option<&Catalog>, listed: Listed, state: ActivityState) -> Value {
        let (mut extensions, mut meta) = (Map::new(), Map::new());
        if self.is_by_prompt() {
            extensions = self.extensions(catalog, &listed, state);
        }
        if self.indexed {
            let mut members = extensions.clone();
            members.insert("archived".to_owned(), listed.summary.archived.into());
            meta.extend([jetbrains::entry(members)]);
        }
        let Listed {
            id,
            summary,
            snippet,
            tool_branch,
            is_pinned,
        } = listed;
        let name = client_id(&id, &summary, &self.agent);
        let mut session = Map::new();
        session.insert("sessionId".to_owned(), name.into());
        session.insert("cwd".to_owned(), summary.cwd.clone().into());
        if !summary.additional_directories.is_empty() {
            let directories = summary.additional_directories.clone().into();
            session.insert("additionalDirectories".to_owned(), directories);
        }
        if let Some(title) = &summary.title {
            session.insert("title".to_owned(), title.clone().into());
        }
        if let Some(updated_at) = &summary.updated_at {
            session.insert("updatedAt".to_owned(), updated_at.clone().into());
        }
        if self.archives {
            session.insert("archived".to_owned(), summary.archived.into());
        }
        session.extend(extensions.into_iter().filter(|_| self.extended));
        let aliases = AgentSessionId::aliases(&summary.agent_ids, &self.agent, name);
        if self.aliases && !aliases.is_empty() {
            session.insert("aliases".to_owned(), aliases.into());
        }
        entry::entry(&summary, &mut session);
        let own = [
            ("snippet", snippet.map(Value::from)),
            ("branch", summary.branch.map(Value::from)),
            (TOOL_BRANCH, tool_branch.map(|branch| json!(branch))),
            (PINNED, is_pinned.then_some(true.into())),
        ];
        let own = own.into_iter();
        let own = own.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let own: Map<String, Value> = own.collect();
        if !own.is_empty() {
            meta.insert("rejoin".to_owned(), own.into());
        }
        if !meta.is_empty() {
            session.insert("_meta".to_owned(), meta.into());
        }
        Value::Object(session)
    }

    /// The members of the list extensions; what is unknown is absent.
    fn extensions(
        &self,
        catalog: Option<&Catalog>,
        listed: &Listed,
        state: ActivityState,
    ) -> Map<String, Value> {
        let activity = &listed.summary.activity;
        let from = listed.summary.forked_from.as_deref();
        let from = from.map(|from| match SessionId::parse(from) {
            Some(id) => self.name_of(catalog, &id),
            None => from.to_owned(),
        });
        let cost = activity.cost.as_deref();
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let members = [
            ("lastPromptAt", text(&activity.last_prompt_at)),
            ("model", text(&activity.model)),
            ("forkedFrom", from.map(Value::from)),
            ("state", Some(state.name().into())),
            ("lastTurnEndedAt", text(&activity.last_turn_ended_at)),
            (
                "cost",
                cost.and_then(|cost| serde_json::from_str(cost).ok()),
            ),
        ];
        let members = members.into_iter();
        let known = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        known.collect()
    }

    /// The name by which clients know a session, which may be deleted: the agent's own, if the
    /// agent has created it.
    pub(super) fn name_of(&self, catalog: Option<&Catalog>, id: &SessionId) -> String {
        let catalog = catalog.filter(|_| !self.agent.is_empty());
        let known = catalog
            .map(|catalog| catalog.agent_ids(id))
            .unwrap_or_default();
        let is_first = |known: &&AgentSessionId| {
            id_of_agents_session(&known.agent, &known.id).as_ref() == Some(id)
                && self.agent.contains(&known.agent)
        };
        let first = known.iter().find(is_first);
        first.map_or_else(|| id.to_string(), |known| known.id.clone())
    }
}

/// The set of names for the notifications to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Names {
    /// Names of the protocol's unstable methods.
    #[default]
    Protocol,
    /// Names of JetBrains' session index.
    JetBrains,
}

impl Names {
    /// The notification with changes.
    pub(super) fn changes(self) -> &'static str {
        match self {
            Self::Protocol => SESSION_LIST_CHANGES,
            Self::JetBrains => INDEX_CHANGES,
        }
    }

    /// The notification that changes were missed, if there is one.
    pub(super) fn resync(self) -> Option<&'static str> {
        match self {
            Self::Protocol => Some(SESSION_LIST_RESYNC),
            // Clients of JetBrains read their lists again from time to time.
            Self::JetBrains => None,
        }
    }
}

//! An entry of a list, as a client sees it.

use serde_json::{Map, Value, json};

use crate::history::entry;
use crate::index::{Catalog, Listed};
use crate::protocol::ProtocolVersion;
use crate::protocol::method::{SESSION_LIST_CHANGES, SESSION_LIST_RESYNC};
use crate::record::{AgentSessionId, State};
use crate::sys::SessionId;

use super::changes::Changes;
use super::context::{Context, client_id, id_of_agents_session};
use super::list_v2::row_in_v2;

/// What the entries of lists have for a client.
#[derive(Clone, Debug, Default)]
pub(super) struct RowForm {
    /// The names of the wrapped agent: clients know the sessions that it created by its ids.
    pub(super) agent: Vec<String>,
    /// Whether they say which sessions are archived.
    pub(super) archives: bool,
    /// Whether they have the members of the protocol's unstable list extensions.
    pub(super) extended: bool,
    /// The client's version of the protocol.
    pub(super) version: ProtocolVersion,
    /// The names of notifications.
    pub(super) names: Names,
    /// Who remembers what the client is shown.
    pub(super) reported_to: Option<Changes>,
}

impl RowForm {
    /// For the client of this connection.
    pub(super) fn of(context: &Context) -> Self {
        Self {
            version: context.version(),
            names: Names::Protocol,
            agent: context.deps().engine.agent_names(),
            archives: context.offers("archive"),
            extended: context.offers("list.limit"),
            reported_to: None,
        }
    }

    /// An entry. May read files.
    pub(super) fn row(&self, catalog: Option<&Catalog>, listed: Listed) -> Value {
        let state = match catalog {
            Some(catalog) if self.extended => catalog.state(&listed),
            _ => State::Idle,
        };
        if let Some(changes) = &self.reported_to {
            changes.shown(&listed, state);
        }
        self.row_in(catalog, listed, state)
    }

    /// The text of an entry in the version of the client.
    pub(super) fn text(&self, catalog: Option<&Catalog>, listed: Listed, state: State) -> String {
        let row = self.row_in(catalog, listed, state).to_string();
        match self.version {
            ProtocolVersion::V1 => row,
            ProtocolVersion::V2 => row_in_v2(&row),
        }
    }

    fn row_in(&self, catalog: Option<&Catalog>, listed: Listed, state: State) -> Value {
        let extensions = if self.extended {
            self.extensions(catalog, &listed, state)
        } else {
            Map::new()
        };
        let Listed {
            id,
            summary,
            snippet,
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
        session.extend(extensions);
        let aliases = AgentSessionId::aliases(&summary.agent_ids, &self.agent, name);
        if !aliases.is_empty() {
            session.insert("aliases".to_owned(), aliases.into());
        }
        entry::entry(&summary, &mut session);
        if let Some(snippet) = snippet {
            let meta = json!({ "rejoin": { "snippet": snippet } });
            session.insert("_meta".to_owned(), meta);
        }
        Value::Object(session)
    }

    /// The members of the list extensions; what is unknown is absent.
    fn extensions(
        &self,
        catalog: Option<&Catalog>,
        listed: &Listed,
        state: State,
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

/// By which names a client is notified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Names {
    /// Those of the protocol's unstable methods.
    #[default]
    Protocol,
}

impl Names {
    /// The notification with changes.
    pub(super) fn changes(self) -> &'static str {
        match self {
            Self::Protocol => SESSION_LIST_CHANGES,
        }
    }

    /// The notification that changes were missed.
    pub(super) fn resync(self) -> &'static str {
        match self {
            Self::Protocol => SESSION_LIST_RESYNC,
        }
    }
}

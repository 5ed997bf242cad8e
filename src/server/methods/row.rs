//! An entry of a list, as a client sees it.

use serde_json::{Map, Value, json};

use crate::history::entry;
use crate::index::{Catalog, Listed};
use crate::record::AgentSessionId;
use crate::sys::SessionId;

use super::context::{Context, client_id};

/// What the entries of lists have for a client.
#[derive(Clone, Debug, Default)]
pub(super) struct RowForm {
    /// The names of the wrapped agent: clients know the sessions that it created by its ids.
    pub(super) agent: Vec<String>,
    /// Whether they say which sessions are archived.
    pub(super) archives: bool,
    /// Whether they have the members of the protocol's unstable list extensions.
    pub(super) extended: bool,
}

impl RowForm {
    /// For the client of this connection.
    pub(super) fn of(context: &Context) -> Self {
        Self {
            agent: context.deps().engine.agent_names(),
            archives: context.offers("archive"),
            extended: context.offers("list.limit"),
        }
    }

    /// An entry. May read files.
    pub(super) fn row(&self, catalog: Option<&Catalog>, listed: Listed) -> Value {
        let extensions = match catalog {
            Some(catalog) if self.extended => self.extensions(catalog, &listed),
            _ => Map::new(),
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
    fn extensions(&self, catalog: &Catalog, listed: &Listed) -> Map<String, Value> {
        let activity = &listed.summary.activity;
        let from = listed.summary.forked_from.as_deref();
        let cost = activity.cost.as_deref();
        let members = [
            (
                "lastPromptAt",
                activity.last_prompt_at.clone().map(Value::from),
            ),
            ("model", activity.model.clone().map(Value::from)),
            (
                "forkedFrom",
                from.map(|from| self.name(catalog, from).into()),
            ),
            ("state", Some(catalog.state(listed).name().into())),
            (
                "lastTurnEndedAt",
                activity.last_turn_ended_at.clone().map(Value::from),
            ),
            (
                "cost",
                cost.and_then(|cost| serde_json::from_str(cost).ok()),
            ),
        ];
        let known = members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        known.collect()
    }

    /// The name by which clients know the session that a log calls `id`.
    fn name(&self, catalog: &Catalog, id: &str) -> String {
        let parsed = SessionId::parse(id).filter(|_| !self.agent.is_empty());
        let named = parsed.and_then(|parsed| {
            let summary = catalog.find(&parsed)?;
            Some(client_id(&parsed, &summary, &self.agent).to_owned())
        });
        named.unwrap_or_else(|| id.to_owned())
    }
}

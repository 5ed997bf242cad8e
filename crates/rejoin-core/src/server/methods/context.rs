//! The context of all methods of one connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::engine::{BoxFuture, Caller, EngineError, Upstream};
use crate::index::{Catalog, ListError, Summary};
use crate::protocol::ProtocolVersion;
use crate::protocol::error::ErrorReader;
use crate::server::error::{self, Error, ErrorForm};
use crate::server::tools::ToolSessions;
use crate::session::{Deps, Refusal, Registry};
use crate::sys::{SessionId, blocking, lock, with_causes};
use crate::transport::Responder;

use super::changes::ListChanges;
use super::params::session_id;
use super::workspace::McpServersRule;

/// The longest id of another agent that is accepted, in bytes.
const AGENT_ID_LIMIT: usize = 256;

/// A connection, of either version of the protocol. Clones share it.
#[derive(Clone, Debug)]
pub(in crate::server) struct ConnectionContext(Arc<ConnectionInner>);

#[derive(Debug)]
struct ConnectionInner {
    registry: Registry,
    /// The other tools whose conversations are listed.
    tools: Option<Arc<ToolSessions>>,
    error_form: ErrorForm,
    /// The changes in lists that the client is notified of.
    changes: ListChanges,
    /// Sessions that clients know by another id: the wrapped agent's.
    names: Mutex<HashMap<String, SessionId>>,
}

impl ConnectionContext {
    /// A connection that serves these sessions in this version.
    pub(in crate::server) fn new(
        registry: Registry,
        tools: Option<Arc<ToolSessions>>,
        version: ProtocolVersion,
    ) -> Self {
        let reader = registry.client().name().map(ErrorReader::of_client);
        let error_form = ErrorForm {
            version,
            reader: reader.unwrap_or_default(),
        };
        Self(Arc::new(ConnectionInner {
            registry,
            error_form,
            changes: ListChanges::new(tools.clone()),
            tools,
            names: Mutex::default(),
        }))
    }

    pub(in crate::server) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    pub(in crate::server) fn version(&self) -> ProtocolVersion {
        self.0.error_form.version
    }

    /// The form of the errors that the client gets.
    pub(in crate::server) fn error_form(&self) -> ErrorForm {
        self.0.error_form
    }

    /// The other tools whose conversations are listed, if there are any.
    pub(super) fn tools(&self) -> Option<Arc<ToolSessions>> {
        self.0.tools.clone()
    }

    pub(super) fn changes(&self) -> &ListChanges {
        &self.0.changes
    }

    pub(super) fn deps(&self) -> &Arc<Deps> {
        self.0.registry.deps()
    }

    /// Has the wrapped agent serve a request of the client, until that cancels it.
    pub(super) fn call(
        &self,
        agent: &dyn Upstream,
        responder: &Responder,
        method: &str,
        params: &str,
    ) -> BoxFuture<'static, Result<String, EngineError>> {
        let caller = Caller {
            client: self.deps().client.clone(),
            id: responder.id().to_owned(),
        };
        let cancelled = Box::pin(responder.cancellation().cancelled_owned());
        agent.call(caller, method, params, cancelled)
    }

    /// The wrapped agent.
    pub(super) fn upstream(&self) -> Option<&dyn Upstream> {
        self.deps().engine.upstream()
    }

    /// The wrapped agent, if it declares this capability.
    pub(super) fn upstream_with(&self, capability: &str) -> Option<&dyn Upstream> {
        self.upstream().filter(|agent| agent.declares(capability))
    }

    /// Whether this is the id of a subagent's session.
    fn is_subagent(&self, name: &str) -> bool {
        self.upstream().is_some_and(|agent| agent.is_subagent(name))
    }

    /// Whether the wrapped agent speaks the client's version, where that is not version 1.
    pub(super) fn is_native(&self) -> bool {
        self.deps().engine.is_native()
    }

    /// How a request names MCP servers, if its parameters in version 1 have them like this.
    pub(super) fn servers(&self, version_1: McpServersRule) -> McpServersRule {
        match self.version() {
            ProtocolVersion::V1 => version_1,
            ProtocolVersion::V2 if self.is_native() => McpServersRule::Native,
            ProtocolVersion::V2 => McpServersRule::Typed,
        }
    }

    /// Whether there is a store.
    pub(super) fn is_persistent(&self) -> bool {
        self.deps().library.store.is_some()
    }

    /// The session that the client knows by this name on this connection. The agent's ids may look
    /// like ours, so names come first.
    pub(in crate::server) fn named(&self, name: &str) -> Option<SessionId> {
        let known = self.names().get(name).cloned();
        known.or_else(|| SessionId::parse(name))
    }

    /// The session that a client means.
    pub(super) fn find(&self, name: &str) -> Result<SessionId, Error> {
        let named = self.named(name);
        if self.is_subagent(name) && !named.as_ref().is_some_and(|id| self.exists(id)) {
            return Err(error::of_subagent());
        }
        match named {
            Some(id) if id.as_str() != name || self.exists(&id) => Ok(id),
            Some(id) => Ok(self.agents_session(name)?.unwrap_or(id)),
            None => match session_id(name) {
                Ok(id) => Ok(id),
                Err(error) => self.agents_session(name)?.ok_or(error),
            },
        }
    }

    /// Logs that a session that a client wants opened is not found.
    pub(super) fn log_not_found(name: &str, error: &Error) {
        if error.is_not_found() {
            // The client may send anything.
            let name: String = name.chars().take(AGENT_ID_LIMIT).collect();
            tracing::info!(session = ?name, "not found");
        }
    }

    /// Whether a session is open here, or in the store.
    pub(super) fn exists(&self, id: &SessionId) -> bool {
        self.registry().has(id) || self.is_stored(id)
    }

    /// Whether a session is in the store, or a listed conversation of another tool, which comes into
    /// the store when it is opened. One that cannot be checked counts as stored: it must not be taken
    /// for another agent's, and opening it reports the failure.
    pub(super) fn is_stored(&self, id: &SessionId) -> bool {
        let deps = self.deps();
        let store = deps.library.store.as_ref();
        let is_of_tool =
            |catalog: &Arc<Catalog>| catalog.tool_files().is_listed(id).unwrap_or(false);
        store.is_some_and(|store| blocking(|| store.exists(id)).unwrap_or(true))
            || blocking(|| deps.library.catalog.as_ref().is_some_and(is_of_tool))
    }

    /// Whether this is the id of a session that was created here, and is in the trash.
    pub(super) fn is_deleted(&self, name: &str) -> bool {
        let store = self.deps().library.store.as_ref();
        let (Some(store), Some(id)) = (store, SessionId::parse(name)) else {
            return false;
        };
        // A task that has just moved its session to the trash may still be in the registry.
        if self.is_stored(&id) {
            return false;
        }
        // A trash that cannot be read counts as empty.
        let trashed = blocking(|| store.trashed()).unwrap_or_default();
        trashed.iter().any(|trashed| trashed.id == id)
    }

    /// The session in the store that an agent created and knows by this id: the wrapped agent, or
    /// another one.
    fn agents_session(&self, name: &str) -> Result<Option<SessionId>, Error> {
        let deps = self.deps();
        let failed = |error: &dyn std::error::Error| {
            error::refused(name, Refusal::Storage(with_causes(error)))
        };
        let agent = deps.engine.identity().name;
        let Some(id) = id_of_agents_session(&agent, name) else {
            return Ok(None);
        };
        let (Some(store), Some(catalog)) = (&deps.library.store, &deps.library.catalog) else {
            return Ok(None);
        };
        let wraps = self.wraps_agent();
        // If this cannot be checked, nothing can be said about any name.
        let stored = blocking(|| store.exists(&id)).map_err(|error| failed(&error))?;
        if wraps && stored {
            return Ok(Some(id));
        }
        let found = blocking(|| {
            let inner = if wraps {
                catalog.of_inner(&agent, name)?
            } else {
                None
            };
            match inner.filter(|id| self.is_stored(id)) {
                Some(id) => Ok(Some(id)),
                None => match catalog.known_as(name)? {
                    Some(id) => Ok(Some(id)),
                    None => catalog.tool_files().named(name),
                },
            }
        });
        let found = found.map_err(|error: ListError| failed(&error))?;
        Ok(found.filter(|id| self.is_stored(id)))
    }

    /// The id here of a session that the wrapped agent may have.
    pub(super) fn id_of_agents_session(&self, name: &str) -> Option<SessionId> {
        let agent = self.upstream()?;
        let may_be_one = !agent.is_subagent(name);
        may_be_one
            .then(|| id_of_agents_session(&self.deps().engine.identity().name, name))
            .flatten()
    }

    /// Whether the engine is a wrapped agent.
    pub(in crate::server) fn wraps_agent(&self) -> bool {
        self.deps().engine.wraps_agent()
    }

    /// Whether an unstable method is served: if `--unstable` is given, or if the wrapped agent
    /// declares the capability.
    pub(super) fn offers(&self, capability: &str) -> bool {
        self.deps().offers(capability)
    }

    /// Whether the client wants the session index of JetBrains' clients, and there is a store.
    pub(super) fn has_session_index(&self) -> bool {
        self.is_persistent() && self.registry().client().has_session_index
    }

    /// The id that a client which asked for the session by this name is answered with: if aliases
    /// are offered, always the same one.
    pub(super) fn answered_as(&self, name: String, id: &SessionId) -> String {
        let deps = self.deps();
        let catalog = deps
            .library
            .catalog
            .as_ref()
            .filter(|_| deps.offers_aliases());
        let summary = catalog.and_then(|catalog| blocking(|| catalog.find(id)));
        match summary {
            Some(summary) => client_id(id, &summary, &deps.engine.agent_names()).to_owned(),
            None => name,
        }
    }

    /// From now on, the client knows the session by this name.
    pub(super) fn name(&self, name: &str, id: &SessionId) {
        if name == id.as_str() {
            // The id says so itself, and there may be many.
            self.names().remove(name);
        } else {
            self.names().insert(name.to_owned(), id.clone());
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, SessionId>> {
        lock(&self.0.names)
    }
}

/// The id here of the session that an agent knows by this id; `None` if it cannot be an id.
pub(super) fn id_of_agents_session(agent: &str, name: &str) -> Option<SessionId> {
    let plain = !name.is_empty() && name.len() <= AGENT_ID_LIMIT && !name.contains(['\0', '\n']);
    plain.then(|| SessionId::of_foreign(agent, name))
}

/// The id by which clients know a session: the agent's own, if an agent with one of these names has
/// created it.
pub(super) fn client_id<'a>(id: &'a SessionId, summary: &'a Summary, agent: &[String]) -> &'a str {
    let name = summary.known_as.as_deref();
    let name = name.filter(|name| {
        let ids = agent.iter();
        let mut ids = ids.filter_map(|agent| id_of_agents_session(agent, name));
        ids.any(|agents| agents == *id)
    });
    name.unwrap_or(id.as_str())
}

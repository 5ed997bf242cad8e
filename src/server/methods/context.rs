//! What all methods of one connection work with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use agent_client_protocol::{Error, UntypedMessage};
use serde_json::Value;

use crate::engine::Relay;
use crate::index::ListError;
use crate::server::error::{self, is_not_found};
use crate::session::{Answer, Refusal, Registry};
use crate::sys::{SessionId, blocking, lock, with_causes};
use crate::transport::VerbatimResults;
use crate::transport::stash::TICKET;

use super::params::session_id;

pub(in crate::server) use crate::server::responds::Responds;

/// The longest id of another agent that is looked at, in bytes.
const FOREIGN_LIMIT: usize = 256;

/// One connection, of either version of the protocol. Clones share it.
#[derive(Clone, Debug)]
pub struct Context(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    /// How what was done is answered.
    encode: Encode,
    /// The prompts that are not answered yet, by the request's id.
    prompts: Mutex<HashMap<String, Prompted>>,
    /// Sessions that clients know by another id: the wrapped agent's.
    names: Mutex<HashMap<String, SessionId>>,
}

/// Makes the result of what was done to the session that the client knows by a name.
pub(in crate::server) type Encode = fn(&str, Answer, &VerbatimResults) -> Value;

/// A prompt that is not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Prompted {
    pub(super) session: SessionId,
    /// The id of the user's message.
    pub(super) message: String,
}

impl Context {
    /// A connection that serves these sessions, and answers so.
    pub(in crate::server) fn new(registry: Registry, encode: Encode) -> Self {
        Self(Arc::new(Shared {
            registry,
            encode,
            prompts: Mutex::default(),
            names: Mutex::default(),
        }))
    }

    pub(in crate::server) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    pub(super) fn encode(&self, name: &str, answer: Answer) -> Value {
        (self.0.encode)(name, answer, &self.registry().deps().wire.raws)
    }

    pub(super) fn prompts(&self) -> MutexGuard<'_, HashMap<String, Prompted>> {
        lock(&self.0.prompts)
    }

    /// The session that the client has come to know by this name on this connection. The agent's
    /// ids may look like ours, so names come first.
    pub(in crate::server) fn named(&self, name: &str) -> Option<SessionId> {
        let known = self.names().get(name).cloned();
        known.or_else(|| SessionId::parse(name))
    }

    /// The session that a client means.
    pub(in crate::server) fn find(&self, name: &str) -> Result<SessionId, Error> {
        match self.named(name) {
            Some(id) if id.as_str() != name || self.is_here(&id) => Ok(id),
            Some(id) => Ok(self.foreign(name)?.unwrap_or(id)),
            None => match session_id(name) {
                Ok(id) => Ok(id),
                Err(error) => self.foreign(name)?.ok_or(error),
            },
        }
    }

    /// Says in the program's own log that a session is not there that a client wants opened.
    pub(in crate::server) fn note_error(name: &str, error: &Error) {
        if is_not_found(error) {
            // It may be anything.
            let name: String = name.chars().take(FOREIGN_LIMIT).collect();
            tracing::info!(session = ?name, "not found");
        }
    }

    /// Whether somebody works on a session, or it is in the store.
    pub(in crate::server) fn is_here(&self, id: &SessionId) -> bool {
        self.registry().has(id) || self.is_kept(id)
    }

    /// Whether a session is in the store, as far as can be told: one that may be there is never
    /// taken for another agent's, and whoever opens it learns what is wrong.
    pub(super) fn is_kept(&self, id: &SessionId) -> bool {
        let store = self.registry().deps().store.as_ref();
        store.is_some_and(|store| blocking(|| store.exists(id)).unwrap_or(true))
    }

    /// Whether this is the id of a session that was made here, and is in the trash.
    pub(super) fn is_deleted(&self, name: &str) -> bool {
        let store = self.registry().deps().store.as_ref();
        let (Some(store), Some(id)) = (store, SessionId::parse(name)) else {
            return false;
        };
        if self.is_here(&id) {
            return false;
        }
        // A trash that cannot be read says nothing.
        let trashed = blocking(|| store.trashed()).unwrap_or_default();
        trashed.iter().any(|trashed| trashed.id == id)
    }

    /// The session in the store that an agent made, and that goes by this name: with the agent
    /// behind the engine, or with another one.
    fn foreign(&self, name: &str) -> Result<Option<SessionId>, Error> {
        let deps = self.registry().deps();
        let failed = |error: &dyn std::error::Error| {
            let refusal = Refusal::Storage(with_causes(error));
            error::refused(name, refusal, &deps.wire.raws)
        };
        let agent = deps.engine.identity().name;
        let Some(id) = foreign_id(&agent, name) else {
            return Ok(None);
        };
        let (Some(store), Some(catalog)) = (&deps.store, &deps.catalog) else {
            return Ok(None);
        };
        let wraps = deps.engine.relay().is_some();
        // Where this cannot be told, nothing can be told of any name.
        let kept = blocking(|| store.exists(&id)).map_err(|error| failed(&error))?;
        if wraps && kept {
            return Ok(Some(id));
        }
        let found = blocking(|| {
            let inner = if wraps {
                catalog.of_inner(&agent, name)?
            } else {
                None
            };
            match inner.filter(|id| self.is_kept(id)) {
                Some(id) => Ok(Some(id)),
                None => catalog.known_as(name),
            }
        });
        let found = found.map_err(|error: ListError| failed(&error))?;
        Ok(found.filter(|id| self.is_kept(id)))
    }

    /// The id here of a session that the agent behind the engine may have.
    pub(super) fn foreign_id(&self, name: &str) -> Option<SessionId> {
        let deps = self.registry().deps();
        deps.engine.relay()?;
        foreign_id(&deps.engine.identity().name, name)
    }

    /// The agent behind the engine, if there is one.
    pub(super) fn relay(&self) -> Option<&dyn Relay> {
        self.registry().deps().engine.relay()
    }

    /// Whether what the protocol calls unstable is served: if it was asked for, or if the agent
    /// behind the engine declares it, for which ours stands in.
    pub(in crate::server) fn offers(&self, capability: &str) -> bool {
        let deps = self.registry().deps();
        let theirs = |relay: &dyn Relay| relay.declares(capability);
        deps.store.is_some() && (deps.unstable || self.relay().is_some_and(theirs))
    }

    /// From now on, the client knows the session by this name.
    pub(super) fn name(&self, name: &str, id: &SessionId) {
        if name == id.as_str() {
            // It says so itself, and as many are loaded as there are.
            self.names().remove(name);
        } else {
            self.names().insert(name.to_owned(), id.clone());
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<String, SessionId>> {
        lock(&self.0.names)
    }

    /// The parameters of a message, as the client wrote them.
    pub(in crate::server) fn params(&self, message: &UntypedMessage) -> String {
        let ticket = message.params().get(TICKET).and_then(Value::as_u64);
        let stash = &self.registry().deps().wire.stash;
        ticket
            .and_then(|ticket| stash.take(ticket))
            .unwrap_or_else(|| "{}".to_owned())
    }
}

/// The id here of a session that an agent knows by this name; none if the name is nobody's.
pub(super) fn foreign_id(agent: &str, name: &str) -> Option<SessionId> {
    let plain = !name.is_empty() && name.len() <= FOREIGN_LIMIT && !name.contains(['\0', '\n']);
    plain.then(|| SessionId::of_foreign(agent, name))
}

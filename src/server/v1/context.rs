//! What all methods of one connection work with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::Responder;
use serde_json::Value;

use crate::session::Registry;
use crate::sys::SessionId;
use crate::wire::stash::TICKET;

/// One connection of protocol version 1. Clones share it.
#[derive(Clone, Debug)]
pub struct Context(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    /// The sessions of prompts that are not answered yet, by the request's id.
    prompts: Mutex<HashMap<String, SessionId>>,
}

/// A request's way back.
pub(super) type Responds = Responder<Value>;

impl Context {
    /// A connection that serves these sessions.
    pub fn new(registry: Registry) -> Self {
        Self(Arc::new(Shared {
            registry,
            prompts: Mutex::default(),
        }))
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    pub(super) fn prompts(&self) -> MutexGuard<'_, HashMap<String, SessionId>> {
        self.0
            .prompts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The parameters of a message, as the client wrote them.
    pub(super) fn params(&self, message: &UntypedMessage) -> String {
        let ticket = message.params().get(TICKET).and_then(Value::as_u64);
        let stash = &self.registry().deps().wire.stash;
        ticket
            .and_then(|ticket| stash.take(ticket))
            .unwrap_or_else(|| "{}".to_owned())
    }
}

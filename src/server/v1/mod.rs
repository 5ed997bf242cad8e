//! Protocol version 1: one file for each method, which decodes, calls, encodes.

mod cancel;
mod close;
mod content;
mod delete;
mod initialize;
mod list;
mod load;
mod new;
mod params;
mod place;
mod prompt;
mod reply;
mod resume;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::UntypedMessage;
use agent_client_protocol::v1::Responder;
use serde_json::Value;

use crate::session::Registry;
use crate::sys::SessionId;
use crate::wire::stash::TICKET;

use super::error;

/// Serves one connection of protocol version 1. Clones share it.
#[derive(Clone, Debug)]
pub struct Server(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registry: Registry,
    /// The sessions of prompts that are not answered yet, by the request's id.
    prompts: Mutex<HashMap<String, SessionId>>,
}

/// A request's way back, and what it is called.
type Responds = Responder<Value>;

impl Server {
    /// A server over these sessions.
    pub fn new(registry: Registry) -> Self {
        Self(Arc::new(Shared {
            registry,
            prompts: Mutex::default(),
        }))
    }

    /// Serves a request. Returns at once: whatever takes time goes on elsewhere and answers by
    /// itself.
    pub fn request(&self, message: &UntypedMessage, responder: Responds) {
        if message.method() == "initialize" {
            let params = self.registry().deps().wire.stash.take_initialize();
            let result = initialize::serve(self, params.as_deref());
            return reply::answer(responder, Ok(result));
        }
        let params = self.params(message);
        let persistent = self.registry().deps().store.is_some();
        match message.method() {
            "session/new" => new::serve(self, &params, responder),
            "session/prompt" => prompt::serve(self, &params, responder),
            "session/close" => close::serve(self, &params, responder),
            "session/load" if persistent => load::serve(self, &params, responder),
            "session/resume" if persistent => resume::serve(self, &params, responder),
            "session/list" if persistent => list::serve(self, &params, responder),
            "session/delete" if persistent => delete::serve(self, &params, responder),
            "session/load" => {
                reply::answer(
                    responder,
                    Err(error::undeclared("session/load", "loadSession")),
                );
            }
            method @ ("session/resume" | "session/list" | "session/delete") => {
                let capability = method.replace("session/", "sessionCapabilities.");
                reply::answer(responder, Err(error::undeclared(method, &capability)));
            }
            method => reply::answer(responder, Err(error::unknown_method(method))),
        }
    }

    /// Serves a notification. What is unknown or makes no sense is ignored, as JSON-RPC has it.
    pub fn notification(&self, message: &UntypedMessage) {
        let params = self.params(message);
        match message.method() {
            "session/cancel" => cancel::session(self, &params),
            "$/cancel_request" => cancel::request(self, &params),
            method => tracing::debug!(method, "unknown notification"),
        }
    }

    fn registry(&self) -> &Registry {
        &self.0.registry
    }

    fn prompts(&self) -> MutexGuard<'_, HashMap<String, SessionId>> {
        self.0
            .prompts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn params(&self, message: &UntypedMessage) -> String {
        let ticket = message.params().get(TICKET).and_then(Value::as_u64);
        let stash = &self.registry().deps().wire.stash;
        ticket
            .and_then(|ticket| stash.take(ticket))
            .unwrap_or_else(|| "{}".to_owned())
    }
}

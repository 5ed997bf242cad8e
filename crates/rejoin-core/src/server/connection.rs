//! A client's connection: its handshake and its messages.

use std::sync::Arc;
use std::time::Duration;

use crate::json::string_member;
use crate::protocol::ProtocolVersion;
use crate::protocol::method::{CANCEL_REQUEST, INITIALIZE, SESSION_CANCEL};
use crate::session::{ConnectionRole, Registry};
use crate::sys::socket::Closer;
use crate::sys::waiter::Waiter;
use crate::transport::{ClientConnection, Incoming, IncomingRequest, Received};

use super::error::{self, Error};
use super::methods::{self, ConnectionContext, check_repeated, choose_version, client};
use super::process::Process;
use super::serve::stalled;
use super::shutdown::end_of_guest;

/// How long it may take to look up in the store what a message is about.
const LOOK_UP: Duration = Duration::from_secs(5);

/// A client with which the process does not end.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) wire: Arc<ClientConnection>,
    /// A message that was received already.
    pub(super) first: Option<Received>,
    pub(super) incoming: Incoming,
    /// Closes the connection when it is dropped, if that needs more than the end of our output.
    pub(super) closer: Option<Closer>,
    /// Whether the client only looks on.
    pub(super) observes: bool,
}

/// Serves a client with which the process does not end, until its input has ended or it no longer
/// reads. Its turns go on to their end.
pub(super) async fn serve_guest(process: &Process, guest: Guest) {
    let (wire, mut incoming) = (guest.wire, guest.incoming);
    let first = match guest.first {
        None => incoming.next().await,
        first => first,
    };
    let version = match &first {
        Some(Received::Request(request)) => choose_version(&request.params).ok(),
        _ => None,
    };
    let role = if guest.observes {
        ConnectionRole::Observer
    } else {
        ConnectionRole::Guest
    };
    let introduced = process.introduce().await;
    let registry = process.begin(wire.clone(), role, version);
    let served = async {
        let mut connection = Connection::new(process, &registry);
        if let Some(first) = first {
            connection.message(first).await;
        }
        drop(introduced);
        connection.serve(incoming).await;
        end_of_guest(&registry).await;
    };
    tokio::select! {
        () = served => {}
        () = wire.writer.gone() => {}
        () = async { wire.ended().await; stalled(&wire.writer).await } => {
            tracing::info!(client = registry.client_name(), "a client does not read");
        }
    }
    drop(guest.closer);
    tracing::info!(client = registry.client_name(), "a client has gone");
    registry.detach().await;
    process.forget(&registry);
}

/// Serves messages until the end of input.
pub(super) async fn serve_messages(process: &Process, registry: &Registry, incoming: Incoming) {
    Connection::new(process, registry).serve(incoming).await;
}

/// A connection and how far its handshake is.
struct Connection<'a> {
    process: &'a Process,
    registry: &'a Registry,
    /// `None` before `initialize` has been answered with a result.
    context: Option<ConnectionContext>,
    /// Whether requests other than `initialize` have been served.
    has_requests: bool,
}

impl<'a> Connection<'a> {
    fn new(process: &'a Process, registry: &'a Registry) -> Self {
        Self {
            process,
            registry,
            context: None,
            has_requests: false,
        }
    }

    /// Serves messages until the end of input.
    async fn serve(&mut self, mut incoming: Incoming) {
        let served = async {
            while let Some(message) = incoming.next().await {
                self.message(message).await;
            }
        };
        // Other messages wait meanwhile.
        Waiter::at_most(LOOK_UP).scope(served).await;
    }

    async fn message(&mut self, message: Received) {
        self.keep_order(&message).await;
        match message {
            Received::Request(request) => self.request(request).await,
            // Before `initialize`, there is nothing that a notification could be about.
            Received::Notification { method, params } => {
                if let Some(context) = &self.context {
                    methods::notification(context, &method, &params);
                }
            }
        }
    }

    /// Waits until what came before a message has left for the wrapped agent, as far as nothing has to
    /// wait: messages of different sessions take different ways. A cancellation waits for nothing.
    async fn keep_order(&self, message: &Received) {
        let Some(context) = self
            .context
            .as_ref()
            .filter(|context| context.wraps_agent())
        else {
            return;
        };
        let (method, params) = match message {
            Received::Request(request) => (&request.method, &request.params),
            Received::Notification { method, params } => (method, params),
        };
        if !matches!(method.as_str(), SESSION_CANCEL | CANCEL_REQUEST) {
            let name = string_member(params, "sessionId");
            let next = name.and_then(|name| context.named(&name));
            self.registry.taken(next.as_ref()).await;
        }
    }

    async fn request(&mut self, request: IncomingRequest) {
        let is_initialize = request.method == INITIALIZE;
        let context = match self.check(&request, is_initialize) {
            Ok(context) => context,
            Err(error) => {
                let form = self.context.as_ref().map(ConnectionContext::error_form);
                let error = error.json(form.unwrap_or_default());
                return request.responder.answer(Err(error));
            }
        };
        if !is_initialize {
            self.has_requests = true;
            return methods::request(&context, request);
        }
        if self.context.is_some() {
            // Nothing waits for a repeated one: a wrapped agent that signs in again may need a
            // response of the client first.
            tokio::spawn(async move {
                methods::initialize(&context, request.params, request.responder).await;
            });
            return;
        }
        // What follows waits for the response, so that a file of requests can be piped in.
        if methods::initialize(&context, request.params, request.responder).await {
            self.has_requests = false;
            self.context = Some(context);
        }
    }

    /// The context in which a request is served, if it is allowed at this time.
    fn check(
        &self,
        request: &IncomingRequest,
        is_initialize: bool,
    ) -> Result<ConnectionContext, Error> {
        let context = match &self.context {
            None if !is_initialize => {
                return Err(error::invalid_request(
                    "the connection is not initialized: send `initialize` first",
                ));
            }
            None => {
                let version = choose_version(&request.params)?;
                let goes_back = self.registry.deps().offers("rewind");
                let client = client(&request.params, version, goes_back);
                let registry = self.registry.for_client(client);
                ConnectionContext::new(registry, self.process.tools().cloned(), version)
            }
            Some(context) => {
                if is_initialize {
                    choose_version(&request.params)?;
                    check_repeated(&request.params, context.version(), self.has_requests)?;
                }
                context.clone()
            }
        };
        if context.version() == ProtocolVersion::V2 && request.responder.id() == "null" {
            return Err(error::invalid_request(
                "Invalid request: ACP protocol v2 request ids must be a string or an integer, \
                 not null",
            ));
        }
        Ok(context)
    }
}

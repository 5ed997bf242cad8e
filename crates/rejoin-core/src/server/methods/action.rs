//! The ways to serve a request: an answer at once, an answer later, or a request to a session.

use crate::engine::BoxFuture;
use crate::protocol::method::{NOT_FOUND_AS_RESOURCE, SESSION_EDIT_PROMPT, SESSION_PROMPT};
use crate::server::error::{self, Error, ErrorForm};
use crate::session::{Registry, Reply, Request as SessionRequest};
use crate::sys::SessionId;
use crate::transport::{IncomingRequest, Responder, Room};

use super::changes::Hold;
use super::context::ConnectionContext;
use super::result;

/// The way in which a request is served.
pub(super) enum RequestAction {
    /// The result, as JSON text.
    Answer(String),
    /// A session answers.
    Session(ToSession),
    /// The answer comes later, together with the room that it has until it is written.
    Later(BoxFuture<'static, Later>),
    /// The answer comes later, as in `Later`, with something to keep until it is written.
    Held(BoxFuture<'static, (Later, Hold)>),
}

/// An answer that came later, and its room.
pub(super) type Later = (Result<String, Error>, Option<Room>);

/// A request to a session.
pub(super) struct ToSession {
    /// The id by which the client knows the session.
    name: String,
    /// The id that refusals name.
    refused_as: String,
    send: Send,
    /// Kept until the request is answered.
    hold: Option<Hold>,
}

/// Sends a request with the reply that answers it.
type Send = Box<dyn FnOnce(&Registry, Reply)>;

impl RequestAction {
    /// A request to the session `id`, which the client knows as `name`.
    pub(super) fn session(
        id: SessionId,
        name: String,
        request: impl FnOnce(Reply) -> SessionRequest<Reply> + 'static,
    ) -> Self {
        Self::sent(name, move |registry, reply| {
            registry.send(&id, request(reply));
        })
    }

    /// A request that `send` sends to the session which the client knows as `name`.
    pub(super) fn sent(name: String, send: impl FnOnce(&Registry, Reply) + 'static) -> Self {
        Self::Session(ToSession {
            refused_as: name.clone(),
            name,
            send: Box::new(send),
            hold: None,
        })
    }

    /// The creation of the session `name` from the session `source`, which refusals name.
    pub(super) fn fork(
        name: String,
        source: String,
        hold: Hold,
        send: impl FnOnce(&Registry, Reply) + 'static,
    ) -> Self {
        Self::Session(ToSession {
            name,
            refused_as: source,
            send: Box::new(send),
            hold: Some(hold),
        })
    }

    /// Serves the request `method` by this action, or answers with the error.
    pub(super) fn perform(
        action: Result<Self, Error>,
        context: &ConnectionContext,
        request: IncomingRequest,
    ) {
        let registry = context.registry();
        let is_prompt = [SESSION_PROMPT, SESSION_EDIT_PROMPT].contains(&&*request.method);
        let answer = Answering::new(context, request);
        match action {
            Err(error) => answer.send(Err(error)),
            Ok(Self::Answer(result)) => answer.send(Ok(result)),
            Ok(Self::Session(call)) => {
                let under_way = if is_prompt {
                    registry.turns()
                } else {
                    registry.requests()
                };
                let cancellation = answer.responder.cancellation();
                let (name, refused_as, version) = (call.name, call.refused_as, context.version());
                let hold = call.hold;
                let reply = Reply::new(under_way.begin(), cancellation, move |outcome| {
                    answer.send(match outcome {
                        Ok(done) => Ok(result::result(version, &name, done)),
                        Err(refusal) => Err(error::refused(&refused_as, refusal)),
                    });
                    drop(hold);
                });
                (call.send)(registry, reply);
            }
            Ok(Self::Later(later)) => {
                let later = async { (later.await, None) };
                answer.later(context, later);
            }
            Ok(Self::Held(later)) => {
                let later = async {
                    let (later, hold) = later.await;
                    (later, Some(hold))
                };
                answer.later(context, later);
            }
        }
    }
}

/// Answers one request.
struct Answering {
    responder: Responder,
    form: ErrorForm,
    is_unstable: bool,
}

impl Answering {
    fn new(context: &ConnectionContext, request: IncomingRequest) -> Self {
        let is_unstable = NOT_FOUND_AS_RESOURCE.contains(&request.method.as_str());
        Self {
            responder: request.responder,
            form: context.error_form(),
            is_unstable,
        }
    }

    /// Answers when the answer is there, unless the client has gone.
    fn later(
        mut self,
        context: &ConnectionContext,
        later: impl Future<Output = (Later, Option<Hold>)> + std::marker::Send + 'static,
    ) {
        let busy = context.registry().requests().begin();
        let wire = context.deps().client.clone();
        tokio::spawn(async move {
            let (later, hold) = tokio::select! {
                later = later => later,
                () = wire.writer.gone() => return self.responder.abandon(),
            };
            let (result, room) = later;
            self.responder.hold(room);
            self.send(result);
            drop((busy, hold));
        });
    }

    fn send(self, result: Result<String, Error>) {
        let outcome = result.map_err(|error| {
            let error = if self.is_unstable {
                error.unstable()
            } else {
                error
            };
            error.json(self.form)
        });
        self.responder.answer(outcome);
    }
}

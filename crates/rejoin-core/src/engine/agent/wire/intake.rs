//! Reads an agent's output on a thread of its own, and dispatches each message.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::engine::{Block, Caller, EngineEvent, Question, SpareTexts};
use crate::json::{text_member, with_members};
use crate::protocol::error::{INTERNAL_ERROR, error_json};
use crate::protocol::method;
use crate::transport::Outcome;
use crate::transport::pump::{LineSink, pump};

use super::awaited;
use super::connection::AgentConnection;
use super::context_clear;
use super::extensions::for_client;
use super::terminal_output;
use crate::engine::agent::parse::{
    self, AgentMessage, MessageReader, NamedSession, Payload, read, session_of,
};
use crate::engine::agent::route::SessionRoute;

/// How much is read at once, in bytes.
const BLOCK: usize = 128 * 1024;

/// The longest line that is accepted, in bytes. No client accepts longer ones.
const LINE_LIMIT: usize = 64 * 1024 * 1024;

/// How many bytes of updates are passed on at once. Their records in the log, which are half as long again,
/// are then shorter than what glibc maps anew each time: 128 KiB.
const FLUSH_AT: usize = 64 * 1024;

/// How much memory is taken at once for updates that are still to come, in bytes.
const MAX_ROOM: usize = FLUSH_AT + FLUSH_AT / 8;

/// How many invalid lines are logged.
const MAX_WARNINGS: u32 = 10;

/// The thread's state.
struct Intake {
    connection: Arc<AgentConnection>,
    reader: MessageReader,
    /// Updates that are passed on together, and the session that they belong to.
    block: Block,
    spare: SpareTexts,
    route: Option<Recipient>,
    invalid_lines: u32,
}

/// Where the updates of a session go.
struct Recipient {
    session: String,
    route: Arc<SessionRoute>,
    /// Whether it is the session of a subagent, within the session of the route.
    is_subagent: bool,
    /// The count of changes up to which this is known to be right.
    changes: u64,
}

/// Reads until the agent's output ends.
pub(in crate::engine::agent) fn run(connection: Arc<AgentConnection>, input: impl Read) {
    let mut intake = Intake {
        connection,
        reader: MessageReader::default(),
        block: Block::default(),
        spare: SpareTexts::default(),
        route: None,
        invalid_lines: 0,
    };
    // An error of the pipe is the end of the output.
    pump(input, BLOCK, LINE_LIMIT, &mut intake).ok();
    intake.end_subagents();
    intake.connection.finish();
}

impl LineSink for Intake {
    fn line(&mut self, line: &[u8]) {
        self.message(line);
    }

    /// Handles the start of a line that is too long. If it is a response, its request fails.
    fn too_long(&mut self, start: &[u8]) {
        self.invalid_line("it is too long");
        let id = crate::transport::message::id_in(start);
        if let Some(id) = id {
            let error = error_json(INTERNAL_ERROR, "the agent's response is too long");
            self.connection.resolve(&id, Err(error));
        }
    }

    fn rest(&mut self) {
        self.flush();
    }
}

impl Intake {
    fn message(&mut self, line: &[u8]) {
        match self.reader.read(line) {
            AgentMessage::Update { session, payload } => {
                if self.is_of(&session) {
                    self.update(payload);
                } else {
                    self.flush();
                    if let Some(route) = self.connection.routes.get(&session) {
                        if self.connection.routes.has_early(&session) {
                            self.deliver_early();
                        }
                        self.recipient(session.into_owned(), route, false);
                        self.update(payload);
                    } else if let Some(route) = self.connection.routes.of_subagent(&session) {
                        self.recipient(session.into_owned(), route, true);
                        self.update(payload);
                    } else if !self.connection.routes.keep_early(&session, line) {
                        tracing::debug!("ignoring an update of a session that is not open");
                    }
                }
                if self.block.bytes() >= FLUSH_AT {
                    self.flush();
                }
            }
            AgentMessage::Request {
                id,
                method,
                params,
                session,
            } => {
                self.flush();
                if let Some(session) = session {
                    if self.connection.routes.get(&session.id).is_none() {
                        if let Some(route) = self.connection.routes.of_subagent(&session.id) {
                            return self.ask(&route, id, &method, &params, None);
                        }
                        if self.is_announced_early(&session.id) {
                            if !self.connection.routes.keep_early(&session.id, line) {
                                self.refuse(id);
                            }
                            return;
                        }
                    }
                    match self.connection.routes.of_request(&session.id) {
                        Some(route) => self.ask(&route, id, &method, &params, Some(session.range)),
                        None if self.connection.routes.keep_early(&session.id, line) => {}
                        None => self.refuse(id),
                    }
                } else {
                    self.ask_without_session(id, &method, &params);
                }
            }
            AgentMessage::Notification {
                method,
                params,
                session,
            } => {
                self.flush();
                let known = |session: &NamedSession<'_>| {
                    self.connection.routes.get(&session.id).is_some()
                        || self.connection.routes.of_subagent(&session.id).is_some()
                };
                if let Some(session) = session.as_ref().filter(|session| !known(session))
                    && self.connection.routes.keep_early(&session.id, line)
                {
                    return;
                }
                self.notification(&method, &params, session);
            }
            AgentMessage::Response { id, outcome } => {
                self.flush();
                let outcome: Outcome = match outcome {
                    parse::ResponseOutcome::Result(result) => Ok(result.into_owned()),
                    parse::ResponseOutcome::Error(error) => Err(error.into_owned()),
                };
                if let Some(awaited) = self.connection.take_awaited(id) {
                    awaited.arrived(&outcome);
                }
                if !self.connection.resolve(id, outcome) {
                    tracing::debug!("ignoring a response without a pending request");
                }
                self.deliver_early();
            }
            AgentMessage::Blank => {}
            AgentMessage::Invalid(reason) => self.invalid_line(reason),
        }
    }

    fn is_of(&self, session: &str) -> bool {
        self.route.as_ref().is_some_and(|recipient| {
            recipient.session == session && recipient.changes == self.connection.routes.changes()
        })
    }

    /// The updates that follow are of this session.
    fn recipient(&mut self, session: String, route: Arc<SessionRoute>, is_subagent: bool) {
        let changes = self.connection.routes.changes();
        self.route = Some(Recipient {
            session,
            route,
            is_subagent,
            changes,
        });
    }

    /// Takes an update of the current session.
    fn update(&mut self, mut payload: Payload<'_>) {
        let Some(recipient) = &self.route else {
            return;
        };
        let route = &recipient.route;
        if let Some(renamed) = route.own_references(&payload) {
            payload = renamed;
        }
        if route.is_native && !recipient.is_subagent && payload.is_state() {
            let (route, report) = (route.clone(), route.report(&payload));
            self.flush();
            return awaited::reported(&route, report);
        }
        if route.is_native && !recipient.is_subagent {
            // Nothing is collected then: that was passed on when the report came.
            awaited::reported(route, route.earlier_report());
        }
        if let Some(subagent) = payload.subagent() {
            self.connection.routes.announce_subagent(&subagent, route);
        }
        if recipient.is_subagent {
            route.subagent_update(&recipient.session, &payload, &mut self.block);
        } else {
            route.update(payload, &mut self.block);
        }
    }

    /// Reports the end of all subagents, since the agent has ended.
    fn end_subagents(&mut self) {
        self.flush();
        if self.connection.life.is_leaving() {
            // The next load ends them.
            return;
        }
        for route in self.connection.routes.all() {
            let block = route.end_subagents();
            if !block.is_empty() {
                // Sending fails if the session was closed.
                route.out.send_blocking(EngineEvent::Block(block)).ok();
            }
            if route.is_busy() {
                route.out.send_blocking(EngineEvent::State(None)).ok();
            }
        }
    }

    /// Delivers the messages that came before their sessions had a route. Those that still have none
    /// are kept while a request is pending that creates a session, and dropped otherwise.
    fn deliver_early(&mut self) {
        for line in self.connection.routes.take_early() {
            self.message(&line);
        }
        self.flush();
        self.route = None;
    }

    /// Whether a message that is kept announces this subagent.
    fn is_announced_early(&self, session: &str) -> bool {
        let announces = |line: &[u8]| match read(line) {
            AgentMessage::Update { payload, .. } => payload.subagent().as_deref() == Some(session),
            _ => false,
        };
        self.connection.routes.any_early(announces)
    }

    /// Passes on the collected updates. Blocks if log and client are slower than the agent.
    fn flush(&mut self) {
        let Some(recipient) = &self.route else {
            return;
        };
        if !self.block.is_empty() {
            // The next is often of this size.
            let next = self
                .spare
                .block(self.block.bytes().min(MAX_ROOM), self.block.len());
            let block = std::mem::replace(&mut self.block, next);
            // Sending fails if the session was closed.
            recipient
                .route
                .out
                .send_blocking(EngineEvent::Block(block))
                .ok();
        }
    }

    /// Refuses a request about a session that is not open.
    fn refuse(&self, id: &str) {
        let error = r#"{"code":-32602,"message":"the session is not open"}"#;
        self.connection.respond(id, &Err(error.to_owned()));
    }

    /// The parameters with what the client knows in place of what only the agent does, and the new position
    /// of the session's id.
    fn translated(&self, method: &str, params: String, at: Range<usize>) -> (String, Range<usize>) {
        let before = params.len();
        let translated = for_client(&self.connection.routes, method, params);
        let at = match session_of(&translated) {
            Some(session) if translated.len() != before => session.range,
            _ => at,
        };
        (translated, at)
    }

    /// Forwards a request of the agent without a session, and its response. It goes to the client whose
    /// request it names, if it names one, and its id becomes that of the client.
    fn ask_without_session(&self, id: &str, method: &str, params: &str) {
        let connection = self.connection.clone();
        let named = text_member(params, "requestId").and_then(|id| connection.origin(id));
        let (params, client) = match named {
            Some(Caller { client, id }) => {
                let params = with_members(params, &[], &[("requestId", &id)]);
                (params, Some(client))
            }
            None => (params.to_owned(), connection.clients.latest()),
        };
        let params = for_client(&connection.routes, method, params);
        let Some(client) = client else {
            return connection.respond(id, &gone());
        };
        let Some(cancel) = connection.begin(id, params.len()) else {
            return;
        };
        let id = id.to_owned();
        // Sent before the next message is read, so requests keep their order.
        let call = self
            .connection
            .runtime
            .block_on(client.ask(method, &params));
        self.connection.runtime.spawn(async move {
            let outcome = match call {
                Some(call) => client.answer_to(call, cancel.cancelled()).await,
                None => None,
            };
            connection.respond(&id, &outcome.unwrap_or_else(gone));
        });
    }

    /// Forwards a request of the agent about a session, and its response. `at` is the position of the
    /// session's id in the parameters; `None` if the session is a subagent's.
    fn ask(
        &self,
        route: &Arc<SessionRoute>,
        id: &str,
        method: &str,
        params: &str,
        at: Option<Range<usize>>,
    ) {
        let (connection, route) = (self.connection.clone(), route.clone());
        let (id, method) = (id.to_owned(), method.to_owned());
        let Some(cancel) = connection.begin(&id, params.len()) else {
            return;
        };
        let call = text_member(params, "toolCall");
        let call = call.and_then(|call| route.with_client_references(call));
        let renamed = call.map(|call| with_members(params, &[], &[("toolCall", &call)]));
        let (params, at) = match &renamed {
            Some(params) => {
                let at = at.and_then(|_| Some(session_of(params)?.range));
                (params.as_str(), at)
            }
            None => (params, at),
        };
        let is_native = connection.is_native();
        let (params, at) = match at {
            Some(at) => {
                let (params, at) = if is_native {
                    (params.to_owned(), at)
                } else {
                    with_client_ids(&route, params, at)
                };
                let (params, at) = self.translated(&method, params, at);
                (params, Some(at))
            }
            None => (params.to_owned(), None),
        };
        let (reply, answer) = oneshot::channel();
        let withdrawn = cancel.clone();
        let unanswered = move || {
            if withdrawn.is_cancelled() {
                Err(r#"{"code":-32800,"message":"Request cancelled"}"#.to_owned())
            } else {
                gone()
            }
        };
        let question = Question {
            logged: matches!(
                method.as_str(),
                method::REQUEST_PERMISSION | method::ELICITATION_CREATE
            ),
            method: method.clone(),
            params: params.clone(),
            session: at.clone(),
            is_native,
            cancel,
            reply,
        };
        if method == method::TERMINAL_RELEASE
            && !is_native
            && let Some(at) = at
        {
            // The terminal's output is requested while the terminal still exists.
            self.connection.runtime.spawn(async move {
                terminal_output::capture(&route, &params, at).await;
                if route.out.send(EngineEvent::Ask(question)).await.is_ok() {
                    connection.respond(&id, &answer.await.unwrap_or_else(|_| unanswered()));
                } else {
                    connection.respond(&id, &gone());
                }
            });
            return;
        }
        if route.out.send_blocking(EngineEvent::Ask(question)).is_err() {
            return connection.respond(&id, &gone());
        }
        self.connection.runtime.spawn(async move {
            let outcome = answer.await.unwrap_or_else(|_| unanswered());
            if at.is_some() && method == method::REQUEST_PERMISSION {
                context_clear::prepare(&connection, &route, &outcome).await;
            }
            if at.is_some() && !is_native {
                terminal_output::record(&route, &method, &params, &outcome).await;
            }
            connection.respond(&id, &outcome);
        });
    }

    fn notification(&mut self, method: &str, params: &str, session: Option<NamedSession<'_>>) {
        if method == method::CANCEL_REQUEST {
            if let Some(id) = text_member(params, "requestId") {
                self.connection.cancel(id);
            }
            return;
        }
        if method == method::SESSION_UPDATE {
            // A valid one was parsed as an update.
            return self.invalid_line("it is a `session/update` without an update");
        }
        let Some(session) = session else {
            if let Some(client) = self.connection.clients.latest() {
                let params = for_client(&self.connection.routes, method, params.to_owned());
                self.connection
                    .runtime
                    .block_on(client.notify(method, &params));
            }
            return;
        };
        let (route, params, session) = if let Some(route) = self.connection.routes.get(&session.id)
        {
            let (params, at) = if route.is_native {
                (params.to_owned(), session.range)
            } else {
                with_client_ids(&route, params, session.range)
            };
            let (params, at) = self.translated(method, params, at);
            (route, params, Some(at))
        } else if let Some(route) = self.connection.routes.of_subagent(&session.id) {
            (route, params.to_owned(), None)
        } else {
            tracing::debug!("ignoring a notification of a session that is not open");
            return;
        };
        let event = EngineEvent::Notify {
            method: method.to_owned(),
            params,
            session,
        };
        route.out.send_blocking(event).ok();
    }

    fn invalid_line(&mut self, reason: &str) {
        self.invalid_lines = self.invalid_lines.saturating_add(1);
        if self.invalid_lines <= MAX_WARNINGS {
            tracing::warn!(
                reason,
                "ignoring output of the agent that is not a valid message"
            );
        }
    }
}

/// The parameters with the client's ids of tool calls, and the new position of the session's id.
fn with_client_ids(route: &SessionRoute, params: &str, at: Range<usize>) -> (String, Range<usize>) {
    match route.with_normalizer(|ids| ids.outgoing(params)) {
        Some(params) => {
            let at = session_of(&params).map_or(at, |session| session.range);
            (params, at)
        }
        None => (params.to_owned(), at),
    }
}

/// The error for an agent whose client cannot respond.
fn gone() -> Outcome {
    Err(r#"{"code":-32603,"message":"the client has disconnected"}"#.to_owned())
}

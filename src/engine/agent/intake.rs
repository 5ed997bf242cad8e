//! Reads what an agent says, on a thread of its own, and takes each message where it belongs.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::engine::{Block, EngineEvent, Question};
use crate::json::text_member;
use crate::transport::Outcome;
use crate::transport::pump::{Lines, pump};

use super::link::{Ending, Link};
use super::route::Route;
use super::screens;
use super::shape::{self, Message, Named, Reader, read};

/// How much is read at once, in bytes.
const BLOCK: usize = 256 * 1024;

/// The longest line that is taken, in bytes. No client takes longer ones.
const LINE: usize = 64 * 1024 * 1024;

/// How much is handed on at once, in bytes.
const HANDED: usize = 128 * 1024;

/// How many lines of junk are told of.
const TOLD: u32 = 10;

/// The thread's state.
struct Intake {
    link: Arc<Link>,
    reader: Reader,
    /// Updates that are handed on together, and whose they are.
    block: Block,
    route: Option<(String, Arc<Route>)>,
    junk: u32,
}

/// Reads until the agent's output ends.
pub(super) fn run(link: Arc<Link>, input: impl Read) {
    let mut intake = Intake {
        link,
        reader: Reader::default(),
        block: Block::default(),
        route: None,
        junk: 0,
    };
    // An agent whose output breaks has said all it will say.
    pump(input, BLOCK, LINE, &mut intake).ok();
    intake.link.finish();
}

impl Lines for Intake {
    fn line(&mut self, line: &[u8]) {
        self.message(line);
    }

    /// A response that is too long is a response all the same: who waits for it is told.
    fn too_long(&mut self, start: &[u8]) {
        self.junk("a line that is too long");
        let id = crate::transport::message::id_in(start);
        if let Some(id) = id {
            let error = r#"{"code":-32603,"message":"the agent's response was too long to be taken","data":{"error":"internal_error","details":"the agent's response was too long to be taken"}}"#;
            self.link.settle(&id, Err(error.to_owned()));
        }
    }

    fn rest(&mut self) {
        self.hand_on();
    }
}

impl Intake {
    fn message(&mut self, line: &[u8]) {
        match self.reader.read(line) {
            Message::Update { session, payload } => {
                if self.is_of(&session) {
                    if let Some((_, route)) = &self.route {
                        route.update(payload, &mut self.block);
                    }
                } else {
                    self.hand_on();
                    match self.link.route(&session) {
                        Some(route) => {
                            self.claim(&session, &route);
                            route.update(payload, &mut self.block);
                            self.route = Some((session.into_owned(), route));
                        }
                        None if self.link.keep(&session, line) => {}
                        None => tracing::debug!("an update of a session that is not open"),
                    }
                }
                if self.block.bytes() >= HANDED {
                    self.hand_on();
                }
            }
            Message::Request {
                id,
                method,
                params,
                session,
            } => {
                self.hand_on();
                if let Some(session) = session {
                    match self.link.route_of_request(&session.id) {
                        Some(route) => self.ask(&route, id, &method, &params, session.range),
                        None if self.link.keep(&session.id, line) => {}
                        None => self.refuse(id),
                    }
                } else {
                    self.ask_beside_sessions(id, &method, &params);
                }
            }
            Message::Notification {
                method,
                params,
                session,
            } => {
                self.hand_on();
                let known = |session: &Named<'_>| self.link.route(&session.id).is_some();
                if let Some(session) = session.as_ref().filter(|session| !known(session))
                    && self.link.keep(&session.id, line)
                {
                    return;
                }
                self.notification(&method, &params, session);
            }
            Message::Response { id, outcome } => {
                self.hand_on();
                let outcome: Outcome = match outcome {
                    shape::Outcome::Result(result) => Ok(result.into_owned()),
                    shape::Outcome::Error(error) => Err(error.into_owned()),
                };
                if let Some(ending) = self.link.ending(id) {
                    end_turn(ending);
                }
                if !self.link.settle(id, outcome) {
                    tracing::debug!("a response that nobody waits for");
                }
                self.claim_all();
            }
            Message::Blank => {}
            Message::Junk(what) => self.junk(what),
        }
    }

    fn is_of(&self, session: &str) -> bool {
        self.route.as_ref().is_some_and(|(id, _)| id == session)
    }

    /// Hands on what was said of sessions that have come to be heard. When no more are to come,
    /// nobody will hear what is left.
    fn claim_all(&mut self) {
        for session in self.link.unclaimed.sessions() {
            if let Some(route) = self.link.route(&session) {
                self.claim(&session, &route);
                self.hand_on();
            }
        }
        self.route = None;
        if !self.link.awaits_sessions() {
            for line in self.link.unclaimed.take_all() {
                if let Message::Request { id, .. } = read(&line) {
                    self.refuse(id);
                }
            }
        }
    }

    /// Takes what was said of a session before anybody heard it.
    fn claim(&mut self, session: &str, route: &Arc<Route>) {
        if self.link.unclaimed.is_empty() {
            return;
        }
        self.route = Some((session.to_owned(), route.clone()));
        for line in self.link.unclaimed.take(session) {
            match read(&line) {
                Message::Update { payload, .. } => route.update(payload, &mut self.block),
                Message::Request {
                    id,
                    method,
                    params,
                    session: Some(session),
                } => {
                    self.hand_on();
                    self.ask(route, id, &method, &params, session.range);
                }
                Message::Notification {
                    method,
                    params,
                    session,
                } => {
                    self.hand_on();
                    self.notification(&method, &params, session);
                }
                _ => {}
            }
        }
    }

    /// Hands on the updates that were gathered. Waits if log and client are slower than the agent.
    fn hand_on(&mut self) {
        let Some((_, route)) = &self.route else {
            return;
        };
        if !self.block.is_empty() {
            let block = std::mem::take(&mut self.block);
            // A session that was closed hears nothing.
            route.out.say_blocking(EngineEvent::Block(block)).ok();
        }
    }

    /// Answers a request about a session that nobody hears.
    fn refuse(&self, id: &str) {
        let error = r#"{"code":-32602,"message":"the session is not open"}"#;
        self.link.respond(id, &Err(error.to_owned()));
    }

    /// Hands on a request of the agent that is about no session, and the answer back to it.
    fn ask_beside_sessions(&self, id: &str, method: &str, params: &str) {
        let link = self.link.clone();
        let cancel = link.begin(id);
        let id = id.to_owned();
        let (params, client) = (self.in_terms_of_the_client(params), link.client.clone());
        // In the order in which the agent asks.
        let call = self.link.runtime.block_on(client.ask(method, &params));
        self.link.runtime.spawn(async move {
            let outcome = match call {
                Some(call) => client.answer_to(call, cancel.cancelled()).await,
                None => None,
            };
            link.respond(&id, &outcome.unwrap_or_else(gone));
        });
    }

    /// Hands on a request of the agent about a session, and the answer back to it. `at` is where its
    /// parameters have the session's id.
    fn ask(&self, route: &Arc<Route>, id: &str, method: &str, params: &str, at: Range<usize>) {
        let (link, route) = (self.link.clone(), route.clone());
        let (id, method) = (id.to_owned(), method.to_owned());
        let cancel = link.begin(&id);
        let (params, at) = named(&route, params, at);
        let (reply, answer) = oneshot::channel();
        let taken_back = cancel.clone();
        let unanswered = move || {
            if taken_back.is_cancelled() {
                Err(r#"{"code":-32800,"message":"Request cancelled"}"#.to_owned())
            } else {
                gone()
            }
        };
        let question = Question {
            logged: matches!(
                method.as_str(),
                "session/request_permission" | "elicitation/create"
            ),
            method: method.clone(),
            params: params.clone(),
            session: at.clone(),
            cancel,
            reply,
        };
        if screens::is_release(&method) {
            // What the terminal shows is asked for while it is there.
            self.link.runtime.spawn(async move {
                screens::capture_output(&route, &params, at).await;
                if route.out.say(EngineEvent::Ask(question)).await.is_ok() {
                    link.respond(&id, &answer.await.unwrap_or_else(|_| unanswered()));
                } else {
                    link.respond(&id, &gone());
                }
            });
            return;
        }
        if route.out.say_blocking(EngineEvent::Ask(question)).is_err() {
            return link.respond(&id, &gone());
        }
        self.link.runtime.spawn(async move {
            let outcome = answer.await.unwrap_or_else(|_| unanswered());
            screens::answered(&route, &method, &params, &outcome).await;
            link.respond(&id, &outcome);
        });
    }

    /// Parameters that may name a request of the client by the id under which it was handed on.
    fn in_terms_of_the_client(&self, params: &str) -> String {
        let id = text_member(params, "requestId");
        match id.and_then(|id| self.link.origin(id)) {
            Some(origin) => super::said::with_members(params, &[], &[("requestId", &origin)]),
            None => params.to_owned(),
        }
    }

    fn notification(&mut self, method: &str, params: &str, session: Option<Named<'_>>) {
        if method == "$/cancel_request" {
            if let Some(id) = text_member(params, "requestId") {
                self.link.cancel(id);
            }
            return;
        }
        if method == "session/update" {
            // One that could be logged would have been taken as an update.
            return self.junk("a `session/update` that has no update");
        }
        match session.map(|session| (self.link.route(&session.id), session.range)) {
            None => {
                let notify = self.link.client.notify(method, params);
                self.link.runtime.block_on(notify);
            }
            Some((Some(route), at)) => {
                let (params, session) = named(&route, params, at);
                let method = method.to_owned();
                let said = EngineEvent::Notify {
                    method,
                    params,
                    session,
                };
                route.out.say_blocking(said).ok();
            }
            Some((None, _)) => tracing::debug!("a notification of a session that is not open"),
        }
    }

    fn junk(&mut self, what: &str) {
        self.junk = self.junk.saturating_add(1);
        if self.junk <= TOLD {
            tracing::warn!(
                what,
                "the agent wrote something to its output that is no message"
            );
        }
    }
}

/// Marks the place of a turn's end among what the session's agent says. What comes behind it belongs
/// to other turns, or to none.
fn end_turn(ending: Ending) {
    let Ending {
        route,
        message_id,
        surely,
    } = ending;
    let shown = screens::block(route.turn_ends(&message_id));
    if !shown.is_empty() {
        route.out.say_blocking(EngineEvent::Block(shown)).ok();
    }
    // A session that was closed hears nothing.
    let ends = EngineEvent::Ends { message_id, surely };
    route.out.say_blocking(ends).ok();
}

/// The parameters with tool calls as the client knows them, and where the session's id is then.
fn named(route: &Route, params: &str, at: Range<usize>) -> (String, Range<usize>) {
    match route.with_marks(|marks| marks.outward(params)) {
        Some(params) => {
            let at = shape::session_of(&params).map_or(at, |session| session.range);
            (params, at)
        }
        None => (params.to_owned(), at),
    }
}

/// What an agent is answered whose client cannot answer.
fn gone() -> Outcome {
    Err(r#"{"code":-32603,"message":"the client does not answer any more"}"#.to_owned())
}

//! Sends the engine's requests to the client, waits for the responses, and withdraws requests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::engine::Question;
use crate::json::{self, with_string};
use crate::protocol::error::{
    CLIENT_TIMEOUT, INTERNAL_ERROR, METHOD_NOT_FOUND, error_data, error_json,
};
use crate::protocol::method;
use crate::session::effect::{Batch, Effect};
use crate::session::machine::withdrawn_outcome;
use crate::session::phase::Phase;
use crate::session::reply::Reply;
use crate::session::request::{ClientRequest, ClientResponse};
use crate::transport::{Outcome, OutgoingRequest};

use super::links::{Target, named};
use super::{Actor, TaskResult};

/// The engine's requests to the client, by their ids in the log.
#[derive(Default)]
pub(super) struct ClientRequests {
    /// The engine's ends of requests that are not sent yet, or whose response is not passed on yet.
    waiting: HashMap<String, EngineEnd>,
    /// Those that clients who come later may answer, too.
    open: HashMap<String, Open>,
    /// Withdraws the requests that the client has not answered.
    withdrawal: CancellationToken,
}

/// A request that is not answered.
struct Open {
    /// Where further clients are added.
    asking: mpsc::UnboundedSender<Target>,
    /// Whether only the actor's own client may answer.
    is_private: bool,
}

/// The engine's end of a request.
struct EngineEnd {
    /// Cancelled when the engine no longer needs the response.
    cancel: CancellationToken,
    reply: oneshot::Sender<Outcome>,
}

/// A response of the client, with the engine's end of the request.
pub(super) struct ClientAnswer {
    method: String,
    /// Whether it has the form that the engine gets.
    is_native: bool,
    response: ClientResponse,
    engine: EngineEnd,
}

impl EngineEnd {
    fn is_unwanted(&self) -> bool {
        self.reply.is_closed() || self.cancel.is_cancelled()
    }

    /// Resolves when the engine no longer waits for the response.
    async fn unwanted(&mut self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.reply.closed() => {}
        }
    }
}

impl ClientRequests {
    /// Passes the response to the engine. Without one, the engine learns that there will be none.
    pub(super) fn respond(&mut self, id: &str, outcome: Option<Outcome>) {
        if let (Some(engine), Some(outcome)) = (self.waiting.remove(id), outcome) {
            // The engine may have ended meanwhile.
            engine.reply.send(outcome).ok();
        }
    }

    /// Asks another client what is still open, too.
    pub(super) fn ask_too(&mut self, target: &Target) {
        let mut open: Vec<_> = self.open.iter().collect();
        // Their ids do not say which came first; it does not matter.
        open.sort_unstable_by_key(|(id, _)| *id);
        for (_, open) in open {
            if target.is_own || !open.is_private {
                open.asking.send(target.clone()).ok();
            }
        }
    }

    /// Withdraws the requests that the client has not answered.
    pub(super) fn withdraw(&mut self) {
        std::mem::take(&mut self.withdrawal).cancel();
    }
}

impl Actor {
    pub(super) fn engine_asks(&mut self, question: Question) -> Batch<Reply> {
        let engine = EngineEnd {
            cancel: question.cancel,
            reply: question.reply,
        };
        if engine.is_unwanted() {
            return Vec::new();
        }
        let id = format!("ask_{}", self.deps.sys.ids.uuid().simple());
        self.client_requests.waiting.insert(id.clone(), engine);
        self.machine.ask(ClientRequest {
            id,
            of_subagent: question.session.is_none(),
            params: self.with_client_id(question.params, question.session),
            method: question.method,
            logged: question.logged,
            is_native: question.is_native,
        })
    }

    /// The parameters with the client's id of the session at this place. The sessions of subagents
    /// have the same id everywhere, and no place.
    pub(super) fn with_client_id(&self, params: String, place: Option<Range<usize>>) -> String {
        match place {
            Some(place) => with_string(&params, &place, &self.name),
            None => params,
        }
    }

    pub(super) fn client_answered(&mut self, answer: ClientAnswer) -> Batch<Reply> {
        let ClientAnswer {
            method,
            is_native,
            mut response,
            engine,
        } = answer;
        self.client_requests.open.remove(&response.id);
        if !is_native {
            response.outcome = response
                .outcome
                .map(|result| self.view.result(&method, result));
        }
        let id = response.id.clone();
        self.client_requests.waiting.insert(id, engine);
        let mut batch = self.machine.answered(response);
        if self.runs_elsewhere() && self.client_requests.open.is_empty() {
            batch.push(Effect::state(Phase::Running));
        }
        batch
    }

    /// Drops requests that wait for the end of a load, if the engine no longer needs the response.
    pub(super) fn drop_unwanted_requests(&mut self) {
        let waiting = &mut self.client_requests.waiting;
        self.machine.retain_requests(|id| {
            let is_wanted = waiting.get(id).is_some_and(|engine| !engine.is_unwanted());
            if !is_wanted {
                waiting.remove(id);
            }
            is_wanted
        });
    }

    /// Sends a request of the engine to the client, or to all that may answer it.
    pub(super) async fn ask(&mut self, request: ClientRequest) {
        let Some(engine) = self.client_requests.waiting.remove(&request.id) else {
            return;
        };
        if self.front.is_some() {
            // The client sees what it is about first.
            self.follow(true).await;
            if self.view.has_state() {
                self.send_state(&Phase::RequiresAction).await;
            }
        }
        let is_private = is_private(&request.method);
        let mut targets = self.targets(is_private);
        let are_there = !targets.is_empty();
        targets.retain(|target| is_private || target.can_show(&request.method, &request.params));
        let (wanted, more) = mpsc::unbounded_channel();
        let mut asking = Asking {
            results: self.results.clone(),
            withdrawn: self.client_requests.withdrawal.clone(),
            limit: time_limit(&request.method, self.deps.client_timeout),
            waits_for_clients: !is_private
                && (self.links.is_detached || self.deps.shares_engine || self.observes()),
            request,
            engine,
            sent: Vec::new(),
            refusal: None,
        };
        if are_there && targets.is_empty() {
            let error = not_declared(&asking.request.method);
            return asking.respond(Err(error), None);
        }
        for target in targets {
            if target.is_elsewhere {
                asking.send(target);
                continue;
            }
            let request = &asking.request;
            let params = match self.view.request(&request.method, &request.params) {
                _ if request.is_native => Cow::Borrowed(request.params.as_str()),
                Ok(params) => params,
                Err(error) if !self.links.any() => return asking.respond(Err(error), None),
                Err(_) => continue,
            };
            let params = params.into_owned();
            // Sent here, so that no later update overtakes it.
            let call = target.wire.ask(&request.method, &params);
            // A client that is gone is not waited for.
            if let Some(Some(call)) = self.is_sent(call).await {
                asking.sent.push(Sent { target, call });
            }
        }
        if self.own_front.is_some() && (!is_private || self.is_own_turn()) {
            // The actor that serves the client links again, or is about to.
            asking.waits_for_clients = true;
        } else if is_private && asking.sent.is_empty() && self.links.any() {
            let error = client_gone(&asking.request.method);
            return asking.respond(Err(error), None);
        }
        if !is_private || self.is_own_turn() {
            let open = Open {
                asking: wanted,
                is_private,
            };
            let id = asking.request.id.clone();
            self.client_requests.open.insert(id, open);
        }
        tokio::spawn(asking.run(more));
    }
}

/// A request of the engine that was sent to clients.
struct Asking {
    request: ClientRequest,
    engine: EngineEnd,
    results: mpsc::UnboundedSender<TaskResult>,
    withdrawn: CancellationToken,
    limit: Option<Duration>,
    /// Whether it waits for a client to come if no client is there.
    waits_for_clients: bool,
    sent: Vec<Sent>,
    /// The error with which a client has answered while others may still give an answer.
    refusal: Option<(Target, Outcome)>,
}

/// A request as one client got it.
struct Sent {
    target: Target,
    call: OutgoingRequest,
}

impl Asking {
    /// Sends it to a client elsewhere, if that can show it.
    fn send(&mut self, target: Target) {
        if target.is_own && self.sent.iter().any(|sent| sent.target.is_own) {
            // It was asked before another actor has come to serve it.
            return;
        }
        let (method, params) = (&self.request.method, &self.request.params);
        if !is_private(method) && !target.can_show(method, params) {
            return;
        }
        // The engine and the other clients do not wait until its process reads.
        let call = target
            .wire
            .ask_at_once(method, &named(params, &target.name));
        self.sent.push(Sent { target, call });
    }

    /// Passes a response on, that of the client `by` if one has answered.
    fn respond(self, outcome: Outcome, by: Option<&Target>) {
        let is_elsewhere = by.is_some_and(|target| target.is_elsewhere);
        let mut response = self.request.response(outcome);
        response.client = by.and_then(|target| target.client.clone());
        let answer = ClientAnswer {
            method: self.request.method,
            // The view of a client elsewhere is applied there.
            is_native: self.request.is_native || is_elsewhere,
            response,
            engine: self.engine,
        };
        self.results.send(TaskResult::ClientAnswer(answer)).ok();
    }

    /// Ends the request at the clients that have not answered.
    fn withdraw(&self) {
        for sent in &self.sent {
            sent.target.wire.withdraw(&sent.call);
        }
    }

    /// Waits for the first answer, or until none is needed.
    async fn run(mut self, mut more: mpsc::UnboundedReceiver<Target>) {
        let mut deadline = Box::pin(passed(self.limit));
        let replacement = loop {
            if self.sent.is_empty() {
                if let Some((target, error)) = self.refusal.take() {
                    return self.respond(error, Some(&target));
                }
                if !self.waits_for_clients {
                    // A client that is gone answers nothing, and is not answered for.
                    return;
                }
            }
            let Self {
                engine,
                sent,
                withdrawn,
                ..
            } = &mut self;
            tokio::select! {
                biased;
                (target, outcome) = first(sent), if !sent.is_empty() => match outcome {
                    Some(Ok(result)) => {
                        self.withdraw();
                        return self.respond(Ok(result), Some(&target));
                    }
                    Some(error) => self.refusal = Some((target, error)),
                    None => {}
                },
                () = withdrawn.cancelled() => {
                    break Some(withdrawn_outcome(&self.request.method));
                }
                () = engine.unwanted() => break None,
                limit = &mut deadline => {
                    break Some(Err(timed_out(&self.request.method, limit)));
                }
                Some(target) = more.recv() => self.send(target),
            }
        };
        self.end(replacement).await;
    }

    /// Withdraws the request. Its response is replaced, if the engine still wants one.
    async fn end(mut self, replacement: Option<Outcome>) {
        let mut sent = std::mem::take(&mut self.sent);
        let (method, params) = (self.request.method.clone(), self.request.params.clone());
        // The engine need not wait until the clients read.
        let waiting = match replacement {
            Some(outcome) => {
                self.respond(outcome, None);
                None
            }
            None => Some(self),
        };
        for sent in &sent {
            sent.target.wire.withdraw(&sent.call);
        }
        // The clients answer in any case.
        let answered = loop {
            if sent.is_empty() {
                return;
            }
            if let (target, Some(outcome)) = first(&mut sent).await {
                break (target, outcome);
            }
        };
        let (target, outcome) = answered;
        if let Some(asking) = waiting {
            asking.respond(outcome, Some(&target));
        } else if method == method::TERMINAL_CREATE
            && let Ok(created) = outcome
            && let Some(terminal) = json::string_member(&created, "terminalId")
        {
            // Nothing else refers to this terminal.
            let session = json::string_member(&params, "sessionId");
            let params = json!({ "sessionId": session, "terminalId": terminal }).to_string();
            let release = method::TERMINAL_RELEASE;
            if let Some(released) = target.wire.ask(release, &params).await {
                released.await;
            }
        }
    }
}

/// The first response of a client, which is asked no longer; `None` if that client is gone.
async fn first(sent: &mut Vec<Sent>) -> (Target, Option<Outcome>) {
    let (place, outcome) = poll_fn(|context| {
        for (place, sent) in sent.iter_mut().enumerate() {
            if let Poll::Ready(outcome) = Pin::new(&mut sent.call).poll(context) {
                return Poll::Ready((place, outcome));
            }
        }
        Poll::Pending
    })
    .await;
    (sent.remove(place).target, outcome)
}

/// Whether only the client that has sent the prompt can serve a request by this name: paths and
/// terminals are those of its machine.
fn is_private(method: &str) -> bool {
    method.starts_with("fs/") || method.starts_with("terminal/")
}

/// The error that the engine gets when no client that is there can show a request.
fn not_declared(method: &str) -> String {
    let message = format!("no client of the session has declared that it can answer `{method}`");
    error_json(METHOD_NOT_FOUND, &message)
}

/// The error that the engine gets when the client that has sent the prompt is gone.
fn client_gone(method: &str) -> String {
    let message = format!("the client that sent the prompt is gone, so it cannot serve `{method}`");
    error_json(INTERNAL_ERROR, &message)
}

/// How long the client may take for a request by this name. Files and terminals are the work of
/// programs. A person may take as long as it takes to decide, and so may a command.
fn time_limit(method: &str, timeout: Option<Duration>) -> Option<Duration> {
    let limited = [
        method::READ_TEXT_FILE,
        method::WRITE_TEXT_FILE,
        method::TERMINAL_CREATE,
        method::TERMINAL_OUTPUT,
        method::TERMINAL_RELEASE,
        method::TERMINAL_KILL,
    ];
    timeout.filter(|_| limited.contains(&method) || method.starts_with("fs/"))
}

/// Resolves with a limit when it has passed; never without a limit.
async fn passed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// The error that the engine gets when the client has not answered in time.
fn timed_out(method: &str, limit: Duration) -> String {
    let waited = humantime::format_duration(limit);
    let message =
        format!("the client did not answer `{method}` within {waited} (`--client-timeout`)");
    let mut data = error_data(CLIENT_TIMEOUT, &message);
    data.insert("method".to_owned(), method.into());
    json!({ "code": INTERNAL_ERROR, "message": message, "data": data }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_work_of_programs_has_a_time_limit() {
        let timeout = Some(Duration::from_secs(3));
        for method in [
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "terminal/output",
            "terminal/release",
            "terminal/kill",
        ] {
            assert_eq!(time_limit(method, timeout), timeout, "{method}");
            assert_eq!(time_limit(method, None), None, "{method}");
        }
        for method in [
            "session/request_permission",
            "elicitation/create",
            "terminal/wait_for_exit",
            "_x/ask",
        ] {
            assert_eq!(time_limit(method, timeout), None, "{method}");
        }
    }

    #[test]
    fn the_error_names_the_method_and_the_time() {
        let error = timed_out("fs/read_text_file", Duration::from_secs(90));
        let message =
            "the client did not answer `fs/read_text_file` within 1m 30s (`--client-timeout`)";
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&error).unwrap(),
            json!({
                "code": -32603,
                "message": message,
                "data": { "error": "client_timeout", "code": "client_timeout", "details": message, "method": "fs/read_text_file" },
            })
        );
    }
}

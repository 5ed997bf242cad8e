//! Sends the engine's requests to the client, waits for the responses, and withdraws requests.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::engine::{Called, EngineError};
use crate::json;
use crate::protocol::error::{
    CLIENT_TIMEOUT, INTERNAL_ERROR, METHOD_NOT_FOUND, error_data, error_json,
};
use crate::protocol::method::{self, is_of_client_machine};
use crate::session::link::feed::{ClientQuestion, SentQuestion};
use crate::session::machine::withdrawn_outcome;
use crate::session::reply::Reply;
use crate::session::request::{ClientRequest, ClientResponse};
use crate::transport::Outcome;

use super::fronts::{Target, named};

/// The result of a task that works for the owner.
pub(in crate::session) enum OwnerEvent {
    /// A client has answered a request of the engine.
    ClientAnswer(ClientAnswer),
    /// The engine has served a request of a client.
    Called(ServedCall),
}

/// A request of a client that the engine has served.
pub(in crate::session) struct ServedCall {
    pub(in crate::session) reply: Reply,
    pub(in crate::session) method: String,
    /// The mode that it has set, if the client has set an option.
    pub(in crate::session) mode: Option<String>,
    pub(in crate::session) result: Result<Called, EngineError>,
}

/// The engine's requests to the client, by their ids in the log.
#[derive(Default)]
pub(in crate::session) struct OpenQuestions {
    /// The engine's ends of requests that are not sent yet, or whose response is not passed on yet.
    waiting: HashMap<String, EngineEnd>,
    /// The questions that clients who come later may answer, too.
    open: HashMap<String, mpsc::UnboundedSender<Target>>,
    /// Withdraws the requests that the client has not answered.
    withdrawal: CancellationToken,
}

/// The engine's end of a request.
struct EngineEnd {
    /// Cancelled when the engine no longer needs the response.
    cancel: CancellationToken,
    reply: oneshot::Sender<Outcome>,
}

/// A response of the client, with the engine's end of the request.
pub(in crate::session) struct ClientAnswer {
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

/// Who may answer a request of the engine.
pub(super) struct Recipients {
    pub(super) targets: Vec<Target>,
    /// Whether clients in other tasks have the session open.
    pub(super) has_others: bool,
    /// Whether a client may come that can answer, if none is there.
    pub(super) may_come: bool,
    /// How long a client may take; without a limit if `None`.
    pub(super) timeout: Option<Duration>,
}

impl OpenQuestions {
    /// The engine sends a request. False if it does not wait for the response any longer.
    pub(super) fn begin(
        &mut self,
        id: &str,
        cancel: CancellationToken,
        reply: oneshot::Sender<Outcome>,
    ) -> bool {
        let engine = EngineEnd { cancel, reply };
        let is_wanted = !engine.is_unwanted();
        if is_wanted {
            self.waiting.insert(id.to_owned(), engine);
        }
        is_wanted
    }

    /// A client has answered a request of the engine.
    pub(in crate::session) fn answered(&mut self, answer: ClientAnswer) -> ClientResponse {
        let ClientAnswer { response, engine } = answer;
        self.open.remove(&response.id);
        self.waiting.insert(response.id.clone(), engine);
        response
    }

    /// Sends a request to those that may answer it. Returns the question for the front of the owner's own
    /// task, if that is one of them.
    pub(super) fn ask(
        &mut self,
        request: ClientRequest,
        recipients: Recipients,
        results: mpsc::UnboundedSender<OwnerEvent>,
    ) -> Option<ClientQuestion> {
        let engine = self.waiting.remove(&request.id)?;
        let is_private = is_of_client_machine(&request.method);
        let mut targets = recipients.targets;
        let are_there = !targets.is_empty();
        targets.retain(|target| is_private || target.can_show(&request.method, &request.params));
        let (wanted, more) = mpsc::unbounded_channel();
        let mut asking = Asking {
            results,
            withdrawn: self.withdrawal.clone(),
            limit: time_limit(&request.method, recipients.timeout),
            waits_for_clients: !is_private && recipients.may_come,
            request,
            engine,
            sent: Vec::new(),
            refusal: None,
        };
        if are_there && targets.is_empty() {
            let error = not_declared(&asking.request.method);
            asking.respond(Err(error), None);
            return None;
        }
        let sent = targets.into_iter().map(|target| asking.send(target));
        let own = sent.collect::<Vec<_>>().into_iter().flatten().next();
        if is_private && asking.sent.is_empty() && recipients.has_others {
            let error = client_gone(&asking.request.method);
            asking.respond(Err(error), None);
            return None;
        }
        if !is_private {
            self.open.insert(asking.request.id.clone(), wanted);
        }
        tokio::spawn(asking.run(more));
        own
    }

    /// Passes the response to the engine. Without one, the engine learns that there will be none.
    pub(in crate::session) fn respond(&mut self, id: &str, outcome: Option<Outcome>) {
        if let (Some(engine), Some(outcome)) = (self.waiting.remove(id), outcome) {
            // The engine may have ended meanwhile.
            engine.reply.send(outcome).ok();
        }
    }

    /// Asks another client what is still open, too.
    pub(in crate::session) fn ask_too(&self, target: &Target) {
        let mut open: Vec<_> = self.open.iter().collect();
        // Their ids do not say which came first; it does not matter.
        open.sort_unstable_by_key(|(id, _)| *id);
        for (_, asking) in open {
            asking.send(target.clone()).ok();
        }
    }

    /// Withdraws the requests that the client has not answered.
    pub(in crate::session) fn withdraw(&mut self) {
        std::mem::take(&mut self.withdrawal).cancel();
    }
}

/// A request of the engine that was sent to clients.
struct Asking {
    request: ClientRequest,
    engine: EngineEnd,
    results: mpsc::UnboundedSender<OwnerEvent>,
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
    question: SentQuestion,
}

impl Asking {
    /// Sends it to a client. The engine and the other clients do not wait until that reads. Returns the
    /// question for the front of the owner's own task.
    fn send(&mut self, target: Target) -> Option<ClientQuestion> {
        let (method, params) = (&self.request.method, &self.request.params);
        if !is_of_client_machine(method) && !target.can_show(method, params) {
            return None;
        }
        let params = if target.asks.is_own() {
            params.clone()
        } else {
            named(params, &target.client_id)
        };
        let (question, own) = target.asks.send(method, params, self.request.is_native);
        self.sent.push(Sent { target, question });
        own
    }

    /// Passes a response on, that of the client `by` if one has answered.
    fn respond(self, outcome: Outcome, by: Option<&Target>) {
        let mut response = self.request.response(outcome);
        response.client = by.and_then(|target| target.client.clone());
        let answer = ClientAnswer {
            response,
            engine: self.engine,
        };
        self.results.send(OwnerEvent::ClientAnswer(answer)).ok();
    }

    /// Ends the request at the clients that have not answered.
    fn withdraw(&self) {
        for sent in &self.sent {
            sent.question.withdraw();
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
                Some(target) = more.recv() => {
                    self.send(target);
                }
            }
        };
        self.end(replacement).await;
    }

    /// Withdraws the request. Its response is replaced, if the engine still wants one.
    async fn end(mut self, replacement: Option<Outcome>) {
        let mut sent = std::mem::take(&mut self.sent);
        let (method, params) = (self.request.method.clone(), self.request.params.clone());
        // What the engine does after that follows the withdrawal.
        for sent in &sent {
            sent.question.withdraw();
        }
        let waiting = match replacement {
            Some(outcome) => {
                self.respond(outcome, None);
                None
            }
            None => Some(self),
        };
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
            target.asks.send_later(release, params).await;
        }
    }
}

/// The first response of a client, which is asked no longer; `None` if that client is gone.
async fn first(sent: &mut Vec<Sent>) -> (Target, Option<Outcome>) {
    let (place, outcome) = poll_fn(|context| {
        for (place, sent) in sent.iter_mut().enumerate() {
            if let Poll::Ready(outcome) = Pin::new(&mut sent.question).poll(context) {
                return Poll::Ready((place, outcome));
            }
        }
        Poll::Pending
    })
    .await;
    (sent.remove(place).target, outcome)
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
    timeout.filter(|_| is_of_client_machine(method) && method != method::TERMINAL_WAIT_FOR_EXIT)
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

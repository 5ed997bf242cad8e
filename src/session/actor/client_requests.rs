//! Sends the engine's requests to the client, waits for the responses, and withdraws requests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::Question;
use crate::json::{self, with_string};
use crate::protocol::error::{CLIENT_TIMEOUT, INTERNAL_ERROR, error_data};
use crate::protocol::method;
use crate::session::effect::Batch;
use crate::session::machine::withdrawn_outcome;
use crate::session::reply::Reply;
use crate::session::request::{ClientRequest, ClientResponse};
use crate::transport::Outcome;

use super::{Actor, TaskResult};

/// The engine's requests to the client, by their ids in the log.
#[derive(Default)]
pub(super) struct ClientRequests {
    /// The engine's ends of requests that are not sent yet, or whose response is not passed on yet.
    waiting: HashMap<String, EngineEnd>,
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
        if !is_native {
            response.outcome = response
                .outcome
                .map(|result| self.view.result(&method, result));
        }
        let id = response.id.clone();
        self.client_requests.waiting.insert(id, engine);
        self.machine.answered(response)
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

    /// Sends a request of the engine to the client.
    pub(super) async fn ask(&mut self, request: ClientRequest) {
        let Some(mut engine) = self.client_requests.waiting.remove(&request.id) else {
            return;
        };
        let (wire, results) = (self.deps.wire.clone(), self.results.clone());
        let (method, is_native) = (request.method.clone(), request.is_native);
        let send = move |response, engine| {
            let answer = ClientAnswer {
                method,
                is_native,
                response,
                engine,
            };
            results.send(TaskResult::ClientAnswer(answer)).ok();
        };
        let params = match self.view.request(&request.method, &request.params) {
            _ if is_native => Cow::Borrowed(request.params.as_str()),
            Ok(params) => params,
            Err(error) => return send(request.response(Err(error)), engine),
        };
        // Sent here, so that no later update overtakes it.
        let Some(mut call) = wire.ask(&request.method, &params).await else {
            return;
        };
        let withdrawn = self.client_requests.withdrawal.clone();
        let limit = time_limit(&request.method, self.deps.client_timeout);
        tokio::spawn(async move {
            let method = request.method.as_str();
            let replacement = tokio::select! {
                biased;
                outcome = &mut call => {
                    // A client that is gone answers nothing, and is not answered for.
                    if let Some(outcome) = outcome {
                        send(request.response(outcome), engine);
                    }
                    return;
                }
                () = withdrawn.cancelled() => Some(withdrawn_outcome(method)),
                () = engine.unwanted() => None,
                limit = passed(limit) => Some(Err(timed_out(method, limit))),
            };
            // The engine need not wait until the client reads.
            let waiting = match replacement {
                Some(outcome) => {
                    send(request.response(outcome), engine);
                    None
                }
                None => Some((send, engine)),
            };
            wire.withdraw(&call).await;
            // The client answers in any case.
            let Some(outcome) = call.await else { return };
            if let Some((send, engine)) = waiting {
                send(request.response(outcome), engine);
            } else if method == method::TERMINAL_CREATE
                && let Ok(created) = outcome
                && let Some(terminal) = json::string_member(&created, "terminalId")
            {
                // Nothing else refers to this terminal.
                let session = json::string_member(&request.params, "sessionId");
                let params = json!({ "sessionId": session, "terminalId": terminal }).to_string();
                if let Some(released) = wire.ask(method::TERMINAL_RELEASE, &params).await {
                    released.await;
                }
            }
        });
    }
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

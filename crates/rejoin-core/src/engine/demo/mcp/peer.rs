//! The messages of an MCP server: a response finds its request, a request is answered at once.

use serde::Deserialize;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::json;
use crate::protocol::error::{INTERNAL_ERROR, METHOD_NOT_FOUND, error_json};
use crate::text::shortened;
use crate::transport::line::InputLine;
use crate::transport::message::{Message, id_in, read_as, response_line};
use crate::transport::{MessageForm, Outcome, OutgoingRequest, OutgoingRequests};

/// The longest message that a server may send, in bytes.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// The error of a request whose response is too long.
pub(super) const TOO_LONG: &str = "it sent a message of more than 16 MiB, which was discarded";

/// How many progress notifications may wait; older ones are dropped.
const WAITING: usize = 16;

/// How many characters of a server's error message are quoted.
const QUOTED: usize = 500;

/// The state of one server: our requests that it has not answered, and whether it is there. Clones
/// share it.
#[derive(Clone, Debug)]
pub(super) struct McpPeer {
    requests: OutgoingRequests,
    progress: broadcast::Sender<ToolProgress>,
    /// Cancelled when the connection has ended.
    pub(super) ended: CancellationToken,
}

/// The reason for which a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The connection has ended.
    Closed,
    /// Another reason, in words.
    Failed(String),
}

impl RequestError {
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}

/// A progress notification.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolProgress {
    /// The id of the request.
    #[serde(rename = "progressToken")]
    pub(super) request: u64,
    pub(super) progress: f64,
    pub(super) total: Option<f64>,
    pub(super) message: Option<String>,
}

impl McpPeer {
    pub(super) fn new() -> Self {
        Self {
            requests: OutgoingRequests::default(),
            progress: broadcast::Sender::new(WAITING),
            ended: CancellationToken::new(),
        }
    }

    /// Assigns an id to a new request.
    pub(super) fn begin(&self) -> OutgoingRequest {
        self.requests.begin()
    }

    /// Subscribes to the progress of all requests.
    pub(super) fn progress(&self) -> broadcast::Receiver<ToolProgress> {
        self.progress.subscribe()
    }

    /// The connection has ended: pending and future requests fail.
    pub(super) fn close(&self) {
        self.requests.close();
        self.ended.cancel();
    }

    /// Handles a message of the server. Returns the line to answer it with if it is a request. What is no
    /// message of MCP is ignored, as are notifications other than those of progress.
    pub(super) fn receive(&self, line: InputLine) -> Option<String> {
        if let InputLine::TooLong { start, .. } = &line {
            let error = error_json(INTERNAL_ERROR, TOO_LONG);
            match id_in(start) {
                Some(id) => self.resolve(&id, Err(error)),
                // The request that it answers is unknown, and would wait forever.
                None => self.requests.fail_all(&error),
            }
            return None;
        }
        match read_as(line, LONGEST, MessageForm::JsonRpc) {
            Message::Response { id, outcome } => self.resolve(&id, outcome),
            Message::Request { id, method, .. } => {
                return Some(response_line(&id, &answer(&method)));
            }
            Message::Notification { method, params } if method == "notifications/progress" => {
                if let Ok(progress) = serde_json::from_str(&params) {
                    // Sending fails if there are no subscribers.
                    self.progress.send(progress).ok();
                }
            }
            _ => {}
        }
        None
    }

    fn resolve(&self, id: &str, outcome: Outcome) {
        // Some servers answer the number 1 as the string "1".
        self.requests.resolve(id.trim_matches('"'), outcome);
    }
}

/// The answer to a request of the server: sampling is refused, a question to the user declined.
fn answer(method: &str) -> Outcome {
    match method {
        "ping" => Ok("{}".to_owned()),
        "roots/list" => Ok(r#"{"roots":[]}"#.to_owned()),
        "elicitation/create" => Ok(r#"{"action":"decline"}"#.to_owned()),
        _ => Err(error_json(METHOD_NOT_FOUND, "this client does not do that")),
    }
}

/// The outcome of a request; `None` if the server is gone.
pub(super) fn result(outcome: Option<Outcome>) -> Result<String, RequestError> {
    outcome.ok_or(RequestError::Closed)?.map_err(|error| {
        let message = json::string_member(&error, "message").unwrap_or_default();
        if message == TOO_LONG {
            return RequestError::Failed(message);
        }
        let message = shortened(&message, QUOTED);
        RequestError::Failed(format!("it answered with an error: {message}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> InputLine {
        InputLine::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn a_response_finds_its_request() {
        let peer = McpPeer::new();
        let requests = [(); 4].map(|()| peer.begin());
        for text in [
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"2","result":{"n":2}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"n":1}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            "starting …",
        ] {
            assert_eq!(peer.receive(line(text)), None);
        }
        let [first, second, third, fourth] = requests;
        let refused = RequestError::failed("it answered with an error: no");
        assert_eq!(result(first.await), Err(refused));
        assert_eq!(result(second.await), Ok(r#"{"n":2}"#.to_owned()));
        let long = |start: &str| InputLine::TooLong {
            start: start.into(),
            len: LONGEST as u64 + 1,
        };
        peer.receive(long(r#"{"id":3,"jsonrpc":"2.0","result":{"#));
        let too_long = RequestError::failed(TOO_LONG);
        assert_eq!(result(third.await), Err(too_long.clone()));
        let fifth = peer.begin();
        peer.receive(long(r#"{"jsonrpc":"2.0","result":{"#));
        assert_eq!(result(fourth.await), Err(too_long.clone()));
        assert_eq!(result(fifth.await), Err(too_long));
        let sixth = peer.begin();
        peer.close();
        assert_eq!(result(sixth.await), Err(RequestError::Closed));
        assert_eq!(result(peer.begin().await), Err(RequestError::Closed));
    }

    #[test]
    fn requests_are_answered() {
        let peer = McpPeer::new();
        for (method, answer) in [
            ("ping", r#""result":{}"#),
            ("elicitation/create", r#""result":{"action":"decline"}"#),
            ("sampling/createMessage", r#""error":{"code":-32601,"#),
        ] {
            let request = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}"}}"#);
            let answered = peer.receive(line(&request)).unwrap();
            assert!(answered.contains(r#""id":"a""#), "{answered}");
            assert!(answered.contains(answer), "{answered}");
        }
        let other = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
        assert_eq!(peer.receive(line(other)), None);
    }
}

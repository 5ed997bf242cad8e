//! Sends requests to the client, and interprets its errors.

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::engine::demo::turn::{DemoTurn, EarlyStop};
use crate::engine::outlet::Closed;
use crate::engine::{EngineEvent, Outlet, Question};
use crate::json;
use crate::protocol::error::CLIENT_TIMEOUT;
use crate::text::shortened;
use crate::transport::Outcome;

/// How many characters of a client's error are shown.
const MOST_SHOWN: usize = 300;

/// Sends a request to the client and waits for the response. If the turn is cancelled, the request
/// is withdrawn. `params` is the JSON text of an object, without the session's id. `logged` is
/// whether request and response are part of the conversation.
pub(super) async fn ask(
    turn: &DemoTurn<'_>,
    method: &str,
    params: &str,
    logged: bool,
) -> Result<Outcome, EarlyStop> {
    let (reply, answer) = oneshot::channel();
    let asked = question(method, params, logged, turn.cancel.turn().clone(), reply);
    let answered = async {
        turn.opening.out.send(EngineEvent::Ask(asked)).await?;
        answer.await.map_err(|_| Closed)
    };
    let answered = turn.unless_cancelled(answered).await?;
    answered.map_err(|Closed| disconnected())
}

/// Sends a request to the client even if the turn is cancelled. The caller may wait for the
/// response; none comes if the client has disconnected.
pub(super) async fn ask_regardless(
    out: &Outlet,
    method: &str,
    params: &str,
) -> oneshot::Receiver<Outcome> {
    let (reply, answer) = oneshot::channel();
    let asked = question(method, params, false, CancellationToken::new(), reply);
    // A closed session sends no requests.
    out.send(EngineEvent::Ask(asked)).await.ok();
    answer
}

/// Sends a request whose response does not matter, but which must not be withdrawn. An error of the
/// client goes to the debug log.
pub(super) async fn send(out: &Outlet, method: &'static str, params: &str) {
    let answer = ask_regardless(out, method, params).await;
    tokio::spawn(async move {
        if let Ok(Err(error)) = answer.await {
            tracing::debug!(
                method,
                error = problem(&error),
                "the client answered with an error"
            );
        }
    });
}

/// A description of a client's error.
pub(super) fn problem(error: &str) -> String {
    let message = json::string_member(error, "message").unwrap_or_default();
    let name = json::text_member(error, "data").and_then(|data| json::string_member(data, "error"));
    match shortened(&message, MOST_SHOWN) {
        // This error is our own statement about the client.
        message if name.as_deref() == Some(CLIENT_TIMEOUT) => message,
        message if message.is_empty() => "the client gave no reason".to_owned(),
        message => format!("the client says: {message}"),
    }
}

fn question(
    method: &str,
    params: &str,
    logged: bool,
    cancel: CancellationToken,
    reply: oneshot::Sender<Outcome>,
) -> Question {
    let mut text = r#"{"sessionId":"""#.to_owned();
    let session = text.len() - 2..text.len();
    let members = params.strip_prefix('{').unwrap_or("}");
    if members != "}" {
        text.push(',');
    }
    text.push_str(members);
    Question {
        method: method.to_owned(),
        params: text,
        session: Some(session),
        logged,
        is_native: false,
        cancel,
        reply,
    }
}

/// The reason to stop if there is no response: the client has disconnected, or the log cannot be
/// written. Both end the turn.
pub(super) fn disconnected() -> EarlyStop {
    EarlyStop::Cancelled
}

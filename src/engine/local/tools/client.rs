//! Asks the client for something, and makes sense of its answer.

use tokio::sync::oneshot;

use crate::engine::local::describe::shorten;
use crate::engine::local::turn::{Stop, Turn};
use crate::engine::outlet::Closed;
use crate::engine::{Cancel, Outlet, Question, Said};
use crate::record::json;
use crate::wire::Outcome;

/// How much of a client's error is told, in characters.
const TOLD: usize = 300;

/// Puts a request to the client and waits for its answer, or until the turn is cancelled: then the
/// client is told that nobody wants it any more. `params` is the JSON text of an object, without the session's id.
/// `logged` says whether question and answer are part of the conversation.
pub(super) async fn ask(
    turn: &Turn<'_>,
    method: &str,
    params: &str,
    logged: bool,
) -> Result<Outcome, Stop> {
    let (reply, answer) = oneshot::channel();
    let asked = question(method, params, logged, turn.cancel().clone(), reply);
    tokio::select! {
        biased;
        () = turn.cancel().cancelled() => Err(Stop::Cancelled),
        answered = async {
            turn.out().say(Said::Ask(asked)).await?;
            answer.await.map_err(|_| Closed)
        } => answered.map_err(|Closed| gone()),
    }
}

/// Puts a request to the client also if the turn is cancelled. The answer may be waited for; none
/// comes if the client is gone.
pub(super) async fn ask_regardless(
    out: &Outlet,
    method: &str,
    params: &str,
) -> oneshot::Receiver<Outcome> {
    let (reply, answer) = oneshot::channel();
    let (_, never) = Cancel::new();
    let asked = question(method, params, false, never, reply);
    // A session that is closed asks nothing.
    out.say(Said::Ask(asked)).await.ok();
    answer
}

/// The same for a request whose answer nobody needs, but which is not to be taken back.
pub(super) async fn tell(out: &Outlet, method: &'static str, params: &str) {
    let answer = ask_regardless(out, method, params).await;
    tokio::spawn(async move {
        if let Ok(Err(error)) = answer.await {
            tracing::debug!(method, error = problem(&error), "the client refuses");
        }
    });
}

/// What went wrong, by the client's error.
pub(super) fn problem(error: &str) -> String {
    let message = json::string_member(error, "message").unwrap_or_default();
    match shorten(&message, TOLD) {
        message if message.is_empty() => "the client does not say why".to_owned(),
        message => format!("the client says: {message}"),
    }
}

fn question(
    method: &str,
    params: &str,
    logged: bool,
    cancel: Cancel,
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
        session,
        logged,
        cancel,
        reply,
    }
}

/// Nobody answers any more: the client has left, or nothing can be logged. Both end the turn.
pub(super) fn gone() -> Stop {
    Stop::Cancelled
}

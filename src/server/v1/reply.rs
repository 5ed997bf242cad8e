//! Turns a responder of the SDK into a session's way back.

use agent_client_protocol::Error;
use serde_json::{Value, json};

use crate::server::error;
use crate::session::busy::Busy;
use crate::session::{Answer, Done, Reply};
use crate::store::DamageReport;
use crate::sys::SessionId;

use super::context::{Context, Responds};

/// The way back to the client for a request to session `id`, which counts as `under_way` until it
/// is answered. `done` is called then.
pub(super) fn reply(
    context: &Context,
    under_way: &Busy,
    id: &SessionId,
    responder: Responds,
    done: impl FnOnce() + Send + 'static,
) -> Reply {
    let cancellation = responder.cancellation();
    let wire = context.registry().deps().wire.clone();
    let id = id.to_string();
    let busy = under_way.begin();
    Reply::new(
        busy,
        move || cancellation.is_cancelled(),
        move |answer| {
            // The id of a request always has a JSON form.
            let request = serde_json::to_string(responder.raw_id()).unwrap_or_default();
            let passed = wire.answers.expect(&request);
            done();
            let result = answer.map(|answer| encode(&id, &answer));
            let result = result.map_err(|refusal| error::refused(&id, refusal));
            if let Err(error) = responder.respond_with_result(result) {
                tracing::debug!(%error, "the connection ended before an answer");
            }
            Box::pin(async move {
                passed.await.ok();
            })
        },
    )
}

/// Answers at once, without a session.
pub(super) fn answer(responder: Responds, result: Result<Value, Error>) {
    if let Err(error) = responder.respond_with_result(result) {
        tracing::debug!(%error, "the connection ended before an answer");
    }
}

fn encode(id: &str, answer: &Answer) -> Value {
    match answer.done {
        Done::Created => json!({ "sessionId": id }),
        Done::Loaded | Done::Resumed if answer.damage.is_empty() => json!({ "sessionId": id }),
        Done::Loaded | Done::Resumed => {
            let damage = damage(&answer.damage);
            json!({ "sessionId": id, "_meta": { "rejoin": { "damage": damage } } })
        }
        Done::Stopped(reason) => json!({ "stopReason": reason.as_str() }),
        Done::Closed | Done::Deleted => json!({}),
    }
}

/// What is wrong with a log, as clients are told.
pub(super) fn damage(damage: &[DamageReport]) -> Value {
    let each = damage.iter().map(|damage| {
        json!({
            "line": damage.line,
            "byte": damage.offset,
            "length": damage.len,
            "reason": damage.reason.to_string(),
        })
    });
    each.collect()
}

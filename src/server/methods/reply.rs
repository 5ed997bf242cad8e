//! Turns a responder of the SDK into a session's way back.

use agent_client_protocol::Error;
use serde_json::{Map, Value, json};

use crate::json;
use crate::server::error;
use crate::session::busy::Busy;
use crate::session::{Answer, Done, Refusal, Reply};
use crate::store::DamageReport;
use crate::transport::VerbatimResults;

use super::context::{Context, Responds};

/// The way back to the client for a request to the session that it knows as `id`, which counts as `under_way` until it
/// is answered. `done` is called then.
pub(in crate::server) fn reply(
    context: &Context,
    under_way: &Busy,
    id: &str,
    responder: Responds,
    done: impl FnOnce() + Send + 'static,
) -> Reply {
    reply_about(context, under_way, id, id, responder, done)
}

/// The same where a refusal is about another session, `about`.
pub(super) fn reply_about(
    context: &Context,
    under_way: &Busy,
    id: &str,
    about: &str,
    responder: Responds,
    done: impl FnOnce() + Send + 'static,
) -> Reply {
    let refuse = error::refused;
    reply_with(context, under_way, (id, about, refuse), responder, done)
}

/// The same for a method that knows another error for a session that is not there.
pub(super) fn reply_of_unstable(context: &Context, id: &str, responder: Responds) -> Reply {
    let refuse = |id: &str, refusal: Refusal, raws: &VerbatimResults| {
        error::unstable(error::refused(id, refusal, raws))
    };
    let requests = context.registry().requests();
    reply_with(context, requests, (id, id, refuse), responder, || ())
}

/// Says in the protocol's words that a session refuses.
type Refuse = fn(&str, Refusal, &VerbatimResults) -> Error;

fn reply_with(
    context: &Context,
    under_way: &Busy,
    (id, about, refuse): (&str, &str, Refuse),
    responder: Responds,
    done: impl FnOnce() + Send + 'static,
) -> Reply {
    let cancellation = responder.cancellation();
    let (context, id) = (context.clone(), id.to_string());
    let wire = context.registry().deps().wire.clone();
    let about = about.to_owned();
    let busy = under_way.begin();
    Reply::new(
        busy,
        move || cancellation.is_cancelled(),
        move |answer| {
            let passed = wire.answers.expect(&responder.id());
            done();
            let result = answer.map(|answer| context.encode(&id, answer));
            responder.answer(result.map_err(|refusal| refuse(&about, refusal, &wire.raws)));
            Box::pin(async move {
                passed.await.ok();
            })
        },
    )
}

/// Answers at once, without a session.
pub(in crate::server) fn answer(responder: Responds, result: Result<Value, Error>) {
    responder.answer(result);
}

/// What was done, as version 1 answers it.
pub fn encode(id: &str, answer: Answer, raws: &VerbatimResults) -> Value {
    match answer.done {
        Done::Created(extra) => opened(id, extra, Map::new(), raws),
        Done::Forked(extra) | Done::Loaded(extra) | Done::Resumed(extra) => {
            let mut notes = Map::new();
            if !answer.damage.is_empty() {
                notes.insert("damage".to_owned(), damage(&answer.damage));
            }
            if let Some(elsewhere) = answer.elsewhere {
                notes.insert(
                    "holder".to_owned(),
                    error::holder(elsewhere.holder.as_ref()),
                );
            }
            if let Some(reason) = answer.read_only {
                notes.insert("readOnly".to_owned(), reason.into());
            }
            opened(id, extra, notes, raws)
        }
        Done::Taken(message_id) => json!({ "messageId": message_id }),
        Done::Stopped(ended) => raws.put(ended.result()),
        Done::Served(result) => raws.put(result),
        Done::Titled(title) => json!({ "title": title }),
        Done::Status { open, .. } => json!({ "status": if open { "open" } else { "saved" } }),
        Done::Noted | Done::Closed | Done::Deleted => json!({}),
    }
}

/// The session's id, the engine's own members beside it, and our notes on it.
fn opened(
    id: &str,
    extra: Option<String>,
    mut notes: Map<String, Value>,
    raws: &VerbatimResults,
) -> Value {
    let mut result = Map::new();
    result.insert("sessionId".to_owned(), id.into());
    let mut meta = Map::new();
    for (name, value) in extra.iter().flat_map(|extra| json::text_members(extra)) {
        match name.as_str() {
            "sessionId" => {}
            "_meta" => {
                for (name, value) in json::text_members(value) {
                    if name == "rejoin" {
                        let own = json::text_members(value).into_iter();
                        notes.extend(own.map(|(name, value)| (name, raws.put(value.to_owned()))));
                    } else {
                        meta.insert(name, raws.put(value.to_owned()));
                    }
                }
            }
            _ => {
                result.insert(name, raws.put(value.to_owned()));
            }
        }
    }
    if !notes.is_empty() {
        meta.insert("rejoin".to_owned(), notes.into());
    }
    if !meta.is_empty() {
        result.insert("_meta".to_owned(), meta.into());
    }
    result.into()
}

/// What is wrong with a log, as clients are told.
pub(in crate::server) fn damage(damage: &[DamageReport]) -> Value {
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

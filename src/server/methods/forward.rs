//! Hands on what we know nothing of to the agent behind the engine.

use serde_json::Value;

use crate::engine::Relay;
use crate::engine::relay::{Greeted, Patience};
use crate::json::string_member;
use crate::server::error;
use crate::server::wind_down::AT_LEISURE_WRAPPED;
use crate::session::Request;

use super::context::{Context, Responds};
use super::greeting::{merge, without};
use super::reply::{answer, reply};

/// Hands on a request. One that is about a session goes by way of it, so that it comes in order
/// with what else is asked of it.
pub(super) fn request(
    context: &Context,
    relay: &dyn Relay,
    method: &str,
    params: &str,
    responder: Responds,
) {
    if let Some(name) = string_member(params, "sessionId") {
        return to_session(context, &name, method, params, responder);
    }
    let cancellation = responder.cancellation();
    let cancelled = Box::pin(async move { cancellation.cancelled().await });
    let id = responder.id();
    let call = relay.call(&id, method, params, cancelled);
    let registry = context.registry().clone();
    let busy = registry.requests().begin();
    tokio::spawn(async move {
        let result = call.await;
        let raws = &registry.deps().wire.raws;
        answer(
            responder,
            result
                .map(|text| raws.put(text))
                .map_err(|error| error::engine(error, raws)),
        );
        drop(busy);
    });
}

/// Has the engine of a session serve a request that is about it.
pub(super) fn to_session(
    context: &Context,
    name: &str,
    method: &str,
    params: &str,
    responder: Responds,
) {
    let id = match context.find(name) {
        Ok(id) => id,
        Err(error) => return answer(responder, Err(error)),
    };
    let requests = context.registry().requests();
    let reply = reply(context, requests, name, responder, || ());
    let (method, params) = (method.to_owned(), params.to_owned());
    context.registry().send(
        &id,
        Request::Call {
            reply,
            method,
            params,
        },
    );
}

/// Hands on a notification.
pub(super) fn notification(context: &Context, relay: &dyn Relay, method: &str, params: &str) {
    match string_member(params, "sessionId") {
        Some(name) => {
            if let Some(id) = context.named(&name) {
                let (method, params) = (method.to_owned(), params.to_owned());
                let notify = Request::Notify { method, params };
                context.registry().send(&id, notify);
            }
        }
        None => relay.notify(method, params),
    }
}

/// Answers `initialize` with what the agent says, and what we add to it.
pub(super) fn initialize(
    context: &Context,
    relay: &dyn Relay,
    params: String,
    ours: Value,
    responder: Responds,
) {
    let greeting = relay.greet(params);
    let registry = context.registry().clone();
    let busy = registry.requests().begin();
    tokio::spawn(async move {
        // An agent that does not answer a client that has left is not waited for.
        let left = async {
            registry.deps().wire.ended().await;
            tokio::time::sleep(AT_LEISURE_WRAPPED.requests).await;
        };
        tokio::pin!(greeting);
        let result = tokio::select! {
            result = &mut greeting => result,
            () = left => {
                if let Some(relay) = registry.deps().engine.relay() {
                    relay.leave(Patience::Hurry).await;
                }
                greeting.await
            }
        };
        let raws = &registry.deps().wire.raws;
        let persistent = registry.deps().store.is_some();
        let answered = match result {
            Greeted::Answered(Ok(theirs)) => Ok(merge(&theirs, ours, persistent, raws)),
            Greeted::Answered(Err(refused)) => Err(error::engine(refused, raws)),
            Greeted::Unavailable(failed) => Ok(without(&failed, ours)),
        };
        answer(responder, answered);
        drop(busy);
    });
}

//! What comes through the link to the owner of a session, in its order.

use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::{mpsc, oneshot};

use crate::engine::BoxFuture;
use crate::json::text_member;
use crate::protocol::method::CANCEL_REQUEST;
use crate::transport::{ClientConnection, Incoming, IncomingRequest, Received};

use super::message::STOPPED;

use super::feed::{ClientQuestion, FromOwner, Withdrawal};

/// A request that was passed on to the owner: the event of its answer.
pub(in crate::session) type Passing = BoxFuture<'static, FromOwner>;

/// Reports what comes until the link ends, and then the end of the requests that were passed on.
pub(in crate::session) async fn pass_on(
    mut incoming: Incoming,
    connection: Arc<ClientConnection>,
    mut passing: mpsc::UnboundedReceiver<Passing>,
    report: impl Fn(FromOwner),
) {
    let mut calls = Vec::new();
    loop {
        let received = tokio::select! {
            biased;
            Some(call) = passing.recv() => {
                calls.push(call);
                continue;
            }
            answered = first(&mut calls) => {
                report(answered);
                continue;
            }
            received = incoming.next() => received,
        };
        // Responses that came before this were delivered while it was waited for.
        loop {
            tokio::select! {
                biased;
                Some(call) = passing.recv() => calls.push(call),
                answered = first(&mut calls) => report(answered),
                () = ready(()) => break,
            }
        }
        match received {
            Some(Received::Request(request)) => report(FromOwner::Asked(asked(request))),
            Some(Received::Notification { method, .. }) if method == STOPPED => {
                report(FromOwner::Stopped);
            }
            Some(Received::Notification { method, params }) if method == CANCEL_REQUEST => {
                if let Some(id) = text_member(&params, "requestId") {
                    connection.requests.cancel(id);
                }
            }
            Some(Received::Notification { method, params }) => {
                report(FromOwner::Notified { method, params });
            }
            None => break,
        }
    }
    // Nobody waits for what the engine of the owner has requested.
    connection.requests.cancel_all();
    report(FromOwner::Closed);
    while let Some(call) = passing.recv().await {
        calls.push(call);
    }
    for call in calls {
        report(call.await);
    }
}

/// The event of the first of these that has ended.
async fn first(calls: &mut Vec<Passing>) -> FromOwner {
    poll_fn(|cx| {
        for at in 0..calls.len() {
            if let Some(call) = calls.get_mut(at)
                && let Poll::Ready(event) = call.as_mut().poll(cx)
            {
                drop(calls.remove(at));
                return Poll::Ready(event);
            }
        }
        Poll::Pending
    })
    .await
}

/// A request of the owner's engine. Its form is known to the front.
fn asked(request: IncomingRequest) -> ClientQuestion {
    let IncomingRequest {
        method,
        params,
        responder,
    } = request;
    let (answer, answered) = oneshot::channel();
    let withdrawal = Withdrawal::with(responder.cancellation());
    tokio::spawn(async move {
        if let Ok(outcome) = answered.await {
            responder.answer(outcome);
        }
    });
    ClientQuestion {
        method,
        params,
        is_native: false,
        answer,
        withdrawal,
    }
}

//! The parts of a connection that both planes share.

use tokio::sync::watch;

use super::answers::Answers;
use super::calls::{self, Call, Outcome, OutgoingRequests};
use super::flow::Flow;
use super::raws::VerbatimResults;
use super::stash::PendingParams;
use super::writer::Writer;

/// The shared parts of one connection.
#[derive(Debug)]
pub struct Wire {
    /// Receives the lines to the client.
    pub writer: Writer,
    /// Parameters on their way to their handlers.
    pub stash: PendingParams,
    /// Waiters for our responses to the client.
    pub answers: Answers,
    /// Requests that we sent to the client.
    pub calls: OutgoingRequests,
    /// Results on their way through the SDK.
    pub raws: VerbatimResults,
    /// The limits of pending work.
    pub flow: Flow,
    /// Whether the client's input has ended. The SDK learns it only when it has read everything.
    pub ended: watch::Sender<bool>,
}

impl Wire {
    /// Sends the client a request and waits for its response. `None` if the client is gone.
    /// `params` is the JSON text of an object. When `cancelled` resolves, the request is withdrawn,
    /// but its response is still awaited.
    pub async fn call(
        &self,
        method: &str,
        params: &str,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Option<Outcome> {
        let call = self.ask(method, params).await?;
        self.answer_to(call, cancelled).await
    }

    /// Sends the client a request. It follows everything that was sent before. `None` if the client
    /// is gone.
    pub async fn ask(&self, method: &str, params: &str) -> Option<Call> {
        let call = self.calls.begin();
        let line = calls::request_line(call.id, method, params);
        self.writer.control(line.as_bytes()).await.ok()?;
        Some(call)
    }

    /// Waits for the response to a request, as [`Wire::call`] does.
    pub async fn answer_to(
        &self,
        mut call: Call,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Option<Outcome> {
        tokio::select! {
            outcome = &mut call => return outcome,
            () = cancelled => {}
        }
        self.take_back(&call).await;
        call.await
    }

    /// Withdraws a request. The client still answers it.
    pub async fn take_back(&self, call: &Call) {
        let params = format!("{{\"requestId\":{}}}", call.id);
        self.notify("$/cancel_request", &params).await;
    }

    /// Waits until the client's input has ended.
    pub async fn ended(&self) {
        // The sender is in `self`, so waiting cannot fail.
        self.ended.subscribe().wait_for(|ended| *ended).await.ok();
    }

    /// Sends the client a notification. `params` is the JSON text of an object.
    pub async fn notify(&self, method: &str, params: &str) {
        let line = calls::notification_line(method, params);
        // A client that is gone needs no notification.
        self.writer.control(line.as_bytes()).await.ok();
    }
}

//! What both planes of a connection share.

use tokio::sync::watch;

use super::answers::Answers;
use super::calls::{self, Call, Calls, Outcome};
use super::raws::Raws;
use super::stash::Stash;
use super::writer::Writer;

/// One connection's shared parts.
#[derive(Debug)]
pub struct Wire {
    /// Where lines to the client go.
    pub writer: Writer,
    /// Parameters on their way to their handlers.
    pub stash: Stash,
    /// Who waits for which answer.
    pub answers: Answers,
    /// Requests that we sent to the client.
    pub calls: Calls,
    /// Results on their way through the SDK.
    pub raws: Raws,
    /// Whether the client has said all it will say, which the SDK learns only when it comes to it.
    pub ended: watch::Sender<bool>,
}

impl Wire {
    /// Sends the client a request and waits for its response; `None` if the client is gone.
    /// `params` is the JSON text of an object. When `cancelled` resolves, the client is told, and
    /// its response is waited for all the same.
    pub async fn call(
        &self,
        method: &str,
        params: &str,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Option<Outcome> {
        let call = self.ask(method, params).await?;
        self.answer_to(call, cancelled).await
    }

    /// Sends the client a request: it comes behind all that was sent before. `None` if the client
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

    /// Tells the client that a request is no longer wanted. It answers all the same.
    pub async fn take_back(&self, call: &Call) {
        let params = format!("{{\"requestId\":{}}}", call.id);
        self.notify("$/cancel_request", &params).await;
    }

    /// Waits until the client has said all it will say.
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

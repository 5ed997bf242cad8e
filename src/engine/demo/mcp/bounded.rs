//! Limits what an MCP server can send, as the library accepts messages of any size and number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rmcp::model::{
    ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerNotification,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The longest message that a server may send, in bytes.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// The error of a request whose response is too long.
pub(super) const TOO_LONG: &str = "it sent a message of more than 16 MiB, which was discarded";

/// How many requests of a server may be pending at once. The next one is read when one of them has
/// been answered.
const OPEN: usize = 32;

/// A transport that is read only as fast as the server's requests are answered.
pub(super) struct Bounded<T> {
    inner: T,
    /// Notified when a message is too long.
    too_long: Arc<Notify>,
    /// Our pending requests.
    asked: Vec<RequestId>,
    /// The server's pending requests.
    open: HashMap<RequestId, OwnedSemaphorePermit>,
    room: Arc<Semaphore>,
    /// Errors for requests whose response was too long.
    failed: VecDeque<RxJsonRpcMessage<RoleClient>>,
}

impl<T> Bounded<T> {
    /// Wraps a transport that limits the length of messages by itself, and notifies `too_long` of
    /// those that it discards.
    pub(super) fn new(inner: T, too_long: Arc<Notify>) -> Self {
        Self {
            inner,
            too_long,
            asked: Vec::new(),
            open: HashMap::new(),
            room: Arc::new(Semaphore::new(OPEN)),
            failed: VecDeque::new(),
        }
    }

    /// Handles a received message. Returns whether it is to be passed on.
    fn received(
        &mut self,
        message: &RxJsonRpcMessage<RoleClient>,
        permit: OwnedSemaphorePermit,
    ) -> bool {
        match message {
            // With two pending requests of the same id, a response would be ambiguous.
            JsonRpcMessage::Request(request) if self.open.contains_key(&request.id) => {
                return false;
            }
            JsonRpcMessage::Request(request) => {
                self.open.insert(request.id.clone(), permit);
            }
            JsonRpcMessage::Response(response) => self.answered(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.answered(id);
                }
            }
            JsonRpcMessage::Notification(notification) => {
                // The library does not answer a cancelled request.
                if let ServerNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
        }
        true
    }

    fn answered(&mut self, id: &RequestId) {
        // Some servers answer the number 1 as the string "1".
        let id = id.to_string();
        self.asked.retain(|asked| asked.to_string() != id);
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bounded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let permit = match &item {
            JsonRpcMessage::Request(request) => {
                self.asked.push(request.id.clone());
                None
            }
            JsonRpcMessage::Response(response) => self.open.remove(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.open.remove(id)),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.asked.retain(|asked| asked != id);
                }
                None
            }
        };
        let sent = self.inner.send(item);
        async move {
            let sent = sent.await;
            // A request is pending until the response is written, for servers that do not read
            // responses.
            drop(permit);
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(failed) = self.failed.pop_front() {
                return Some(failed);
            }
            let permit = self.room.clone().acquire_owned().await.ok()?;
            let message = tokio::select! {
                biased;
                () = self.too_long.notified() => {
                    // The request that the long message answers is unknown, and would wait forever,
                    // so all fail.
                    let error = |id| {
                        let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, TOO_LONG, None);
                        JsonRpcMessage::error(error, Some(id))
                    };
                    self.failed = self.asked.drain(..).map(error).collect();
                    continue;
                }
                message = self.inner.receive() => message?,
            };
            if self.received(&message, permit) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::task::Poll;

    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    /// A server that sends all this at once, and reads as many responses as it has permits for.
    struct Flood {
        messages: VecDeque<Value>,
        reads: Arc<Semaphore>,
        sent: mpsc::UnboundedSender<TxJsonRpcMessage<RoleClient>>,
    }

    impl Transport<RoleClient> for Flood {
        type Error = io::Error;

        fn send(
            &mut self,
            item: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = io::Result<()>> + Send + 'static {
            let (reads, sent) = (self.reads.clone(), self.sent.clone());
            async move {
                reads.acquire().await.map_err(io::Error::other)?.forget();
                sent.send(item).map_err(io::Error::other)
            }
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            let message = self.messages.pop_front()?;
            Some(serde_json::from_value(message).unwrap())
        }

        async fn close(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ping(id: impl Into<Value>) -> Value {
        json!({ "jsonrpc": "2.0", "id": id.into(), "method": "ping" })
    }

    fn flood(messages: impl IntoIterator<Item = Value>) -> (Bounded<Flood>, Arc<Semaphore>) {
        let reads = Arc::new(Semaphore::new(0));
        let flood = Flood {
            messages: messages.into_iter().collect(),
            reads: reads.clone(),
            sent: mpsc::unbounded_channel().0,
        };
        (Bounded::new(flood, Arc::default()), reads)
    }

    /// How many messages can be received while none of them is answered.
    async fn received(bounded: &mut Bounded<Flood>) -> usize {
        let mut count = 0;
        while let Poll::Ready(Some(_)) = poll(bounded.receive()).await {
            count += 1;
        }
        count
    }

    async fn poll<F: Future>(future: F) -> Poll<F::Output> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
    }

    fn answer(id: i64) -> TxJsonRpcMessage<RoleClient> {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": {} });
        serde_json::from_value(answer).unwrap()
    }

    #[tokio::test]
    async fn requests_wait_while_others_are_open() {
        let (mut bounded, reads) = flood((0..1000).map(ping));
        assert_eq!(received(&mut bounded).await, OPEN);
        let answering = bounded.send(answer(0));
        // The response was sent, but the server has not read it.
        let mut answering = std::pin::pin!(answering);
        assert!(poll(answering.as_mut()).await.is_pending());
        assert_eq!(received(&mut bounded).await, 0);
        reads.add_permits(1);
        answering.await.ok();
        assert_eq!(received(&mut bounded).await, 1);
    }

    #[tokio::test]
    async fn a_request_with_the_id_of_an_open_one_is_dropped() {
        let (mut bounded, _) = flood([ping("a"), ping("a"), ping(1)]);
        assert_eq!(received(&mut bounded).await, 2);
    }

    #[tokio::test]
    async fn a_cancelled_request_is_not_open() {
        let cancel = |id: u64| {
            json!({
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": { "requestId": id },
            })
        };
        let cancelled = (0..50).flat_map(|id| [ping(id), cancel(id)]);
        let (mut bounded, _) = flood(cancelled);
        assert_eq!(received(&mut bounded).await, 100);
    }
}

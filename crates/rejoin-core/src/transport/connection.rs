//! The connection to the client: a thread that reads, a thread that writes, and what is under way.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::thread;

use tokio::sync::{mpsc, watch};

use super::flow::{Flow, ProcessFlow};
use super::line::LineReader;
use super::message::{self, Message, MessageForm, Outcome};
use super::outgoing::{OutgoingRequest, OutgoingRequests};
use super::requests::{IncomingRequest, Requests};
use super::writer::Writer;
use crate::sys::output::LineOutput;

/// The longest line of input that is accepted by default: 32 MiB.
pub const LINE_LIMIT: usize = 32 * 1024 * 1024;

/// How many messages may be read ahead of their handling. Small, because each may be as long as a
/// line.
const READ_AHEAD: usize = 2;

/// How much is read from the input at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// The shared parts of one connection.
#[derive(Debug)]
pub struct ClientConnection {
    /// Receives the lines to the client.
    pub writer: Writer,
    /// Requests of the client that are not answered.
    pub requests: Requests,
    /// Requests that we sent to the client.
    pub outgoing: OutgoingRequests,
    /// The limits of pending work.
    pub flow: Flow,
    /// The longest line that the client may send, in bytes: what it could send it can get back.
    pub line_limit: usize,
    /// Whether the client's input has ended, even if not all of it is handled.
    ended: watch::Sender<bool>,
}

/// Starts reading `input` and writing `output`, each on its own thread. `form` is the form of
/// messages that are accepted, and `process` what the connections of this process share.
pub fn connect(
    input: impl Read + Send + 'static,
    output: impl Into<LineOutput>,
    line_limit: usize,
    form: MessageForm,
    process: &ProcessFlow,
) -> io::Result<(Arc<ClientConnection>, Incoming)> {
    let output = output.into();
    let other_end = output.at_once.other_end();
    let writer = Writer::start(output)?;
    let unread = writer.downgrade();
    let wire = Arc::new(ClientConnection {
        requests: Requests::new(writer.clone()),
        writer,
        outgoing: OutgoingRequests::default(),
        flow: process.connection(line_limit),
        line_limit,
        ended: watch::Sender::new(false),
    });
    let ended = wire.ended.clone();
    let (sender, messages) = mpsc::channel(READ_AHEAD);
    thread::Builder::new()
        .name("rejoin-reader".to_owned())
        .spawn(move || {
            let mut lines = LineReader::new(BufReader::with_capacity(BLOCK, input), line_limit);
            loop {
                match lines.next_line() {
                    Ok(Some(line)) => {
                        let message = message::read_as(line, line_limit, form);
                        if sender.blocking_send(message).is_err() {
                            break;
                        }
                    }
                    Ok(None) => break,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                    Err(error) => {
                        tracing::warn!(%error, "reading failed; treating it as the end of input");
                        break;
                    }
                }
            }
            drop((lines, sender));
            ended.send_replace(true);
            if let Some(other_end) = other_end {
                // What is left is answered only as long as somebody may read it.
                other_end.wait_until_gone();
                unread.give_up();
            }
        })?;
    let incoming = Incoming {
        wire: wire.clone(),
        messages,
    };
    Ok((wire, incoming))
}

/// The messages of the client.
#[derive(Debug)]
pub struct Incoming {
    wire: Arc<ClientConnection>,
    messages: mpsc::Receiver<Message>,
}

/// A message of the client.
#[derive(Debug)]
pub enum Received {
    /// A request, to be answered through its responder.
    Request(IncomingRequest),
    /// A notification.
    Notification {
        /// The method's name.
        method: String,
        /// The parameters' JSON text.
        params: String,
    },
}

impl Incoming {
    /// The next request or notification; `None` at the end of input, or if the client no longer
    /// reads. Waits while too much is pending. Answers invalid lines, and delivers responses to
    /// their waiters.
    pub async fn next(&mut self) -> Option<Received> {
        loop {
            self.wire.flow.room().await;
            let Some(message) = self.messages.recv().await else {
                // A client that sends no more input sends no more responses.
                self.wire.outgoing.close();
                return None;
            };
            match message {
                Message::Blank => {}
                Message::Invalid(invalid) => {
                    self.wire
                        .writer
                        .control(invalid.line().as_bytes())
                        .await
                        .ok()?;
                }
                Message::Response { id, outcome } => {
                    if !self.wire.outgoing.resolve(&id, outcome) {
                        tracing::debug!(id, "a response to no pending request");
                    }
                }
                Message::Notification { method, params } => {
                    return Some(Received::Notification { method, params });
                }
                Message::Request { id, method, params } => {
                    // The id is held by the responder and twice by the table of requests.
                    let held = self.wire.flow.request(&method, params.len() + 3 * id.len());
                    let responder = self.wire.requests.begin(id, held);
                    return Some(Received::Request(IncomingRequest {
                        method,
                        params,
                        responder,
                    }));
                }
            }
        }
    }
}

impl ClientConnection {
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
    pub async fn ask(&self, method: &str, params: &str) -> Option<OutgoingRequest> {
        let call = self.outgoing.begin();
        self.request(call.id, method, params).await.then_some(call)
    }

    /// Sends the client the request of a call that has begun. Returns false if the client is gone:
    /// the call ends with the client's input then.
    pub async fn request(&self, id: u64, method: &str, params: &str) -> bool {
        let line = message::request_line(&id.to_string(), method, params);
        self.writer.control(line.as_bytes()).await.is_ok()
    }

    /// Waits for the response to a request, as [`ClientConnection::call`] does.
    pub async fn answer_to(
        &self,
        mut call: OutgoingRequest,
        cancelled: impl Future<Output = ()> + Send,
    ) -> Option<Outcome> {
        tokio::select! {
            outcome = &mut call => return outcome,
            () = cancelled => {}
        }
        self.withdraw(&call);
        call.await
    }

    /// Withdraws a request, without waiting until the client reads. The client still answers it.
    pub fn withdraw(&self, call: &OutgoingRequest) {
        self.withdraw_request(call.id);
    }

    /// Notifies the client that the response to the request with this id is not needed any longer, if
    /// the response can still come.
    pub fn withdraw_request(&self, id: u64) {
        if self.outgoing.is_waiting(id) {
            self.put(&message::cancel_line(&id.to_string()));
        }
    }

    /// Sends a request as [`Self::ask`] does, without waiting until the other side reads. The caller
    /// bounds how much of that waits.
    pub fn ask_at_once(&self, method: &str, params: &str) -> OutgoingRequest {
        let call = self.outgoing.begin();
        let line = message::request_line(&call.id.to_string(), method, params);
        self.put(&line);
        call
    }

    /// Sends a notification without waiting until the other side reads. It must be short.
    pub fn notify_at_once(&self, method: &str, params: &str) {
        self.put(&message::notification_line(method, params));
    }

    fn put(&self, line: &str) {
        // A client that is gone needs nothing; the call ends with its input.
        self.writer.put_line(line.trim_end().as_bytes()).ok();
    }

    /// Whether the client's input has ended.
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until the client's input has ended.
    pub async fn ended(&self) {
        // The sender is in `self`, so waiting cannot fail.
        self.ended.subscribe().wait_for(|ended| *ended).await.ok();
    }

    /// Sends the client a notification. `params` is the JSON text of an object.
    pub async fn notify(&self, method: &str, params: &str) {
        self.send(&message::notification_line(method, params)).await;
    }

    async fn send(&self, line: &str) {
        // A client that is gone needs no notification.
        self.writer.control(line.as_bytes()).await.ok();
    }
}

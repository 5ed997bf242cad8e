//! The protocol's own Rust client against the binary, in both versions: every update decodes into
//! its types, and a conversation survives the death of the process. In version 2 also with an agent
//! that is wrapped.

use std::io::{self, BufRead, BufReader, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use crate::support::agent::Agent as Running;

/// Where a client sends its lines.
pub(crate) struct Outgoing(pub(crate) Arc<Mutex<Box<dyn Running>>>);

/// Where a client's lines come from.
pub(crate) struct Incoming(mpsc::UnboundedReceiver<String>);

impl futures_sink::Sink<String> for Outgoing {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, line: String) -> io::Result<()> {
        let mut agent = self.0.lock().expect("no thread panics with it");
        match agent.send(format!("{line}\n").as_bytes()) {
            // A killed agent takes nothing more; the end of its lines shows that it is gone.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().expect("no thread panics with it").end_input();
        Poll::Ready(Ok(()))
    }
}

impl futures_core::Stream for Incoming {
    type Item = io::Result<String>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|line| line.map(Ok))
    }
}

pub(crate) fn incoming(output: Box<dyn Read + Send>) -> Incoming {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Incoming(lines)
}

/// What the tests of both versions share: each has types of its own for the same things.
macro_rules! client {
    ($version:ident, $notification:ident) => {
        use std::path::Path;
        use std::sync::{Arc, Mutex};

        use agent_client_protocol::schema::ProtocolVersion;
        use agent_client_protocol::$version::ConnectionTo;
        use agent_client_protocol::{Agent, Client, Error, Lines};
        use tokio::sync::watch;

        use super::{Outgoing, incoming};
        use crate::support::agent::{Agent as Running, GUARD};
        use crate::support::process;

        /// The updates a client was sent.
        type Updates = watch::Sender<Vec<SessionUpdate>>;

        /// Starts the agent with these arguments, initializes it and has a client do something with
        /// it, which grants what it is asked for. The process is gone afterwards.
        async fn with_agent<T: Send>(
            store: &Path,
            args: &[String],
            work: impl AsyncFnOnce(
                ConnectionTo<Agent>,
                &Updates,
                Arc<Mutex<Box<dyn Running>>>,
            ) -> Result<T, Error>,
        ) -> T {
            let (agent, output) = process::start(store, args);
            let agent = Arc::new(Mutex::new(agent));
            let updates = Updates::default();
            let seen = updates.clone();
            let running = agent.clone();
            let connected = Client
                .$version()
                .on_receive_request(
                    async |request: RequestPermissionRequest, responder, _| {
                        let option = request.options[0].option_id.clone();
                        let outcome = SelectedPermissionOutcome::new(option);
                        let outcome = RequestPermissionOutcome::Selected(outcome);
                        responder.respond(RequestPermissionResponse::new(outcome))
                    },
                    agent_client_protocol::on_receive_request!(),
                )
                .on_receive_notification(
                    async move |notification: $notification, _| {
                        seen.send_modify(|updates| updates.push(notification.update));
                        Ok(())
                    },
                    agent_client_protocol::on_receive_notification!(),
                )
                .connect_with(
                    Lines::new(Outgoing(agent.clone()), incoming(output)),
                    async |connection: ConnectionTo<Agent>| {
                        initialize(&connection).await?;
                        work(connection, &updates, running).await
                    },
                );
            let result = tokio::time::timeout(GUARD, connected).await;
            result.expect("it does not hang").expect("all went well")
        }

        fn prompt(session: &SessionId, text: &str) -> PromptRequest {
            let text = ContentBlock::Text(TextContent::new(text));
            PromptRequest::new(session.clone(), vec![text])
        }

        /// The updates of one kind: adjacent texts of one message as one, everything else as it is.
        fn joined(
            updates: &[SessionUpdate],
            is_kept: impl Fn(&SessionUpdate) -> bool,
        ) -> Vec<SessionUpdate> {
            let mut joined: Vec<SessionUpdate> = Vec::new();
            for update in updates {
                let continues = match (joined.last_mut(), update) {
                    (
                        Some(SessionUpdate::AgentMessageChunk(last)),
                        SessionUpdate::AgentMessageChunk(next),
                    )
                    | (
                        Some(SessionUpdate::AgentThoughtChunk(last)),
                        SessionUpdate::AgentThoughtChunk(next),
                    ) => join(last, next),
                    _ => false,
                };
                if !continues && is_kept(update) {
                    joined.push(update.clone());
                }
            }
            joined
        }

        fn join(last: &mut ContentChunk, next: &ContentChunk) -> bool {
            match (&mut last.content, &next.content) {
                (ContentBlock::Text(last_text), ContentBlock::Text(next_text))
                    if last.message_id == next.message_id =>
                {
                    last_text.text.push_str(&next_text.text);
                    true
                }
                _ => false,
            }
        }

        /// Snapshots of the session's title: live when its first turn ends, in a replay after the
        /// history.
        fn titles(updates: &[SessionUpdate]) -> Vec<&SessionUpdate> {
            let titles = updates
                .iter()
                .filter(|update| matches!(update, SessionUpdate::SessionInfoUpdate(_)));
            titles.collect()
        }
    };
}

mod v1;
mod v2;

//! The protocol's own Rust client against the binary: every update decodes into its types, and a
//! conversation survives the death of the process.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, InitializeRequest, LoadSessionRequest, NewSessionRequest,
    PromptRequest, SessionNotification, SessionUpdate, StopReason, TextContent, ToolCallStatus,
};
use agent_client_protocol::{Agent, Client, Error, Lines};
use tokio::sync::{mpsc, watch};

use crate::support::agent::{Agent as Running, GUARD};
use crate::support::process;

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
        let mut agent = self.0.lock().expect("nobody panics with it");
        match agent.send(format!("{line}\n").as_bytes()) {
            // Who was killed takes nothing more; that it is gone is seen where its lines end.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().expect("nobody panics with it").end_input();
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

/// The updates a client was sent.
type Updates = watch::Sender<Vec<SessionUpdate>>;

/// Starts the agent, initializes it and has a client do something with it. The process is gone
/// afterwards.
async fn with_agent<T: Send>(
    store: &Path,
    work: impl AsyncFnOnce(
        ConnectionTo<Agent>,
        &Updates,
        Arc<Mutex<Box<dyn Running>>>,
    ) -> Result<T, Error>,
) -> T {
    let (agent, output) = process::start(store, &[]);
    let agent = Arc::new(Mutex::new(agent));
    let updates = Updates::default();
    let seen = updates.clone();
    let running = agent.clone();
    let connected = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                seen.send_modify(|updates| updates.push(notification.update));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(
            Lines::new(Outgoing(agent.clone()), incoming(output)),
            async |connection: ConnectionTo<Agent>| {
                let request = InitializeRequest::new(ProtocolVersion::V1);
                let response = connection.send_request(request).block_task().await?;
                assert_eq!(response.protocol_version, ProtocolVersion::V1);
                assert!(response.agent_capabilities.load_session);
                work(connection, &updates, running).await
            },
        );
    let result = tokio::time::timeout(GUARD, connected).await;
    result.expect("it does not hang").expect("all went well")
}

fn text(text: &str) -> Vec<ContentBlock> {
    vec![ContentBlock::Text(TextContent::new(text))]
}

/// What updates show: adjacent texts of one message as one, everything else as it is; what is no
/// history left out.
fn shown(updates: &[SessionUpdate]) -> Vec<SessionUpdate> {
    let mut shown: Vec<SessionUpdate> = Vec::new();
    for update in updates {
        let joined = match (shown.last_mut(), update) {
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
        let passes = matches!(
            update,
            SessionUpdate::AvailableCommandsUpdate(_) | SessionUpdate::SessionInfoUpdate(_)
        );
        if !joined && !passes {
            shown.push(update.clone());
        }
    }
    shown
}

/// Snapshots of the session's title: live when its first turn ends, in a replay behind the history.
fn titles(updates: &[SessionUpdate]) -> Vec<&SessionUpdate> {
    let is_title = |update: &&SessionUpdate| matches!(update, SessionUpdate::SessionInfoUpdate(_));
    updates.iter().filter(is_title).collect()
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

/// All that was said, by whomever.
fn said(updates: &[SessionUpdate]) -> String {
    let chunks = updates.iter().filter_map(|update| match update {
        SessionUpdate::UserMessageChunk(chunk) | SessionUpdate::AgentMessageChunk(chunk) => {
            Some(&chunk.content)
        }
        _ => None,
    });
    let texts = chunks.filter_map(|content| match content {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn is_in_progress(update: &SessionUpdate) -> bool {
    match update {
        SessionUpdate::ToolCallUpdate(update) => {
            update.fields.status == Some(ToolCallStatus::InProgress)
        }
        _ => false,
    }
}

#[tokio::test]
async fn a_killed_agent_is_loaded_and_prompted_again() {
    let store = tempfile::tempdir().expect("folders can be made");
    let (session, live) = with_agent(store.path(), async |connection, updates, agent| {
        let request = NewSessionRequest::new("/w");
        let session = connection
            .send_request(request)
            .block_task()
            .await?
            .session_id;
        let prompt = |words: &str| PromptRequest::new(session.clone(), text(words));
        let response = connection
            .send_request(prompt("/demo"))
            .block_task()
            .await?;
        assert_eq!(response.stop_reason, StopReason::EndTurn);
        let so_far = updates.borrow().len();

        let unfinished = connection.send_request(prompt("/tool execute slow 600"));
        let mut changes = updates.subscribe();
        let running = changes.wait_for(|updates| updates[so_far..].iter().any(is_in_progress));
        drop(running.await.expect("the sender is here"));
        agent.lock().expect("nobody panics with it").kill();
        assert!(
            unfinished.block_task().await.is_err(),
            "nobody is left to answer"
        );
        let live = updates.borrow().clone();
        Ok((session, live))
    })
    .await;

    let replayed = with_agent(store.path(), async |connection, updates, _| {
        let request = LoadSessionRequest::new(session.clone(), "/w");
        connection.send_request(request).block_task().await?;
        let replayed = updates.borrow().clone();
        let request = PromptRequest::new(session.clone(), text("/recall 2"));
        let response = connection.send_request(request).block_task().await?;
        assert_eq!(response.stop_reason, StopReason::EndTurn);
        assert_eq!(
            said(&updates.borrow()[replayed.len()..]),
            "Prompt 1 of this session was:\n\n/demo"
        );
        Ok(replayed)
    })
    .await;
    let is_user = |update: &SessionUpdate| matches!(update, SessionUpdate::UserMessageChunk(_));
    let (user, mut history): (Vec<_>, Vec<_>) = shown(&replayed).into_iter().partition(is_user);
    assert_eq!(said(&user), "/demo/tool execute slow 600");
    match history.pop() {
        Some(SessionUpdate::ToolCallUpdate(closed)) => {
            assert_eq!(closed.fields.status, Some(ToolCallStatus::Failed));
        }
        other => panic!("the open call was not closed: {other:?}"),
    }
    assert_eq!(history, shown(&live));
    assert_eq!(titles(&replayed), titles(&live));
    assert_eq!(titles(&live).len(), 1);
}

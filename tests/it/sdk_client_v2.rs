//! The protocol's own Rust client of version 2 against the binary: every update decodes into its
//! types, and a conversation survives the death of the process.

use std::path::Path;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v2::ConnectionTo;
use agent_client_protocol::v2::schema::{
    ContentBlock, ContentChunk, Implementation, InitializeRequest, MessageId, NewSessionRequest,
    PromptRequest, ReplayFrom, ReplayFromStart, ResumeSessionRequest, SessionId, SessionUpdate,
    StateUpdate, StopReason, TextContent, ToolCallStatus, UpdateSessionNotification,
};
use agent_client_protocol::{Agent, Client, Error, Lines};
use tokio::sync::watch;

use crate::sdk_client::{Outgoing, incoming};
use crate::support::agent::{Agent as Running, GUARD};
use crate::support::process;

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
        .v2()
        .on_receive_notification(
            async move |notification: UpdateSessionNotification, _| {
                seen.send_modify(|updates| updates.push(notification.update));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(
            Lines::new(Outgoing(agent.clone()), incoming(output)),
            async |connection: ConnectionTo<Agent>| {
                let info = Implementation::new("sdk", "1");
                let request = InitializeRequest::new(ProtocolVersion::V2, info);
                let response = connection.send_request(request).block_task().await?;
                assert_eq!(response.protocol_version, ProtocolVersion::V2);
                assert!(response.capabilities.session.is_some());
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

/// What the agent has shown: adjacent texts of one message as one, everything else as it is.
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
        let of_agent = !matches!(
            update,
            SessionUpdate::UserMessage(_)
                | SessionUpdate::UserMessageChunk(_)
                | SessionUpdate::StateUpdate(_)
                | SessionUpdate::SessionInfoUpdate(_)
        );
        if !joined && of_agent {
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

/// The messages of the user, with their ids.
fn asked(updates: &[SessionUpdate]) -> Vec<(MessageId, Vec<ContentBlock>)> {
    let mut messages = Vec::new();
    for update in updates {
        match update {
            SessionUpdate::UserMessage(message) => {
                let content = message.content.clone().take().unwrap_or_default();
                messages.push((message.message_id.clone(), content));
            }
            SessionUpdate::UserMessageChunk(chunk) => {
                messages.push((chunk.message_id.clone(), vec![chunk.content.clone()]));
            }
            _ => {}
        }
    }
    messages
}

fn is_in_progress(update: &SessionUpdate) -> bool {
    matches!(update, SessionUpdate::ToolCallUpdate(update)
        if update.status.clone().take() == Some(ToolCallStatus::InProgress))
}

/// How the last turn ended, if it has.
fn ended(updates: &[SessionUpdate]) -> Option<StopReason> {
    match updates.last()? {
        SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) => idle.stop_reason.clone(),
        _ => None,
    }
}

#[tokio::test]
async fn a_killed_agent_is_resumed_and_prompted_again() {
    let store = tempfile::tempdir().expect("folders can be made");
    let (session, live) = with_agent(store.path(), async |connection, updates, agent| {
        let request = NewSessionRequest::new("/w");
        let response = connection.send_request(request).block_task().await?;
        assert!(!response.available_commands.is_empty());
        let session = response.session_id;
        let mut changes = updates.subscribe();
        let request = prompt(&session, "/demo");
        let first = connection.send_request(request).block_task().await?;
        let end = changes.wait_for(|updates| ended(updates).is_some()).await;
        let reason = ended(&end.expect("the sender is here"));
        assert_eq!(reason, Some(StopReason::EndTurn));
        let so_far = updates.borrow().len();

        let request = prompt(&session, "/tool execute slow 600");
        let second = connection.send_request(request).block_task().await?;
        let held = connection.send_request(prompt(&session, "/echo held"));
        let running = changes.wait_for(|updates| updates[so_far..].iter().any(is_in_progress));
        drop(running.await.expect("the sender is here"));
        agent.lock().expect("nobody panics with it").kill();
        assert!(held.block_task().await.is_err(), "it was not in the log");
        let live = updates.borrow().clone();
        let ids: Vec<_> = asked(&live).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [first.message_id, second.message_id]);
        Ok((session, live))
    })
    .await;

    let replayed = with_agent(store.path(), async |connection, updates, _| {
        let start = ReplayFrom::Start(ReplayFromStart::new());
        let request = ResumeSessionRequest::new(session.clone(), "/w").replay_from(start);
        connection.send_request(request).block_task().await?;
        let replayed = updates.borrow().clone();
        let request = prompt(&session, "/recall 2");
        connection.send_request(request).block_task().await?;
        let mut changes = updates.subscribe();
        let end = changes.wait_for(|updates| ended(updates).is_some()).await;
        let after = shown(&end.expect("the sender is here")[replayed.len()..]);
        let [SessionUpdate::AgentMessageChunk(answer)] = &after[..] else {
            panic!("one message answers it: {after:?}");
        };
        let ContentBlock::Text(text) = &answer.content else {
            panic!("a text answers it: {answer:?}");
        };
        assert_eq!(text.text, "Prompt 1 of this session was:\n\n/demo");
        Ok(replayed)
    })
    .await;
    assert_eq!(asked(&replayed), asked(&live));
    let last = replayed.last();
    let idle = matches!(last, Some(SessionUpdate::StateUpdate(StateUpdate::Idle(_))));
    assert!(idle, "{last:?}");
    let mut history = shown(&replayed);
    match history.pop() {
        Some(SessionUpdate::ToolCallUpdate(closed)) => {
            let status = closed.status.clone().take();
            assert_eq!(status, Some(ToolCallStatus::Failed));
        }
        other => panic!("the open call was not closed: {other:?}"),
    }
    assert_eq!(history, shown(&live));
    assert_eq!(titles(&replayed), titles(&live));
    assert_eq!(titles(&live).len(), 1);
}

//! Version 2.

use agent_client_protocol::v2::schema::{
    ContentBlock, ContentChunk, Implementation, InitializeRequest, MessageId, NewSessionRequest,
    PromptRequest, ReplayFrom, ReplayFromStart, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, ResumeSessionRequest, SelectedPermissionOutcome, SessionId,
    SessionUpdate, StateUpdate, StopReason, TextContent, ToolCallStatus, UpdateSessionNotification,
};

use crate::support::systems::FOLDER;
use crate::support::wrapped;

client!(v2, UpdateSessionNotification);

async fn initialize(connection: &ConnectionTo<Agent>) -> Result<(), Error> {
    let info = Implementation::new("sdk", "1");
    let request = InitializeRequest::new(ProtocolVersion::V2, info);
    let response = connection.send_request(request).block_task().await?;
    assert_eq!(response.protocol_version, ProtocolVersion::V2);
    assert!(response.capabilities.session.is_some());
    Ok(())
}

/// What the agent has shown.
fn shown(updates: &[SessionUpdate]) -> Vec<SessionUpdate> {
    joined(updates, |update| {
        !matches!(
            update,
            SessionUpdate::UserMessage(_)
                | SessionUpdate::UserMessageChunk(_)
                | SessionUpdate::StateUpdate(_)
                | SessionUpdate::SessionInfoUpdate(_)
        )
    })
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

/// What was replayed, without the update that says that this is all. The SDK does not know it yet.
fn without_end(mut replayed: Vec<SessionUpdate>) -> Vec<SessionUpdate> {
    match replayed.pop() {
        Some(SessionUpdate::Other(other)) if other.session_update == "replay_complete" => replayed,
        last => panic!("the end of the replay is not said: {last:?}"),
    }
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
    let (session, live) = with_agent(store.path(), &[], async |connection, updates, agent| {
        let request = NewSessionRequest::new(FOLDER);
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
        agent.lock().expect("no thread panics with it").kill();
        assert!(held.block_task().await.is_err(), "it was not in the log");
        let live = updates.borrow().clone();
        let ids: Vec<_> = asked(&live).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [first.message_id, second.message_id]);
        Ok((session, live))
    })
    .await;

    let replayed = with_agent(store.path(), &[], async |connection, updates, _| {
        let start = ReplayFrom::Start(ReplayFromStart::new());
        let request = ResumeSessionRequest::new(session.clone(), FOLDER).replay_from(start);
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
    let mut history = without_end(shown(&replayed));
    match history.pop() {
        Some(SessionUpdate::ToolCallUpdate(closed)) => {
            let status = closed.status.clone().take();
            assert_eq!(status, Some(ToolCallStatus::Failed));
        }
        other => panic!("the open call was not closed: {other:?}"),
    }
    assert_eq!(history, shown(&live));
    // The first prompt, a command alone, makes no title, and the turn of the second did not end.
    assert!(titles(&live).is_empty());
    assert_eq!(titles(&replayed).len(), 1);
}

/// A session with the scripted agent, wrapped, with these options: a call that needs permission, and
/// the same again in a replay of another process.
async fn a_wrapped_agent_is_driven(options: &[&str]) {
    let store = tempfile::tempdir().expect("folders can be made");
    let program = wrapped::program().to_string_lossy().into_owned();
    let options = options.iter().map(|option| (*option).to_owned());
    let args: Vec<_> = ["--".to_owned(), program]
        .into_iter()
        .chain(options)
        .collect();
    let (session, live) = with_agent(store.path(), &args, async |connection, updates, _| {
        let request = NewSessionRequest::new(FOLDER);
        let session = connection
            .send_request(request)
            .block_task()
            .await?
            .session_id;
        let ask = r#"{"toolCallId":"t","title":"Tool t"}"#;
        let script = format!("say one\ntool t pending\nask {ask}\ntool t completed\nsay two");
        let request = prompt(&session, &script);
        let accepted = connection.send_request(request).block_task().await?;
        let mut changes = updates.subscribe();
        let end = changes.wait_for(|updates| ended(updates).is_some()).await;
        let live = end.expect("the sender is here").clone();
        assert_eq!(ended(&live), Some(StopReason::EndTurn));
        let ids: Vec<_> = asked(&live).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [accepted.message_id]);
        Ok((session, live))
    })
    .await;
    let said = format!("{:?}", shown(&live));
    assert!(
        said.contains("permission: ") && said.contains("selected"),
        "{said}"
    );
    let replayed = with_agent(store.path(), &args, async |connection, updates, _| {
        let start = ReplayFrom::Start(ReplayFromStart::new());
        let request = ResumeSessionRequest::new(session, FOLDER).replay_from(start);
        connection.send_request(request).block_task().await?;
        Ok(updates.borrow().clone())
    })
    .await;
    assert_eq!(asked(&replayed), asked(&live));
    assert_eq!(without_end(shown(&replayed)), shown(&live));
    assert_eq!(titles(&replayed), titles(&live));
}

#[tokio::test]
async fn a_wrapped_agent_of_version_1_is_driven() {
    a_wrapped_agent_is_driven(&["--resume"]).await;
}

#[tokio::test]
async fn a_wrapped_agent_of_version_2_is_driven() {
    a_wrapped_agent_is_driven(&["--version-2"]).await;
}

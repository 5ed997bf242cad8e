//! Version 1.

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, InitializeRequest, LoadSessionRequest, NewSessionRequest,
    PromptRequest, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, StopReason,
    TextContent, ToolCallStatus,
};

use crate::support::systems::FOLDER;

client!(v1, SessionNotification);

async fn initialize(connection: &ConnectionTo<Agent>) -> Result<(), Error> {
    let request = InitializeRequest::new(ProtocolVersion::V1);
    let response = connection.send_request(request).block_task().await?;
    assert_eq!(response.protocol_version, ProtocolVersion::V1);
    assert!(response.agent_capabilities.load_session);
    Ok(())
}

/// The history that updates show.
fn shown(updates: &[SessionUpdate]) -> Vec<SessionUpdate> {
    joined(updates, |update| {
        !matches!(
            update,
            SessionUpdate::AvailableCommandsUpdate(_) | SessionUpdate::SessionInfoUpdate(_)
        )
    })
}

/// The text of all messages of the user and the agent.
fn text(updates: &[SessionUpdate]) -> String {
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
    let (session, live) = with_agent(store.path(), &[], async |connection, updates, agent| {
        let request = NewSessionRequest::new(FOLDER);
        let session = connection
            .send_request(request)
            .block_task()
            .await?
            .session_id;
        let response = connection
            .send_request(prompt(&session, "/demo"))
            .block_task()
            .await?;
        assert_eq!(response.stop_reason, StopReason::EndTurn);
        let so_far = updates.borrow().len();

        let unfinished = connection.send_request(prompt(&session, "/tool execute slow 600"));
        let mut changes = updates.subscribe();
        let running = changes.wait_for(|updates| updates[so_far..].iter().any(is_in_progress));
        drop(running.await.expect("the sender is here"));
        agent.lock().expect("no thread panics with it").kill();
        assert!(
            unfinished.block_task().await.is_err(),
            "no process is left to answer"
        );
        let live = updates.borrow().clone();
        Ok((session, live))
    })
    .await;

    let replayed = with_agent(store.path(), &[], async |connection, updates, _| {
        let request = LoadSessionRequest::new(session.clone(), FOLDER);
        connection.send_request(request).block_task().await?;
        let replayed = updates.borrow().clone();
        let request = prompt(&session, "/recall 2");
        let response = connection.send_request(request).block_task().await?;
        assert_eq!(response.stop_reason, StopReason::EndTurn);
        assert_eq!(
            text(&updates.borrow()[replayed.len()..]),
            "Prompt 1 of this session was:\n\n/demo"
        );
        Ok(replayed)
    })
    .await;
    let is_user = |update: &SessionUpdate| matches!(update, SessionUpdate::UserMessageChunk(_));
    let (user, mut history): (Vec<_>, Vec<_>) = shown(&replayed).into_iter().partition(is_user);
    assert_eq!(text(&user), "/demo/tool execute slow 600");
    match history.pop() {
        Some(SessionUpdate::ToolCallUpdate(closed)) => {
            assert_eq!(closed.fields.status, Some(ToolCallStatus::Failed));
        }
        other => panic!("the open call was not closed: {other:?}"),
    }
    assert_eq!(history, shown(&live));
    // The first prompt, a command alone, makes no title, and the turn of the second did not end.
    assert!(titles(&live).is_empty());
    assert_eq!(titles(&replayed).len(), 1);
}

//! Version 2.

use agent_client_protocol::v2::schema::{
    ContentBlock, ContentChunk, Implementation, InitializeRequest, MessageId, NewSessionRequest,
    PromptRequest, ReplayFrom, ReplayFromStart, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, ResumeSessionRequest, SelectedPermissionOutcome, SessionId,
    SessionUpdate, StateUpdate, StopReason, TextContent, ToolCallStatus, UpdateSessionNotification,
};

use agent_client_protocol::UntypedMessage;

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

/// The messages of a conversation, each with its id, whether it is the user's, and its text.
fn messages(updates: &[SessionUpdate]) -> Vec<(MessageId, bool, String)> {
    let mut messages: Vec<(MessageId, bool, String)> = Vec::new();
    for update in updates {
        let (id, is_user, blocks) = match update {
            SessionUpdate::UserMessage(message) => {
                let content = message.content.clone().take().unwrap_or_default();
                (&message.message_id, true, content)
            }
            SessionUpdate::UserMessageChunk(chunk) => {
                (&chunk.message_id, true, vec![chunk.content.clone()])
            }
            SessionUpdate::AgentMessageChunk(chunk) => {
                (&chunk.message_id, false, vec![chunk.content.clone()])
            }
            _ => continue,
        };
        let texts = blocks.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        let text: String = texts.collect();
        match messages.last_mut().filter(|(last, ..)| last == id) {
            Some((.., said)) => said.push_str(&text),
            None => messages.push((id.clone(), is_user, text)),
        }
    }
    messages
}

/// Whether a client that has seen the first of these has seen the beginning of the second.
fn is_beginning(seen: &[(MessageId, bool, String)], all: &[(MessageId, bool, String)]) -> bool {
    let Some(((id, is_user, text), before)) = seen.split_last() else {
        return true;
    };
    let next = all.get(before.len());
    all.starts_with(before)
        && next.is_some_and(|next| {
            next.0 == *id && next.1 == *is_user && next.2.starts_with(text.as_str())
        })
}

/// Waits until so many more updates have come, and then for a part of a millisecond.
async fn some_more(updates: &Updates, count: usize, micros: u64) {
    let before = updates.borrow().len();
    let mut changes = updates.subscribe();
    // Fewer may come.
    let come = changes.wait_for(|updates| updates.len() >= before + count);
    let limit = std::time::Duration::from_millis(500);
    drop(tokio::time::timeout(limit, come).await);
    tokio::time::sleep(std::time::Duration::from_micros(micros)).await;
}

/// How often a client is reconnected.
const LIVES: u64 = 12;
/// How many prompts it sends, each until it is answered.
const PROMPTS: usize = 4;

/// A client loses its process again and again, in turns and in replays, and loads the session each time. It
/// sends each prompt with its key until that is answered.
async fn a_client_reconnects(options: &[&str], seed: u64) {
    let store = tempfile::tempdir().expect("folders can be made");
    let state = store.path().join("agent").to_string_lossy().into_owned();
    let mut args = Vec::new();
    if !options.is_empty() {
        let program = wrapped::program().to_string_lossy().into_owned();
        args.extend(["--".to_owned(), program, "--state".to_owned(), state]);
        args.extend(options.iter().map(|option| (*option).to_owned()));
    }
    let word = if options.is_empty() {
        "/flood"
    } else {
        "flood"
    };
    let place = store.path().join("store");
    let mut random = seed;
    let mut below = move |end: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    let session: Mutex<Option<SessionId>> = Mutex::default();
    let mut seen = Vec::new();
    let mut answered = 0;
    for life in 0.. {
        let is_last = answered == PROMPTS && life >= LIVES;
        let (in_replay, chunks, micros) = (below(3) == 0, below(30) as usize, below(800));
        let known = session.lock().expect("no thread panics with it").clone();
        let (now, done) = with_agent(&place, &args, async |connection, updates, agent| {
            // A session is kept from its first prompt on.
            let is_new = known.is_none();
            let kill = || agent.lock().expect("no thread panics with it").kill();
            let current = || messages(&updates.borrow());
            let id = match known {
                None => {
                    let request = NewSessionRequest::new(FOLDER);
                    let response = connection.send_request(request).block_task().await?;
                    *session.lock().expect("no thread panics with it") =
                        Some(response.session_id.clone());
                    response.session_id
                }
                Some(id) => {
                    let start = ReplayFrom::Start(ReplayFromStart::new());
                    let request = ResumeSessionRequest::new(id.clone(), FOLDER).replay_from(start);
                    let resumed = connection.send_request(request);
                    if in_replay && !is_last {
                        some_more(updates, chunks % 5, micros).await;
                        kill();
                        resumed.block_task().await.ok();
                        let now = current();
                        // A replay that is cut shows less than was seen.
                        assert!(
                            is_beginning(&now, &seen) || is_beginning(&seen, &now),
                            "{now:?} after {seen:?}"
                        );
                        return Ok((None, false));
                    }
                    resumed.block_task().await?;
                    let now = current();
                    assert!(is_beginning(&seen, &now), "{now:?} after {seen:?}");
                    let is_end = |update: &&SessionUpdate| match update {
                        SessionUpdate::Other(other) => other.session_update == "replay_complete",
                        _ => false,
                    };
                    assert_eq!(updates.borrow().iter().filter(is_end).count(), 1);
                    id
                }
            };
            if is_last || answered == PROMPTS {
                return Ok((Some(current()), false));
            }
            let params = serde_json::json!({
                "sessionId": id,
                "prompt": [{"type": "text", "text": format!("{word} {} 20", 20 + answered)}],
                "idempotencyKey": format!("key {answered}"),
            });
            let request = UntypedMessage::new("session/prompt", params)?;
            let prompted = connection.send_request(request);
            if below(4) > 0 && life < LIVES && !is_new {
                some_more(updates, chunks, micros).await;
                kill();
                let is_done = prompted.block_task().await.is_ok();
                return Ok((Some(current()), is_done));
            }
            prompted.block_task().await?;
            let mut changes = updates.subscribe();
            let end = changes.wait_for(|updates| {
                let last = updates.last();
                matches!(last, Some(SessionUpdate::StateUpdate(StateUpdate::Idle(_))))
            });
            drop(end.await.expect("the sender is here"));
            Ok((Some(current()), true))
        })
        .await;
        seen = now.unwrap_or(seen);
        answered += usize::from(done);
        if is_last {
            break;
        }
    }
    let prompts: Vec<_> = seen.iter().filter(|(_, is_user, _)| *is_user).collect();
    let texts: Vec<_> = prompts.iter().map(|(.., text)| text.clone()).collect();
    let expected: Vec<_> = (0..PROMPTS)
        .map(|n| format!("{word} {} 20", 20 + n))
        .collect();
    assert_eq!(texts, expected, "each prompt is there once");
}

#[tokio::test]
async fn a_client_of_the_built_in_engine_reconnects_without_a_gap_or_a_double() {
    for seed in 0..3 {
        a_client_reconnects(&[], seed).await;
    }
}

#[tokio::test]
async fn a_client_of_an_agent_of_version_1_reconnects_without_a_gap_or_a_double() {
    for seed in 0..2 {
        a_client_reconnects(&["--resume"], seed).await;
    }
}

#[tokio::test]
async fn a_client_of_an_agent_of_version_2_reconnects_without_a_gap_or_a_double() {
    for seed in 0..2 {
        a_client_reconnects(&["--version-2"], seed).await;
    }
}

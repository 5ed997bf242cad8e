//! Drives an agent with the protocol's own Rust client in version 2: `sdk-client COMMAND [ARG...]`.
//!
//! COMMAND has a store and the agents of `tests/interop/agents`. It is killed in the middle of an
//! answer; the next process shows the conversation as the first one did, and goes on with it.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test, run in the folder of its session: what it cannot do ends it, and it says how far it got"
)]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v2::ConnectionTo;
use agent_client_protocol::v2::schema::{
    ContentBlock, Implementation, InitializeRequest, NewSessionRequest, PromptRequest, ReplayFrom,
    ReplayFromStart, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SessionId, SessionUpdate, StateUpdate,
    StopReason, TextContent, ToolCallStatus, UpdateSessionNotification,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

/// Ends what waits for something that never happens.
const GUARD: Duration = Duration::from_mins(2);

type Updates = watch::Sender<Vec<UpdateSessionNotification>>;

#[tokio::main]
async fn main() {
    let cwd = std::env::current_dir().expect("there is a folder");
    let (session, live) = connected(async |connection, updates, mut process| {
        let request = NewSessionRequest::new(cwd.clone());
        let session = connection.send_request(request).block_task().await?;
        let session = session.session_id;
        answered(&connection, updates, &session, "PLAIN-1").await?;
        answered(&connection, updates, &session, "TOOL-2").await?;
        let slow = connection.send_request(prompt(&session, "SLOW-3"));
        slow.block_task().await?;
        seen(updates, |updates| {
            texts(updates).contains("SLOW-3 chunk 4. ")
        })
        .await;
        process.kill().await.expect("it can be killed");
        Ok((session, updates.borrow().clone()))
    })
    .await;
    println!("killed in the middle of an answer");

    let replayed = connected(async |connection, updates, mut process| {
        let start = ReplayFrom::Start(ReplayFromStart::new());
        let request = ResumeSessionRequest::new(session.clone(), cwd.clone()).replay_from(start);
        connection.send_request(request).block_task().await?;
        let replayed = updates.borrow().clone();
        answered(&connection, updates, &session, "PLAIN-4").await?;
        process.kill().await.expect("it can be killed");
        Ok(replayed)
    })
    .await;
    assert_eq!(texts(&replayed), texts(&live));
    assert_eq!(completed(&replayed), completed(&live));
    assert!(!completed(&live).is_empty(), "no tool was called");
    println!("the next process showed the same and went on");
}

/// Starts the command, initializes it and does something with it. The client grants what it is
/// asked for.
async fn connected<T: Send>(
    work: impl AsyncFnOnce(ConnectionTo<Agent>, &Updates, Child) -> Result<T, Error>,
) -> T {
    let mut args = std::env::args_os().skip(1);
    let program = PathBuf::from(args.next().expect("the command is given"));
    let mut process = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the command can be started");
    let stdin = process.stdin.take().expect("it is a pipe");
    let stdout = process.stdout.take().expect("it is a pipe");
    let updates = Updates::default();
    let shown = updates.clone();
    let connected = Client
        .v2()
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
            async move |notification: UpdateSessionNotification, _| {
                shown.send_modify(|updates| updates.push(notification));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(
            ByteStreams::new(stdin.compat_write(), stdout.compat()),
            async |connection: ConnectionTo<Agent>| {
                let info = Implementation::new("sdk-client", "1");
                let request = InitializeRequest::new(ProtocolVersion::V2, info);
                let response = connection.send_request(request).block_task().await?;
                assert_eq!(response.protocol_version, ProtocolVersion::V2);
                work(connection, &updates, process).await
            },
        );
    let result = tokio::time::timeout(GUARD, connected).await;
    result.expect("it does not hang").expect("all went well")
}

/// The model of the tests does what this word says.
fn prompt(session: &SessionId, word: &str) -> PromptRequest {
    let text = TextContent::new(format!("Please do {word} now."));
    PromptRequest::new(session.clone(), vec![ContentBlock::Text(text)])
}

/// Prompts, and waits for the end of the turn.
async fn answered(
    connection: &ConnectionTo<Agent>,
    updates: &Updates,
    session: &SessionId,
    word: &str,
) -> Result<(), Error> {
    let before = updates.borrow().len();
    let request = prompt(session, word);
    connection.send_request(request).block_task().await?;
    let turn = |updates: &[UpdateSessionNotification]| updates[before..].iter().find_map(ended);
    seen(updates, |updates| turn(updates).is_some()).await;
    assert_eq!(turn(&updates.borrow()), Some(StopReason::EndTurn), "{word}");
    let said = texts(&updates.borrow()[before..]);
    assert!(said.contains(&format!("End of {word}.")), "{said}");
    Ok(())
}

async fn seen(updates: &Updates, is_seen: impl Fn(&[UpdateSessionNotification]) -> bool) {
    let mut changes = updates.subscribe();
    let found = changes.wait_for(|updates| is_seen(updates)).await;
    drop(found.expect("the sender is here"));
}

/// How a turn ended, if this is its end.
fn ended(notification: &UpdateSessionNotification) -> Option<StopReason> {
    match &notification.update {
        SessionUpdate::StateUpdate(StateUpdate::Idle(idle)) => idle.stop_reason.clone(),
        _ => None,
    }
}

/// All that the agent said.
fn texts(updates: &[UpdateSessionNotification]) -> String {
    let text = |notification: &UpdateSessionNotification| match &notification.update {
        SessionUpdate::AgentMessageChunk(chunk) => match &chunk.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        _ => None,
    };
    updates.iter().filter_map(text).collect()
}

/// The tool calls that were completed.
fn completed(updates: &[UpdateSessionNotification]) -> Vec<String> {
    let call = |notification: &UpdateSessionNotification| match &notification.update {
        SessionUpdate::ToolCallUpdate(update) => (update.status.clone().take()
            == Some(ToolCallStatus::Completed))
        .then(|| update.tool_call_id.to_string()),
        _ => None,
    };
    updates.iter().filter_map(call).collect()
}

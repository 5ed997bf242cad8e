//! The conductor's role of the protocol's own SDK against the binary: its typed messages are what
//! we take, and what we send is what it takes.

use std::io::{self, Write};
use std::path::Path;
use std::pin::Pin;
use std::process::ChildStdin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use agent_client_protocol::schema::{ProtocolVersion, SuccessorMessage};
use agent_client_protocol::v1::schema::{
    AgentCapabilities, ContentBlock, ContentChunk, Implementation, InitializeProxyRequest,
    InitializeRequest, InitializeResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest,
    PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, SessionUpdate, StopReason, TextContent,
    ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{
    Conductor, ConnectionTo, Error, JsonRpcMessage, JsonRpcResponse, Lines, Proxy, UntypedMessage,
};

use crate::client::incoming;
use crate::support::agent::GUARD;
use crate::support::conductor;
use crate::support::systems::FOLDER;

/// Where the conductor sends its lines.
struct Outgoing(Option<ChildStdin>);

impl futures_sink::Sink<String> for Outgoing {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, line: String) -> io::Result<()> {
        let input = self.0.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input, "{line}")
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}

/// What the conductor hears from the proxy for its client.
type Heard = Arc<Mutex<Vec<String>>>;

fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

fn text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        other => panic!("no text: {other:?}"),
    }
}

fn read<M: JsonRpcMessage>(message: &UntypedMessage) -> Result<M, Error> {
    M::parse_message(message.method(), message.params())
}

/// What the successor does: it greets, and each of its turns asks for permission.
async fn succeed(
    message: UntypedMessage,
    proxy: ConnectionTo<Proxy>,
) -> Result<serde_json::Value, Error> {
    let method = message.method().to_owned();
    match method.as_str() {
        "initialize" => {
            let request: InitializeRequest = read(&message)?;
            InitializeResponse::new(request.protocol_version)
                .agent_info(Implementation::new("successor-of-the-sdk", "1"))
                .agent_capabilities(AgentCapabilities::new().load_session(true))
                .into_json(&method)
        }
        "session/new" => {
            drop(read::<NewSessionRequest>(&message)?);
            NewSessionResponse::new("inner").into_json(&method)
        }
        "session/load" => {
            let request: LoadSessionRequest = read(&message)?;
            assert_eq!(request.session_id.to_string(), "inner");
            let update = SessionUpdate::AgentMessageChunk(chunk("what the agent remembers"));
            let update = SessionNotification::new("inner", update);
            proxy.send_notification(SuccessorMessage::new(update))?;
            LoadSessionResponse::new().into_json(&method)
        }
        "session/prompt" => {
            let request: PromptRequest = read(&message)?;
            let call = ToolCallUpdate::new("call", ToolCallUpdateFields::new().title("a call"));
            let allow = PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce);
            let ask = RequestPermissionRequest::new("inner", call, vec![allow]);
            let asked = proxy.send_request(SuccessorMessage::new(ask));
            let RequestPermissionOutcome::Selected(selected) = asked.block_task().await?.outcome
            else {
                panic!("nothing was selected");
            };
            let said = format!("{} to {}", selected.option_id, text(&request.prompt[0]));
            let update = SessionUpdate::AgentMessageChunk(chunk(&said));
            let update = SessionNotification::new("inner", update);
            proxy.send_notification(SuccessorMessage::new(update))?;
            PromptResponse::new(StopReason::EndTurn).into_json(&method)
        }
        other => panic!("the successor was not to hear {other}"),
    }
}

/// Starts the proxy and has a conductor do something with it. The process is gone afterwards.
async fn with_proxy<T: Send>(
    store: &Path,
    work: impl AsyncFnOnce(ConnectionTo<Proxy>, Heard) -> Result<T, Error>,
) -> T {
    let log = tempfile::NamedTempFile::new().expect("files can be made");
    let mut child = conductor::proxy(store, &[], &log);
    let input = child.stdin.take();
    let output = child.stdout.take().expect("it was asked for");
    let heard = Heard::default();
    let hearing = heard.clone();
    let connected = Conductor
        .builder()
        .on_receive_request(
            async |message: SuccessorMessage, responder, proxy: ConnectionTo<Proxy>| {
                let succeeding = proxy.clone();
                proxy.spawn(async move {
                    let result = succeed(message.message, succeeding).await;
                    responder.respond_with_result(result)
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async |request: RequestPermissionRequest, responder, _: ConnectionTo<Proxy>| {
                let option = request.options[0].option_id.clone();
                let outcome = SelectedPermissionOutcome::new(option);
                let outcome = RequestPermissionOutcome::Selected(outcome);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: SessionNotification, _: ConnectionTo<Proxy>| {
                let said = match notification.update {
                    SessionUpdate::UserMessageChunk(chunk)
                    | SessionUpdate::AgentMessageChunk(chunk) => text(&chunk.content),
                    SessionUpdate::ToolCall(call) => call.title,
                    // The title; and in a replay the end of a call that only a question showed.
                    SessionUpdate::SessionInfoUpdate(_) | SessionUpdate::ToolCallUpdate(_) => {
                        return Ok(());
                    }
                    other => panic!("not expected: {other:?}"),
                };
                hearing.lock().expect("no thread panics with it").push(said);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(
            Lines::new(Outgoing(input), incoming(Box::new(output))),
            async |proxy: ConnectionTo<Proxy>| {
                let request = InitializeRequest::new(ProtocolVersion::V1);
                let request = InitializeProxyRequest::new(request);
                let response = proxy.send_request(request).block_task().await?.initialize;
                assert_eq!(response.protocol_version, ProtocolVersion::V1);
                let info = response.agent_info.expect("the successor's own");
                assert_eq!(info.name, "successor-of-the-sdk");
                work(proxy, heard).await
            },
        );
    let result = tokio::time::timeout(GUARD, connected).await;
    let result = result.expect("it does not hang").expect("all went well");
    child.kill().expect("it is a child of ours");
    child.wait().expect("it is a child of ours");
    result
}

#[tokio::test]
async fn conversation_through_the_sdk_conductor() {
    let store = tempfile::tempdir().expect("folders can be made");
    let prompt = |session: &str, words: &str| {
        let block = ContentBlock::Text(TextContent::new(words));
        PromptRequest::new(session.to_owned(), vec![block])
    };
    let session = with_proxy(store.path(), async |proxy, heard| {
        let request = NewSessionRequest::new(FOLDER);
        let session = proxy.send_request(request).block_task().await?.session_id;
        let session = session.to_string();
        let response = proxy.send_request(prompt(&session, "one"));
        assert_eq!(
            response.block_task().await?.stop_reason,
            StopReason::EndTurn
        );
        assert_eq!(
            *heard.lock().expect("no thread panics with it"),
            ["yes to one"]
        );
        Ok(session)
    })
    .await;

    with_proxy(store.path(), async |proxy, heard| {
        let request = LoadSessionRequest::new(session.clone(), FOLDER);
        proxy.send_request(request).block_task().await?;
        // The call was shown with the request for permission only.
        let replayed = heard.lock().expect("no thread panics with it").clone();
        assert_eq!(replayed, ["one", "a call", "yes to one"]);
        let response = proxy.send_request(prompt(&session, "two"));
        assert_eq!(
            response.block_task().await?.stop_reason,
            StopReason::EndTurn
        );
        let heard = heard.lock().expect("no thread panics with it").clone();
        assert_eq!(heard.last().map(String::as_str), Some("yes to two"));
        Ok(())
    })
    .await;
}

//! A connection with one MCP server, from `initialize` to its end.

use std::sync::Mutex;
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, JsonObject, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion,
    ServerResult,
};
use rmcp::service::{
    ClientCacheConfig, NotificationContext, Peer, PeerRequestOptions, RequestHandle, RoleClient,
    RunningService, RunningServiceCancellationToken, ServiceError,
};
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;

use crate::engine::process::Child;
use crate::engine::upstream::Patience;
use crate::sys::lock;

use super::error::RequestError;
use super::lean::TOOLS;
use super::tools::{McpTool, McpTools};

/// How long a subprocess may take to list its tools.
const LISTS: Duration = Duration::from_secs(15);

/// How long a server that is not our subprocess may take to list its tools. A server that has lost
/// our session may report that without answering the request.
const LISTS_FAR: Duration = Duration::from_secs(5);

/// How many pages a server's list of tools may have.
const PAGES: usize = 100;

/// How long it may take to close a connection, and to notify a server that a call is cancelled.
const LEAVES: Duration = Duration::from_millis(500);

/// How many progress notifications may wait; older ones are dropped.
const WAITING: usize = 16;

/// A connection with a server that has answered `initialize`.
pub(super) struct McpConnection {
    peer: Peer<RoleClient>,
    progress: ProgressHandler,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    ended: watch::Receiver<bool>,
    child: Option<Child>,
}

impl McpConnection {
    /// Takes over a connection that the library has made. `child` is the server's process, if it is
    /// our subprocess.
    pub(super) fn new(
        service: RunningService<RoleClient, ProgressHandler>,
        child: Option<Child>,
    ) -> Self {
        let (sender, ended) = watch::channel(false);
        let peer = service.peer().clone();
        let progress = service.service().clone();
        let stop = Mutex::new(Some(service.cancellation_token()));
        tokio::spawn(async move {
            service.waiting().await.ok();
            sender.send_replace(true);
        });
        Self {
            peer,
            progress,
            stop,
            ended,
            child,
        }
    }

    /// The server's own name and version.
    pub(super) fn server_info(&self) -> String {
        let info = self.peer.peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        server.map_or_else(
            || "unnamed".to_owned(),
            |server| format!("{} {}", server.name, server.version),
        )
    }

    /// Whether the server is our subprocess.
    pub(super) fn is_process(&self) -> bool {
        self.child.is_some()
    }

    /// Whether the connection has ended.
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow() || self.child.as_ref().is_some_and(Child::has_ended)
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        // An error means that the sender was dropped, so the connection has ended, too.
        self.ended.clone().wait_for(|ended| *ended).await.ok();
    }

    /// How the server ended, as far as that is known, and the end of its stderr. Waits a moment for
    /// a subprocess that is about to exit.
    pub(super) async fn exit_reason(&self) -> String {
        let Some(child) = &self.child else {
            return "the connection was closed".to_owned();
        };
        timeout(LEAVES, child.ended()).await.ok();
        exit_reason(child)
    }

    /// The server's current tools.
    pub(super) async fn tools(&self) -> Result<McpTools, RequestError> {
        let time = if self.is_process() { LISTS } else { LISTS_FAR };
        timeout(time, self.pages()).await.unwrap_or_else(|_| {
            Err(RequestError::Failed(format!(
                "`tools/list` timed out after {} seconds",
                time.as_secs()
            )))
        })
    }

    async fn pages(&self) -> Result<McpTools, RequestError> {
        // The library would cache whole lists, and return an old one if the server fails.
        let no_cache = ClientCacheConfig::disabled();
        self.peer.set_response_cache_config(no_cache).await;
        let mut tools = McpTools::default();
        let mut cursor = None;
        for _ in 0..PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.peer.list_tools(Some(params)).await?;
            for tool in &page.tools {
                match McpTool::of(tool) {
                    Some(tool) if tools.list.len() < TOOLS => tools.list.push(tool),
                    _ => tools.more = true,
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() || tools.list.len() == TOOLS {
                break;
            }
        }
        tools.more |= cursor.is_some();
        Ok(tools)
    }

    /// Starts a tool call.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<RunningCall, RequestError> {
        let progress = self.progress.subscribe();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let handle = self.peer.send_cancellable_request(request, options).await?;
        Ok(RunningCall { handle, progress })
    }

    /// Ends the connection, and the server with it if it is our subprocess.
    pub(super) async fn end(&self, patience: Patience) {
        if let Some(stop) = lock(&self.stop).take() {
            stop.cancel();
        }
        // This closes the input of a subprocess, or the session of an HTTP server.
        timeout(LEAVES, self.ended()).await.ok();
        if let Some(child) = &self.child {
            child.end(patience).await;
        }
    }
}

/// How a subprocess ended, if it has, and the end of its stderr.
pub(super) fn exit_reason(child: &Child) -> String {
    let how = child.how();
    let how = how.unwrap_or_else(|| "it closed its output".to_owned());
    let lines = child.stderr_tail();
    if lines.is_empty() {
        return how;
    }
    format!("{how}; it said last: {}", lines.join(" | "))
}

/// A running tool call.
pub(super) struct RunningCall {
    handle: RequestHandle<RoleClient>,
    progress: broadcast::Receiver<ProgressNotificationParam>,
}

/// An event of a call.
#[derive(Debug)]
pub(super) enum CallEvent {
    /// A progress notification.
    Progress(ProgressNotificationParam),
    /// The result, as JSON, or the reason for the failure.
    Result(Result<Value, RequestError>),
}

impl RunningCall {
    /// Waits for the next event. The result is the last one.
    pub(super) async fn next(&mut self) -> CallEvent {
        loop {
            tokio::select! {
                biased;
                progress = self.progress.recv() => match progress {
                    Ok(progress) if progress.progress_token == self.handle.progress_token => {
                        return CallEvent::Progress(progress);
                    }
                    Err(broadcast::error::RecvError::Closed) => {
                        return CallEvent::Result(result((&mut self.handle.rx).await));
                    }
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                },
                answer = &mut self.handle.rx => return CallEvent::Result(result(answer)),
            }
        }
    }

    /// Notifies the server that the call is cancelled.
    pub(super) async fn cancel(self) {
        let reason = Some("the user has cancelled the turn".to_owned());
        timeout(LEAVES, self.handle.cancel(reason)).await.ok();
    }
}

fn result<E>(answer: Result<Result<ServerResult, ServiceError>, E>) -> Result<Value, RequestError> {
    let failed = |why: String| Err(RequestError::Failed(why));
    match answer {
        Ok(Ok(result @ (ServerResult::CallToolResult(_) | ServerResult::CustomResult(_)))) => {
            serde_json::to_value(result).or_else(|error| failed(error.to_string()))
        }
        Ok(Ok(_)) => failed("its response is not the result of a tool".to_owned()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(RequestError::Closed),
    }
}

/// Handles a server's notifications. The library by itself rejects sampling requests and declines
/// elicitation.
#[derive(Clone, Debug)]
pub(super) struct ProgressHandler(broadcast::Sender<ProgressNotificationParam>);

impl ProgressHandler {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }

    /// Subscribes to the progress of calls.
    fn subscribe(&self) -> broadcast::Receiver<ProgressNotificationParam> {
        self.0.subscribe()
    }
}

impl ClientHandler for ProgressHandler {
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Sending fails if there are no subscribers.
        self.0.send(params).ok();
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        )
        // Later versions have no handshake; nearly every server still requires it.
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

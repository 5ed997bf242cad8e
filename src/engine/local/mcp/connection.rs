//! A connection with one MCP server: made, used, ended.

use std::sync::Mutex;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, ProgressNotificationParam,
    ServerResult, Tool,
};
use rmcp::service::{
    Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService,
    RunningServiceCancellationToken, ServiceError,
};
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;

use crate::engine::process::Child;
use crate::engine::relay::Patience;
use crate::sys::lock;

use super::ears::Ears;
use super::failure::Unanswered;

/// How long a process may take to tell its tools.
const LISTS: Duration = Duration::from_secs(15);

/// The same for a server that is none of our processes. One that has forgotten us may say so in a
/// way that answers no request.
const LISTS_FAR: Duration = Duration::from_secs(5);

/// How long the end of a connection may take that is no process, and a word to a server about a
/// call that is not wanted any more.
const LEAVES: Duration = Duration::from_millis(500);

/// A connection with a server that has answered `initialize`.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    ears: Ears,
    stop: Mutex<Option<RunningServiceCancellationToken>>,
    over: watch::Receiver<bool>,
    child: Option<Child>,
}

impl Connection {
    /// Takes over what the library has made. `child` is the server's process, if it is one.
    pub(super) fn new(service: RunningService<RoleClient, Ears>, child: Option<Child>) -> Self {
        let (tell, over) = watch::channel(false);
        let peer = service.peer().clone();
        let ears = service.service().clone();
        let stop = Mutex::new(Some(service.cancellation_token()));
        tokio::spawn(async move {
            service.waiting().await.ok();
            tell.send_replace(true);
        });
        Self {
            peer,
            ears,
            stop,
            over,
            child,
        }
    }

    /// Name and version as the server gives them.
    pub(super) fn who(&self) -> String {
        let info = self.peer.peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        server.map_or_else(
            || "without a name".to_owned(),
            |server| format!("{} {}", server.name, server.version),
        )
    }

    /// Whether the server is a process of ours.
    pub(super) fn is_process(&self) -> bool {
        self.child.is_some()
    }

    /// Whether nothing can be asked any more.
    pub(super) fn is_over(&self) -> bool {
        *self.over.borrow() || self.child.as_ref().is_some_and(Child::has_ended)
    }

    /// Waits until the connection is over.
    pub(super) async fn over(&self) {
        // If the other end is gone, so is the connection.
        self.over.clone().wait_for(|over| *over).await.ok();
    }

    /// How the server ended, as far as that is known, and what it said last. Waits a moment for
    /// a process that is about to end.
    pub(super) async fn epitaph(&self) -> String {
        let Some(child) = &self.child else {
            return "the connection was closed".to_owned();
        };
        timeout(LEAVES, child.ended()).await.ok();
        epitaph(child)
    }

    /// The tools that the server has now.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, Unanswered> {
        let time = if self.is_process() { LISTS } else { LISTS_FAR };
        match timeout(time, self.peer.list_all_tools()).await {
            Ok(Ok(tools)) => Ok(tools),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Unanswered::Because(format!(
                "it does not tell its tools within {} seconds",
                time.as_secs()
            ))),
        }
    }

    /// Begins a call.
    pub(super) async fn call(&self, tool: &str, arguments: JsonObject) -> Result<Call, Unanswered> {
        let progress = self.ears.listen();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let handle = self.peer.send_cancellable_request(request, options).await?;
        Ok(Call { handle, progress })
    }

    /// Ends the connection, and the server with it if it is a process of ours.
    pub(super) async fn end(&self, patience: Patience) {
        if let Some(stop) = lock(&self.stop).take() {
            stop.cancel();
        }
        // This closes the input of a process, and the session of an HTTP server.
        timeout(LEAVES, self.over()).await.ok();
        if let Some(child) = &self.child {
            child.end(patience).await;
        }
    }
}

/// How a process ended, if it has, and what it said last.
pub(super) fn epitaph(child: &Child) -> String {
    let how = child.how();
    let how = how.unwrap_or_else(|| "it closed its output".to_owned());
    match child.last_words() {
        Some(words) => format!("{how}; it said last: {words}"),
        None => how,
    }
}

/// A call of a tool that is under way.
pub(super) struct Call {
    handle: RequestHandle<RoleClient>,
    progress: broadcast::Receiver<ProgressNotificationParam>,
}

/// What comes of a call.
#[derive(Debug)]
pub(super) enum Heard {
    /// How far it is.
    Progress(ProgressNotificationParam),
    /// The result, as JSON, or why there is none.
    Result(Result<Value, Unanswered>),
}

impl Call {
    /// Waits for what comes next. After a result nothing comes.
    pub(super) async fn next(&mut self) -> Heard {
        loop {
            tokio::select! {
                biased;
                progress = self.progress.recv() => match progress {
                    Ok(progress) if progress.progress_token == self.handle.progress_token => {
                        return Heard::Progress(progress);
                    }
                    Err(broadcast::error::RecvError::Closed) => {
                        return Heard::Result(result((&mut self.handle.rx).await));
                    }
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                },
                answer = &mut self.handle.rx => return Heard::Result(result(answer)),
            }
        }
    }

    /// Tells the server that the result is not wanted any more.
    pub(super) async fn cancel(self) {
        let reason = Some("the user has cancelled the turn".to_owned());
        timeout(LEAVES, self.handle.cancel(reason)).await.ok();
    }
}

fn result<E>(answer: Result<Result<ServerResult, ServiceError>, E>) -> Result<Value, Unanswered> {
    let because = |why: String| Err(Unanswered::Because(why));
    match answer {
        Ok(Ok(result @ (ServerResult::CallToolResult(_) | ServerResult::CustomResult(_)))) => {
            serde_json::to_value(result).or_else(|error| because(error.to_string()))
        }
        Ok(Ok(_)) => because("its answer is no result of a tool".to_owned()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Unanswered::Closed),
    }
}

//! A connection with one MCP server, from `initialize` to its end.

use std::pin::Pin;
#[cfg(feature = "mcp-http")]
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;

use crate::engine::upstream::Patience;
use crate::json;
use crate::protocol::MCP_VERSIONS;
use crate::transport::OutgoingRequest;
use crate::transport::message::{notification_line, request_line};

#[cfg(feature = "mcp-http")]
use super::http::HttpTransport;
use super::peer::{McpPeer, RequestError, ToolProgress, result};
use super::stdio::StdioTransport;
use super::tools::McpTools;

/// The reason if a server ended before the handshake was complete.
const ENDED: &str = "it ended before it had answered `initialize`";

/// How long a subprocess may take to list its tools.
const LISTS: Duration = Duration::from_secs(15);

/// How long a server that is not our subprocess may take to list its tools. A server that has lost
/// our session may report that without answering the request.
const LISTS_FAR: Duration = Duration::from_secs(5);

/// How many pages a server's list of tools may have.
const PAGES: usize = 100;

/// How long it may take to close a connection, and to notify a server that a call is cancelled.
pub(super) const LEAVES: Duration = Duration::from_millis(500);

/// A connection with a server that has answered `initialize`.
#[derive(Debug)]
pub(super) struct McpConnection {
    peer: McpPeer,
    transport: McpTransport,
    /// The server's own name and version.
    server: String,
}

/// How a server is reached.
#[derive(Debug)]
pub(super) enum McpTransport {
    Stdio(StdioTransport),
    #[cfg(feature = "mcp-http")]
    Http(Arc<HttpTransport>),
}

impl McpConnection {
    /// Initializes a connection. Fails with the reason, in words.
    pub(super) async fn open(peer: McpPeer, transport: McpTransport) -> Result<Self, String> {
        let mut connection = Self {
            peer,
            transport,
            server: "unnamed".to_owned(),
        };
        let Err(why) = connection.initialize().await else {
            return Ok(connection);
        };
        let why = match why {
            RequestError::Closed => ENDED.to_owned(),
            RequestError::Failed(why) => why,
        };
        if !connection.is_process() {
            return Err(why);
        }
        // Its stderr is complete once it has ended.
        connection.end(Patience::EndOfInput).await;
        Err(format!("{why} ({})", connection.exit_reason().await))
    }

    /// Agrees on a version that begins with `initialize`: nearly every server still requires one.
    async fn initialize(&mut self) -> Result<(), RequestError> {
        let client = json!({ "name": crate::NAME, "version": env!("CARGO_PKG_VERSION") });
        let params = json!({
            "protocolVersion": MCP_VERSIONS[0],
            "capabilities": {},
            "clientInfo": client,
        });
        let answer = self.request("initialize", &params).await?;
        let invalid = || RequestError::failed("its response to `initialize` is invalid");
        let version = json::string_member(&answer, "protocolVersion").ok_or_else(invalid)?;
        if !MCP_VERSIONS.contains(&&*version) {
            let why = "it supports no version of MCP that rejoin supports";
            return Err(RequestError::failed(why));
        }
        if let Some(server) = json::text_member(&answer, "serverInfo") {
            let text = |name| json::string_member(server, name).unwrap_or_default();
            self.server = format!("{} {}", text("name"), text("version"));
        }
        #[cfg(feature = "mcp-http")]
        if let McpTransport::Http(http) = &self.transport {
            http.set_version(&version);
        }
        self.notify("notifications/initialized", &json!({})).await?;
        #[cfg(feature = "mcp-http")]
        if let McpTransport::Http(http) = &self.transport {
            http.listen();
        }
        Ok(())
    }

    /// The server's own name and version.
    pub(super) fn server_info(&self) -> &str {
        &self.server
    }

    /// Whether the server is our subprocess.
    pub(super) fn is_process(&self) -> bool {
        matches!(self.transport, McpTransport::Stdio(_))
    }

    /// Whether the connection has ended.
    pub(super) fn has_ended(&self) -> bool {
        let has_exited = match &self.transport {
            McpTransport::Stdio(stdio) => stdio.has_ended(),
            #[cfg(feature = "mcp-http")]
            McpTransport::Http(_) => false,
        };
        has_exited || self.peer.ended.is_cancelled()
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        match &self.transport {
            McpTransport::Stdio(stdio) => stdio.ended().await,
            #[cfg(feature = "mcp-http")]
            McpTransport::Http(_) => self.peer.ended.cancelled().await,
        }
    }

    /// How the server ended, as far as that is known. Waits a moment for a subprocess that is about to
    /// exit.
    pub(super) async fn exit_reason(&self) -> String {
        match &self.transport {
            McpTransport::Stdio(stdio) => stdio.exit_reason().await,
            #[cfg(feature = "mcp-http")]
            McpTransport::Http(_) => "the connection was closed".to_owned(),
        }
    }

    /// The server's current tools.
    pub(super) async fn tools(&self) -> Result<McpTools, RequestError> {
        let time = if self.is_process() { LISTS } else { LISTS_FAR };
        timeout(time, self.pages()).await.unwrap_or_else(|_| {
            let seconds = time.as_secs();
            let why = format!("`tools/list` timed out after {seconds} seconds");
            Err(RequestError::Failed(why))
        })
    }

    async fn pages(&self) -> Result<McpTools, RequestError> {
        let mut tools = McpTools::default();
        let mut params = json!({});
        for _ in 0..PAGES {
            let page = self.request("tools/list", &params).await?;
            let invalid = || RequestError::failed("its response is invalid");
            tools.add_page(&page).ok_or_else(invalid)?;
            match json::string_member(&page, "nextCursor") {
                Some(cursor) if !tools.is_full() => params = json!({ "cursor": cursor }),
                cursor => {
                    tools.more |= cursor.is_some();
                    return Ok(tools);
                }
            }
        }
        tools.more = true;
        Ok(tools)
    }

    /// Starts a tool call, which is sent when its first event is awaited.
    pub(super) fn call(
        &self,
        tool: &str,
        arguments: &serde_json::Map<String, Value>,
    ) -> RunningCall<'_> {
        let request = self.peer.begin();
        let id = request.id;
        let params = json!({
            "name": tool,
            "arguments": arguments,
            "_meta": { "progressToken": id },
        });
        RunningCall {
            id,
            connection: self,
            progress: self.peer.progress(),
            answer: Box::pin(async move {
                let result = self.answer(request, "tools/call", &params).await?;
                match serde_json::from_str(&result) {
                    Ok(result @ Value::Object(_)) => Ok(result),
                    _ => Err(RequestError::failed(
                        "its response is not the result of a tool",
                    )),
                }
            }),
            answered: None,
        }
    }

    /// Sends a request, and waits for the result.
    async fn request(&self, method: &str, params: &Value) -> Result<String, RequestError> {
        self.answer(self.peer.begin(), method, params).await
    }

    async fn answer(
        &self,
        mut request: OutgoingRequest,
        method: &str,
        params: &Value,
    ) -> Result<String, RequestError> {
        let line = request_line(&request.id.to_string(), method, &params.to_string());
        let exchanged = async {
            match &self.transport {
                McpTransport::Stdio(stdio) => {
                    if let Err(why) = stdio.send(line).await {
                        return why;
                    }
                    stdio.ended().await;
                    RequestError::Closed
                }
                #[cfg(feature = "mcp-http")]
                McpTransport::Http(http) => http.exchange(line).await,
            }
        };
        let lost = tokio::select! {
            biased;
            outcome = &mut request => return result(outcome),
            lost = exchanged => lost,
        };
        // The response may have come with the end.
        tokio::select! {
            biased;
            outcome = request => result(outcome),
            () = std::future::ready(()) => Err(lost),
        }
    }

    async fn notify(&self, method: &str, params: &Value) -> Result<(), RequestError> {
        let line = notification_line(method, &params.to_string());
        match &self.transport {
            McpTransport::Stdio(stdio) => stdio.send(line).await,
            #[cfg(feature = "mcp-http")]
            McpTransport::Http(http) => http.notify(line).await,
        }
    }

    /// Ends the connection, and the server with it if it is our subprocess.
    pub(super) async fn end(&self, patience: Patience) {
        match &self.transport {
            McpTransport::Stdio(stdio) => stdio.end(patience).await,
            #[cfg(feature = "mcp-http")]
            McpTransport::Http(http) => http.end().await,
        }
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.peer.close();
    }
}

/// A running tool call.
pub(super) struct RunningCall<'a> {
    id: u64,
    connection: &'a McpConnection,
    progress: Receiver<ToolProgress>,
    answer: Pin<Box<dyn Future<Output = Result<Value, RequestError>> + Send + 'a>>,
    answered: Option<Result<Value, RequestError>>,
}

/// An event of a call.
#[derive(Debug)]
pub(super) enum CallEvent {
    /// A progress notification.
    Progress(ToolProgress),
    /// The result, as JSON, or the reason for the failure.
    Result(Result<Value, RequestError>),
}

impl RunningCall<'_> {
    /// Waits for the next event. The result is the last one.
    pub(super) async fn next(&mut self) -> CallEvent {
        loop {
            tokio::select! {
                biased;
                progress = self.progress.recv() => match progress {
                    Ok(progress) if progress.request == self.id => {
                        return CallEvent::Progress(progress);
                    }
                    // The progress of another call; or the call was slow to take its own.
                    _ => {}
                },
                answer = &mut self.answer, if self.answered.is_none() => {
                    self.answered = Some(answer);
                }
                // What had come before the answer was shown.
                () = std::future::ready(()), if self.answered.is_some() => {
                    let answer = self.answered.take().unwrap_or(Err(RequestError::Closed));
                    return CallEvent::Result(answer);
                }
            }
        }
    }

    /// Notifies the server that the call is cancelled.
    pub(super) async fn cancel(self) {
        let params = json!({ "requestId": self.id, "reason": "the user has cancelled the turn" });
        let notified = self.connection.notify("notifications/cancelled", &params);
        timeout(LEAVES, notified).await.ok();
    }
}

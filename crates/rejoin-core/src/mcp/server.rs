//! Answers an MCP client: each message is a line, each call of a tool has a thread.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::index::Catalog;
use crate::json::{self, Members};
use crate::protocol::MCP_VERSIONS;
use crate::protocol::error::{
    INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, error_json,
};
use crate::sources::LiveSources;
use crate::store::Store;
use crate::transport::line::LineReader;
use crate::transport::message::{Message, read_as, response_line};
use crate::transport::{LINE_LIMIT, MessageForm, Outcome};

use super::scope::{Scope, Sessions};
use super::tools;

/// The version without `initialize`: each request names it.
const NAMED: &str = "2026-07-28";

/// The member of `_meta` with a request's version.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// How many calls may run at once.
const CALLS: usize = 32;

/// Serves the sessions of a store, and the conversations of these tools, to the client at the other
/// end of `input` and `output`, until the input ends and its calls are answered.
pub async fn serve(
    store: Store,
    tools: Option<Arc<LiveSources>>,
    scope: Scope,
    input: impl AsyncRead + Send + Unpin + 'static,
    mut output: impl AsyncWrite + Send + Unpin + 'static,
) -> io::Result<()> {
    let mut server = ToolServer {
        sessions: Arc::new(Sessions {
            catalog: Catalog::with_tools(store.clone(), tools.clone()),
            store,
            tools,
            scope,
        }),
        calls: JoinSet::new(),
        cancel: BTreeMap::new(),
    };
    let mut lines = LineReader::new(BufReader::new(input), LINE_LIMIT);
    let mut has_input = true;
    loop {
        // While an answer is written, nothing is read: a client that reads none gets no further.
        let answer = tokio::select! {
            line = lines.line(), if has_input => {
                let line = line?;
                has_input = line.is_some();
                let message = line.map(|line| read_as(line, LINE_LIMIT, MessageForm::JsonRpc));
                message.and_then(|message| server.handle(message))
            }
            Some(call) = server.calls.join_next() => server.answer(call.map_err(io::Error::other)?),
            else => return Ok(()),
        };
        if let Some(answer) = answer {
            let written = async {
                output.write_all(answer.as_bytes()).await?;
                output.flush().await
            };
            match written.await {
                // A client that leaves is no failure.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written?,
            }
        }
    }
}

/// The server of one client.
struct ToolServer {
    sessions: Arc<Sessions>,
    /// The calls that are running.
    calls: JoinSet<AnsweredCall>,
    /// The tokens that cancel them, by their ids.
    cancel: BTreeMap<String, CancellationToken>,
}

/// The id of a call, and its answer.
type AnsweredCall = (String, Outcome);

/// The parameters of `tools/call`.
#[derive(Deserialize)]
struct ToolCallParams {
    name: String,
    arguments: Option<Value>,
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.cancel.values().for_each(CancellationToken::cancel);
    }
}

impl ToolServer {
    /// Handles a message. Returns the line to answer, if it is answered at once.
    fn handle(&mut self, message: Message) -> Option<String> {
        match message {
            Message::Request { id, method, params } => {
                let outcome = self.request(&id, &method, &params)?;
                Some(response_line(&id, &outcome))
            }
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                let cancel = self.cancel.get(json::text_member(&params, "requestId")?)?;
                cancel.cancel();
                None
            }
            Message::Invalid(invalid) => Some(invalid.line()),
            Message::Notification { .. } | Message::Response { .. } | Message::Blank => None,
        }
    }

    /// Handles a request. Returns its outcome, unless it is a call, which begins.
    fn request(&mut self, id: &str, method: &str, params: &str) -> Option<Outcome> {
        let meta = json::text_member(params, "_meta");
        let version = meta.and_then(|meta| json::string_member(meta, VERSION));
        if let Some(version) = &version
            && version != NAMED
            && !MCP_VERSIONS.contains(&&**version)
        {
            let data = json!({ "requested": version, "supported": supported() });
            let error = error_json(UNSUPPORTED_VERSION, "unsupported protocol version");
            let error = Members::of(&error).with("data", data);
            return Some(Err(error.text()));
        }
        let is_named = version.as_deref() == Some(NAMED);
        let result = match method {
            "initialize" => self.initialize(params),
            "server/discover" => self.discover(),
            "ping" => json!({}),
            "tools/list" if is_named => {
                json!({ "tools": tools::tools(), "ttlMs": 0, "cacheScope": "private" })
            }
            "tools/list" => json!({ "tools": tools::tools() }),
            "tools/call" => return self.call(id, params, is_named).err().map(Err),
            _ => {
                let error = error_json(METHOD_NOT_FOUND, &format!("there is no method {method:?}"));
                return Some(Err(error));
            }
        };
        Some(Ok(complete(Members::of(&result.to_string()), is_named)))
    }

    fn initialize(&self, params: &str) -> Value {
        let asked = json::string_member(params, "protocolVersion").unwrap_or_default();
        let version = MCP_VERSIONS.into_iter().find(|version| *version == asked);
        json!({
            "protocolVersion": version.unwrap_or(MCP_VERSIONS[0]),
            "capabilities": { "tools": {} },
            "serverInfo": info(),
            "instructions": tools::instructions(&self.sessions.scope),
        })
    }

    fn discover(&self) -> Value {
        json!({
            "supportedVersions": supported(),
            "capabilities": { "tools": {} },
            "instructions": tools::instructions(&self.sessions.scope),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": info() },
        })
    }

    /// Begins a call. Fails with the error to answer.
    fn call(&mut self, id: &str, params: &str, is_named: bool) -> Result<(), String> {
        let wrong = |why: String| error_json(INVALID_PARAMS, &why);
        let call: ToolCallParams =
            serde_json::from_str(params).map_err(|error| wrong(error.to_string()))?;
        if self.cancel.len() >= CALLS || self.cancel.contains_key(id) {
            let why = format!("{CALLS} calls are running, or one with this id");
            return Err(error_json(INTERNAL_ERROR, &why));
        }
        let cancel = CancellationToken::new();
        self.cancel.insert(id.to_owned(), cancel.clone());
        let (id, sessions) = (id.to_owned(), self.sessions.clone());
        self.calls.spawn(async move {
            let called = tokio::task::spawn_blocking(move || {
                let arguments = call.arguments.unwrap_or_else(|| json!({}));
                let cancelled = || cancel.is_cancelled();
                let answer = tools::call(&sessions, &call.name, arguments, &cancelled);
                answer.ok_or_else(|| wrong(format!("there is no tool {:?}", call.name)))
            });
            let failed = |_| error_json(INTERNAL_ERROR, "the tool failed");
            let answer = called.await.map_err(failed).and_then(|answer| answer);
            (id, answer.map(|answer| complete(answer, is_named)))
        });
        Ok(())
    }

    /// The line that answers a call, unless it was cancelled.
    fn answer(&mut self, (id, outcome): AnsweredCall) -> Option<String> {
        let cancel = self.cancel.remove(&id)?;
        (!cancel.is_cancelled()).then(|| response_line(&id, &outcome))
    }
}

/// A result in the form of the request's version.
fn complete(mut result: Members, is_named: bool) -> String {
    if is_named {
        result.set("resultType", "\"complete\"");
    }
    result.text()
}

fn supported() -> Vec<&'static str> {
    [&MCP_VERSIONS[..], &[NAMED]].concat()
}

fn info() -> Value {
    json!({ "name": "rejoin", "version": env!("CARGO_PKG_VERSION") })
}

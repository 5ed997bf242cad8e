//! The library's HTTP client, which keeps less of a server's list of tools.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::Client;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::bounded::LONGEST;
use super::lean::lean;

type Events = Pin<Box<dyn Stream<Item = Result<Sse, SseError>> + Send>>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;

/// The header with the id of the server's session.
const SESSION: &str = "Mcp-Session-Id";

/// The media types that the client accepts, as the protocol demands.
const ACCEPTED: &str = "text/event-stream, application/json";

/// A client.
#[derive(Clone)]
pub(super) struct LeanClient {
    inner: Client,
    /// Whether the server may answer with one JSON text, of which the library would make a tree. One that
    /// has answered with events does so again.
    may_answer_json: Arc<AtomicBool>,
}

impl LeanClient {
    pub(super) fn new(inner: Client) -> Self {
        Self {
            inner,
            may_answer_json: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Asks for a list of tools. `None` if the answer is not one that can be cut down: then the library
    /// asks again, and says what is wrong if something is.
    async fn list(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session_id: Option<&str>,
        auth_token: Option<&str>,
        headers: &Headers,
    ) -> Option<StreamableHttpPostResponse> {
        let headers: HeaderMap = headers.clone().into_iter().collect();
        let mut request = self.inner.post(uri).headers(headers);
        request = request.header(ACCEPT, ACCEPTED);
        if let Some(token) = auth_token {
            request = request.bearer_auth(token);
        }
        if let Some(id) = session_id {
            request = request.header(SESSION, id);
        }
        let mut response = request.json(message).send().await.ok()?;
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let is_json = header(CONTENT_TYPE.as_str())?.starts_with("application/json");
        if response.status() == StatusCode::OK && !is_json {
            self.may_answer_json.store(false, Ordering::Relaxed);
        }
        if response.status() != StatusCode::OK || !is_json {
            return None;
        }
        let session = header(SESSION).map(str::to_owned);
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.ok()? {
            if body.len() + part.len() > LONGEST {
                return None;
            }
            body.extend_from_slice(&part);
        }
        let body = String::from_utf8(body).ok()?;
        let body = lean(&body).unwrap_or(body);
        let message = serde_json::from_str(&body).ok()?;
        Some(StreamableHttpPostResponse::Json(message, session))
    }
}

impl StreamableHttpClient for LeanClient {
    type Error = reqwest::Error;

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let events = self
            .inner
            .get_stream(uri, session_id, last_event_id, auth_token, headers);
        events.await.map(lean_events)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_token: Option<String>,
        headers: Headers,
        longest: usize,
    ) -> Result<Events, Failure> {
        let events = self.inner.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_token,
            headers,
            longest,
        );
        events.await.map(lean_events)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let deleted = self
            .inner
            .delete_session(uri, session_id, auth_token, headers);
        deleted.await
    }

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post_message_with_max_sse_event_size(
            uri, message, session_id, auth_token, headers, LONGEST,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_token: Option<String>,
        headers: Headers,
        longest: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let is_list = matches!(
            &message,
            JsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::ListToolsRequest(_))
        );
        if is_list && self.may_answer_json.load(Ordering::Relaxed) {
            let (session, token) = (session_id.as_deref(), auth_token.as_deref());
            let listed = self.list(&uri, &message, session, token, &headers).await;
            if let Some(listed) = listed {
                return Ok(listed);
            }
        }
        let posted = self.inner.post_message_with_max_sse_event_size(
            uri, message, session_id, auth_token, headers, longest,
        );
        Ok(match posted.await? {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(lean_events(events), session)
            }
            other => other,
        })
    }
}

/// Events, with less in those that have a list of tools.
struct LeanEvents(Events);

fn lean_events(events: Events) -> Events {
    Box::pin(LeanEvents(events))
}

impl Stream for LeanEvents {
    type Item = Result<Sse, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx).map(|event| {
            event.map(|event| {
                event.map(|mut event| {
                    if let Some(less) = event.data.as_deref().and_then(lean) {
                        event.data = Some(less);
                    }
                    event
                })
            })
        })
    }
}

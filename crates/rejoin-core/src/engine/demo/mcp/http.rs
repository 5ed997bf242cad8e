//! MCP servers over streamable HTTP: each of our messages is a request, which is answered with JSON or
//! with a stream of events. A server may have one more stream of events for what it asks by itself.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, RequestBuilder, Response};
use tokio::time::{sleep, timeout};

use crate::transport::line::{InputLine, LineSplitter};

use super::connection::LEAVES;
use super::peer::{LONGEST, McpPeer, RequestError, TOO_LONG};

/// The timeout for connecting.
const CONNECTS: Duration = Duration::from_secs(15);

/// How long the server may take to accept a notification, or an answer of ours.
const ACCEPTS: Duration = Duration::from_secs(5);

/// How many redirects are followed.
const REDIRECTS: usize = 5;

/// How long to wait before a stream of events that has ended is continued, unless the server says so, and
/// at least.
const RETRY: Duration = Duration::from_secs(1);
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The longest answer to a request that has failed, in bytes.
const LONGEST_ERROR: usize = 64 * 1024;

/// The headers of the protocol.
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// A server that is reached over HTTP.
#[derive(Debug)]
pub(super) struct HttpTransport {
    client: Client,
    url: String,
    /// The headers that the user has configured.
    headers: HeaderMap,
    /// The server's name for the session.
    session: OnceLock<HeaderValue>,
    /// The version of the protocol, once it is known.
    version: OnceLock<HeaderValue>,
    peer: McpPeer,
}

impl HttpTransport {
    /// Fails with the reason, in words.
    pub(super) fn new(
        url: &str,
        headers: &[(String, String)],
        peer: &McpPeer,
    ) -> Result<Arc<Self>, String> {
        let mut named = HeaderMap::new();
        for (name, value) in headers {
            let wrong = |what| format!("the {what} of the header `{}` is invalid", name.trim());
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("name"))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong("value"))?;
            value.set_sensitive(true);
            named.insert(key, value);
        }
        // If a provider was installed before, it stays; it is the same one.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let client = Client::builder()
            .user_agent(concat!("rejoin/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECTS)
            .redirect(Policy::custom(follow))
            .build()
            .map_err(|_| "the HTTP client cannot be set up".to_owned())?;
        Ok(Arc::new(Self {
            client,
            url: url.to_owned(),
            headers: named,
            session: OnceLock::new(),
            version: OnceLock::new(),
            peer: peer.clone(),
        }))
    }

    /// Sets the version of the protocol that was agreed on.
    pub(super) fn set_version(&self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            self.version.set(version).ok();
        }
    }

    /// Sends a request and reads what is answered, until the caller has the response. Otherwise returns
    /// why no response comes.
    pub(super) async fn exchange(&self, line: String) -> RequestError {
        match self.exchanged(line).await {
            Ok(()) => RequestError::failed("the connection was lost"),
            Err(why) => why,
        }
    }

    /// Reads what the server asks by itself, if it has a stream for that, until the connection ends.
    pub(super) fn listen(self: &Arc<Self>) {
        let server = self.clone();
        let ended = server.peer.ended.clone();
        tokio::spawn(ended.run_until_cancelled_owned(async move {
            let listens = async { server.read(server.get(None).await?, true).await };
            if let Err(why) = listens.await {
                tracing::debug!(?why, "an MCP server has no stream of events");
            }
        }));
    }

    /// Ends the session.
    pub(super) async fn end(&self) {
        self.peer.close();
        if self.session.get().is_some() {
            let request = self.client.delete(&self.url);
            timeout(LEAVES, self.send(request, JSON)).await.ok();
        }
    }

    async fn exchanged(&self, line: String) -> Result<(), RequestError> {
        let response = self.post(line).await.inspect_err(|why| {
            if *why == RequestError::Closed {
                self.peer.close();
            }
        })?;
        if let Some(session) = response.headers().get(SESSION) {
            self.session.get_or_init(|| session.clone());
        }
        if is_of_type(&response, EVENTS) {
            return self.read(response, false).await;
        }
        if !is_of_type(&response, JSON) {
            let why = "its content type is not that of an MCP server";
            return Err(RequestError::failed(why));
        }
        let body = body(response, LONGEST).await?;
        self.receive(InputLine::Whole(body)).await;
        Err(RequestError::failed("its response is invalid"))
    }

    /// Sends a message that gets no response: a notification, or an answer of ours.
    pub(super) async fn notify(&self, line: String) -> Result<(), RequestError> {
        let accepted = timeout(ACCEPTS, self.post(line)).await;
        let late = || RequestError::failed("it did not answer in time");
        accepted.map_err(|_| late())?.map(drop)
    }

    async fn post(&self, line: String) -> Result<Response, RequestError> {
        let request = self.client.post(&self.url);
        let request = request.header(CONTENT_TYPE, JSON).body(line);
        self.send(request, "application/json, text/event-stream")
            .await
    }

    /// Asks for a stream of events: what follows the event with this id, or what the server asks by
    /// itself.
    async fn get(&self, last: Option<&HeaderValue>) -> Result<Response, RequestError> {
        let mut request = self.client.get(&self.url);
        if let Some(last) = last {
            request = request.header(LAST_EVENT, last);
        }
        let response = self.send(request, EVENTS).await?;
        let has_events = is_of_type(&response, EVENTS);
        let none = || RequestError::failed("its content type is not that of events");
        has_events.then_some(response).ok_or_else(none)
    }

    /// Sends a request. Fails unless the server accepts it.
    async fn send(&self, request: RequestBuilder, accept: &str) -> Result<Response, RequestError> {
        let mut request = request.headers(self.headers.clone()).header(ACCEPT, accept);
        let (session, version) = (self.session.get(), self.version.get());
        for (name, value) in [(SESSION, session), (VERSION, version)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.map_err(|error| in_words(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let has_challenge = response.headers().contains_key(WWW_AUTHENTICATE);
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN && has_challenge {
            return Err(RequestError::failed("it requires authentication"));
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            // The server has forgotten the session, or has no stream of events.
            return Err(RequestError::Closed);
        }
        if is_of_type(&response, JSON)
            && let Ok(body) = body(response, LONGEST_ERROR).await
        {
            // The response to a request, which says more than the status.
            self.peer.receive(InputLine::Whole(body));
        }
        let why = format!("it answered with the HTTP status {status}");
        Err(RequestError::Failed(why))
    }

    /// Reads a stream of events. If it ends, it is continued as far as the server knows what was read;
    /// `always`, even if it does not.
    async fn read(&self, mut response: Response, always: bool) -> Result<(), RequestError> {
        let mut events = EventReader::default();
        loop {
            // A stream that breaks is continued like one that ends.
            while let Ok(Some(bytes)) = response.chunk().await {
                for message in events.take(&bytes)? {
                    self.receive(message).await;
                }
            }
            if !always && events.last.is_none() {
                return Ok(());
            }
            sleep(events.retry).await;
            response = self.get(events.last.as_ref()).await?;
            events.restart();
        }
    }

    /// Handles a message of the server.
    async fn receive(&self, message: InputLine) {
        if let Some(answer) = self.peer.receive(message) {
            // A server that does not take the answer does not get it.
            self.notify(answer).await.ok();
        }
    }
}

fn is_of_type(response: &Response, name: &str) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(name.as_bytes()))
}

/// The body of a response, of at most so many bytes.
async fn body(mut response: Response, longest: usize) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| in_words(&error))? {
        if body.len() + part.len() > longest {
            return Err(RequestError::failed(TOO_LONG));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Takes a stream of events apart. Only the data of an event counts here, and its id.
#[derive(Debug)]
struct EventReader {
    lines: LineSplitter,
    data: Vec<u8>,
    /// The id of the last event.
    last: Option<HeaderValue>,
    /// How long to wait before the stream is continued.
    retry: Duration,
}

impl Default for EventReader {
    fn default() -> Self {
        Self {
            lines: LineSplitter::new(LONGEST),
            data: Vec::new(),
            last: None,
            retry: RETRY,
        }
    }
}

impl EventReader {
    /// The stream goes on after the last event.
    fn restart(&mut self) {
        self.lines.finish();
        self.data = Vec::new();
    }

    /// The messages that are complete with these bytes. Fails if one is too long.
    fn take(&mut self, mut bytes: &[u8]) -> Result<Vec<InputLine>, RequestError> {
        let mut messages = Vec::new();
        while !bytes.is_empty() {
            let (taken, line) = self.lines.take(bytes);
            bytes = &bytes[taken..];
            let too_long = || RequestError::failed(TOO_LONG);
            match line {
                Some(InputLine::TooLong { .. }) => return Err(too_long()),
                Some(InputLine::Whole(line)) => {
                    let line = line.strip_suffix(b"\r").unwrap_or(&line);
                    if line.is_empty() {
                        let data = std::mem::take(&mut self.data);
                        messages.extend((!data.is_empty()).then_some(InputLine::Whole(data)));
                    } else {
                        self.field(line);
                    }
                    if self.data.len() > LONGEST {
                        return Err(too_long());
                    }
                }
                None => {}
            }
        }
        Ok(messages)
    }

    fn field(&mut self, line: &[u8]) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"id" => self.last = HeaderValue::from_bytes(value).ok(),
            b"retry" => {
                let retry = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse().ok());
                let retry = retry.map(Duration::from_millis);
                self.retry = retry.unwrap_or(RETRY).max(SHORTEST_RETRY);
            }
            _ => {}
        }
    }
}

/// Follows redirects to the same origin only: the headers must not be sent to another one.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let same = attempt
        .previous()
        .last()
        .is_some_and(|from| from.origin() == attempt.url().origin());
    if same && attempt.previous().len() <= REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// The reason for which a request has failed. Errors of the HTTP client quote URLs, so only their kind
/// is reported.
fn in_words(error: &reqwest::Error) -> RequestError {
    if error.is_timeout() {
        return RequestError::failed("it did not answer in time");
    }
    if error.is_connect() {
        let mut cause: &dyn Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let why = match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            // The wording is the same on every system.
            Some(kind @ (ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)) => {
                kind.to_string()
            }
            _ => cause.to_string(),
        };
        return RequestError::Failed(format!("cannot connect to it: {why}"));
    }
    RequestError::failed(if error.is_builder() {
        "its URL is invalid"
    } else {
        "the connection was lost"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_apart() {
        let stream = "\
            : hello\nid: 1\nretry: 5\ndata:\n\n\
            event: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n\
            id: 2\ndata:{}\n\ndata: never ended";
        for size in [1, 7, stream.len()] {
            let mut events = EventReader::default();
            let parts = stream.as_bytes().chunks(size);
            let messages: Vec<_> = parts.flat_map(|part| events.take(part).unwrap()).collect();
            let whole = |text: &str| InputLine::Whole(text.as_bytes().to_vec());
            assert_eq!(messages, [whole("{\"a\":\n1}"), whole("{}")]);
            assert_eq!(events.last, Some(HeaderValue::from_static("2")));
            assert_eq!(events.retry, SHORTEST_RETRY);
            events.restart();
            assert_eq!(events.take(b"data: 3\n\n"), Ok(vec![whole("3")]));
        }
    }

    #[test]
    fn an_event_has_a_bound() {
        let line = [b"data:", &[b'x'; 1024][..], b"\n"].concat();
        let mut events = EventReader::default();
        let most = LONGEST / 1024;
        let failed = (0..=most).find_map(|_| events.take(&line).err());
        assert_eq!(failed, Some(RequestError::failed(TOO_LONG)));
        assert!(events.data.len() <= LONGEST + 2 * 1024);
    }
}

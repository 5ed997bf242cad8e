//! Connects to MCP servers over streamable HTTP.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError,
    StreamableHttpClientTransportConfig, StreamableHttpError,
};

use super::bounded::{Bounded, LONGEST, TOO_LONG};
use super::http_client::LeanClient;

/// The timeout for connecting.
const CONNECTS: Duration = Duration::from_secs(15);

/// How many redirects are followed.
const REDIRECTS: usize = 5;

/// A transport for the library. Fails with the reason, in words.
pub(super) fn transport(
    url: &str,
    headers: &[(String, String)],
) -> Result<Bounded<StreamableHttpClientTransport<LeanClient>>, String> {
    let mut named = HashMap::new();
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
    let client = reqwest::Client::builder()
        .user_agent(concat!("rejoin/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECTS)
        .redirect(Policy::custom(follow))
        .build()
        .map_err(|_| "the HTTP client cannot be set up".to_owned())?;
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(named)
        .max_sse_event_size(LONGEST);
    let client = LeanClient::new(client);
    let transport = StreamableHttpClientTransport::with_client(client, config);
    Ok(Bounded::new(transport, Arc::default()))
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

/// The meaning of a transport error, if it is known.
pub(super) fn in_words(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    let mut words = None;
    while let Some(error) = next {
        // The innermost error is the most specific one.
        words = of_one(error).or(words);
        next = error.source();
    }
    words
}

fn of_one(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return Some(of_client(error));
    }
    if let Some(error) = error.downcast_ref::<HttpStatusError>() {
        return Some(error.to_string());
    }
    if error.is::<AuthRequiredError>() || error.is::<InsufficientScopeError>() {
        return Some("it requires authentication".to_owned());
    }
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            Some("it requires authentication".to_owned())
        }
        StreamableHttpError::Client(error) => Some(of_client(error)),
        StreamableHttpError::ResponseBodyTooLarge { .. } => Some(TOO_LONG.to_owned()),
        StreamableHttpError::UnexpectedContentType(_) => {
            Some("its content type is not that of an MCP server".to_owned())
        }
        _ => None,
    }
}

fn of_client(error: &reqwest::Error) -> String {
    if let Some(status) = error.status() {
        return format!("it answered with the HTTP status {status}");
    }
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
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
        return format!("cannot connect to it: {why}");
    }
    if error.is_builder() {
        return "its URL is invalid".to_owned();
    }
    "the connection was lost".to_owned()
}

//! Reaches MCP servers over streamable HTTP.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError,
    StreamableHttpClientTransportConfig, StreamableHttpError,
};

/// How long it may take until there is a connection.
const CONNECTS: Duration = Duration::from_secs(15);

/// How many times an address may lead to another one.
const REDIRECTS: usize = 5;

/// A transport that the library can speak over. Fails with the reason, in words.
pub(super) fn transport(
    url: &str,
    headers: &[(String, String)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut named = HashMap::new();
    for (name, value) in headers {
        let wrong = |what| format!("the {what} of the header `{}` is no valid one", name.trim());
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong("value"))?;
        value.set_sensitive(true);
        named.insert(key, value);
    }
    // The first one stays, which is the same.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let client = reqwest::Client::builder()
        .user_agent(concat!("rejoin/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECTS)
        .redirect(Policy::custom(follow))
        .build()
        .map_err(|_| "the HTTP client cannot be set up".to_owned())?;
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(named);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Follows where an address leads as long as that is the same host: the headers are for no other.
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

/// What an error of the transport means, if it is one that is known.
pub(super) fn in_words(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    let mut words = None;
    while let Some(error) = next {
        // The innermost knows best.
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
        return Some("it wants a login that it was not given".to_owned());
    }
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            Some("it wants a login that it was not given".to_owned())
        }
        StreamableHttpError::Client(error) => Some(of_client(error)),
        StreamableHttpError::UnexpectedContentType(_) => {
            Some("what is there is no MCP server".to_owned())
        }
        _ => None,
    }
}

fn of_client(error: &reqwest::Error) -> String {
    if let Some(status) = error.status() {
        return format!("it answered with the HTTP status {status}");
    }
    if error.is_timeout() {
        return "it does not answer in time".to_owned();
    }
    if error.is_connect() {
        let mut cause: &dyn Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let why = match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            // The same on every system.
            Some(kind @ (ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)) => {
                kind.to_string()
            }
            _ => cause.to_string(),
        };
        return format!("there is no connection with it: {why}");
    }
    if error.is_builder() {
        return "its address is no valid one".to_owned();
    }
    "the connection with it broke".to_owned()
}

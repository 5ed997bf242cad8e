//! Says in words why an MCP server cannot be used, without quoting what may be a secret.

use std::error::Error;

use rmcp::service::{ClientInitializeError, ServiceError};

/// The most that is quoted of what a server says about an error, in characters.
const QUOTED: usize = 500;

/// Why there is no connection.
pub(super) fn not_connected(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => {
            "it ended before it had answered `initialize`".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => refused(&error.message),
        ClientInitializeError::TransportError { error, .. } => transport(error.error.as_ref()),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no version of MCP that is spoken here".to_owned()
        }
        ClientInitializeError::Cancelled => "it is being ended".to_owned(),
        _ => "its answer to `initialize` is no valid one".to_owned(),
    }
}

/// Why a request was not answered.
pub(super) fn not_answered(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => refused(&error.message),
        ServiceError::TransportSend(error) => transport(error.error.as_ref()),
        ServiceError::TransportClosed => "the connection has ended".to_owned(),
        ServiceError::UnexpectedResponse => "its answer is no valid one".to_owned(),
        ServiceError::Cancelled { .. } => "it has cancelled the request".to_owned(),
        ServiceError::Timeout { .. } => "it does not answer".to_owned(),
        _ => "it wants what cannot be had here".to_owned(),
    }
}

/// An error that the server has answered with.
fn refused(message: &str) -> String {
    format!("it answered with an error: {}", shortened(message))
}

/// What went wrong on the way. Errors of the HTTP client quote addresses, so they are told by their
/// kind.
fn transport(error: &(dyn Error + 'static)) -> String {
    #[cfg(feature = "mcp-http")]
    if let Some(words) = super::http::in_words(error) {
        return words;
    }
    shortened(&error.to_string())
}

/// The beginning of a text, in one line.
fn shortened(text: &str) -> String {
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = chars.by_ref().take(QUOTED).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

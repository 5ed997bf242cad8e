//! Describes why an MCP server cannot be used, without quoting possible secrets.

use std::error::Error;
use std::io;

use rmcp::service::{ClientInitializeError, ServiceError};

use crate::text::shortened;

use super::bounded::TOO_LONG;

/// How many characters of a server's error message are quoted.
const QUOTED: usize = 500;

/// The reason if a server ended before the handshake was complete.
const ENDED: &str = "it ended before it had answered `initialize`";

/// Why there is no connection.
pub(super) fn not_connected(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => ENDED.to_owned(),
        ClientInitializeError::JsonRpcError(error) => refused(&error.message),
        // A broken pipe.
        ClientInitializeError::TransportError { error, .. }
            if error.error.downcast_ref().is_some_and(is_closed) =>
        {
            ENDED.to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => transport(error.error.as_ref()),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it supports no version of MCP that rejoin supports".to_owned()
        }
        ClientInitializeError::Cancelled => "it was shut down".to_owned(),
        _ => "its response to `initialize` is invalid".to_owned(),
    }
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The connection has ended.
    Closed,
    /// Another reason, in words.
    Failed(String),
}

impl RequestError {
    /// The reason in words. `exit_reason` is what is known about the end of the connection.
    pub(super) fn in_words(self, exit_reason: &str) -> String {
        match self {
            Self::Closed => format!("it has ended: {exit_reason}"),
            Self::Failed(why) => why,
        }
    }
}

impl From<ServiceError> for RequestError {
    fn from(error: ServiceError) -> Self {
        Self::Failed(match &error {
            ServiceError::TransportClosed => return Self::Closed,
            ServiceError::TransportSend(error)
                if error.error.downcast_ref().is_some_and(is_closed) =>
            {
                return Self::Closed;
            }
            ServiceError::McpError(error) => refused(&error.message),
            ServiceError::TransportSend(error) => transport(error.error.as_ref()),
            ServiceError::UnexpectedResponse => "its response is invalid".to_owned(),
            ServiceError::Cancelled { .. } => "it cancelled the request".to_owned(),
            ServiceError::Timeout { .. } => "it did not answer in time".to_owned(),
            _ => "it requires an unsupported feature".to_owned(),
        })
    }
}

/// An error response of the server.
fn refused(message: &str) -> String {
    if message == TOO_LONG {
        return TOO_LONG.to_owned();
    }
    format!("it answered with an error: {}", shortened(message, QUOTED))
}

/// An error of the transport. Errors of the HTTP client quote URLs, so only their kind is reported.
fn transport(error: &(dyn Error + 'static)) -> String {
    #[cfg(feature = "mcp-http")]
    if let Some(words) = super::http::in_words(error) {
        return words;
    }
    shortened(&error.to_string(), QUOTED)
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

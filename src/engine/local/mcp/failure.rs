//! Says in words why an MCP server cannot be used, without quoting what may be a secret.

use std::error::Error;
use std::io;

use rmcp::service::{ClientInitializeError, ServiceError};

/// The most that is quoted of what a server says about an error, in characters.
const QUOTED: usize = 500;

/// What is said of a server that could not be asked anything.
const ENDED: &str = "it ended before it had answered `initialize`";

/// Why there is no connection.
pub(super) fn not_connected(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => ENDED.to_owned(),
        ClientInitializeError::JsonRpcError(error) => refused(&error.message),
        // A pipe that is closed at the other end.
        ClientInitializeError::TransportError { error, .. }
            if error.error.downcast_ref().is_some_and(is_closed) =>
        {
            ENDED.to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => transport(error.error.as_ref()),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no version of MCP that is spoken here".to_owned()
        }
        ClientInitializeError::Cancelled => "it is being ended".to_owned(),
        _ => "its answer to `initialize` is no valid one".to_owned(),
    }
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The connection has ended.
    Closed,
    /// For this reason.
    Because(String),
}

impl Unanswered {
    /// The same in words. `epitaph` is what is known of the end of the connection.
    pub(super) fn in_words(self, epitaph: &str) -> String {
        match self {
            Self::Closed => format!("it has ended: {epitaph}"),
            Self::Because(why) => why,
        }
    }
}

impl From<ServiceError> for Unanswered {
    fn from(error: ServiceError) -> Self {
        Self::Because(match &error {
            ServiceError::TransportClosed => return Self::Closed,
            ServiceError::TransportSend(error)
                if error.error.downcast_ref().is_some_and(is_closed) =>
            {
                return Self::Closed;
            }
            ServiceError::McpError(error) => refused(&error.message),
            ServiceError::TransportSend(error) => transport(error.error.as_ref()),
            ServiceError::UnexpectedResponse => "its answer is no valid one".to_owned(),
            ServiceError::Cancelled { .. } => "it has cancelled the request".to_owned(),
            ServiceError::Timeout { .. } => "it does not answer".to_owned(),
            _ => "it wants what cannot be had here".to_owned(),
        })
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

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
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

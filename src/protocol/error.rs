//! JSON-RPC error codes, and the data that each of our errors carries.
//!
//! Clients differ in which part of an error they show: `message`, `data.details` or `data.error`.
//! So each error has all three: a sentence, the same sentence, and a name.

use serde_json::{Map, Value, json};

/// The line is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The line is JSON but not a valid request, or the request is not allowed at this time.
pub const INVALID_REQUEST: i32 = -32600;
/// The method is unknown, or was not declared.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// A parameter is missing or wrong.
pub const INVALID_PARAMS: i32 = -32602;
/// Something failed that is not the client's fault.
pub const INTERNAL_ERROR: i32 = -32603;
/// The client cancelled the request.
pub const REQUEST_CANCELLED: i32 = -32800;
/// What is requested does not exist: in version 2, and in unstable methods of version 1.
pub const RESOURCE_NOT_FOUND: i32 = -32002;
/// The connection uses another version of the protocol.
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// The name of the error that replaces a missing response of the client.
pub const CLIENT_TIMEOUT: &str = "client_timeout";

/// Our errors, each with the name that is its `data.error`. Codes that make clients start a new
/// session (-32602, -32601) are used only where that is right, so that a session which is damaged
/// or in use is never replaced without notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The line is not JSON.
    ParseError,
    /// The request is malformed, or not allowed at this time.
    InvalidRequest,
    /// The method is unknown.
    MethodNotFound,
    /// The method needs a capability that was not declared: `method`, `requiredCapability`,
    /// `declared`.
    MethodNotSupported,
    /// A parameter is missing or wrong.
    InvalidParams,
    /// Something failed for which there is no other name.
    InternalError,
    /// The client cancelled the request.
    RequestCancelled,
    /// The connection uses another version of the protocol: `requested`, `supported`.
    UnsupportedVersion,
    /// There is no such session: `sessionId`.
    SessionNotFound,
    /// The session must be loaded or resumed first: `sessionId`.
    SessionNotOpen,
    /// The session has no such message: `sessionId`.
    MessageNotFound,
    /// The session answers a prompt: `sessionId`.
    PromptInProgress,
    /// Another process has the session open: `sessionId`, and `holder` if that is known.
    SessionInUse,
    /// The beginning of the session's log cannot be read: `sessionId`.
    SessionDamaged,
    /// A later version wrote the session's log: `sessionId`.
    SessionFormatNewer,
    /// A file operation failed: `sessionId` if it concerns one.
    StorageFailed,
}

impl ErrorKind {
    /// The JSON-RPC code.
    pub const fn code(self) -> i32 {
        match self {
            Self::ParseError => PARSE_ERROR,
            Self::InvalidRequest | Self::SessionNotOpen | Self::PromptInProgress => INVALID_REQUEST,
            Self::MethodNotFound | Self::MethodNotSupported => METHOD_NOT_FOUND,
            Self::InvalidParams | Self::SessionNotFound | Self::MessageNotFound => INVALID_PARAMS,
            Self::InternalError
            | Self::SessionInUse
            | Self::SessionDamaged
            | Self::SessionFormatNewer
            | Self::StorageFailed => INTERNAL_ERROR,
            Self::RequestCancelled => REQUEST_CANCELLED,
            Self::UnsupportedVersion => UNSUPPORTED_VERSION,
        }
    }

    /// The name in `data.error`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ParseError => "parse_error",
            Self::InvalidRequest => "invalid_request",
            Self::MethodNotFound => "method_not_found",
            Self::MethodNotSupported => "method_not_supported",
            Self::InvalidParams => "invalid_params",
            Self::InternalError => "internal_error",
            Self::RequestCancelled => "request_cancelled",
            Self::UnsupportedVersion => "unsupported_protocol_version",
            Self::SessionNotFound => "session_not_found",
            Self::SessionNotOpen => "session_not_open",
            Self::MessageNotFound => "message_not_found",
            Self::PromptInProgress => "prompt_in_progress",
            Self::SessionInUse => "session_in_use",
            Self::SessionDamaged => "session_damaged",
            Self::SessionFormatNewer => "session_format_newer",
            Self::StorageFailed => "storage_failed",
        }
    }
}

/// The default name of errors with this code.
pub fn name_of(code: i32) -> &'static str {
    let kind = match code {
        PARSE_ERROR => ErrorKind::ParseError,
        INVALID_REQUEST => ErrorKind::InvalidRequest,
        METHOD_NOT_FOUND => ErrorKind::MethodNotFound,
        INVALID_PARAMS => ErrorKind::InvalidParams,
        REQUEST_CANCELLED => ErrorKind::RequestCancelled,
        UNSUPPORTED_VERSION => ErrorKind::UnsupportedVersion,
        _ => ErrorKind::InternalError,
    };
    kind.name()
}

/// The `data` of an error: its name, and its sentence repeated.
pub fn error_data(name: &str, message: &str) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("error".to_owned(), name.into());
    data.insert("details".to_owned(), message.into());
    data
}

/// The JSON text of an error object that has the name of its code.
pub fn error_json(code: i32, message: &str) -> String {
    let data = error_data(name_of(code), message);
    json!({ "code": code, "message": message, "data": data }).to_string()
}

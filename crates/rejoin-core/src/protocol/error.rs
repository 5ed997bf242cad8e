//! JSON-RPC error codes, and the data that each of our errors carries.
//!
//! Clients differ in which part of an error they show: `message`, `data.details` or `data.error`.
//! So each error has a sentence, the same sentence in `data.details`, and a name in `data.code` and
//! in `data.error`. A client that would show the wrong part does not get it: see [`ErrorReader`].

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
/// The requested resource does not exist: in version 2, and in unstable methods of version 1.
pub const RESOURCE_NOT_FOUND: i32 = -32002;
/// The connection uses another version of the protocol.
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// The name of the error that replaces a missing response of the client.
pub const CLIENT_TIMEOUT: &str = "client_timeout";

/// Our errors, each with the name that is its `data.code`. Codes that make clients start a new
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
    /// The session has no such place to fork at: `sessionId`.
    CursorNotFound,
    /// The session answers a prompt: `sessionId`.
    PromptInProgress,
    /// Another process has the session open: `sessionId`, and `holder` if that is known.
    SessionInUse,
    /// The beginning of the session's log cannot be read: `sessionId`.
    SessionDamaged,
    /// A later version wrote the session's log: `sessionId`.
    SessionFormatNewer,
    /// The process that served the request has ended, or was about to: `sessionId`.
    Interrupted,
    /// A file operation failed: `sessionId` if it concerns one.
    StorageFailed,
    /// The database that has the sessions cannot be reached: `sessionId` if it concerns one.
    StoreUnreachable,
    /// Too many answers of the process wait to be read.
    Overloaded,
}

impl ErrorKind {
    /// The JSON-RPC code.
    pub const fn code(self) -> i32 {
        match self {
            Self::ParseError => PARSE_ERROR,
            Self::InvalidRequest | Self::SessionNotOpen | Self::PromptInProgress => INVALID_REQUEST,
            Self::MethodNotFound | Self::MethodNotSupported => METHOD_NOT_FOUND,
            Self::InvalidParams
            | Self::SessionNotFound
            | Self::MessageNotFound
            | Self::CursorNotFound => INVALID_PARAMS,
            Self::InternalError
            | Self::SessionInUse
            | Self::SessionDamaged
            | Self::SessionFormatNewer
            | Self::Interrupted
            | Self::StorageFailed
            | Self::StoreUnreachable
            | Self::Overloaded => INTERNAL_ERROR,
            Self::RequestCancelled => REQUEST_CANCELLED,
            Self::UnsupportedVersion => UNSUPPORTED_VERSION,
        }
    }

    /// The name in `data.code`.
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
            Self::CursorNotFound => "cursor_not_found",
            Self::PromptInProgress => "prompt_in_progress",
            Self::SessionInUse => "session_in_use",
            Self::SessionDamaged => "session_damaged",
            Self::SessionFormatNewer => "session_format_newer",
            Self::Interrupted => "interrupted",
            Self::StorageFailed => "storage_failed",
            Self::StoreUnreachable => "store_unreachable",
            Self::Overloaded => "overloaded",
        }
    }

    /// The JSON text of an error object with this sentence.
    pub fn object(self, message: &str) -> String {
        let data = error_data(self.name(), message);
        json!({ "code": self.code(), "message": message, "data": data }).to_string()
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

/// The use that a client makes of the `data` of an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorReader {
    /// Nothing that would get into the user's way.
    #[default]
    Other,
    /// Shows `data.error` in place of the message, as CodeCompanion does.
    ShowsError,
    /// Shows all of `data` as JSON behind the message, unless it is the data of an internal error
    /// and has nothing but `details`, as Zed does.
    ShowsAll,
}

impl ErrorReader {
    /// How the client with this name reads errors.
    pub fn of_client(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        if name.starts_with("codecompanion") {
            Self::ShowsError
        } else if name == "zed" {
            Self::ShowsAll
        } else {
            Self::Other
        }
    }

    /// Removes from the `data` of an error of ours what keeps the client from showing the sentence.
    pub fn adapt(self, code: i32, data: &mut Map<String, Value>) {
        match self {
            Self::ShowsError => data.retain(|name, _| name != "error"),
            Self::ShowsAll if code == INTERNAL_ERROR => data.retain(|name, _| name == "details"),
            Self::ShowsAll | Self::Other => {}
        }
    }
}

/// The `data` of an error: its name, and its sentence repeated.
pub fn error_data(name: &str, message: &str) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("error".to_owned(), name.into());
    data.insert("code".to_owned(), name.into());
    data.insert("details".to_owned(), message.into());
    data
}

/// The JSON text of an error object that has the name of its code.
pub fn error_json(code: i32, message: &str) -> String {
    let data = error_data(name_of(code), message);
    json!({ "code": code, "message": message, "data": data }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_what_it_can_show() {
        for (client, code, expected) in [
            ("acpx", INTERNAL_ERROR, &["code", "details", "error"][..]),
            ("CodeCompanion.nvim", INTERNAL_ERROR, &["code", "details"]),
            ("codecompanion", INVALID_PARAMS, &["code", "details"]),
            ("zed", INTERNAL_ERROR, &["details"]),
            ("Zed", INVALID_PARAMS, &["code", "details", "error"]),
            ("zedless", INTERNAL_ERROR, &["code", "details", "error"]),
        ] {
            let mut data = error_data("any", "Any sentence");
            ErrorReader::of_client(client).adapt(code, &mut data);
            let mut names: Vec<_> = data.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, expected, "{client} {code}");
        }
    }
}

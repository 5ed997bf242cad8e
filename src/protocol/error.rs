//! JSON-RPC error codes, and the data that each of our errors carries.
//!
//! Clients differ in which part of an error they show: `message`, `data.details` or `data.error`.
//! So each error has all three: a sentence, the same sentence, and a name.

use serde_json::{Map, Value};

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

/// The connection uses another version of the protocol.
pub const UNSUPPORTED_VERSION: i32 = -32022;

/// The name of the error that replaces a missing response of the client.
pub const CLIENT_TIMEOUT: &str = "client_timeout";

/// The default name of errors with this code.
pub fn name_of(code: i32) -> &'static str {
    match code {
        PARSE_ERROR => "parse_error",
        INVALID_REQUEST => "invalid_request",
        METHOD_NOT_FOUND => "method_not_found",
        INVALID_PARAMS => "invalid_params",
        REQUEST_CANCELLED => "request_cancelled",
        UNSUPPORTED_VERSION => "unsupported_protocol_version",
        _ => "internal_error",
    }
}

/// The `data` of an error: its name, and its sentence repeated.
pub fn error_data(name: &str, message: &str) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("error".to_owned(), name.into());
    data.insert("details".to_owned(), message.into());
    data
}

//! The JSON-RPC errors that clients are answered with.
//!
//! Code -32000 is never used but for the request of a wrapped agent to sign in: clients take it for
//! that. Codes that make clients
//! start a new session (-32602, -32601) are used only where that is right, so that a session which
//! is damaged or in use is never replaced in silence.

use agent_client_protocol::Error;
use serde_json::{Value, json};

use crate::engine::EngineError;
use crate::protocol::error::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_CANCELLED,
    error_data, name_of,
};
use crate::session::Refusal;
use crate::store::Holder;
use crate::transport::VerbatimResults;

/// The code of what is not there, of which version 2 and the unstable methods make use.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// An error. Its data has its name and its sentence, and the members of the object `more`.
fn error(code: i32, name: &str, message: impl Into<String>, more: Value) -> Error {
    let message = message.into();
    let mut data = error_data(name, &message);
    if let Value::Object(more) = more {
        data.extend(more);
    }
    Error::new(code, message).data(Value::Object(data))
}

/// An error that goes by the name of its code.
fn plain(code: i32, message: impl Into<String>) -> Error {
    error(code, name_of(code), message, Value::Null)
}

/// A session is not open that could be opened, in the words of version 1.
const NOT_OPEN: &str = "Session is not open: call session/load or session/resume first";

/// Invalid parameters. `problem` names the field and never holds its value.
pub fn invalid_params(problem: impl Into<String>) -> Error {
    plain(
        INVALID_PARAMS,
        format!("Invalid params: {}", problem.into()),
    )
}

/// Something failed here that nobody could foresee.
pub fn internal(message: impl Into<String>) -> Error {
    plain(INTERNAL_ERROR, message)
}

/// The store does not do what is asked of it.
pub fn storage_failed(message: impl Into<String>) -> Error {
    error(INTERNAL_ERROR, "storage_failed", message, Value::Null)
}

/// There is no such session, as far as the client can tell. `id` is what it asked for.
pub fn not_found(id: &str) -> Error {
    let message = "Session not found: sessionId does not exist or has expired";
    let name = "session_not_found";
    error(INVALID_PARAMS, name, message, json!({ "sessionId": id }))
}

/// The same error with the code that the protocol's unstable methods have for a session that is not
/// there.
pub fn unstable(error: Error) -> Error {
    if !is_not_found(&error) {
        return error;
    }
    Error::new(RESOURCE_NOT_FOUND, error.message).data(error.data)
}

/// A session is to be forked at a message that it does not have.
pub fn unknown_message(id: &str) -> Error {
    no_message(
        id,
        "`_meta.rejoin.messageId` is no message of the session's finished turns",
    )
}

fn no_message(id: &str, problem: &str) -> Error {
    let message = format!("Invalid params: {problem}");
    let name = "message_not_found";
    error(INVALID_PARAMS, name, message, json!({ "sessionId": id }))
}

/// Whether an error says that there is no such session.
pub fn is_not_found(error: &Error) -> bool {
    is_named(error, "session_not_found")
}

fn is_named(error: &Error, name: &str) -> bool {
    let data = error.data.as_ref();
    data.is_some_and(|data| data["error"] == name)
}

/// What is named by this parameter is nothing that can be cancelled by itself.
pub fn not_cancellable(field: &str) -> Error {
    invalid_params(format!(
        "`{field}` does not name anything that can be cancelled"
    ))
}

/// The method is unknown.
pub fn unknown_method(method: &str) -> Error {
    plain(METHOD_NOT_FOUND, format!("Method not found: {method}"))
}

/// The method needs a capability that was not declared.
pub fn undeclared(method: &str, capability: &str) -> Error {
    let message = format!("Method not supported: agent does not support {capability} capability");
    let more = json!({ "method": method, "requiredCapability": capability, "declared": false });
    error(METHOD_NOT_FOUND, "method_not_supported", message, more)
}

/// A refusal of session `id`.
pub fn refused(id: &str, refusal: Refusal, raws: &VerbatimResults) -> Error {
    let text = refusal.to_string();
    let session = || json!({ "sessionId": id });
    let failed = |name: &str, message: String| error(INTERNAL_ERROR, name, message, session());
    match refusal {
        Refusal::NotFound => not_found(id),
        Refusal::ReplayStartNotFound => {
            no_message(id, "`replayFrom.messageId` is no message of this session")
        }
        Refusal::NotOpen => error(INVALID_REQUEST, "session_not_open", NOT_OPEN, session()),
        Refusal::Forgotten => {
            let message = "Session is closed, and without a store it cannot be opened again";
            error(INVALID_REQUEST, "session_not_open", message, session())
        }
        Refusal::ForkPointNotFound => unknown_message(id),
        Refusal::PromptInProgress => {
            let message = "There is already an active prompt execution";
            error(INVALID_REQUEST, "prompt_in_progress", message, session())
        }
        Refusal::InUse { message, holder } => {
            let mut more = session();
            if holder.is_some() {
                more["holder"] = self::holder(holder.as_ref());
            }
            error(INTERNAL_ERROR, "session_in_use", message, more)
        }
        Refusal::Damaged(_) => failed("session_damaged", text),
        Refusal::Newer(_) => failed("session_format_newer", text),
        Refusal::Storage(_) => failed("storage_failed", text),
        Refusal::Engine(error) => engine(error, raws),
        Refusal::Cancelled => plain(REQUEST_CANCELLED, "Request cancelled"),
        Refusal::Gone => internal(text),
    }
}

/// Who has a session open, as clients are told; an empty object if nobody knows.
pub fn holder(holder: Option<&Holder>) -> Value {
    let holder = holder.and_then(|holder| serde_json::to_value(holder).ok());
    holder.unwrap_or_else(|| json!({}))
}

/// An error in the words of protocol version 2, which has a code of its own for sessions that are
/// not there or not open.
pub fn in_v2(mut refusal: Error) -> Error {
    if !is_named(&refusal, "session_not_open") {
        return unstable(refusal);
    }
    let message = if refusal.message == NOT_OPEN {
        "Session is not open: call session/resume first".to_owned()
    } else {
        refusal.message
    };
    let more = refusal
        .data
        .take()
        .map(|mut data| json!({ "sessionId": data["sessionId"].take() }));
    let more = more.unwrap_or_default();
    error(RESOURCE_NOT_FOUND, "session_not_open", message, more)
}

/// What an engine says went wrong, with its data to the byte.
pub fn engine(error: EngineError, raws: &VerbatimResults) -> Error {
    let said = Error::new(error.code, error.message);
    match error.data {
        Some(data) => said.data(raws.put(data)),
        None => said,
    }
}

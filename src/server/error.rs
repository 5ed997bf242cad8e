//! The JSON-RPC errors that clients are answered with.
//!
//! Code -32000 is never used but for the request of a wrapped agent to sign in: clients take it for
//! that. Codes that make clients
//! start a new session (-32602, -32601) are used only where that is right, so that a session which
//! is damaged or in use is never replaced in silence.

use agent_client_protocol::Error;
use serde_json::{Value, json};

use crate::engine::EngineError;
use crate::session::Refusal;
use crate::wire::Raws;

/// Invalid parameters. `problem` names the field and never holds its value.
pub fn invalid_params(problem: impl Into<String>) -> Error {
    Error::new(-32602, format!("Invalid params: {}", problem.into()))
}

/// There is no such session, as far as the client can tell. `id` is what it asked for.
pub fn not_found(id: &str) -> Error {
    let message = "Session not found: sessionId does not exist or has expired";
    Error::new(-32602, message).data(json!({ "sessionId": id, "error": "session_not_found" }))
}

/// A session is to be forked at a message that it does not have.
pub fn no_such_message(id: &str) -> Error {
    let field = "_meta.rejoin.messageId";
    invalid_params(format!(
        "`{field}` is no message of the session's finished turns"
    ))
    .data(json!({ "sessionId": id, "error": "message_not_found" }))
}

/// Whether an error says that there is no such session.
pub fn is_not_found(error: &Error) -> bool {
    let name = error.data.as_ref().and_then(|data| data["error"].as_str());
    name == Some("session_not_found")
}

/// What is named by this parameter is nothing that can be cancelled by itself.
pub fn not_cancellable(field: &str) -> Error {
    invalid_params(format!("`{field}` names nothing that can be cancelled"))
}

/// The method is unknown.
pub fn unknown_method(method: &str) -> Error {
    Error::new(-32601, format!("Method not found: {method}"))
}

/// The method needs a capability that was not declared.
pub fn undeclared(method: &str, capability: &str) -> Error {
    let message = format!("Method not supported: agent does not support {capability} capability");
    let data = json!({ "method": method, "requiredCapability": capability, "declared": false });
    Error::new(-32601, message).data(data)
}

/// A refusal of session `id`.
pub fn refused(id: &str, refusal: Refusal, raws: &Raws) -> Error {
    let text = refusal.to_string();
    let with = |code: i32, message: String, name: &str| {
        Error::new(code, message).data(json!({ "sessionId": id, "error": name }))
    };
    match refusal {
        Refusal::NotFound => not_found(id),
        Refusal::NoSuchMessage => {
            invalid_params("`replayFrom.messageId` is no message of this session")
        }
        Refusal::NotOpen => {
            let message = "Session is not open: call session/load or session/resume first";
            with(-32600, message.to_owned(), "session_not_open")
        }
        Refusal::UnknownMessage => no_such_message(id),
        Refusal::PromptInProgress => {
            Error::new(-32600, "There is already an active prompt execution")
                .data(json!({ "error": "prompt_in_progress" }))
        }
        Refusal::InUse { message, holder } => {
            let mut data = json!({ "sessionId": id, "error": "session_in_use" });
            if let Some(holder) = holder {
                data["holder"] = json!({ "pid": holder.pid, "host": holder.host });
            }
            Error::new(-32603, message).data(data)
        }
        Refusal::Damaged(_) => with(-32603, text, "session_damaged"),
        Refusal::Newer(_) => with(-32603, text, "session_format_newer"),
        Refusal::Storage(_) => with(-32603, text, "storage_failed"),
        Refusal::Engine(error) => engine(error, raws),
        Refusal::Cancelled => Error::new(-32800, "Request cancelled"),
        Refusal::Gone => Error::new(-32603, text).data(Value::Null),
    }
}

/// An error in the words of protocol version 2, which has a code of its own for sessions that are
/// not there or not open.
pub fn in_v2(error: Error) -> Error {
    let name = error.data.as_ref().and_then(|data| data["error"].as_str());
    let message = match name {
        Some("session_not_found") => error.message,
        Some("session_not_open") => "Session is not open: call session/resume first".to_owned(),
        _ => return error,
    };
    Error::new(-32002, message).data(error.data)
}

/// What an engine says went wrong, with its data to the byte.
pub fn engine(error: EngineError, raws: &Raws) -> Error {
    let said = Error::new(error.code, error.message);
    match error.data {
        Some(data) => said.data(raws.put(data)),
        None => said,
    }
}

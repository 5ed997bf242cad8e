//! The errors that clients are answered with.
//!
//! Code -32000 is only ever passed on from a wrapped agent whose user must sign in: clients take it
//! for that.

use serde_json::{Map, Value, json};

use crate::engine::EngineError;
use crate::protocol::ProtocolVersion;
use crate::protocol::error::{ErrorKind, ErrorReader, RESOURCE_NOT_FOUND, error_data};
use crate::session::Refusal;
use crate::store::Holder;
use crate::transport::NoRoom;

/// An error that answers a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Error {
    /// An error of ours.
    Own(OwnError),
    /// An error of the engine, whose data is passed on verbatim.
    Engine(EngineError),
}

/// The form of the errors of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ErrorForm {
    pub(super) version: ProtocolVersion,
    pub(super) reader: ErrorReader,
}

/// An error of ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnError {
    kind: ErrorKind,
    /// The JSON-RPC code, in version 1.
    code: i32,
    message: String,
    /// The members of its data besides the name and the repeated message.
    more: Map<String, Value>,
}

/// A session is not open, in version 1.
const NOT_OPEN: &str = "Session is not open: call session/load or session/resume first";

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Own(OwnError {
            kind,
            code: kind.code(),
            message: message.into(),
            more: Map::new(),
        })
    }

    /// The error with a further member in its data.
    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Self::Own(own) = &mut self {
            own.more.insert(name.to_owned(), value.into());
        }
        self
    }

    /// The error with the code that unstable methods have for a session that is not found.
    pub(super) fn unstable(mut self) -> Self {
        if let Self::Own(own) = &mut self
            && own.kind == ErrorKind::SessionNotFound
        {
            own.code = RESOURCE_NOT_FOUND;
        }
        self
    }

    /// Whether there is no such session.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Own(own) if own.kind == ErrorKind::SessionNotFound)
    }

    #[cfg(test)]
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Own(own) => &own.message,
            Self::Engine(error) => &error.message,
        }
    }

    /// The error object, as JSON text.
    pub(super) fn json(self, form: ErrorForm) -> String {
        match self {
            Self::Own(own) => own.json(form),
            Self::Engine(error) => error.json_for(form.reader),
        }
    }
}

impl OwnError {
    fn json(self, form: ErrorForm) -> String {
        let Self {
            kind,
            mut code,
            mut message,
            more,
        } = self;
        if form.version == ProtocolVersion::V2 {
            // Version 2 has a code of its own for sessions that are not found or not open.
            if matches!(kind, ErrorKind::SessionNotFound | ErrorKind::SessionNotOpen) {
                code = RESOURCE_NOT_FOUND;
            }
            if message == NOT_OPEN {
                "Session is not open: call session/resume first".clone_into(&mut message);
            }
        }
        let mut data = error_data(kind.name(), &message);
        data.extend(more);
        form.reader.adapt(code, &mut data);
        json!({ "code": code, "message": message, "data": data }).to_string()
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Invalid parameters. `problem` names the field and never contains its value.
pub(super) fn invalid_params(problem: impl AsRef<str>) -> Error {
    let message = format!("Invalid params: {}", problem.as_ref());
    Error::new(ErrorKind::InvalidParams, message)
}

/// The request is about the session of a subagent.
pub(super) fn of_subagent() -> Error {
    invalid_params(
        "`sessionId` is the session of a subagent, which can be cancelled and nothing else: use that \
         of the session in which it was started",
    )
}

/// The request is not allowed at this time.
pub(super) fn invalid_request(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRequest, message)
}

/// The connection uses another version of the protocol.
pub(super) fn unsupported_version(requested: u16, supported: u16) -> Error {
    Error::new(
        ErrorKind::UnsupportedVersion,
        "Unsupported protocol version",
    )
    .with("requested", requested)
    .with("supported", vec![supported])
}

/// An unexpected failure.
pub(super) fn internal(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InternalError, message)
}

/// The store failed.
pub(super) fn storage_failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::StorageFailed, message)
}

/// The database that has the sessions cannot be reached.
pub(super) fn store_unreachable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::StoreUnreachable, message)
}

/// There is no room for the answer.
pub(super) fn overloaded(no_room: NoRoom) -> Error {
    Error::new(ErrorKind::Overloaded, no_room.to_string())
}

/// There is no such session, as far as the client may know. `id` is what it sent.
pub(super) fn not_found(id: &str) -> Error {
    let message = "Session not found: sessionId does not exist or has expired";
    Error::new(ErrorKind::SessionNotFound, message).with("sessionId", id)
}

/// A session is to be forked at a message that it does not have.
pub(super) fn unknown_message(id: &str) -> Error {
    no_message(
        id,
        "`_meta.rejoin.messageId` is no message of the session's finished turns",
    )
}

/// A session is to be forked at a place that it does not have.
pub(super) fn unknown_cursor(id: &str) -> Error {
    let message = "Invalid params: `cursorId` is no place of this session";
    Error::new(ErrorKind::CursorNotFound, message).with("sessionId", id)
}

fn no_message(id: &str, problem: &str) -> Error {
    let message = format!("Invalid params: {problem}");
    Error::new(ErrorKind::MessageNotFound, message).with("sessionId", id)
}

/// The parameter names nothing that can be cancelled on its own.
pub(super) fn not_cancellable(field: &str) -> Error {
    invalid_params(format!(
        "`{field}` does not name anything that can be cancelled"
    ))
}

/// The method is unknown.
pub(super) fn unknown_method(method: &str) -> Error {
    Error::new(
        ErrorKind::MethodNotFound,
        format!("Method not found: {method}"),
    )
}

/// The method needs a capability that was not declared.
pub(super) fn undeclared(method: &str, capability: &str) -> Error {
    let message = format!("Method not supported: agent does not support {capability} capability");
    Error::new(ErrorKind::MethodNotSupported, message)
        .with("method", method)
        .with("requiredCapability", capability)
        .with("declared", false)
}

/// A refusal of the session that the client knows as `id`.
pub(super) fn refused(id: &str, refusal: Refusal) -> Error {
    let text = refusal.to_string();
    let (kind, message) = match refusal {
        Refusal::NotFound => return not_found(id),
        Refusal::ReplayStartNotFound => {
            return no_message(id, "`replayFrom.messageId` is no message of this session");
        }
        Refusal::ForkPointNotFound => return unknown_message(id),
        Refusal::CursorNotFound => return unknown_cursor(id),
        Refusal::RewindPointNotFound => {
            let error = no_message(id, "the place is not one of this session");
            return error.with("reason", "unknown_message_id");
        }
        Refusal::NotOfUser => {
            let error = invalid_params("`messageId` is not a message of the user");
            return error
                .with("reason", "not_a_user_message")
                .with("sessionId", id);
        }
        Refusal::Engine(error) => return error.into(),
        Refusal::Cancelled => {
            return Error::new(ErrorKind::RequestCancelled, "Request cancelled");
        }
        Refusal::Gone => return internal(text),
        Refusal::Interrupted | Refusal::OwnerEnded | Refusal::ClientLeft => {
            (ErrorKind::Interrupted, text)
        }
        Refusal::RepeatInterrupted { message_id } => {
            let error = Error::new(ErrorKind::Interrupted, text).with("messageId", message_id);
            return error.with("sessionId", id);
        }
        Refusal::NotOpen => (ErrorKind::SessionNotOpen, NOT_OPEN.to_owned()),
        Refusal::Forgotten => {
            let message = "Session is closed, and without a store it cannot be opened again";
            (ErrorKind::SessionNotOpen, message.to_owned())
        }
        Refusal::PromptInProgress { client } => {
            let message = "There is already an active prompt execution";
            let Some(client) = client else {
                return Error::new(ErrorKind::PromptInProgress, message).with("sessionId", id);
            };
            let message = format!("{message}, of {client}");
            let error = Error::new(ErrorKind::PromptInProgress, message).with("client", client);
            return error.with("sessionId", id);
        }
        Refusal::InUse { message, holder } => {
            let error = Error::new(ErrorKind::SessionInUse, message).with("sessionId", id);
            return match holder {
                Some(holder) => error.with("holder", self::holder(Some(&holder))),
                None => error,
            };
        }
        Refusal::Imported => (ErrorKind::SessionInUse, text),
        Refusal::Observes => (ErrorKind::InvalidRequest, text),
        Refusal::Damaged(_) => (ErrorKind::SessionDamaged, text),
        Refusal::Newer(_) => (ErrorKind::SessionFormatNewer, text),
        Refusal::Storage(_) => (ErrorKind::StorageFailed, text),
        Refusal::Unreachable(_) => (ErrorKind::StoreUnreachable, text),
    };
    Error::new(kind, message).with("sessionId", id)
}

/// The process that has a session open; an empty object if it is unknown.
pub(super) fn holder(holder: Option<&Holder>) -> Value {
    let holder = holder.map(|holder| Holder {
        // Nothing of this is of use to a client.
        socket: None,
        started: None,
        ..holder.clone()
    });
    let holder = holder.and_then(|holder| serde_json::to_value(holder).ok());
    holder.unwrap_or_else(|| json!({}))
}

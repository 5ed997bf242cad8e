//! Errors of an engine, as JSON-RPC errors.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::history::HistoryError;
use super::outlet::Closed;
use crate::json::{self, string_member};
use crate::protocol::error::{
    ErrorReader, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED, error_data,
    name_of,
};

/// Shorter ids are not replaced in texts, in bytes.
const SHORTEST_ID: usize = 8;

/// An error that the client gets as a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// The JSON-RPC error code. Never -32000, which clients take for a request to sign in, unless
    /// the agent behind the engine sent it.
    pub code: i32,
    /// The message, in one line.
    pub message: String,
    /// Further details, as JSON text.
    pub data: Option<String>,
    /// Whether the error is an agent's, which clients get verbatim.
    is_agents: bool,
    /// Whether the agent certainly did not get the prompt.
    #[serde(default)]
    is_unsent: bool,
}

impl EngineError {
    /// The code of parameters that are wrong.
    pub const INVALID_PARAMS: i32 = INVALID_PARAMS;
    /// The code of methods that do not exist.
    pub const METHOD_NOT_FOUND: i32 = METHOD_NOT_FOUND;
    /// The code of internal errors.
    pub const INTERNAL: i32 = INTERNAL_ERROR;
    /// The code of an agent that requires its user to sign in.
    pub const SIGN_IN: i32 = -32000;

    /// The code of an agent that does not have the session.
    pub const NOT_FOUND: i32 = -32002;

    /// An error of an agent.
    pub fn of_agent(code: i32, message: String, data: Option<String>) -> Self {
        Self {
            code,
            message,
            data,
            is_agents: true,
            is_unsent: false,
        }
    }

    /// An error that was answered before, by its object as JSON text.
    pub fn of_json(error: &str) -> Self {
        let code = json::text_member(error, "code").and_then(|code| code.parse().ok());
        let message = string_member(error, "message").unwrap_or_default();
        let data = json::text_member(error, "data").map(str::to_owned);
        Self::of_agent(code.unwrap_or(INTERNAL_ERROR), message, data)
    }

    /// The error object of a response, as JSON text.
    pub fn json(&self) -> String {
        self.json_for(ErrorReader::Other)
    }

    /// The error object of a response, as JSON text, for a client that reads errors in this way.
    pub fn json_for(&self, reader: ErrorReader) -> String {
        let data = match &self.data {
            Some(data) if !self.is_agents && reader != ErrorReader::Other => {
                let mut members = serde_json::from_str(data).unwrap_or_default();
                reader.adapt(self.code, &mut members);
                Some(Value::Object(members).to_string())
            }
            data => data.clone(),
        };
        json::Object::new()
            .raw("code", &self.code.to_string())
            .string("message", &self.message)
            .optional("data", data.as_deref())
            .end()
    }

    /// An error of our own, with a name by which clients can recognize it.
    pub fn named(code: i32, name: &str, message: impl Into<String>) -> Self {
        Self::with(code, name, message, std::iter::empty())
    }

    /// An error of our own, with a name by which clients can recognize it, and further members in
    /// its data.
    pub fn with(
        code: i32,
        name: &str,
        message: impl Into<String>,
        members: impl IntoIterator<Item = (String, Value)>,
    ) -> Self {
        let message = message.into();
        let mut data = error_data(name, &message);
        data.extend(members);
        Self {
            code,
            message,
            data: Some(Value::Object(data).to_string()),
            is_agents: false,
            is_unsent: false,
        }
    }

    /// The error of a prompt that the agent did not get.
    #[must_use]
    pub fn unsent(self) -> Self {
        Self {
            is_unsent: true,
            ..self
        }
    }

    /// Whether the agent has certainly not begun to answer: it did not get the prompt, or asks its user to
    /// sign in first.
    pub fn is_of_unsent_prompt(&self) -> bool {
        self.is_unsent || (self.is_agents && self.code == Self::SIGN_IN)
    }

    /// An internal error.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::named(INTERNAL_ERROR, name_of(INTERNAL_ERROR), message)
    }

    /// Parameters are wrong.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::named(INVALID_PARAMS, name_of(INVALID_PARAMS), message)
    }

    /// Whether the error's data has this name.
    pub fn is_named(&self, name: &str) -> bool {
        let named = self
            .data
            .as_deref()
            .and_then(|data| string_member(data, "error"));
        named.as_deref() == Some(name)
    }

    /// The method is unknown.
    pub fn unknown_method(method: &str) -> Self {
        let message = format!("Method not found: {method}");
        Self::named(METHOD_NOT_FOUND, name_of(METHOD_NOT_FOUND), message)
    }

    /// There is no such session.
    pub fn unknown_session() -> Self {
        let message = "the agent has no such session";
        Self::named(Self::NOT_FOUND, "session_not_found", message)
    }

    /// Whether the error is [`unknown_session`](Self::unknown_session).
    pub fn is_unknown_session(&self) -> bool {
        !self.is_agents && self.is_named("session_not_found")
    }

    /// The error with the agent's session id `inner` replaced by `name`, the client's id.
    #[must_use]
    pub fn renamed(self, inner: &str, name: &str) -> Self {
        let plain = |id: &str| id.bytes().all(is_part_of_id);
        if inner.len() < SHORTEST_ID || !plain(inner) || !plain(name) {
            // The id could be any word, or need escaping in the data.
            return self;
        }
        Self {
            message: replaced(&self.message, inner, name),
            data: self.data.map(|data| replaced(&data, inner, name)),
            ..self
        }
    }

    /// The client withdrew its request.
    pub fn cancelled() -> Self {
        let name = name_of(REQUEST_CANCELLED);
        Self::named(REQUEST_CANCELLED, name, "Request cancelled")
    }
}

/// Replaces `id` with `name` where it is a whole word.
fn replaced(text: &str, id: &str, name: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(id) {
        let (before, behind) = (&rest[..at], &rest[at + id.len()..]);
        let alone = !before.bytes().next_back().is_some_and(is_part_of_id)
            && !behind.bytes().next().is_some_and(is_part_of_id);
        out.push_str(before);
        out.push_str(if alone { name } else { id });
        rest = behind;
    }
    out.push_str(rest);
    out
}

fn is_part_of_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl From<Closed> for EngineError {
    fn from(closed: Closed) -> Self {
        Self::internal(closed.to_string())
    }
}

impl From<HistoryError> for EngineError {
    fn from(error: HistoryError) -> Self {
        Self::named(INTERNAL_ERROR, "storage_failed", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_errors_are_adapted_to_a_client() {
        let reader = ErrorReader::ShowsError;
        let ours = EngineError::internal("it failed").json_for(reader);
        let expected = r#""data":{"code":"internal_error","details":"it failed"}"#;
        assert!(ours.contains(expected), "{ours}");
        let data = r#"{"error":"it failed","n":1e400}"#;
        let agents = EngineError::of_agent(-32603, "no".to_owned(), Some(data.to_owned()));
        assert!(agents.json_for(reader).contains(data));
    }

    #[test]
    fn an_error_names_the_session_as_the_client_knows_it() {
        let error = EngineError {
            data: Some(r#"{"sessionId":"inner-0001","n":1e400}"#.to_owned()),
            ..EngineError::internal("session inner-0001 is in use, inner-00012 is not")
        };
        let renamed = error.clone().renamed("inner-0001", "sess_1");
        assert_eq!(
            renamed.message,
            "session sess_1 is in use, inner-00012 is not"
        );
        let data = r#"{"sessionId":"sess_1","n":1e400}"#;
        assert_eq!(renamed.data.as_deref(), Some(data));
        for (inner, name) in [("use", "sess_1"), ("inner-0001", "\"")] {
            assert_eq!(error.clone().renamed(inner, name), error);
        }
    }
}

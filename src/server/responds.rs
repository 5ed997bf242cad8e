//! A request's way back through the SDK, whichever version of the protocol is spoken.

use agent_client_protocol::{Error, RequestCancellation, v1, v2};
use serde_json::Value;

use super::error;

/// Where a request is answered.
#[derive(Debug)]
pub enum Responds {
    /// By version 1.
    V1(v1::Responder<Value>),
    /// By version 2.
    V2(v2::Responder<Value>),
}

impl Responds {
    /// The request's id, as JSON text.
    pub fn id(&self) -> String {
        let id = match self {
            Self::V1(responder) => responder.raw_id(),
            Self::V2(responder) => responder.raw_id(),
        };
        // It always has a JSON form.
        serde_json::to_string(id).unwrap_or_default()
    }

    /// Tells whether the client has cancelled the request.
    pub fn cancellation(&self) -> RequestCancellation {
        match self {
            Self::V1(responder) => responder.cancellation(),
            Self::V2(responder) => responder.cancellation(),
        }
    }

    /// Answers it.
    pub fn answer(self, result: Result<Value, Error>) {
        let sent = match self {
            Self::V1(responder) => responder.respond_with_result(result),
            Self::V2(responder) => responder.respond_with_result(result.map_err(error::in_v2)),
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "the connection ended before an answer");
        }
    }
}

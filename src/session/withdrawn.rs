//! What an engine is answered in the client's place, when its turn ends before the client has
//! answered what the engine asked for.

use serde_json::json;

use crate::transport::Outcome;

/// The code of a request that was cancelled, as the protocol has it for `$/cancel_request`.
const CANCELLED: i32 = -32800;

/// The answer to a request by this name that nobody will answer any more.
pub(super) fn outcome(method: &str) -> Outcome {
    match method {
        "session/request_permission" => Ok(json!({ "outcome": { "outcome": "cancelled" } })),
        "elicitation/create" => Ok(json!({ "action": "cancel" })),
        _ => Err(json!({ "code": CANCELLED, "message": "the turn was cancelled" })),
    }
    .map(|result| result.to_string())
    .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_answered_in_the_clients_place_is() {
        let permission = r#"{"outcome":{"outcome":"cancelled"}}"#;
        assert_eq!(
            outcome("session/request_permission"),
            Ok(permission.to_owned())
        );
        let form = r#"{"action":"cancel"}"#;
        assert_eq!(outcome("elicitation/create"), Ok(form.to_owned()));
        let error = r#"{"code":-32800,"message":"the turn was cancelled"}"#;
        assert_eq!(outcome("terminal/wait_for_exit"), Err(error.to_owned()));
    }
}

//! Decides whether an action is permitted: by mode, by an earlier decision, or by asking the user.

use agent_client_protocol_schema::v1::{RequestPermissionOutcome, RequestPermissionResponse};
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::demo::settings::PermissionMode;
use crate::engine::demo::tool_call::ToolCall;
use crate::engine::demo::turn::{DemoTurn, EarlyStop, json_line};
use crate::protocol::method::REQUEST_PERMISSION;

use super::client::{ask, problem};

/// An action that may need permission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardedAction<'a> {
    /// The text by which the user's permanent decisions apply to further actions.
    pub(crate) about: &'a str,
    /// Whether the action may change something, so that a read-only mode rejects it.
    pub(crate) changes: bool,
}

/// Whether an action is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Allowed,
    /// The action is rejected, for this reason.
    Refused(String),
}

/// The options for the user: their ids, which are the protocol's kinds, and their names.
const OPTIONS: [(&str, &str); 4] = [
    ("allow_once", "Allow"),
    ("allow_always", "Allow from now on in this session"),
    ("reject_once", "Reject"),
    ("reject_always", "Reject from now on in this session"),
];

const READ_ONLY: &str = "not done: the session's mode is read-only";

/// Decides whether a tool call is permitted. `content` is what the user sees of it. A user who
/// cancels the request cancels the turn.
pub(crate) async fn may(
    turn: &DemoTurn<'_>,
    call: &ToolCall,
    action: GuardedAction<'_>,
    content: &[Value],
) -> Result<Permission, EarlyStop> {
    let refused = |reason: &str| Ok(Permission::Refused(reason.to_owned()));
    match turn.settings().mode {
        PermissionMode::ReadOnly if action.changes => return refused(READ_ONLY),
        PermissionMode::Auto => return Ok(Permission::Allowed),
        PermissionMode::Ask | PermissionMode::ReadOnly => {}
    }
    match turn.session.decision(action.about) {
        Some(true) => return Ok(Permission::Allowed),
        Some(false) => return refused("not done: it was rejected for this session"),
        None => {}
    }
    let answer = match ask(turn, REQUEST_PERMISSION, &params(call, content), true).await? {
        Ok(answer) => answer,
        Err(error) => {
            let problem = problem(&error);
            let reason = format!("not done: asking for permission failed; {problem}");
            return Ok(Permission::Refused(reason));
        }
    };
    let answer = serde_json::from_str(&answer);
    let outcome = answer.map(|answer: RequestPermissionResponse| answer.outcome);
    if let Ok(RequestPermissionOutcome::Cancelled) = outcome {
        return Err(EarlyStop::Cancelled);
    }
    // The mode may have changed while the request was pending.
    if action.changes && turn.settings().mode == PermissionMode::ReadOnly {
        return refused(READ_ONLY);
    }
    let selected = match &outcome {
        Ok(RequestPermissionOutcome::Selected(selected)) => &*selected.option_id.0,
        _ => "",
    };
    match selected {
        "allow_once" => Ok(Permission::Allowed),
        "allow_always" => {
            turn.session.decide(action.about, true);
            Ok(Permission::Allowed)
        }
        "reject_once" => refused("not done: it was rejected"),
        "reject_always" => {
            turn.session.decide(action.about, false);
            refused("not done: it was rejected")
        }
        _ => refused("not done: the client selected an unknown option"),
    }
}

/// The parameters of the request, without the session's id.
fn params(call: &ToolCall, content: &[Value]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        tool_call: WithContent<'a>,
        options: [Value; OPTIONS.len()],
    }
    #[derive(Serialize)]
    struct WithContent<'a> {
        #[serde(flatten)]
        call: &'a ToolCall,
        #[serde(skip_serializing_if = "<[Value]>::is_empty")]
        content: &'a [Value],
    }
    json_line(&Params {
        tool_call: WithContent { call, content },
        options: OPTIONS.map(|(id, name)| json!({ "optionId": id, "name": name, "kind": id })),
    })
}

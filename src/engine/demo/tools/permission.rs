//! Decides whether an action is permitted: by mode, by an earlier decision, or by asking the user.

use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::demo::settings::Mode;
use crate::engine::demo::turn::{Stop, Turn};
use crate::engine::demo::update::ToolCall;
use crate::json as text;

use super::client::{ask, problem};

/// An action that may need permission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action<'a> {
    /// What the user's permanent decisions apply to.
    pub(crate) about: &'a str,
    /// Whether it may change something, so that a read-only mode rejects it.
    pub(crate) changes: bool,
}

/// Whether an action is permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
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

/// Decides whether a tool call is permitted. `content` is what the user sees of it. A user who
/// cancels the request cancels the turn.
pub(crate) async fn may(
    turn: &Turn<'_>,
    call: &ToolCall<'_, impl Serialize + Sync>,
    deed: Action<'_>,
    content: &[Value],
) -> Result<Verdict, Stop> {
    let refused = |reason: &str| Ok(Verdict::Refused(reason.to_owned()));
    match turn.settings().mode {
        Mode::ReadOnly if deed.changes => {
            return refused("not done: the session's mode is read-only");
        }
        Mode::Auto => return Ok(Verdict::Allowed),
        Mode::Ask | Mode::ReadOnly => {}
    }
    match turn.always().of(deed.about) {
        Some(true) => return Ok(Verdict::Allowed),
        Some(false) => return refused("not done: it was rejected for this session"),
        None => {}
    }
    let params = question(call, content);
    let answer = match ask(turn, "session/request_permission", &params, true).await? {
        Ok(answer) => text::tree(&answer).unwrap_or_default(),
        Err(error) => {
            let reason = format!(
                "not done: permission could not be asked for; {}",
                problem(&error)
            );
            return Ok(Verdict::Refused(reason));
        }
    };
    let outcome = &answer["outcome"];
    if outcome["outcome"] == "cancelled" {
        return Err(Stop::Cancelled);
    }
    let chosen = (outcome["outcome"] == "selected").then(|| outcome["optionId"].as_str());
    // The mode may have changed while the request was pending.
    if deed.changes && turn.settings().mode == Mode::ReadOnly {
        return refused("not done: the session's mode is read-only");
    }
    match chosen.flatten() {
        Some("allow_once") => Ok(Verdict::Allowed),
        Some("allow_always") => {
            turn.always().remember(deed.about, true);
            Ok(Verdict::Allowed)
        }
        Some("reject_once") => refused("not done: it was rejected"),
        Some("reject_always") => {
            turn.always().remember(deed.about, false);
            refused("not done: it was rejected")
        }
        _ => refused("not done: the client chose nothing that was offered"),
    }
}

/// The parameters of the request, without the session's id.
fn question(call: &ToolCall<'_, impl Serialize>, content: &[Value]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Question<'a, C> {
        tool_call: Subject<'a, C>,
        options: Vec<Value>,
    }
    #[derive(Serialize)]
    struct Subject<'a, C> {
        #[serde(flatten)]
        call: &'a C,
        #[serde(skip_serializing_if = "<[Value]>::is_empty")]
        content: &'a [Value],
    }
    let options = OPTIONS.iter();
    let options = options.map(|(id, name)| json!({ "optionId": id, "name": name, "kind": id }));
    let question = Question {
        tool_call: Subject { call, content },
        options: options.collect(),
    };
    serde_json::to_string(&question).expect("named fields of strings and JSON always print")
}

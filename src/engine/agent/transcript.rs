//! Hands a conversation to an agent that does not know it, with the user's next prompt.

use serde_json::json;

use crate::engine::{EngineError, History};
use crate::json::text_member;
use crate::record::header::Implementation;

use super::fold::Fold;
use super::said::with_members;

/// Why an agent has to be told what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Another one was told.
    Other(String),
    /// It was, and does not know it any more.
    Forgot,
    /// The log does not tell whether it was, and it does not show that it knows it.
    Unsure,
    /// It has loaded the session without showing any of it.
    EmptyLoad,
    /// It knows the conversation, but perhaps not all of a turn that was cut off.
    Cut,
    /// The session was made out of another one.
    Forked,
    /// The user wants it so.
    Adopted,
}

/// The conversation as text within so many bytes; `None` if nothing was said.
pub(super) fn of(history: &dyn History, budget: usize) -> Result<Option<String>, EngineError> {
    let mut fold = Fold::new(budget);
    history.walk(&mut |record| fold.record(record))?;
    Ok(fold.finish())
}

/// The last turn as text within so many bytes.
pub(super) fn of_last_turn(
    history: &dyn History,
    budget: usize,
) -> Result<Option<String>, EngineError> {
    let mut fold = Fold::of_last_turn(budget);
    history.walk(&mut |record| fold.record(record))?;
    Ok(fold.finish())
}

/// What the user is told of it: an update of the agent's message, if anything. `given` says whether
/// the agent is given a transcript, for which there may be no room.
pub(super) fn note(reason: &Reason, agent: &str, given: bool, message_id: &str) -> Option<String> {
    let goes_on = |with: &str| {
        if given {
            format!("goes on{with} from a transcript")
        } else {
            format!("goes on{with} without knowing what was said")
        }
    };
    let text = match reason {
        Reason::Cut => return None,
        Reason::Other(other) => format!(
            "[rejoin] This conversation was held with {} so far. {agent} {}.",
            Implementation::shown(other),
            goes_on(" with it")
        ),
        Reason::Forgot => format!(
            "[rejoin] {agent} does not have this conversation any more. It {}.",
            goes_on("")
        ),
        Reason::Unsure => format!(
            "[rejoin] {agent} does not have this conversation. It {}.",
            goes_on("")
        ),
        Reason::EmptyLoad => format!(
            "[rejoin] {agent} has loaded this conversation but shows nothing of it, so it may not \
             know it. It {}.",
            goes_on("")
        ),
        Reason::Forked => format!(
            "[rejoin] This conversation was forked from another one. {agent} {}.",
            goes_on(" with it")
        ),
        Reason::Adopted => format!("[rejoin] {agent} {}.", goes_on(" with this conversation")),
    };
    let note = json!({
        "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": format!("{text}\n\n") },
        "messageId": message_id,
    });
    Some(note.to_string())
}

/// The parameters of a prompt with the transcript in front of what the user says.
pub(super) fn before(params: &str, transcript: &str) -> String {
    let blocks = text_member(params, "prompt").unwrap_or("[]");
    let rest = blocks.trim_start().trim_start_matches('[').trim_start();
    let text = json!(transcript);
    let first = format!(r#"{{"type":"text","text":{text}}}"#);
    let comma = if rest.starts_with(']') { "" } else { "," };
    let blocks = format!("[{first}{comma}{rest}");
    with_members(params, &[], &[("prompt", &blocks)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_blocks_stay_as_they_are_behind_it() {
        let params = r#"{"prompt":[ {"type":"text","text":"x","n":1e400}],"_meta":{}}"#;
        assert_eq!(
            before(params, "T"),
            r#"{"_meta":{},"prompt":[{"type":"text","text":"T"},{"type":"text","text":"x","n":1e400}]}"#
        );
        assert_eq!(
            before(r#"{"prompt":[ ]}"#, "T"),
            r#"{"prompt":[{"type":"text","text":"T"}]}"#
        );
    }
}

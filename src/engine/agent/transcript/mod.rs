//! Renders a conversation as text for an agent that does not have it, and adds it to a prompt.

mod builder;
mod call;
mod page;
mod text;
mod turn;

use serde_json::json;

use crate::engine::{EngineError, History};
use crate::json::text_member;
use crate::record::header::Implementation;

use super::members::with_members;

use builder::Builder;
pub(super) use page::OPENINGS;

/// Why an agent gets a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Another agent held the conversation.
    Other(String),
    /// It held the conversation and has lost it.
    Forgot,
    /// It may have held the conversation, and does not have it now.
    Unsure,
    /// It loaded the session without replaying anything.
    EmptyLoad,
    /// It has the conversation, but perhaps not all of an interrupted turn.
    Interrupted,
    /// The session is a fork.
    Forked,
    /// The user chose that, by `--adopt`.
    Adopted,
}

/// The conversation in at most `budget` bytes; `None` if it is empty.
pub(super) fn of(history: &dyn History, budget: usize) -> Result<Option<String>, EngineError> {
    let mut builder = Builder::new(budget);
    history.walk(&mut |record| builder.record(record))?;
    Ok(builder.finish())
}

/// The last turn in at most `budget` bytes.
pub(super) fn of_last_turn(
    history: &dyn History,
    budget: usize,
) -> Result<Option<String>, EngineError> {
    let mut builder = Builder::of_last_turn(budget);
    history.walk(&mut |record| builder.record(record))?;
    Ok(builder.finish())
}

/// The notice for the user, if any: an update of the agent's message. `given` is whether the agent
/// gets a transcript, for which there may be no room.
pub(super) fn note(reason: &Reason, agent: &str, given: bool, message_id: &str) -> Option<String> {
    let goes_on = |with: &str| {
        if given {
            format!("goes on{with} from a transcript")
        } else {
            format!("goes on{with} without knowing what was said")
        }
    };
    let text = match reason {
        Reason::Interrupted => return None,
        Reason::Other(other) => format!(
            "[rejoin] This conversation was held with {} so far. {agent} {}.",
            Implementation::shown(other),
            goes_on(" with it")
        ),
        Reason::Forgot => format!(
            "[rejoin] {agent} no longer has this conversation. It {}.",
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

/// The parameters of a prompt with the transcript before the user's blocks.
pub(super) fn prepend(params: &str, transcript: &str) -> String {
    let blocks = text_member(params, "prompt").unwrap_or("[]");
    let rest = blocks.trim_start().trim_start_matches('[').trim_start();
    let first = json!({ "type": "text", "text": transcript });
    let comma = if rest.starts_with(']') { "" } else { "," };
    let blocks = format!("[{first}{comma}{rest}");
    with_members(params, &[], &[("prompt", &blocks)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_blocks_are_kept_unchanged() {
        let params = r#"{"prompt":[ {"type":"text","text":"x","n":1e400}],"_meta":{}}"#;
        assert_eq!(
            prepend(params, "T"),
            r#"{"_meta":{},"prompt":[{"type":"text","text":"T"},{"type":"text","text":"x","n":1e400}]}"#
        );
        assert_eq!(
            prepend(r#"{"prompt":[ ]}"#, "T"),
            r#"{"prompt":[{"type":"text","text":"T"}]}"#
        );
    }
}

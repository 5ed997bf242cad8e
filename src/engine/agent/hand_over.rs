//! Hands a conversation over to an agent that does not have it: a briefing before a prompt, and a
//! notice for the user.

use serde_json::json;

use crate::briefing::{Briefing, Builder};
use crate::engine::{EngineError, History};
use crate::json::text_member;
use crate::record::header::Implementation;

use super::members::with_members;
use super::recall::how_to_get_more;

/// What the next prompt is sent with.
#[derive(Clone, Debug)]
pub(super) struct HandOver {
    pub(super) reason: Reason,
    /// The name of the MCP server with which the agent reads the conversation, if it was offered.
    pub(super) server: Option<String>,
}

/// Why an agent gets a briefing.
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

/// The conversation with this id in at most `budget` bytes, or the last turn of it if that is what
/// the agent lacks; `None` if it is empty.
pub(super) fn briefing(
    history: &dyn History,
    budget: usize,
    hand_over: &HandOver,
    session: &str,
) -> Result<Option<Briefing>, EngineError> {
    let mut builder = match hand_over.reason {
        Reason::Interrupted => Builder::of_last_turn(budget),
        _ => Builder::new(budget),
    };
    if let Some(server) = &hand_over.server {
        builder.say_how_to_get_more(how_to_get_more(server, session));
    }
    history.walk(&mut |record| builder.record(record))?;
    Ok(builder.finish())
}

/// The notice for the user, if any: an update of the agent's message. There may be no room for a
/// briefing.
pub(super) fn note(
    reason: &Reason,
    agent: &str,
    given: Option<&Briefing>,
    message_id: &str,
) -> Option<String> {
    let goes_on = |with: &str| match given {
        Some(briefing) => format!("goes on{with} from a briefing of {}", turns(briefing)),
        None => format!("goes on{with} without knowing what was said"),
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

fn turns(briefing: &Briefing) -> String {
    let Briefing { shown, turns, .. } = briefing;
    match (shown, turns) {
        (1, 1) => "its one turn".to_owned(),
        (shown, all) if shown == all => format!("all {all} turns"),
        (shown, all) => format!("{shown} of {all} turns"),
    }
}

/// The parameters of a prompt with the briefing before the user's blocks.
pub(super) fn prepend(params: &str, briefing: &str) -> String {
    let blocks = text_member(params, "prompt").unwrap_or("[]");
    let rest = blocks.trim_start().trim_start_matches('[').trim_start();
    let first = json!({ "type": "text", "text": briefing });
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

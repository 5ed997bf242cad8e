//! Hands a conversation over to an agent that does not have it: a briefing before a prompt, and a
//! notice for the user.

use serde_json::json;

use crate::briefing::{Briefing, BriefingBuilder};
use crate::engine::known::title;
use crate::engine::{EngineError, History};
use crate::json::{string_member, text_member, with_members};
use crate::record::Kind;
use crate::record::header::Implementation;

use super::recall::how_to_get_more;

/// How much of an agent's error is shown, in characters.
const WORDS: usize = 200;

/// The reason for which the next prompt is sent behind a briefing, and the server that it names.
#[derive(Clone, Debug)]
pub(super) struct HandOver {
    pub(super) reason: BriefingReason,
    /// The name of the MCP server with which the agent reads the conversation, if it was offered.
    pub(super) server: Option<String>,
}

/// Why an agent gets a briefing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BriefingReason {
    /// Another agent held the conversation.
    Other(String),
    /// The agent held the conversation and has lost it.
    Forgot,
    /// The agent could not open the conversation, as it says in these words, and is asked again next
    /// time.
    Unavailable(String),
    /// The agent has answered the request for a new session with the one that it had.
    SameSession,
    /// The agent has so many turns of the conversation, and has missed the later ones.
    Missed(u64),
    /// The agent has so many turns of the conversation, and has lost the later ones.
    Lost(u64),
    /// The agent may have held the conversation, and does not have it now.
    Unsure,
    /// The agent loaded the session without replaying anything.
    EmptyLoad,
    /// The agent has the conversation, but perhaps not all of an interrupted turn.
    Interrupted,
    /// The session is a fork.
    Forked,
    /// The session has gone back to an earlier place.
    Rewound,
    /// The user wants a briefing for each session that is opened again (`--adopt`).
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
    let (mut builder, known) = match hand_over.reason {
        BriefingReason::Interrupted => (BriefingBuilder::of_last_turn(budget), 0),
        BriefingReason::Missed(known) | BriefingReason::Lost(known) => {
            (BriefingBuilder::of_missed_turns(budget), known)
        }
        _ => (BriefingBuilder::new(budget), 0),
    };
    if let Some(server) = &hand_over.server {
        builder.say_how_to_get_more(how_to_get_more(server, session));
    }
    let mut prompts = 0;
    history.walk(&mut |record| {
        prompts += u64::from(record.kind == Kind::Prompt);
        if known > 0 && record.kind == Kind::Prompt && prompts == known + 1 {
            builder.forget();
        }
        builder.record(record);
    })?;
    Ok(builder.finish())
}

/// The notice for the user, if any: an update of the agent's message. There may be no room for a
/// briefing.
pub(super) fn note(
    reason: &BriefingReason,
    agent: &str,
    given: Option<&Briefing>,
    message_id: &str,
) -> Option<String> {
    let agent = title(agent);
    let goes_on = |with: &str| match given {
        Some(briefing) => format!("goes on{with} from a briefing of {}", turns(briefing)),
        None => format!("goes on{with} without knowing what was said"),
    };
    let text = match reason {
        BriefingReason::Interrupted => return None,
        BriefingReason::Other(other) => format!(
            "[rejoin] This conversation was held with {} so far. {agent} {}.",
            title(Implementation::shown(other)),
            goes_on(" with it")
        ),
        BriefingReason::Forgot => format!(
            "[rejoin] {agent} no longer has this conversation. It {}.",
            goes_on("")
        ),
        BriefingReason::Unavailable(words) => format!(
            "[rejoin] {agent} could not open this conversation: {words}. It {}, and tries again when the \
             session is opened next.",
            goes_on("")
        ),
        BriefingReason::SameSession => format!(
            "[rejoin] {agent} has gone on with the session that it had, and may know this \
             conversation. It {}.",
            goes_on("")
        ),
        BriefingReason::Missed(_) => match given {
            Some(Briefing { turns: 1, .. }) => format!(
                "[rejoin] {agent} has this conversation again, and was sent the turn that it has \
                 missed."
            ),
            Some(Briefing { shown, turns, .. }) if shown == turns => format!(
                "[rejoin] {agent} has this conversation again, and was sent the {turns} turns that it \
                 has missed."
            ),
            Some(Briefing { shown, turns, .. }) => format!(
                "[rejoin] {agent} has this conversation again, and was sent {shown} of the {turns} \
                 turns that it has missed."
            ),
            None => format!(
                "[rejoin] {agent} has this conversation again, but not the last turns of it."
            ),
        },
        BriefingReason::Lost(_) => {
            let (all, sent) = match given {
                Some(Briefing { turns: 1, .. }) => {
                    ("turn".to_owned(), ", and was sent it again".to_owned())
                }
                Some(Briefing { shown, turns, .. }) if shown == turns => (
                    format!("{turns} turns"),
                    ", and was sent them again".to_owned(),
                ),
                Some(Briefing { shown, turns, .. }) => (
                    format!("{turns} turns"),
                    format!(", and was sent {shown} of them again"),
                ),
                None => ("turns".to_owned(), String::new()),
            };
            format!("[rejoin] {agent} has lost the last {all} of this conversation{sent}.")
        }
        BriefingReason::Unsure => format!(
            "[rejoin] {agent} does not have this conversation. It {}.",
            goes_on("")
        ),
        BriefingReason::EmptyLoad => format!(
            "[rejoin] {agent} has loaded this conversation but shows nothing of it, so it may not \
             know it. It {}.",
            goes_on("")
        ),
        BriefingReason::Forked => format!(
            "[rejoin] This conversation was forked from another one. {agent} {}.",
            goes_on(" with it")
        ),
        BriefingReason::Rewound => format!("[rejoin] {agent} {}.", goes_on("")),
        BriefingReason::Adopted => {
            format!("[rejoin] {agent} {}.", goes_on(" with this conversation"))
        }
    };
    let note = json!({
        "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": format!("{text}\n\n") },
        "messageId": message_id,
    });
    Some(note.to_string())
}

/// The agent's own words for an error, in one line without its end.
pub(super) fn words(error: &EngineError) -> String {
    let details = error
        .data
        .as_deref()
        .and_then(|data| string_member(data, "details"));
    // Some have nothing but the name of the code in their message.
    let is_bare = matches!(error.message.as_str(), "Internal error" | "Invalid params");
    let said = details
        .filter(|_| is_bare)
        .unwrap_or_else(|| error.message.clone());
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = match said.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", &said[..end]),
        None => said,
    };
    said.trim_end_matches('.').to_owned()
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

//! `/fail`: a turn that ends with an error or an unusual stop reason.

use super::describe::quote;
use super::turn::{Done, Stop, Turn, Voice};
use crate::engine::{EngineError, StopReason};

/// The ways in which a turn can end here.
const WAYS: [(&str, Option<StopReason>); 4] = [
    ("error", None),
    ("refusal", Some(StopReason::Refusal)),
    ("max_tokens", Some(StopReason::MaxTokens)),
    ("max_turn_requests", Some(StopReason::MaxTurnRequests)),
];

/// Announces how the turn will end, then ends it that way.
pub(super) async fn run(turn: &Turn<'_>, rest: &str) -> Done {
    let config = rest.split_whitespace().next().unwrap_or("error");
    let config = config.replace('-', "_");
    let found = WAYS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(&config));
    let Some(&(name, reason)) = found else {
        let names: Vec<_> = WAYS.iter().map(|(name, _)| format!("`{name}`")).collect();
        let text = format!(
            "`/fail` takes one of {}; {} is none.",
            names.join(", "),
            quote(rest)
        );
        return turn.say_all(&text).await;
    };
    let text = match reason {
        None => "This turn was told to fail: it ends with an error.".to_owned(),
        Some(_) => format!("This turn was told to fail: it ends with the reason `{name}`."),
    };
    turn.say_alone(Voice::Answer, &text).await?;
    reason.ok_or_else(|| {
        let message = "the turn failed because `/fail` told it to";
        Stop::Failed(EngineError::internal(message))
    })
}

//! Reads how a turn ended, and says it.

use crate::json;

/// The reason that logs have for turns whose process was killed.
const PROCESS_ENDED: &str = "the process ended during this turn";

/// How a turn ended, as the payload of its `end` record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnding {
    /// The agent has finished.
    Completed,
    /// The user has cancelled it.
    Cancelled,
    /// The agent refused to continue.
    Refused,
    /// The agent stopped for another reason, which is given.
    Stopped(String),
    /// The turn failed, with a message if there is one.
    Failed(Option<String>),
    /// The agent or rejoin ended before it, with a reason if there is one.
    Interrupted(Option<String>),
}

impl TurnEnding {
    /// Reads the payload of an `end` record.
    pub fn of(payload: &str) -> Self {
        let text = |object, name| {
            let body = json::text_body(json::text_member(object, name)?)?;
            Some(json::unescape(body))
        };
        if let Some(why) = text(payload, "interrupted") {
            return Self::Interrupted(Some(why));
        }
        // The log may have a member without an error.
        let error = json::text_member(payload, "error").filter(|error| error.starts_with('{'));
        if let Some(error) = error {
            return Self::Failed(text(error, "message"));
        }
        match json::text_member(payload, "stopReason") {
            Some(_) => Self::stopped(text(payload, "stopReason").unwrap_or_default()),
            None => Self::Interrupted(None),
        }
    }

    fn stopped(reason: String) -> Self {
        match &*reason {
            "end_turn" | "" => Self::Completed,
            "cancelled" => Self::Cancelled,
            "refusal" => Self::Refused,
            _ => Self::Stopped(reason),
        }
    }

    /// A sentence for people. `None` if the turn ended as usual, or the log does not say how.
    pub fn sentence(&self) -> Option<String> {
        let with = |how: &str, why: &Option<String>| match why {
            Some(why) => format!("The turn {how}: {why}"),
            None => format!("The turn {how}."),
        };
        Some(match self {
            Self::Completed | Self::Interrupted(None) => return None,
            Self::Cancelled => "The turn was cancelled.".to_owned(),
            Self::Refused => "The agent refused to continue.".to_owned(),
            Self::Stopped(reason) => match &**reason {
                "max_tokens" => "The turn ended at the limit of tokens.".to_owned(),
                "max_turn_requests" => "The turn ended at the limit of requests.".to_owned(),
                other => format!("The turn ended: {other}"),
            },
            Self::Failed(why) => with("failed", why),
            Self::Interrupted(Some(why)) if why == PROCESS_ENDED => {
                "The turn was interrupted: its process ended.".to_owned()
            }
            Self::Interrupted(why) => with("was interrupted", why),
        })
    }

    /// A note for models, which have the reason of an interruption from elsewhere. `None` if the
    /// turn ended as usual.
    pub fn note(&self) -> Option<String> {
        Some(match self {
            Self::Completed => return None,
            Self::Cancelled => "the user cancelled this turn".to_owned(),
            Self::Refused => "the agent refused to go on".to_owned(),
            Self::Stopped(reason) => format!("this turn was stopped: {reason}"),
            Self::Failed(Some(why)) => format!("this turn failed: {why}"),
            Self::Failed(None) => "this turn failed".to_owned(),
            Self::Interrupted(_) => "this turn was interrupted".to_owned(),
        })
    }
}

/// The members of an `end` record that say how the turn ended, as names and JSON text.
pub fn end_members(payload: &str) -> Vec<(&'static str, &str)> {
    let names = ["stopReason", "error", "interrupted"].into_iter();
    names
        .filter_map(|name| Some((name, json::text_member(payload, name)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_words() {
        for (payload, sentence, note) in [
            (r#"{"stopReason":"end_turn"}"#, None, None),
            (
                r#"{"stopReason":"max_tokens"}"#,
                Some("The turn ended at the limit of tokens."),
                Some("this turn was stopped: max_tokens"),
            ),
            (
                r#"{"stopReason":"cancelled"}"#,
                Some("The turn was cancelled."),
                Some("the user cancelled this turn"),
            ),
            (
                r#"{"error":{"code":1,"message":"no"}}"#,
                Some("The turn failed: no"),
                Some("this turn failed: no"),
            ),
            (
                r#"{"error":{"code":1}}"#,
                Some("The turn failed."),
                Some("this turn failed"),
            ),
            (
                r#"{"interrupted":"the process ended during this turn"}"#,
                Some("The turn was interrupted: its process ended."),
                Some("this turn was interrupted"),
            ),
            (
                r#"{"stopReason":"cancelled","interrupted":"why"}"#,
                Some("The turn was interrupted: why"),
                Some("this turn was interrupted"),
            ),
            (r#"{"stopReason":"end_turn","error":null}"#, None, None),
            ("{}", None, Some("this turn was interrupted")),
        ] {
            let end = TurnEnding::of(payload);
            assert_eq!(end.sentence().as_deref(), sentence, "{payload}");
            assert_eq!(end.note().as_deref(), note, "{payload}");
        }
    }
}

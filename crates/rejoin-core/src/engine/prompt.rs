//! A prompt as the client sent it, and how its turn ended.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::json;
use crate::sys::lock;

/// A prompt of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The id of the user's message.
    pub message_id: String,
    /// The parameters of `session/prompt` without the session's id, verbatim: an object with a
    /// `prompt` array of content blocks and perhaps `_meta`.
    pub params: String,
}

impl Prompt {
    /// The content blocks, in order, for reading. Tolerates numbers out of range and broken strings
    /// in members that are not read.
    pub fn blocks(&self) -> Vec<Value> {
        match json::tree(&self.params) {
            Some(Value::Object(mut params)) => match params.remove("prompt") {
                Some(Value::Array(blocks)) => blocks,
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let blocks = self.blocks();
        let texts = blocks.iter().filter(|block| block["type"] == "text");
        texts
            .filter_map(|block| block["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Keeps the prompts of a session in the order in which they came, if one has to wait before it can be
/// sent to an agent.
#[derive(Debug, Default)]
pub(super) struct PromptOrder(Mutex<Option<oneshot::Receiver<()>>>);

impl PromptOrder {
    /// Resolves when the previous prompt was sent or failed; `None` if that is the case.
    pub(super) fn before(&self) -> Option<impl Future<Output = ()> + use<>> {
        let mut before = lock(&self.0).take()?;
        let waits = before.try_recv() == Err(oneshot::error::TryRecvError::Empty);
        // The result does not matter: the prompt before may have been sent or not.
        waits.then_some(async move { drop(before.await) })
    }

    /// The next prompt waits until this is dropped.
    pub(super) fn next(&self) -> oneshot::Sender<()> {
        let (next, sent) = oneshot::channel();
        *lock(&self.0) = Some(sent);
        next
    }
}

/// Why a turn ended, by the protocol's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// The model's limit was reached.
    MaxTokens,
    /// The limit of requests in one turn was reached.
    MaxTurnRequests,
    /// The engine declined to answer.
    Refusal,
    /// The client cancelled the turn.
    Cancelled,
}

impl StopReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::EndTurn,
        Self::MaxTokens,
        Self::MaxTurnRequests,
        Self::Refusal,
        Self::Cancelled,
    ];

    /// The protocol's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reason that has this name in the protocol.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PromptEnd {
    /// For this reason.
    Because(StopReason),
    /// With this result, the JSON text of an object with a `stopReason`.
    With(String),
    /// As the engine has reported itself, in an update about its state: the parameters of the
    /// notification without the session's id.
    Reported(String),
}

impl PromptEnd {
    /// The result that the client is answered with, as JSON text.
    pub fn result(&self) -> String {
        match self {
            Self::Because(reason) => json!({ "stopReason": reason.as_str() }).to_string(),
            Self::With(result) => result.clone(),
            Self::Reported(params) => reported(params),
        }
    }

    /// Whether the turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        match self {
            Self::Because(reason) => *reason == StopReason::Cancelled,
            Self::With(result) => is_cancelled(result),
            Self::Reported(params) => json::text_member(params, "update").is_some_and(is_cancelled),
        }
    }
}

fn is_cancelled(object: &str) -> bool {
    json::text_member(object, "stopReason") == Some("\"cancelled\"")
}

/// The members of an update about the state that describe the end of a turn. An error needs no stop
/// reason.
fn reported(params: &str) -> String {
    let update = json::text_member(params, "update").unwrap_or("{}");
    let failed = json::text_member(update, "error").is_some_and(|error| error.starts_with('{'));
    json::remade(update, |name, value| match name {
        "sessionUpdate" | "state" => None,
        "stopReason" if value == "null" || failed => None,
        _ => Some(value.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn prompts_wait_for_those_before() {
        let order = PromptOrder::default();
        assert!(order.before().is_none());
        let first = order.next();
        let before = order.before().expect("the first waits");
        let second = order.next();
        drop(first);
        before.await;
        let before = order.before().expect("the second waits");
        drop(second);
        before.await;
        assert!(order.before().is_none());
    }

    #[test]
    fn a_reported_end_is_the_result_of_its_turn() {
        let update = |members: &str| {
            let params = format!(
                r#"{{"update":{{"sessionUpdate":"state_update","state":"idle"{members}}},"_meta":{{}}}}"#
            );
            PromptEnd::Reported(params)
        };
        for (members, result, is_cancelled) in [
            (
                r#","usage":{"n":1e400},"stopReason":"end_turn""#,
                r#"{"usage":{"n":1e400},"stopReason":"end_turn"}"#,
                false,
            ),
            (
                r#","stopReason":"cancelled""#,
                r#"{"stopReason":"cancelled"}"#,
                true,
            ),
            (
                r#","stopReason":"error","error":{"code":1,"message":"m"}"#,
                r#"{"error":{"code":1,"message":"m"}}"#,
                false,
            ),
            (r#","stopReason":null"#, "{}", false),
        ] {
            assert_eq!(update(members).result(), result);
            assert_eq!(update(members).is_cancelled(), is_cancelled);
        }
    }

    #[test]
    fn members_that_are_not_read_may_be_broken() {
        let params = r#"{"prompt":[{"type":"text","text":"a"},{"type":"text","text":"b","_meta":{"n":1e400,"s":"\ud83d"}}]}"#;
        let prompt = Prompt {
            message_id: "msg_1".to_owned(),
            params: params.to_owned(),
        };
        assert_eq!(prompt.text(), "a\nb");
    }
}

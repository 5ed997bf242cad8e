//! The present and last activity of a session, from its records.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::json;
use crate::protocol::UpdateKind;

use super::kind::Kind;
use super::open_turns::OpenTurns;

/// The longest name of a model that is kept, in bytes.
const LONGEST_MODEL: usize = 256;

/// The longest cost that is kept, in bytes of JSON.
const LONGEST_COST: usize = 256;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    /// No prompt is being answered.
    Idle,
    /// A prompt is being answered.
    Running,
    /// The user is asked something meanwhile.
    RequiresAction,
}

impl ActivityState {
    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
        }
    }
}

/// The last prompts and turns in a log's records, which are applied in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// The latest time of a prompt, as [`Timestamp`](crate::sys::Timestamp) is displayed.
    pub last_prompt_at: Option<String>,
    /// The latest time at which a turn ended, in the same format.
    pub last_turn_ended_at: Option<String>,
    /// The current model, as the agent names it.
    pub model: Option<String>,
    /// The session's cost, as the agent reported it: a JSON object.
    pub cost: Option<String>,
    /// The turns without an end.
    pub open_turns: OpenTurns<()>,
    /// The requests to the client without an answer.
    pub open_requests: OpenTurns<()>,
}

impl Activity {
    /// Applies a record with this id.
    pub fn note(&mut self, kind: Kind, id: Option<&str>, at: &dyn Display, payload: &str) {
        match kind {
            Kind::Prompt => {
                keep_latest(&mut self.last_prompt_at, &at.to_string());
                self.open_turns.begin(id, ());
            }
            Kind::Begin => self.open_turns.resume(id, ()),
            Kind::End => {
                keep_latest(&mut self.last_turn_ended_at, &at.to_string());
                self.open_turns.end(id);
                if self.open_turns.is_empty() {
                    self.open_requests.end(None);
                }
                if let Some(cost) = cost_at_end(payload) {
                    self.cost = Some(cost.to_owned());
                }
            }
            Kind::Ask => {
                self.open_requests.begin(id, ());
            }
            Kind::Answer => {
                self.open_requests.end(id);
            }
            Kind::AgentSessionId => {
                let model = json::text_member(payload, "answer").and_then(model);
                let of_tool = || json::string_member(payload, "model");
                self.model = model.or_else(of_tool).or(self.model.take());
            }
            Kind::Info => self.note_info(payload),
            _ => {}
        }
    }

    fn note_info(&mut self, payload: &str) {
        let update = json::text_member(payload, "update").unwrap_or(payload);
        match UpdateKind::of(update.as_bytes()) {
            UpdateKind::Usage => {
                let cost = json::text_member(update, "cost");
                let cost = cost.filter(|cost| cost.starts_with('{') && cost.len() <= LONGEST_COST);
                if let Some(cost) = cost {
                    self.cost = Some(cost.to_owned());
                }
            }
            UpdateKind::ConfigOptions | UpdateKind::Other => {
                self.model = model(update).or(self.model.take());
            }
            _ => {}
        }
    }

    /// The state of the session, as far as the log was written.
    pub fn state(&self) -> ActivityState {
        match (self.open_turns.is_empty(), self.open_requests.is_empty()) {
            (true, _) => ActivityState::Idle,
            (_, true) => ActivityState::Running,
            (_, _) => ActivityState::RequiresAction,
        }
    }
}

/// The cost of a session up to the end of a turn, in a conversation that was imported.
pub fn cost_at_end(end: &str) -> Option<&str> {
    let mut path = ["_meta", "rejoin", "cost"].into_iter();
    path.try_fold(end, json::text_member)
}

/// The model that answered a turn, at its end: known of imported conversations in which several did.
pub fn model_at_end(end: &str) -> Option<String> {
    let mut path = ["_meta", "rejoin"].into_iter();
    let own = path.try_fold(end, json::text_member)?;
    json::string_member(own, "model")
}

/// The current model in an answer that opens a session, in a snapshot of the options, or in our own
/// record of a chosen model.
fn model(object: &str) -> Option<String> {
    let mut options = json::member_elements(object.as_bytes(), 0, "configOptions");
    let of_options = std::iter::from_fn(|| object.get(options.as_mut()?.element()?))
        .find(|option| json::string_member(option, "category").as_deref() == Some("model"))
        .and_then(|option| json::string_member(option, "currentValue"));
    let model = of_options
        .or_else(|| {
            let models = json::text_member(object, "models")?;
            json::string_member(models, "currentModelId")
        })
        .or_else(|| json::string_member(object, "modelId"));
    model.filter(|model| !model.is_empty() && model.len() <= LONGEST_MODEL)
}

/// Keeps the later time, since the clock may go back.
pub fn keep_latest(latest: &mut Option<String>, at: &str) {
    if latest.as_deref().is_none_or(|latest| latest < at) {
        *latest = Some(at.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[(Kind, Option<&str>, &str)]) -> Activity {
        let mut activity = Activity::default();
        for (at, (kind, id, payload)) in records.iter().enumerate() {
            activity.note(*kind, *id, &at, payload);
        }
        activity
    }

    #[test]
    fn a_session_runs_until_its_last_turn_ends() {
        let (a, b) = (Some("a"), Some("b"));
        let records = [
            (Kind::Session, None, ActivityState::Idle),
            (Kind::Prompt, a, ActivityState::Running),
            (Kind::Update, None, ActivityState::Running),
            (Kind::Prompt, b, ActivityState::Running),
            (Kind::Ask, Some("q"), ActivityState::RequiresAction),
            (Kind::End, b, ActivityState::RequiresAction),
            (Kind::Answer, Some("q"), ActivityState::Running),
            (Kind::Ask, Some("r"), ActivityState::RequiresAction),
            (Kind::End, a, ActivityState::Idle),
            (Kind::Prompt, a, ActivityState::Running),
            (Kind::Prompt, b, ActivityState::Running),
            // Records that end nothing that is open.
            (Kind::Answer, Some("q"), ActivityState::Running),
            (Kind::End, Some("c"), ActivityState::Running),
            (Kind::End, a, ActivityState::Running),
            (Kind::End, a, ActivityState::Running),
            (Kind::End, None, ActivityState::Idle),
            (Kind::End, None, ActivityState::Idle),
        ];
        let plain: Vec<_> = records
            .iter()
            .map(|(kind, id, _)| (*kind, *id, "{}"))
            .collect();
        for (count, (.., state)) in records.iter().enumerate() {
            assert_eq!(of(&plain[..=count]).state(), *state, "{count}");
        }
        let activity = of(&plain[..6]);
        assert_eq!(activity.last_prompt_at.as_deref(), Some("3"));
        assert_eq!(activity.last_turn_ended_at.as_deref(), Some("5"));
    }

    #[test]
    fn the_last_model_and_cost_that_are_reported_count() {
        let option = r#"{"id":"m","category":"model","currentValue":"o"}"#;
        let mode = r#"{"id":"x","category":"mode","currentValue":"no"}"#;
        let answer = r#"{"id":"i","answer":{"models":{"currentModelId":"a"}}}"#;
        let update = format!(
            r#"{{"sessionUpdate":"config_option_update","configOptions":[{mode},{option}]}}"#
        );
        let within = format!(r#"{{"_meta":{{}},"update":{update}}}"#);
        let other =
            format!(r#"{{"sessionUpdate":"config_option_update","configOptions":[{mode}]}}"#);
        let model = |records: &[(Kind, &str)]| {
            let records: Vec<_> = records
                .iter()
                .map(|(kind, text)| (*kind, None, *text))
                .collect();
            of(&records).model
        };
        let a = (Kind::AgentSessionId, answer);
        assert_eq!(model(&[a]).as_deref(), Some("a"));
        assert_eq!(model(&[a, (Kind::Info, &within)]).as_deref(), Some("o"));
        assert_eq!(model(&[a, (Kind::Info, &other)]).as_deref(), Some("a"));
        let chosen = (Kind::Info, r#"{"modelId":"c"}"#);
        assert_eq!(model(&[a, chosen]).as_deref(), Some("c"));
        let long = format!(r#"{{"modelId":"{}"}}"#, "x".repeat(LONGEST_MODEL + 1));
        assert_eq!(model(&[a, (Kind::Info, &long)]).as_deref(), Some("a"));

        let usage = |cost: &str| {
            let text = format!(r#"{{"sessionUpdate":"usage_update","used":1,"size":2{cost}}}"#);
            text
        };
        let first = usage(r#","cost":{"amount":0.10,"currency":"USD"}"#);
        let records = [first, usage(""), usage(r#","cost":null"#)];
        let records: Vec<_> = records
            .iter()
            .map(|text| (Kind::Info, None, text.as_str()))
            .collect();
        let cost = of(&records).cost;
        assert_eq!(cost.as_deref(), Some(r#"{"amount":0.10,"currency":"USD"}"#));
    }
}

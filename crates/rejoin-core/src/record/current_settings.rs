//! The latest mode, options, agent and system prompt that a log records for a session.

use super::kind::Kind;
use super::metadata;
use crate::json;
use crate::protocol::{UpdateKind, v1};

/// Longer payloads are not kept, in bytes.
const LONGEST: usize = 256 * 1024;

/// The last updates of their kinds: the payloads of `info` records, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentSettings {
    /// The last `current_mode_update`.
    pub mode: Option<String>,
    /// The last `config_option_update`.
    pub options: Option<String>,
    /// The modes, models and options that the last engine or agent reported when it opened the
    /// session: the members of a response.
    pub answer: Option<String>,
    /// The name of the engine or agent that answered last.
    pub agent: Option<String>,
    /// The system prompt that a client gave the session last.
    pub system_prompt: Option<String>,
}

impl CurrentSettings {
    /// Applies a record.
    pub fn note(&mut self, kind: Kind, payload: &str) {
        if kind == Kind::AgentSessionId {
            let answer = json::text_member(payload, "answer");
            let answer = answer.filter(|answer| answer.len() <= LONGEST);
            self.answer = answer.map(v1::answer_of);
            if let Some(answer) = &self.answer {
                // An answer has the values of its time.
                let has = |name| json::text_member(answer, name).is_some();
                self.mode.take_if(|_| has("modes"));
                self.options.take_if(|_| has("configOptions"));
            }
        }
        let agent = match kind {
            Kind::Session => "engine",
            Kind::AgentSessionId => "agent",
            Kind::Info => return self.note_info(payload),
            _ => return,
        };
        let agent = json::text_member(payload, agent);
        if let Some(name) = agent.and_then(|agent| json::string_member(agent, "name")) {
            if self.agent.as_ref().is_some_and(|last| *last != name) {
                // The settings of another agent do not apply to this one.
                (self.mode, self.options) = (None, None);
            }
            self.agent = Some(name);
        }
    }

    fn note_info(&mut self, payload: &str) {
        let update = json::text_member(payload, "update").unwrap_or(payload);
        let last = match UpdateKind::of(update.as_bytes()) {
            UpdateKind::CurrentMode => &mut self.mode,
            UpdateKind::ConfigOptions => &mut self.options,
            _ => {
                if let Some(prompt) = metadata::system_prompt(payload) {
                    self.system_prompt = Some(prompt.to_owned());
                }
                return;
            }
        };
        // A payload that is too long still invalidates the one before it.
        let kept = if payload.len() > LONGEST { "" } else { payload };
        *last = Some(kept.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_counts() {
        let mut settings = CurrentSettings::default();
        let mode = |n: u8| format!(r#"{{"sessionUpdate":"current_mode_update","n":{n}}}"#);
        let options = r#"{"update":{"sessionUpdate":"config_option_update"},"_meta":{}}"#;
        for (kind, payload) in [
            (Kind::Session, r#"{"engine":{"name":"local"}}"#),
            (Kind::AgentSessionId, r#"{"id":"i","agent":{"name":"a"}}"#),
            (Kind::AgentSessionId, r#"{"id":"j","answer":{"modes":{}}}"#),
            (Kind::Info, mode(1).as_str()),
            (Kind::Info, options),
            (Kind::Info, &mode(2)),
            (Kind::Update, &mode(3)),
            (Kind::Info, r#"{"sessionUpdate":"usage_update"}"#),
            (Kind::Info, r#"{"modelId":"m"}"#),
            (Kind::Info, r#"{"systemPrompt":{"n":1}}"#),
            (Kind::Info, r#"{"systemPrompt":{"n":2}}"#),
            (Kind::Info, "7"),
        ] {
            settings.note(kind, payload);
        }
        let expected = CurrentSettings {
            mode: Some(mode(2)),
            options: Some(options.to_owned()),
            answer: Some(r#"{"modes":{}}"#.to_owned()),
            agent: Some("a".to_owned()),
            system_prompt: Some(r#"{"n":2}"#.to_owned()),
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn another_agent_has_settings_of_its_own() {
        let mut settings = CurrentSettings::default();
        let agent = |name: &str| format!(r#"{{"id":"i","agent":{{"name":"{name}"}}}}"#);
        let mode = r#"{"sessionUpdate":"current_mode_update"}"#;
        for (name, has_mode) in [("a", false), ("a", true), ("b", false)] {
            settings.note(Kind::AgentSessionId, &agent(name));
            assert_eq!(settings.mode.is_some(), has_mode, "{name}");
            settings.note(Kind::Info, mode);
        }
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let mut settings = CurrentSettings::default();
        settings.note(Kind::Info, r#"{"sessionUpdate":"current_mode_update"}"#);
        let pad = "x".repeat(LONGEST);
        let long = format!(r#"{{"sessionUpdate":"current_mode_update","p":"{pad}"}}"#);
        settings.note(Kind::Info, &long);
        assert_eq!(settings.mode.as_deref(), Some(""));
    }
}

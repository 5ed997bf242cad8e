//! Mode, model and options of a session: how they were set last, so that they can be set again.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::json as text;
use crate::json::text_member;
use crate::protocol::UpdateKind;
use crate::record::CurrentSettings;

use super::said::with_members;

/// The update that says which mode there is.
const MODE: &str = "current_mode_update";

/// The update that says how the options are set.
const OPTIONS: &str = UpdateKind::ConfigOptions.name();

/// What was set in a session, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    mode: Option<String>,
    model: Option<String>,
    options: BTreeMap<String, Value>,
    /// The last complete list of options, as JSON text.
    list: Option<String>,
}

/// A request that sets something again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wish {
    pub(super) method: &'static str,
    /// Its parameters, but for the session's id.
    pub(super) params: Value,
}

impl Settings {
    /// Takes note of an update that says how things are now, or of our own note of a model.
    pub(super) fn note(&mut self, payload: &str) {
        let Some(value) = text::tree(payload) else {
            return;
        };
        let update = if value["update"].is_object() {
            &value["update"]
        } else {
            &value
        };
        match update["sessionUpdate"].as_str() {
            Some(MODE) => {
                if let Some(mode) = update["currentModeId"].as_str() {
                    self.mode = Some(mode.to_owned());
                }
            }
            Some(OPTIONS) => {
                let whole = text_member(payload, "update").unwrap_or(payload);
                if let Some(list) = text_member(whole, "configOptions") {
                    self.note_options(list);
                }
            }
            Some(_) => {}
            None => {
                if let Some(model) = value["modelId"].as_str() {
                    self.model = Some(model.to_owned());
                }
            }
        }
    }

    fn note_options(&mut self, list: &str) {
        for option in text::tree(list)
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let (Some(id), value) = (option["id"].as_str(), &option["currentValue"])
                && !value.is_null()
            {
                self.options.insert(id.to_owned(), value.clone());
            }
        }
        self.list = Some(list.to_owned());
    }

    /// Takes note of a request of the client that was served. Answers with the payload of the
    /// `info` record that remembers it.
    pub(super) fn served(&mut self, method: &str, params: &str, result: &str) -> Option<String> {
        let params = text::tree(params)?;
        let note = match method {
            "session/set_mode" => {
                let mode = params["modeId"].as_str()?;
                json!({ "sessionUpdate": MODE, "currentModeId": mode }).to_string()
            }
            "session/set_model" => json!({ "modelId": params["modelId"].as_str()? }).to_string(),
            "session/set_config_option" => {
                let list = text_member(result, "configOptions")?;
                format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{list}}}"#)
            }
            _ => return None,
        };
        self.note(&note);
        Some(note)
    }

    /// What has to be set again in a session that the agent has just opened with this answer. What
    /// no longer exists is not.
    pub(super) fn wishes(&self, answer: &str) -> Vec<Wish> {
        let answer = text::tree(answer).unwrap_or_default();
        let has = |list: &Value, key: &str, config: &str| {
            let entries = list.as_array().into_iter().flatten();
            entries.into_iter().any(|entry| entry[key] == config)
        };
        let mut wishes = Vec::new();
        let mut wish = |method, params| wishes.push(Wish { method, params });
        let options = answer["configOptions"].as_array();
        for option in options.into_iter().flatten() {
            let Some(id) = option["id"].as_str() else {
                continue;
            };
            match self.options.get(id) {
                Some(Value::String(value))
                    if option["currentValue"] != value.as_str() && offers(option, value) =>
                {
                    let params = json!({ "configId": id, "value": value });
                    wish("session/set_config_option", params);
                }
                Some(Value::Bool(value)) if option["currentValue"] == !value => {
                    let params = json!({ "configId": id, "type": "boolean", "value": value });
                    wish("session/set_config_option", params);
                }
                _ => {}
            }
        }
        let (modes, models) = (&answer["modes"], &answer["models"]);
        if let Some(mode) = &self.mode
            && modes["currentModeId"] != mode.as_str()
            && has(&modes["availableModes"], "id", mode)
        {
            wish("session/set_mode", json!({ "modeId": mode }));
        }
        if let Some(model) = &self.model
            && models["currentModelId"] != model.as_str()
            && has(&models["availableModels"], "modelId", model)
        {
            wish("session/set_model", json!({ "modelId": model }));
        }
        wishes
    }

    /// How a session stands by its log, as an answer would tell it: for a session that cannot be
    /// asked of the agent. A log that does not have the agent's answer knows only what is set.
    pub(super) fn answer(stands: &CurrentSettings, agent: &str) -> String {
        // What another agent told means nothing to this one.
        let none = CurrentSettings::default();
        let is_ours = stands.agent.as_deref() == Some(agent);
        let stands = if is_ours { stands } else { &none };
        let mut settings = Self::default();
        let told = stands.answer.as_deref();
        if let Some(told) = told {
            settings.opened(told);
        }
        for update in [&stands.mode, &stands.options].into_iter().flatten() {
            settings.note(update);
        }
        let mut answer = told.unwrap_or("{}").to_owned();
        if let (Some(mode), None) = (&settings.mode, text_member(&answer, "modes")) {
            let only = json!([{ "id": mode, "name": mode }]);
            let modes = json!({ "currentModeId": mode, "availableModes": only }).to_string();
            answer = with_members(&answer, &[], &[("modes", &modes)]);
        }
        if let (Some(list), None) = (&settings.list, text_member(&answer, "configOptions")) {
            answer = with_members(&answer, &[], &[("configOptions", list)]);
        }
        settings.apply(&answer)
    }

    /// An answer of the agent with things as they are now.
    pub(super) fn apply(&self, answer: &str) -> String {
        let mut answer = answer.to_owned();
        let mut set = |holder: &str, name: &str, value: &Option<String>| {
            if let (Some(value), Some(old)) = (value, text_member(&answer, holder))
                && old.starts_with('{')
            {
                let value = json!(value).to_string();
                let new = with_members(old, &[], &[(name, &value)]);
                answer = with_members(&answer, &[], &[(holder, &new)]);
            }
        };
        set("modes", "currentModeId", &self.mode);
        set("models", "currentModelId", &self.model);
        if let (Some(list), Some(_)) = (&self.list, text_member(&answer, "configOptions")) {
            answer = with_members(&answer, &[], &[("configOptions", list)]);
        }
        answer
    }

    /// Updates that say how things are now, where they were otherwise `before`; and the names of
    /// those that hold no longer.
    pub(super) fn since(&self, before: &Self) -> (Vec<String>, Vec<&'static str>) {
        let (mut news, mut gone) = (Vec::new(), Vec::new());
        match (&before.mode, &self.mode) {
            (Some(was), Some(is)) if was != is => {
                news.push(json!({ "sessionUpdate": MODE, "currentModeId": is }).to_string());
            }
            (Some(_), None) => gone.push(MODE),
            _ => {}
        }
        match (&before.list, &self.list) {
            (Some(was), Some(is)) if was != is => news.push(format!(
                r#"{{"sessionUpdate":"{OPTIONS}","configOptions":{is}}}"#
            )),
            (Some(_), None) => gone.push(OPTIONS),
            _ => {}
        }
        (news, gone)
    }

    /// The agent has opened the session with this answer: it says how things are.
    pub(super) fn opened(&mut self, answer: &str) {
        *self = Self::default();
        let read = text::tree(answer).unwrap_or_default();
        let string = |value: &Value| value.as_str().map(str::to_owned);
        self.mode = string(&read["modes"]["currentModeId"]);
        self.model = string(&read["models"]["currentModelId"]);
        if let Some(list) = text_member(answer, "configOptions") {
            self.note_options(list);
        }
    }
}

/// What an agent's answer tells of modes, models and options; none if it tells nothing of them.
pub(super) fn told(answer: &str) -> Option<String> {
    let names = ["modes", "models", "configOptions"];
    let members = names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), text_member(answer, name)?)))
        .filter(|(_, value)| *value != "null")
        .collect::<Vec<_>>();
    (!members.is_empty()).then(|| text::object(members))
}

/// Whether an option can be set to a value. Values may stand in groups.
fn offers(option: &Value, value: &str) -> bool {
    let entries = option["options"].as_array().into_iter().flatten();
    entries.into_iter().any(|entry| {
        let group = entry["options"].as_array().into_iter().flatten();
        entry["value"] == value || group.into_iter().any(|entry| entry["value"] == value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"code"}],"n":1e400},
        "models":{"currentModelId":"m1","availableModels":[{"modelId":"m1"},{"modelId":"m2"}]},
        "configOptions":[{"id":"style","type":"select","currentValue":"a","options":[{"group":"g","options":[{"value":"b"}]}]},
                         {"id":"loud","type":"boolean","currentValue":false}]}"#;

    #[test]
    fn what_was_set_is_wished_for_if_it_still_exists() {
        let mut settings = Settings::default();
        settings.note(r#"{"sessionUpdate":"current_mode_update","currentModeId":"code"}"#);
        settings.note(r#"{"modelId":"gone"}"#);
        let list = r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"style","currentValue":"b"},{"id":"loud","currentValue":true},{"id":"old","currentValue":"x"}]}"#;
        settings.note(list);
        let wishes = settings.wishes(ANSWER);
        let told: Vec<_> = wishes
            .iter()
            .map(|wish| format!("{} {}", wish.method, wish.params))
            .collect();
        assert_eq!(
            told,
            [
                r#"session/set_config_option {"configId":"style","value":"b"}"#,
                r#"session/set_config_option {"configId":"loud","type":"boolean","value":true}"#,
                r#"session/set_mode {"modeId":"code"}"#,
            ]
        );
        settings.opened(ANSWER);
        assert_eq!(settings.wishes(ANSWER), []);
    }

    #[test]
    fn a_log_tells_how_a_session_stands() {
        let mode = r#"{"sessionUpdate":"current_mode_update","currentModeId":"code"}"#;
        let list = r#"[{"id":"style","currentValue":"b"}]"#;
        let options =
            format!(r#"{{"sessionUpdate":"config_option_update","configOptions":{list}}}"#);
        let mut stands = CurrentSettings {
            mode: Some(mode.to_owned()),
            options: Some(options),
            agent: Some("agent".to_owned()),
            ..CurrentSettings::default()
        };
        assert_eq!(Settings::answer(&stands, "other"), "{}");
        let answer = Settings::answer(&stands, "agent");
        assert!(answer.contains(r#""currentModeId":"code""#), "{answer}");
        assert!(answer.contains(list), "{answer}");
        stands.answer = told(ANSWER);
        let answer = Settings::answer(&stands, "agent");
        assert!(answer.contains(r#""currentModeId":"code""#), "{answer}");
        assert!(answer.contains(r#"{"id":"ask"}"#), "{answer}");
        assert!(answer.contains(list), "{answer}");
        assert!(answer.contains(r#""currentModelId":"m1""#), "{answer}");
        assert_eq!(told(r#"{"sessionId":"s","modes":null}"#), None);
    }

    #[test]
    fn answers_say_how_things_are_now() {
        let mut settings = Settings::default();
        settings.opened(ANSWER);
        let noted = settings.served("session/set_mode", r#"{"modeId":"code"}"#, "{}");
        assert!(noted.unwrap().contains("current_mode_update"));
        let result = r#"{"configOptions":[{"id":"style","currentValue":"b"}]}"#;
        settings.served("session/set_config_option", "{}", result);
        let applied = settings.apply(ANSWER);
        assert!(applied.contains(r#""currentModeId":"code""#), "{applied}");
        assert!(applied.contains("1e400"), "{applied}");
        assert!(applied.contains(r#""configOptions":[{"id":"style","currentValue":"b"}]"#));
        assert_eq!(settings.served("_other", "{}", "{}"), None);
        assert_eq!(settings.apply("{}"), "{}");
    }
}

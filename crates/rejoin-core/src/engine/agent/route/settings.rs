//! Mode, model and options of a session, so that they can be restored.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::json as text;
use crate::json::text_member;
use crate::protocol::meta::{MODE_CONFIG_ID, MODEL_CONFIG_ID};
use crate::protocol::{UpdateKind, method, v2};
use crate::record::CurrentSettings;

use crate::json::with_members;

/// The latest settings of a session, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::engine::agent) struct AgentSettings {
    mode: Option<String>,
    model: Option<String>,
    options: BTreeMap<String, Value>,
    /// The last complete list of options, as JSON text.
    list: Option<String>,
}

/// A request that restores a setting.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine::agent) struct SettingRequest {
    pub(in crate::engine::agent) method: &'static str,
    /// Its parameters without the session's id.
    pub(in crate::engine::agent) params: Value,
}

impl AgentSettings {
    /// Applies a snapshot, or our own record of a model.
    pub(in crate::engine::agent) fn apply_update(&mut self, payload: &str) {
        let Some(value) = text::tree(payload) else {
            return;
        };
        let update = if value["update"].is_object() {
            &value["update"]
        } else {
            &value
        };
        let name = update["sessionUpdate"].as_str();
        match name.map(|name| UpdateKind::of_name(name.as_bytes())) {
            Some(UpdateKind::CurrentMode) => {
                if let Some(mode) = update["currentModeId"].as_str() {
                    self.mode = Some(mode.to_owned());
                }
            }
            Some(UpdateKind::ConfigOptions) => {
                let whole = text_member(payload, "update").unwrap_or(payload);
                if let Some(list) = text_member(whole, "configOptions") {
                    self.set_options(list);
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

    /// What a client wants by one entry of the values that it gives options. `answer` is the agent's
    /// response: where modes or models are shown as an option, its id sets them.
    pub(in crate::engine::agent) fn given(entry: &str, answer: &str) -> Self {
        let mut wanted = Self::default();
        let entry = text::tree(entry).unwrap_or_default();
        let (Some(id), value) = (id(&entry), &entry["value"]) else {
            return wanted;
        };
        let has_known_type = match entry["type"].as_str() {
            None | Some("id") => value.is_string(),
            Some(kind) => kind == "boolean" && value.is_boolean(),
        };
        if !has_known_type {
            return wanted;
        }
        let list = text_member(answer, "configOptions");
        let own = text::text_elements(list.unwrap_or("[]"));
        let is_own = own
            .filter_map(text::tree)
            .any(|option| self::id(&option) == Some(id));
        let mode = v2::mode_config_id(list, text_member(answer, "modes"));
        let named = value.as_str().map(str::to_owned);
        if !is_own && mode.is_some_and(|mode| id == mode || id == MODE_CONFIG_ID) {
            wanted.mode = named;
        } else if !is_own && id == MODEL_CONFIG_ID {
            wanted.model = named;
        } else {
            wanted.options.insert(id.to_owned(), value.clone());
        }
        wanted
    }

    fn set_options(&mut self, list: &str) {
        for option in text::tree(list)
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let (Some(id), value) = (id(option), &option["currentValue"])
                && !value.is_null()
            {
                self.options.insert(id.to_owned(), value.clone());
            }
        }
        self.list = Some(list.to_owned());
    }

    /// Applies a request of the client that the agent has served. Returns the payload of its `info`
    /// record.
    pub(in crate::engine::agent) fn apply_request(
        &mut self,
        method: &str,
        params: &str,
        result: &str,
    ) -> Option<String> {
        let params = text::tree(params)?;
        let update = match method {
            method::SESSION_SET_MODE => {
                let mode = params["modeId"].as_str()?;
                mode_update(mode)
            }
            method::SESSION_SET_MODEL => {
                json!({ "modelId": params["modelId"].as_str()? }).to_string()
            }
            method::SESSION_SET_CONFIG_OPTION => {
                let list = text_member(result, "configOptions")?;
                options_update(list)
            }
            _ => return None,
        };
        self.apply_update(&update);
        Some(update)
    }

    /// The agent has refused this request since the session has the setting, whatever it has reported. Returns
    /// the payload of its `info` record.
    pub(in crate::engine::agent) fn set_already(
        &mut self,
        method: &str,
        params: &str,
    ) -> Option<String> {
        let mut list = self
            .list
            .as_deref()
            .and_then(text::tree)
            .unwrap_or_default();
        let wanted = text::tree(params).unwrap_or_default();
        for option in list.as_array_mut().into_iter().flatten() {
            if id(option) == wanted["configId"].as_str() && wanted["configId"].is_string() {
                option["currentValue"] = wanted["value"].clone();
            }
        }
        let result = json!({ "configOptions": list }).to_string();
        self.apply_request(method, params, &result)
    }

    /// The requests that restore these settings in a session that the agent has just opened with this
    /// response. Settings that the agent no longer offers are left out.
    pub(in crate::engine::agent) fn restore_requests(&self, answer: &str) -> Vec<SettingRequest> {
        let answer = text::tree(answer).unwrap_or_default();
        let has = |list: &Value, key: &str, config: &str| {
            let entries = list.as_array().into_iter().flatten();
            entries.into_iter().any(|entry| entry[key] == config)
        };
        let mut requests = Vec::new();
        let mut request = |method, params| requests.push(SettingRequest { method, params });
        let options = answer["configOptions"].as_array();
        for option in options.into_iter().flatten() {
            let Some(id) = id(option) else {
                continue;
            };
            // In version 2 the mode is an option.
            let mode = self.mode.as_ref().filter(|_| is_mode(option));
            let mode = mode.map(|mode| Value::from(mode.as_str()));
            match self.options.get(id).or(mode.as_ref()) {
                Some(Value::String(value))
                    if option["currentValue"] != value.as_str() && offers(option, value) =>
                {
                    let mut params = json!({ "configId": id, "value": value });
                    if option["configId"].is_string() {
                        params["type"] = "id".into();
                    }
                    request(method::SESSION_SET_CONFIG_OPTION, params);
                }
                Some(Value::Bool(value)) if option["currentValue"] == !value => {
                    let params = json!({ "configId": id, "type": "boolean", "value": value });
                    request(method::SESSION_SET_CONFIG_OPTION, params);
                }
                _ => {}
            }
        }
        let (modes, models) = (&answer["modes"], &answer["models"]);
        if let Some(mode) = self.mode.as_deref().or(self.mode_option().as_deref())
            && modes["currentModeId"] != mode
            && has(&modes["availableModes"], "id", mode)
        {
            request(method::SESSION_SET_MODE, json!({ "modeId": mode }));
        }
        if let Some(model) = &self.model
            && models["currentModelId"] != model.as_str()
            && has(&models["availableModels"], "modelId", model)
        {
            request(method::SESSION_SET_MODEL, json!({ "modelId": model }));
        }
        requests
    }

    /// The value of the option that is the mode.
    fn mode_option(&self) -> Option<String> {
        let list = text::tree(self.list.as_deref()?)?;
        let mut listed = list.as_array()?.iter();
        let mode = listed.find(|option| is_mode(option))?;
        mode["currentValue"].as_str().map(str::to_owned)
    }

    /// The members of a response for a session that is opened without the agent, from its log. A log
    /// without the agent's own response has only the current values.
    pub(in crate::engine::agent) fn response_from_log(
        current: &CurrentSettings,
        agent: &str,
    ) -> String {
        // The settings of another agent do not apply to this one.
        let none = CurrentSettings::default();
        let is_ours = current.agent.as_deref() == Some(agent);
        let current = if is_ours { current } else { &none };
        let mut settings = Self::default();
        let reported = current.answer.as_deref();
        if let Some(reported) = reported {
            settings.opened(reported);
        }
        for update in [&current.mode, &current.options].into_iter().flatten() {
            settings.apply_update(update);
        }
        let mut answer = reported.unwrap_or("{}").to_owned();
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

    /// A response of the agent with the current settings.
    pub(in crate::engine::agent) fn apply(&self, answer: &str) -> String {
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

    /// The snapshots of settings that have changed since `before`, and the names of the snapshots that
    /// no longer apply.
    pub(in crate::engine::agent) fn changes_since(
        &self,
        before: &Self,
    ) -> (Vec<String>, Vec<&'static str>) {
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        match (&before.mode, &self.mode) {
            (Some(was), Some(is)) if was != is => {
                changed.push(mode_update(is));
            }
            (Some(_), None) => gone.push(UpdateKind::CurrentMode.name()),
            _ => {}
        }
        match (&before.list, &self.list) {
            (Some(was), Some(is)) if was != is => changed.push(options_update(is)),
            (Some(_), None) => gone.push(UpdateKind::ConfigOptions.name()),
            _ => {}
        }
        (changed, gone)
    }

    /// The agent has opened the session with this response.
    pub(in crate::engine::agent) fn opened(&mut self, answer: &str) {
        *self = Self::default();
        let read = text::tree(answer).unwrap_or_default();
        let string = |value: &Value| value.as_str().map(str::to_owned);
        self.mode = string(&read["modes"]["currentModeId"]);
        self.model = string(&read["models"]["currentModelId"]);
        if let Some(list) = text_member(answer, "configOptions") {
            self.set_options(list);
        }
    }
}

/// The modes, models and options in a response of the agent, if there are any.
pub(in crate::engine::agent) fn reported(answer: &str) -> Option<String> {
    let names = ["modes", "models", "configOptions"];
    let members = names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), text_member(answer, name)?)))
        .filter(|(_, value)| *value != "null")
        .collect::<Vec<_>>();
    (!members.is_empty()).then(|| text::object(members))
}

/// The update with this mode.
fn mode_update(mode: &str) -> String {
    let update = UpdateKind::CurrentMode.object();
    update.string("currentModeId", mode).end()
}

/// The update with these options.
fn options_update(list: &str) -> String {
    let update = UpdateKind::ConfigOptions.object();
    update.raw("configOptions", list).end()
}

/// The id of an option of either version.
fn id(option: &Value) -> Option<&str> {
    let id = option["configId"].as_str();
    id.or(option["id"].as_str())
}

/// Whether an option is the mode.
fn is_mode(option: &Value) -> bool {
    option["category"] == "mode"
}

/// Whether an option can be set to a value. Values may be in groups.
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
    fn settings_that_still_exist_are_restored() {
        let mut settings = AgentSettings::default();
        settings.apply_update(r#"{"sessionUpdate":"current_mode_update","currentModeId":"code"}"#);
        settings.apply_update(r#"{"modelId":"gone"}"#);
        let list = r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"style","currentValue":"b"},{"id":"loud","currentValue":true},{"id":"old","currentValue":"x"}]}"#;
        settings.apply_update(list);
        let requests = settings.restore_requests(ANSWER);
        let requests: Vec<_> = requests
            .iter()
            .map(|request| format!("{} {}", request.method, request.params))
            .collect();
        assert_eq!(
            requests,
            [
                r#"session/set_config_option {"configId":"style","value":"b"}"#,
                r#"session/set_config_option {"configId":"loud","type":"boolean","value":true}"#,
                r#"session/set_mode {"modeId":"code"}"#,
            ]
        );
        settings.opened(ANSWER);
        assert_eq!(settings.restore_requests(ANSWER), []);
    }

    #[test]
    fn a_value_is_given_to_what_is_shown_as_an_option() {
        let given = |entry: &str, answer: &str| {
            let requests = AgentSettings::given(entry, answer).restore_requests(answer);
            let mut requests = requests.iter();
            requests.next().map(|request| request.params.to_string())
        };
        let own = ANSWER.replace("\"style\"", "\"mode\"");
        let category = ANSWER.replace("\"id\":\"style\"", "\"id\":\"style\",\"category\":\"mode\"");
        for (entry, answer, expected) in [
            (
                r#"{"configId":"mode","value":"code"}"#,
                ANSWER,
                Some(r#"{"modeId":"code"}"#),
            ),
            (
                r#"{"configId":"rejoin_mode","value":"code"}"#,
                ANSWER,
                Some(r#"{"modeId":"code"}"#),
            ),
            (
                r#"{"configId":"rejoin_model","value":"m2"}"#,
                ANSWER,
                Some(r#"{"modelId":"m2"}"#),
            ),
            (r#"{"configId":"mode","value":"none"}"#, ANSWER, None),
            (
                r#"{"configId":"mode","value":"b"}"#,
                &own,
                Some(r#"{"configId":"mode","value":"b"}"#),
            ),
            (r#"{"configId":"mode","value":"code"}"#, &own, None),
            (
                r#"{"configId":"rejoin_mode","value":"code"}"#,
                &own,
                Some(r#"{"modeId":"code"}"#),
            ),
            (r#"{"configId":"mode","value":"code"}"#, &category, None),
            (
                r#"{"configId":"style","type":"id","value":"b"}"#,
                ANSWER,
                Some(r#"{"configId":"style","value":"b"}"#),
            ),
            (
                r#"{"configId":"style","type":"_x","value":"b"}"#,
                ANSWER,
                None,
            ),
            (
                r#"{"configId":"style","type":"boolean","value":true}"#,
                ANSWER,
                None,
            ),
            (r#"{"configId":"loud","value":"true"}"#, ANSWER, None),
            ("7", ANSWER, None),
        ] {
            assert_eq!(
                given(entry, answer).as_deref(),
                expected,
                "{entry} {answer}"
            );
        }
    }

    #[test]
    fn a_log_has_the_settings_of_a_session() {
        let mode = r#"{"sessionUpdate":"current_mode_update","currentModeId":"code"}"#;
        let list = r#"[{"id":"style","currentValue":"b"}]"#;
        let options = options_update(list);
        let mut current = CurrentSettings {
            mode: Some(mode.to_owned()),
            options: Some(options),
            agent: Some("agent".to_owned()),
            ..CurrentSettings::default()
        };
        assert_eq!(AgentSettings::response_from_log(&current, "other"), "{}");
        let answer = AgentSettings::response_from_log(&current, "agent");
        assert!(answer.contains(r#""currentModeId":"code""#), "{answer}");
        assert!(answer.contains(list), "{answer}");
        current.answer = reported(ANSWER);
        let answer = AgentSettings::response_from_log(&current, "agent");
        assert!(answer.contains(r#""currentModeId":"code""#), "{answer}");
        assert!(answer.contains(r#"{"id":"ask"}"#), "{answer}");
        assert!(answer.contains(list), "{answer}");
        assert!(answer.contains(r#""currentModelId":"m1""#), "{answer}");
        assert_eq!(reported(r#"{"sessionId":"s","modes":null}"#), None);
    }

    #[test]
    fn responses_have_the_current_settings() {
        let mut settings = AgentSettings::default();
        settings.opened(ANSWER);
        let update = settings.apply_request("session/set_mode", r#"{"modeId":"code"}"#, "{}");
        assert!(update.unwrap().contains("current_mode_update"));
        let result = r#"{"configOptions":[{"id":"style","currentValue":"b"}]}"#;
        settings.apply_request("session/set_config_option", "{}", result);
        let applied = settings.apply(ANSWER);
        assert!(applied.contains(r#""currentModeId":"code""#), "{applied}");
        assert!(applied.contains("1e400"), "{applied}");
        assert!(applied.contains(r#""configOptions":[{"id":"style","currentValue":"b"}]"#));
        assert_eq!(settings.apply_request("_other", "{}", "{}"), None);
        assert_eq!(settings.apply("{}"), "{}");
    }
}

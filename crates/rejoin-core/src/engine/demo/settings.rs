//! Mode and config options of a session: the choices, their current values, and how these are sent.
//!
//! The mode is both a session mode, for older clients, and a config option, for newer ones. The two
//! always agree.

use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, CurrentModeUpdate, Meta, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigSelectOption, SessionMode, SessionModeState, SessionUpdate,
};
use serde_json::{Value, json};

use crate::engine::{Block, Called, EngineError};
use crate::json;
use crate::protocol::UpdateKind;
use crate::protocol::error::{INVALID_PARAMS, name_of};
use crate::protocol::meta::REJOIN;
use crate::protocol::method::{SESSION_OPTIONS, SESSION_SET_CONFIG_OPTION, SESSION_SET_MODE};
use crate::record::{CurrentSettings, Kind};

use super::turn::json_line;

/// The engine's name in the header of a session, and in our updates, by which we recognize them.
/// Another agent may have had the session meanwhile, whose modes mean other things under the same
/// names.
pub(super) const NAME: &str = "local";

/// Which actions need no permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PermissionMode {
    /// Actions that change nothing.
    #[default]
    Ask,
    /// All actions.
    Auto,
    /// Actions that change nothing; all others are rejected.
    ReadOnly,
}

/// How plain text is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replies {
    /// With the earlier prompts.
    #[default]
    Full,
    /// In one line.
    Brief,
}

/// The settings of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DemoSettings {
    pub(super) mode: PermissionMode,
    pub(super) replies: Replies,
}

/// A choice: its value, id, name and description.
type Choice<T> = (T, &'static str, &'static str, &'static str);

const MODES: [Choice<PermissionMode>; 3] = [
    (
        PermissionMode::Ask,
        "ask",
        "Ask",
        "Ask before a file is written or a command is run",
    ),
    (
        PermissionMode::Auto,
        "auto",
        "Auto",
        "Write files and run commands without asking",
    ),
    (
        PermissionMode::ReadOnly,
        "read-only",
        "Read only",
        "Write no file and run no command",
    ),
];

const REPLIES: [Choice<Replies>; 2] = [
    (
        Replies::Full,
        "full",
        "Full",
        "Answer plain text with what was said before",
    ),
    (
        Replies::Brief,
        "brief",
        "Brief",
        "Answer plain text with one line",
    ),
];

/// The ids of the options.
const MODE_OPTION: &str = "mode";
const REPLIES_OPTION: &str = "replies";

impl DemoSettings {
    /// The latest settings in the log of a session. Choices that no longer exist get the values of
    /// a new session.
    pub(super) fn restored(logged: &CurrentSettings) -> Self {
        let last = logged.options.as_deref().and_then(json::tree);
        let Some(update) = last.filter(is_ours) else {
            return Self::default();
        };
        let chosen = |id: &str| {
            let options = update["configOptions"].as_array()?;
            let option = options.iter().find(|option| option["id"] == id)?;
            option["currentValue"].as_str()
        };
        Self {
            mode: chosen(MODE_OPTION)
                .and_then(|id| find(&MODES, id))
                .unwrap_or_default(),
            replies: chosen(REPLIES_OPTION)
                .and_then(|id| find(&REPLIES, id))
                .unwrap_or_default(),
        }
    }

    /// The members of the response when a client opens the session.
    pub(super) fn answer(self) -> String {
        let modes = MODES
            .map(|(_, id, name, description)| SessionMode::new(id, name).description(description));
        let modes = SessionModeState::new(id_of(&MODES, self.mode), modes.to_vec());
        json!({ "modes": modes, "configOptions": self.options() }).to_string()
    }

    /// The names of the updates in a log that are outdated, and the updates that replace them. If
    /// the log has no such update, nothing is outdated.
    pub(super) fn since(self, logged: &CurrentSettings) -> (Vec<&'static str>, Vec<String>) {
        let (mut outdated, mut current) = (Vec::new(), Vec::new());
        for (name, last, now) in [
            (
                UpdateKind::CurrentMode.name(),
                &logged.mode,
                self.mode_update(),
            ),
            (
                UpdateKind::ConfigOptions.name(),
                &logged.options,
                self.options_update(),
            ),
        ] {
            if last.as_ref().is_some_and(|last| *last != now) {
                outdated.push(name);
                current.push(now);
            }
        }
        (outdated, current)
    }

    /// Applies the values that a client gives options, in their order. Those that cannot be set are passed
    /// over.
    pub(super) fn give(&mut self, given: &str) {
        for entry in json::text_elements(given).filter_map(json::tree) {
            let kind = entry["type"].as_str();
            if kind.is_none_or(|kind| kind == "id") && self.set_option(&entry).is_err() {
                tracing::debug!("a value for an option is passed over");
            }
        }
    }

    /// The updates with what has changed since `before`.
    pub(super) fn changes_since(self, before: Self) -> Vec<String> {
        let mode = (self.mode != before.mode).then(|| self.mode_update());
        let options = (self != before).then(|| self.options_update());
        mode.into_iter().chain(options).collect()
    }

    fn set_option(&mut self, params: &Value) -> Result<(), EngineError> {
        match member(params, "configId")? {
            MODE_OPTION => self.mode = choose(&MODES, params, "value")?,
            REPLIES_OPTION => self.replies = choose(&REPLIES, params, "value")?,
            _ => {
                let ids = format!("{MODE_OPTION}, {REPLIES_OPTION}");
                return Err(unknown("configId", &ids));
            }
        }
        Ok(())
    }

    /// Serves `session/set_mode`, `session/set_config_option` or `session/options`.
    pub(super) fn serve(&mut self, method: &str, params: &str) -> Result<Called, EngineError> {
        let params = json::tree(params).unwrap_or_default();
        let before = *self;
        match method {
            SESSION_SET_MODE => {
                self.mode = choose(&MODES, &params, "modeId")?;
                let mut called = Called {
                    result: "{}".to_owned(),
                    ..Called::default()
                };
                if *self != before {
                    // The response contains neither, and a client follows either the mode or the
                    // options.
                    called.updates.push(Kind::Info, &self.mode_update());
                    called.updates.push(Kind::Info, &self.options_update());
                }
                Ok(called)
            }
            SESSION_SET_CONFIG_OPTION => {
                self.set_option(&params)?;
                let mut updates = Block::default();
                if self.mode != before.mode {
                    updates.push(Kind::Info, &self.mode_update());
                }
                Ok(Called {
                    result: json!({ "configOptions": self.options() }).to_string(),
                    info: Block::of_all(
                        Kind::Info,
                        (*self != before).then(|| self.options_update()),
                    ),
                    updates,
                })
            }
            SESSION_OPTIONS => Ok(Called {
                result: self.answer(),
                ..Called::default()
            }),
            _ => Err(EngineError::unknown_method(method)),
        }
    }

    fn mode_update(self) -> String {
        let update = CurrentModeUpdate::new(id_of(&MODES, self.mode)).meta(mark());
        json_line(&SessionUpdate::CurrentModeUpdate(update))
    }

    fn options_update(self) -> String {
        let update = ConfigOptionUpdate::new(self.options()).meta(mark());
        json_line(&SessionUpdate::ConfigOptionUpdate(update))
    }

    fn options(self) -> Vec<SessionConfigOption> {
        let mode = id_of(&MODES, self.mode);
        let replies = id_of(&REPLIES, self.replies);
        vec![
            SessionConfigOption::select(MODE_OPTION, "Mode", mode, values(&MODES))
                .description("What is done without asking")
                .category(SessionConfigOptionCategory::Mode),
            SessionConfigOption::select(REPLIES_OPTION, "Replies", replies, values(&REPLIES))
                .description("How plain text is answered"),
        ]
    }
}

fn mark() -> Meta {
    Meta::from_iter([(REJOIN.to_owned(), json!({ "engine": NAME }))])
}

fn is_ours(update: &Value) -> bool {
    update["_meta"][REJOIN]["engine"] == NAME
}

fn values<T>(choices: &[Choice<T>]) -> Vec<SessionConfigSelectOption> {
    let values = choices.iter().map(|(_, id, name, description)| {
        SessionConfigSelectOption::new(*id, *name).description(*description)
    });
    values.collect()
}

fn find<T: Copy>(choices: &[Choice<T>], named: &str) -> Option<T> {
    let choice = choices.iter().find(|(_, id, ..)| *id == named);
    choice.map(|(value, ..)| *value)
}

fn id_of<T: PartialEq>(choices: &[Choice<T>], value: T) -> &'static str {
    let choice = choices.iter().find(|(of, ..)| *of == value);
    choice.map_or("", |(_, id, ..)| id)
}

/// The choice that a parameter names.
fn choose<T: Copy>(choices: &[Choice<T>], params: &Value, name: &str) -> Result<T, EngineError> {
    let ids = choices.iter().map(|(_, id, ..)| *id);
    let named = member(params, name)?;
    find(choices, named).ok_or_else(|| unknown(name, &ids.collect::<Vec<_>>().join(", ")))
}

fn member<'a>(params: &'a Value, name: &str) -> Result<&'a str, EngineError> {
    match &params[name] {
        Value::String(text) => Ok(text),
        Value::Null => Err(invalid(&format!("`{name}` is missing"))),
        _ => Err(invalid(&format!("`{name}` must be a string"))),
    }
}

/// As in all errors, the client's value is not quoted.
fn unknown(name: &str, known: &str) -> EngineError {
    invalid(&format!("`{name}` must be one of {known}"))
}

fn invalid(problem: &str) -> EngineError {
    let message = format!("Invalid params: {problem}");
    EngineError::named(INVALID_PARAMS, name_of(INVALID_PARAMS), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(mode: &str, options: &str) -> CurrentSettings {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        CurrentSettings {
            mode: some(mode),
            options: some(options),
            ..CurrentSettings::default()
        }
    }

    #[test]
    fn settings_are_restored() {
        for (mode, ..) in MODES {
            for (replies, ..) in REPLIES {
                let settings = DemoSettings { mode, replies };
                let logged = logged(&settings.mode_update(), &settings.options_update());
                assert_eq!(DemoSettings::restored(&logged), settings);
                assert_eq!(settings.since(&logged), (Vec::new(), Vec::new()));
            }
        }
    }

    /// Otherwise the settings of every session would be sent again after an upgrade.
    #[test]
    fn updates_are_the_bytes_that_earlier_versions_logged() {
        let settings = DemoSettings::default();
        assert_eq!(
            settings.mode_update(),
            r#"{"sessionUpdate":"current_mode_update","currentModeId":"ask","_meta":{"rejoin":{"engine":"local"}}}"#
        );
        assert_eq!(
            settings.options_update(),
            concat!(
                r#"{"sessionUpdate":"config_option_update","configOptions":[{"id":"mode","name":"Mode","#,
                r#""description":"What is done without asking","category":"mode","type":"select","#,
                r#""currentValue":"ask","options":[{"value":"ask","name":"Ask","#,
                r#""description":"Ask before a file is written or a command is run"},"#,
                r#"{"value":"auto","name":"Auto","#,
                r#""description":"Write files and run commands without asking"},"#,
                r#"{"value":"read-only","name":"Read only","#,
                r#""description":"Write no file and run no command"}]},"#,
                r#"{"id":"replies","name":"Replies","description":"How plain text is answered","#,
                r#""type":"select","currentValue":"full","options":[{"value":"full","name":"Full","#,
                r#""description":"Answer plain text with what was said before"},"#,
                r#"{"value":"brief","name":"Brief","description":"Answer plain text with one line"}]}],"#,
                r#""_meta":{"rejoin":{"engine":"local"}}}"#,
            )
        );
    }

    #[test]
    fn settings_of_another_agent_are_ignored() {
        let auto = DemoSettings {
            mode: PermissionMode::Auto,
            replies: Replies::Brief,
        };
        let ours = auto.options_update();
        for (options, expected) in [
            ("", DemoSettings::default()),
            ("7", DemoSettings::default()),
            (&ours.replace("local", "other"), DemoSettings::default()),
            (
                &ours.replace("\"currentValue\":\"auto\"", "\"currentValue\":\"unknown\""),
                DemoSettings {
                    mode: PermissionMode::Ask,
                    replies: Replies::Brief,
                },
            ),
            (&ours.replace("configOptions", "x"), DemoSettings::default()),
        ] {
            let logged = logged("", options);
            assert_eq!(DemoSettings::restored(&logged), expected, "{options}");
        }
        let (outdated, current) = DemoSettings::default().since(&logged("{}", &ours));
        assert_eq!(
            outdated,
            [
                UpdateKind::CurrentMode.name(),
                UpdateKind::ConfigOptions.name()
            ]
        );
        let now = DemoSettings::default();
        assert_eq!(current, [now.mode_update(), now.options_update()]);
    }

    #[test]
    fn both_ways_of_setting_the_mode_send_both_updates() {
        let set = |method, params: Value| {
            let mut settings = DemoSettings::default();
            let called = settings.serve(method, &params.to_string());
            (settings, called)
        };
        let updates = |called: &Called| called.updates.len();
        let (settings, called) = set("session/set_mode", json!({ "modeId": "auto" }));
        let called = called.unwrap();
        assert_eq!(settings.mode, PermissionMode::Auto);
        assert_eq!((updates(&called), called.info.len()), (2, 0));
        let params = json!({ "configId": "mode", "value": "auto" });
        let (settings, called) = set("session/set_config_option", params);
        let called = called.unwrap();
        assert_eq!(settings.mode, PermissionMode::Auto);
        assert_eq!((updates(&called), called.info.len()), (1, 1));
        // A request that changes nothing sends no updates.
        let (_, called) = set("session/set_mode", json!({ "modeId": "ask" }));
        assert_eq!(updates(&called.unwrap()), 0);
        let params = json!({ "configId": "replies", "value": "full" });
        let (_, called) = set("session/set_config_option", params);
        assert!(called.unwrap().info.is_empty());
    }

    #[test]
    fn errors_name_the_field_and_quote_nothing() {
        for (method, params, problem) in [
            (
                "session/set_mode",
                json!({ "modeId": "secret" }),
                "`modeId` must be one of ask, auto, read-only",
            ),
            ("session/set_mode", json!({}), "`modeId` is missing"),
            (
                "session/set_mode",
                json!({ "modeId": 7 }),
                "`modeId` must be a string",
            ),
            (
                "session/set_config_option",
                json!({ "configId": "secret", "value": "ask" }),
                "`configId` must be one of mode, replies",
            ),
            (
                "session/set_config_option",
                json!({ "configId": "replies", "value": "ask" }),
                "`value` must be one of full, brief",
            ),
            (
                "session/set_config_option",
                json!({ "configId": "mode", "type": "boolean", "value": true }),
                "`value` must be a string",
            ),
        ] {
            let mut settings = DemoSettings::default();
            let error = settings.serve(method, &params.to_string()).unwrap_err();
            assert_eq!(error.message, format!("Invalid params: {problem}"));
            assert_eq!((error.code, settings), (-32602, DemoSettings::default()));
        }
    }
}

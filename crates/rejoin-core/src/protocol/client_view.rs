//! A session as its client sees it, in the version of the protocol that the client speaks.

use std::borrow::Cow;

use serde_json::json;

use crate::json::{self, Members};

use super::ProtocolVersion;
use super::error::METHOD_NOT_FOUND;
use super::method::{
    REQUEST_PERMISSION, SESSION_OPTIONS, SESSION_SET_CONFIG_OPTION, SESSION_SET_MODE,
    is_of_client_machine,
};
use super::v2::{self, V2View};

/// A request of the client as the engine gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineCall {
    /// The method's name.
    pub method: String,
    /// The parameters.
    pub params: String,
    /// The mode that it sets, if the client has set an option.
    pub mode: Option<String>,
}

/// Converts what passes between one session and its client. The session has the form of version 1,
/// in which nothing changes here.
#[derive(Debug, Default)]
pub struct ClientView {
    /// The updates in version 2. `None` if the client speaks version 1.
    updates: Option<V2View>,
    /// Whether the engine speaks the client's version, so that requests and answers pass as they are.
    is_native: bool,
}

impl ClientView {
    /// The view of a session of which the client was sent nothing yet.
    pub fn new(version: ProtocolVersion) -> Self {
        let updates = match version {
            ProtocolVersion::V1 => None,
            ProtocolVersion::V2 => Some(V2View::new()),
        };
        Self {
            updates,
            is_native: false,
        }
    }

    /// Sets whether the engine speaks the client's version. Then only records in the
    /// form of version 1 are converted.
    pub fn set_native(&mut self, is_native: bool) {
        self.is_native = is_native;
    }

    /// The version that the client speaks.
    fn version(&self) -> ProtocolVersion {
        match self.updates {
            None => ProtocolVersion::V1,
            Some(_) => ProtocolVersion::V2,
        }
    }

    /// The number of the version.
    pub fn version_number(&self) -> u16 {
        self.version().number()
    }

    /// The view of a session of which the same client was sent nothing yet.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self {
            is_native: self.is_native,
            ..Self::new(self.version())
        }
    }

    /// The view that shows nothing before the message with this id, if the client's version has
    /// such replays. See [`V2View::from_message`].
    #[must_use]
    pub fn from_message(self, id: &str) -> Self {
        let updates = self.updates.map(|view| view.from_message(id));
        Self { updates, ..self }
    }

    /// Converts whole lines with updates.
    pub fn lines(&mut self, lines: &mut Vec<u8>) {
        if let Some(view) = &mut self.updates {
            let mut shown = Vec::new();
            let copied = view.changed_lines(lines, &mut shown);
            if copied > 0 {
                shown.extend_from_slice(&lines[copied..]);
                *lines = shown;
            }
        }
    }

    /// Converts the lines that end a replay. See [`V2View::last_lines`].
    pub fn last_lines(&mut self, lines: &mut Vec<u8>) {
        if let Some(view) = &mut self.updates {
            let mut shown = Vec::with_capacity(lines.len());
            view.last_lines(lines, &mut shown);
            *lines = shown;
        }
    }

    /// Whether the client gets updates about what the session is doing.
    pub fn has_state(&self) -> bool {
        self.version() == ProtocolVersion::V2
    }

    /// Whether the client gets updates of an agent of version 2 as they are.
    pub fn shows_version_2(&self) -> bool {
        self.version() == ProtocolVersion::V2
    }

    /// Whether the available commands are sent in an update. If not, the answer has them.
    pub fn announces_commands(&self) -> bool {
        self.version() == ProtocolVersion::V1
    }

    /// Records the settings in the engine's part of an answer, before the client is answered: later
    /// updates refer to them.
    pub fn settings(&mut self, own: &str) {
        if let Some(view) = &mut self.updates {
            let member = |name| json::text_member(own, name);
            view.settings(member("configOptions"), member("modes"));
        }
    }

    /// Converts a request for the engine, whose parameters have the form of version 1: one that sets
    /// the option that represents the mode sets the mode.
    pub fn call(&self, method: String, params: String) -> EngineCall {
        let mut call = EngineCall {
            method,
            params,
            mode: None,
        };
        if let Some(updates) = &self.updates
            && !self.is_native
            && call.method == SESSION_SET_CONFIG_OPTION
            && let Some(option) = json::string_member(&call.params, "configId")
            && updates.is_mode_option(&option)
            && let Some(mode) = json::string_member(&call.params, "value")
        {
            let others = Members::of(&call.params).without(&["configId"]);
            call.params = others.renamed("value", "modeId").text();
            SESSION_SET_MODE.clone_into(&mut call.method);
            call.mode = Some(mode);
        }
        call
    }

    /// Converts the engine's result of such a request. `mode` is the mode that was set.
    pub fn call_result(&mut self, method: &str, mode: Option<&str>, result: String) -> String {
        let has_options = mode.is_some()
            || method == SESSION_SET_CONFIG_OPTION
                && json::text_member(&result, "configOptions").is_some();
        match &mut self.updates {
            Some(updates) if method == SESSION_OPTIONS && !self.is_native => {
                updates.offered(&result)
            }
            Some(updates) if has_options && !self.is_native => {
                updates.options_result(&result, mode)
            }
            _ => result,
        }
    }

    /// Converts the engine's part of the answer that opens the session. `commands` is the array of
    /// the available commands.
    pub fn opening_answer(
        &mut self,
        own: Option<String>,
        commands: Option<&str>,
    ) -> Option<String> {
        if let Some(own) = &own {
            self.settings(own);
        }
        match self.version() {
            ProtocolVersion::V1 => own,
            ProtocolVersion::V2 if self.is_native => own,
            ProtocolVersion::V2 if own.is_none() && commands.is_none() => None,
            ProtocolVersion::V2 => Some(v2::answer(own.as_deref().unwrap_or("{}"), commands)),
        }
    }

    /// Converts the parameters of a request of the engine. Fails with a response in the client's
    /// place if its version does not have the method.
    pub fn request<'a>(&self, method: &str, params: &'a str) -> Result<Cow<'a, str>, String> {
        match self.version() {
            ProtocolVersion::V2 if method == REQUEST_PERMISSION => {
                Ok(v2::permission(params).into())
            }
            ProtocolVersion::V2 if is_of_client_machine(method) => {
                let message = format!("Method not found: {method}");
                Err(json!({ "code": METHOD_NOT_FOUND, "message": message }).to_string())
            }
            ProtocolVersion::V1 | ProtocolVersion::V2 => Ok(params.into()),
        }
    }

    /// Converts the client's result of such a request to the form of the log.
    pub fn result(&self, method: &str, result: String) -> String {
        match self.version() {
            ProtocolVersion::V2 if method == REQUEST_PERMISSION => v2::permission_outcome(&result),
            ProtocolVersion::V1 | ProtocolVersion::V2 => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1() -> ClientView {
        ClientView::default()
    }

    fn v2() -> ClientView {
        ClientView::new(ProtocolVersion::V2)
    }

    #[test]
    fn a_client_only_gets_requests_of_its_version() {
        for method in ["fs/read_text_file", "terminal/create"] {
            assert!(v1().request(method, "{}").is_ok());
            let error = v2().request(method, "{}").unwrap_err();
            assert!(error.contains(&format!("Method not found: {method}")));
        }
        for method in [REQUEST_PERMISSION, "elicitation/create", "_x/y"] {
            assert!(v2().request(method, "{}").is_ok(), "{method}");
        }
    }

    #[test]
    fn a_permission_has_the_form_of_its_version() {
        let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","title":"t"},"options":[]}"#;
        let shown = v1().request(REQUEST_PERMISSION, params).unwrap();
        assert_eq!(shown, params);
        let shown = v2().request(REQUEST_PERMISSION, params).unwrap();
        assert!(shown.contains(r#""subject":{"#));
        let odd = r#"{"outcome":{"outcome":"_later"}}"#.to_owned();
        let logged = v2().result(REQUEST_PERMISSION, odd.clone());
        assert!(logged.contains(r#"{"outcome":"cancelled"}"#));
        assert_eq!(v1().result(REQUEST_PERMISSION, odd.clone()), odd);
    }

    #[test]
    fn the_option_that_represents_the_modes_sets_the_mode() {
        let own = r#"{"modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"},{"id":"b","name":"B"}]},"configOptions":[{"id":"mode","name":"O","type":"boolean","currentValue":true}]}"#;
        let set = |view: &ClientView, option: &str| {
            let params = format!(r#"{{"sessionId":"s","configId":"{option}","value":"b"}}"#);
            view.call(SESSION_SET_CONFIG_OPTION.to_owned(), params)
        };
        let mut view = v2();
        view.opening_answer(Some(own.to_owned()), None);
        assert_eq!(set(&view, "mode").method, SESSION_SET_CONFIG_OPTION);
        let call = set(&view, "rejoin_mode");
        assert_eq!(call.method, SESSION_SET_MODE);
        assert_eq!(call.params, r#"{"sessionId":"s","modeId":"b"}"#);
        let result = view.call_result(&call.method, call.mode.as_deref(), "{}".to_owned());
        assert!(
            result.contains(r#""configId":"mode","name":"O""#),
            "{result}"
        );
        let mode = r#""configId":"rejoin_mode","name":"Mode","category":"mode","type":"select","currentValue":"b""#;
        assert!(result.contains(mode), "{result}");
        let other = r#"{"configOptions":[{"id":"a"}],"n":1e400}"#;
        assert_eq!(view.call_result("_x", None, other.to_owned()), other);
        let result = view.call_result(SESSION_SET_CONFIG_OPTION, None, other.to_owned());
        assert!(
            result.starts_with(r#"{"n":1e400,"configOptions":[{"configId":"a"}"#),
            "{result}"
        );
        // The option with the id `mode` is gone.
        assert!(
            result.contains(&mode.replace("rejoin_mode", "mode")),
            "{result}"
        );
        let mut old = v1();
        old.opening_answer(Some(own.to_owned()), None);
        assert_eq!(set(&old, "rejoin_mode").method, SESSION_SET_CONFIG_OPTION);
    }

    #[test]
    fn an_answer_has_the_form_of_its_version() {
        let own = r#"{"x":1e400,"modes":{"currentModeId":"a","availableModes":[]}}"#;
        let commands = r#"[{"name":"c","description":"d"}]"#;
        let shown = v1().opening_answer(Some(own.to_owned()), Some(commands));
        assert_eq!(shown.as_deref(), Some(own));
        let shown = v2().opening_answer(Some(own.to_owned()), Some(commands));
        let shown = shown.unwrap();
        assert!(
            shown.starts_with(r#"{"x":1e400,"availableCommands":[{"#),
            "{shown}"
        );
        assert!(shown.contains(r#""type":"command""#), "{shown}");
        assert!(shown.contains(r#""configId":"mode""#), "{shown}");
        assert!(v2().opening_answer(None, Some("[]")).is_some());
        assert_eq!(v2().opening_answer(None, None), None);
        assert_eq!(v1().opening_answer(None, Some("[]")), None);
    }
}

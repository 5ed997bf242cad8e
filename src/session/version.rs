//! What sessions know of the version of the protocol that the client speaks.

use std::borrow::Cow;

use crate::json;
use crate::protocol::error::METHOD_NOT_FOUND;
use crate::protocol::method::REQUEST_PERMISSION;
use crate::protocol::v2::{self, View};
use crate::replay::live_line;
use crate::transport::Outcome;

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// A prompt is answered at the end of its turn, and there is one prompt at a time.
    #[default]
    V1,
    /// A prompt is answered when it is logged, and updates report what happens to it. Prompts that
    /// come during a turn are held until it ends.
    V2,
}

impl ProtocolVersion {
    /// How the client sees updates, if not as they are in the log.
    pub(super) fn view(self) -> Option<View> {
        match self {
            Self::V1 => None,
            Self::V2 => Some(View::new()),
        }
    }

    /// The parameters of a request of the engine in the form of this version; `None` if it does not
    /// have the method.
    pub(super) fn request_params<'a>(self, method: &str, params: &'a str) -> Option<Cow<'a, str>> {
        let removed = |method: &str| method.starts_with("fs/") || method.starts_with("terminal/");
        match self {
            Self::V2 if method == REQUEST_PERMISSION => Some(v2::permission(params).into()),
            Self::V2 if removed(method) => None,
            Self::V1 | Self::V2 => Some(params.into()),
        }
    }

    /// The client's response to that, in the form of the log.
    pub(super) fn outcome(self, method: &str, outcome: Outcome) -> Outcome {
        match self {
            Self::V2 if method == REQUEST_PERMISSION => {
                outcome.map(|text| v2::permission_outcome(&text))
            }
            _ => outcome,
        }
    }

    /// An engine's part of an answer with the commands of an update, in the form of this version.
    pub(super) fn with_commands(self, own: Option<String>, update: &str) -> String {
        let mut line = Vec::new();
        live_line("", update, &mut line);
        if let Some(mut view) = self.view() {
            let mut shown = Vec::new();
            view.lines(&line, &mut shown);
            line = shown;
        }
        let line = String::from_utf8(line).unwrap_or_default();
        let commands = ["params", "update", "availableCommands"]
            .into_iter()
            .try_fold(line.as_str(), |object, name| {
                json::text_member(object, name)
            });
        let members = own.as_deref().unwrap_or("{}");
        let members = json::text_members(members).into_iter();
        let commands = commands.map(|commands| ("availableCommands".to_owned(), commands));
        json::object(members.chain(commands))
    }

    /// Its number.
    pub fn version(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// The error of a client that does not have the method.
pub(super) fn unknown_method(method: &str) -> String {
    let message = format!("Method not found: {method}");
    serde_json::json!({ "code": METHOD_NOT_FOUND, "message": message }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_only_gets_requests_of_its_version() {
        let asked =
            |version: ProtocolVersion, method| version.request_params(method, "{}").is_some();
        for method in ["fs/read_text_file", "terminal/create"] {
            assert!(asked(ProtocolVersion::V1, method));
            assert!(!asked(ProtocolVersion::V2, method));
        }
        for method in [REQUEST_PERMISSION, "elicitation/create", "_x/y"] {
            assert!(asked(ProtocolVersion::V2, method), "{method}");
        }
    }

    #[test]
    fn a_permission_has_the_form_of_its_version() {
        let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","title":"t"},"options":[]}"#;
        assert_eq!(
            ProtocolVersion::V1
                .request_params(REQUEST_PERMISSION, params)
                .as_deref(),
            Some(params)
        );
        let shown = ProtocolVersion::V2.request_params(REQUEST_PERMISSION, params);
        assert!(shown.is_some_and(|shown| shown.contains(r#""subject":{"#)));
        let odd = r#"{"outcome":{"outcome":"_later"}}"#.to_owned();
        let logged = ProtocolVersion::V2.outcome(REQUEST_PERMISSION, Ok(odd.clone()));
        assert!(logged.is_ok_and(|logged| logged.contains(r#"{"outcome":"cancelled"}"#)));
        assert_eq!(
            ProtocolVersion::V1.outcome(REQUEST_PERMISSION, Ok(odd.clone())),
            Ok(odd)
        );
    }
}

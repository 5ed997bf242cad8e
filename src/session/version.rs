//! How a client is told of turns: the one thing about its protocol version that sessions know.

use std::borrow::Cow;

use crate::json;
use crate::protocol::v2::{self, View};
use crate::replay::live_line;
use crate::transport::Outcome;

const PERMISSION: &str = "session/request_permission";

/// How a connection tells of turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// The answer to a prompt is the end of its turn, and there is one prompt at a time.
    #[default]
    V1,
    /// A prompt is answered when it is in the log, and updates tell what becomes of it. Prompts
    /// that come during a turn are held until it ends.
    V2,
}

impl ProtocolVersion {
    /// How its client sees updates, if not as they are in the log.
    pub(super) fn view(self) -> Option<View> {
        match self {
            Self::V1 => None,
            Self::V2 => Some(View::new()),
        }
    }

    /// The parameters of a request of the engine as its client takes them; `None` if it knows no
    /// such method.
    pub(super) fn question<'a>(self, method: &str, params: &'a str) -> Option<Cow<'a, str>> {
        let gone = |method: &str| method.starts_with("fs/") || method.starts_with("terminal/");
        match self {
            Self::V2 if method == PERMISSION => Some(v2::permission(params).into()),
            Self::V2 if gone(method) => None,
            Self::V1 | Self::V2 => Some(params.into()),
        }
    }

    /// What its client has answered to that, as it stands in the log.
    pub(super) fn outcome(self, method: &str, outcome: Outcome) -> Outcome {
        match self {
            Self::V2 if method == PERMISSION => outcome.map(|text| v2::permission_outcome(&text)),
            _ => outcome,
        }
    }

    /// An engine's part of an answer with the commands of an update in it, as its client sees them.
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

    /// The version of the protocol that is spoken so.
    pub fn version(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// The error of a client that knows no such method.
pub(super) fn unknown_method(method: &str) -> String {
    let message = format!("Method not found: {method}");
    serde_json::json!({ "code": -32601, "message": message }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_only_what_its_version_knows() {
        let asked = |version: ProtocolVersion, method| version.question(method, "{}").is_some();
        for method in ["fs/read_text_file", "terminal/create"] {
            assert!(asked(ProtocolVersion::V1, method));
            assert!(!asked(ProtocolVersion::V2, method));
        }
        for method in [PERMISSION, "elicitation/create", "_x/y"] {
            assert!(asked(ProtocolVersion::V2, method), "{method}");
        }
    }

    #[test]
    fn a_permission_has_the_form_of_its_version() {
        let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","title":"t"},"options":[]}"#;
        assert_eq!(
            ProtocolVersion::V1.question(PERMISSION, params).as_deref(),
            Some(params)
        );
        let shown = ProtocolVersion::V2.question(PERMISSION, params);
        assert!(shown.is_some_and(|shown| shown.contains(r#""subject":{"#)));
        let odd = r#"{"outcome":{"outcome":"_later"}}"#.to_owned();
        let logged = ProtocolVersion::V2.outcome(PERMISSION, Ok(odd.clone()));
        assert!(logged.is_ok_and(|logged| logged.contains(r#"{"outcome":"cancelled"}"#)));
        assert_eq!(
            ProtocolVersion::V1.outcome(PERMISSION, Ok(odd.clone())),
            Ok(odd)
        );
    }
}

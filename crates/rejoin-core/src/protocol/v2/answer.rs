//! Converts an engine's part of an answer.

use crate::json::{self, Members};

use super::commands::available_commands;
use super::settings::config_options;

/// An engine's part of an answer in version 2, where modes are config options, which have another
/// form. With an array of available commands, if they are part of the answer.
pub fn answer(own: &str, commands: Option<&str>) -> String {
    let member = |name| json::text_member(own, name).filter(|value| *value != "null");
    let options = config_options(member("configOptions"), member("modes"));
    let mut shown = Members::of(own).without(&["configOptions", "modes"]);
    if let Some(commands) = commands {
        shown.set("availableCommands", available_commands(commands));
    }
    if let Some(options) = options {
        shown.set("configOptions", options);
    }
    shown.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_change_their_form_and_the_rest_stays() {
        let meta = r#"{"_meta":{"n":1e400}}"#;
        assert_eq!(answer(meta, None), meta);
        assert_eq!(answer(r#"{"modes":null,"configOptions":null}"#, None), "{}");
        let modes = r#"{"modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]}}"#;
        let shown = answer(modes, None);
        assert!(shown.starts_with(r#"{"configOptions":["#), "{shown}");
        assert!(shown.contains(r#""configId":"mode""#), "{shown}");
    }
}

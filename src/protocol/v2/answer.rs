//! Converts an engine's part of an answer.

use crate::json;

use super::commands::available_commands;
use super::settings::config_options;

/// An engine's part of an answer in version 2, where modes are config options, which have another
/// form. With an array of available commands, if they are part of the answer.
pub fn answer(own: &str, commands: Option<&str>) -> String {
    let member = |name| json::text_member(own, name).filter(|value| *value != "null");
    let options = config_options(member("configOptions"), member("modes"));
    let options = options
        .as_deref()
        .map(|options| ("configOptions".to_owned(), options));
    let commands = commands.map(available_commands);
    let commands = commands
        .as_deref()
        .map(|commands| ("availableCommands".to_owned(), commands));
    let others = json::text_members(own)
        .into_iter()
        .filter(|(name, _)| !matches!(name.as_str(), "configOptions" | "modes"));
    json::object(others.chain(commands).chain(options))
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

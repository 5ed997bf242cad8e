//! What was done, as version 2 answers it: as version 1 does, but for config options, which have
//! another form, and modes, which are config options.

use serde_json::{Value, json};

use crate::json;
use crate::protocol::v2::config_options;
use crate::server::methods;
use crate::session::{Answer, Done};
use crate::transport::VerbatimResults;

/// The result of what was done to the session that the client knows by this name.
pub fn encode(name: &str, mut answer: Answer, raws: &VerbatimResults) -> Value {
    answer.done = match answer.done {
        Done::Created(own) => Done::Created(own.map(|own| shown(&own))),
        Done::Forked(own) => Done::Forked(own.map(|own| shown(&own))),
        Done::Loaded(own) => Done::Loaded(own.map(|own| shown(&own))),
        Done::Resumed(own) => Done::Resumed(own.map(|own| shown(&own))),
        Done::Served(result) => Done::Served(shown(&result)),
        Done::Status { open: true, phase } => {
            return json!({ "status": "open", "state": raws.put(phase.state()) });
        }
        done => done,
    };
    methods::encode(name, answer, raws)
}

/// The engine's part of a result.
fn shown(own: &str) -> String {
    let member = |name| json::text_member(own, name).filter(|value| *value != "null");
    let options = config_options(member("configOptions"), member("modes"));
    let options = options
        .as_deref()
        .map(|options| ("configOptions".to_owned(), options));
    let others = json::text_members(own)
        .into_iter()
        .filter(|(name, _)| !matches!(name.as_str(), "configOptions" | "modes"));
    json::object(others.chain(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_change_their_form_and_the_rest_stays() {
        assert_eq!(
            shown(r#"{"_meta":{"n":1e400}}"#),
            r#"{"_meta":{"n":1e400}}"#
        );
        assert_eq!(shown(r#"{"modes":null,"configOptions":null}"#), "{}");
        let modes = r#"{"modes":{"currentModeId":"a","availableModes":[{"id":"a","name":"A"}]}}"#;
        let shown = shown(modes);
        assert!(shown.starts_with(r#"{"configOptions":["#), "{shown}");
        assert!(shown.contains(r#""configId":"mode""#), "{shown}");
    }
}

//! What the agent says of itself and of its sessions.

use serde_json::{Map, Value, json};

use crate::memory::Session;
use crate::options::Options;

/// The result of `initialize`, for a client that may have `asked` for version 2.
pub(crate) fn initialize(options: &Options, asked: bool) -> String {
    if let Some(result) = &options.initialize_result {
        return result.clone();
    }
    let mut session = Map::new();
    for (name, declared) in [
        ("resume", options.resume),
        ("list", options.list),
        ("close", options.close),
        ("delete", options.delete),
        ("fork", options.fork),
    ] {
        if declared {
            session.insert(name.to_owned(), json!({}));
        }
    }
    let auth = options.auth.iter();
    let auth: Vec<_> = auth
        .map(|id| json!({"id": id, "name": format!("Sign in by {id}")}))
        .collect();
    let result = json!({
        "protocolVersion": if asked && options.echo_version { 2 } else { 1 },
        "agentInfo": {"name": options.tag, "title": "Fake", "version": "1.2.3"},
        "agentCapabilities": {
            "loadSession": options.load,
            "promptCapabilities": {
                "image": options.image,
                "audio": options.audio,
                "embeddedContext": options.embedded,
            },
            "mcpCapabilities": {"http": options.http, "sse": false},
            "sessionCapabilities": session,
        },
        "authMethods": auth,
    });
    result.to_string()
}

/// Modes and configuration, as members of an answer that opens a session.
pub(crate) fn settings(options: &Options, session: &Session) -> Vec<String> {
    let mut members = Vec::new();
    if options.modes {
        let known = session.mode.as_deref().filter(|_| !options.doubtful_mode);
        let current = known.unwrap_or("ask");
        let modes = json!({
            "currentModeId": current,
            "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}],
        });
        members.push(format!(r#""modes":{modes}"#));
    }
    if options.config {
        members.push(format!(r#""configOptions":{}"#, config(session)));
    }
    members
}

/// All configuration options with their values.
pub(crate) fn config(session: &Session) -> Value {
    let option = |id: &str, name: &str, values: [&str; 2]| {
        let current = session.config.get(id).map_or(values[0], String::as_str);
        let values = values.map(|value| json!({"value": value, "name": value}));
        json!({
            "id": id, "name": name, "type": "select", "currentValue": current, "options": values,
        })
    };
    json!([
        option("model", "Model", ["small", "large"]),
        option("effort", "Effort", ["low", "high"]),
    ])
}

/// The commands, as an `update` object.
pub(crate) fn commands() -> String {
    r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"compact","description":"Makes it shorter"}]}"#.to_owned()
}

//! What differs in version 2 of the protocol.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};

use crate::describe;
use crate::memory::Session;
use crate::message::quoted;
use crate::options::Options;

/// Whether a client that sends these parameters of `initialize` gets version 2.
pub(crate) fn is_asked_for(params: &str) -> bool {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    params["protocolVersion"].as_u64() >= Some(2)
}

/// The result of `initialize`.
pub(crate) fn initialize(options: &Options) -> String {
    let mut session = Map::new();
    let mut prompt = Map::new();
    for (name, declared) in [
        ("image", options.image),
        ("audio", options.audio),
        ("embeddedContext", options.embedded),
    ] {
        if declared {
            prompt.insert(name.to_owned(), json!({}));
        }
    }
    session.insert("prompt".to_owned(), prompt.into());
    session.insert("mcp".to_owned(), json!({"stdio": {}}));
    for (name, declared) in [("delete", options.delete), ("fork", options.fork)] {
        if declared {
            session.insert(name.to_owned(), json!({}));
        }
    }
    let auth = options.auth.iter();
    let auth: Vec<_> = auth
        .map(|id| json!({"type": "agent", "methodId": id, "name": format!("Sign in by {id}")}))
        .collect();
    let result = json!({
        "protocolVersion": 2,
        "info": {"name": options.tag, "title": "Fake", "version": "1.2.3"},
        "capabilities": {"session": session, "_meta": {"fake": 1.0}},
        "authMethods": auth,
    });
    result.to_string()
}

/// The options of a session, of which the mode is one, as members of an answer that opens it.
pub(crate) fn settings(options: &Options, session: &Session) -> Vec<String> {
    let all = config(options, session);
    let any = options.modes || options.config;
    any.then(|| format!(r#""configOptions":{all}"#))
        .into_iter()
        .collect()
}

/// All options with their values.
pub(crate) fn config(options: &Options, session: &Session) -> Value {
    let mut all = Vec::new();
    if options.modes {
        let current = session.config.get("mode").map_or("ask", String::as_str);
        all.push(json!({
            "configId": "mode", "name": "Mode", "category": "mode", "type": "select",
            "currentValue": current,
            "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
        }));
    }
    if options.config {
        let config = describe::config(session);
        for option in config.as_array().into_iter().flatten() {
            let mut option = option.clone();
            option["configId"] = option["id"].take();
            if let Some(option) = option.as_object_mut() {
                option.remove("id");
            }
            all.push(option);
        }
    }
    all.into()
}

/// The commands, as an `update` object.
pub(crate) fn commands() -> String {
    r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command","name":"compact","description":"Makes it shorter"}]}"#.to_owned()
}

/// The user's message, as an `update` object.
pub(crate) fn user_message(message: &str, prompt: &str) -> String {
    let message = quoted(message);
    format!(r#"{{"sessionUpdate":"user_message","messageId":{message},"content":{prompt}}}"#)
}

/// A plan with one entry, as an `update` object.
pub(crate) fn plan(text: &str) -> String {
    let text = quoted(text);
    format!(
        r#"{{"sessionUpdate":"plan_update","plan":{{"type":"items","planId":"p","entries":[{{"content":{text},"priority":"medium","status":"pending"}}]}}}}"#
    )
}

/// What the session is doing, with further members, as an `update` object.
pub(crate) fn state(state: &str, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(
        r#"{{"sessionUpdate":"state_update","state":{}{comma}{members}}}"#,
        quoted(state)
    )
}

/// The parameters of a request for permission without the options.
pub(crate) fn permission(session: &str, call: &str) -> String {
    format!(
        r#""sessionId":"{session}", "title":"Shall I?","subject":{{"type":"tool_call","toolCall":{call}}}"#
    )
}

/// An update of a time before this program, which may have the form of version 1.
pub(crate) fn of_any(update: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let mut value: Value = serde_json::from_str(update).unwrap_or_default();
    if value["sessionUpdate"] == "tool_call" {
        value["sessionUpdate"] = "tool_call_update".into();
    } else if value["content"].is_object() && value["messageId"].is_null() {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        value["messageId"] = format!("old-{count}").into();
    } else {
        return update.to_owned();
    }
    value.to_string()
}

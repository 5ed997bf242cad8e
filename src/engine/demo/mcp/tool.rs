//! The parts of an MCP tool's description that are used here. The rest may be of any size.

use rmcp::model;
use serde_json::{Map, Value};

use crate::engine::demo::describe::shorten;

/// How many characters of a name or a description are shown.
pub(super) const DESCRIBED: usize = 200;

/// The longest name of a tool that can be called, in bytes.
const LONGEST_NAME: usize = 1024;

/// How many arguments of a tool are named.
const NAMED: usize = 20;

/// A tool.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    /// Whether the server declares it as read-only.
    pub(super) only_reads: bool,
    /// Its description in one line, for users.
    pub(super) line: String,
}

/// The tools of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Tools {
    pub(super) list: Vec<Tool>,
    /// Whether the server has more tools than are used.
    pub(super) more: bool,
}

impl Tool {
    /// The used parts of a tool; `None` if its name is too long.
    pub(super) fn of(tool: &model::Tool) -> Option<Self> {
        if tool.name.len() > LONGEST_NAME {
            return None;
        }
        let hints = tool.annotations.as_ref();
        Some(Self {
            name: tool.name.to_string(),
            only_reads: hints.and_then(|hints| hints.read_only_hint) == Some(true),
            line: line(tool),
        })
    }
}

fn line(tool: &model::Tool) -> String {
    let arguments = arguments(&tool.input_schema);
    let about = tool.description.as_deref().or(tool.title.as_deref());
    let about = about.map(|about| format!(": {}", shorten(about, DESCRIBED)));
    format!(
        "  - `{}{arguments}`{}\n",
        shorten(&tool.name, DESCRIBED),
        about.unwrap_or_default()
    )
}

/// The arguments of a tool, in short: ` {"path": string, "limit"?: integer}`.
fn arguments(schema: &Map<String, Value>) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(properties) = properties.filter(|properties| !properties.is_empty()) else {
        return String::new();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let required =
        |name: &str| required.is_some_and(|required| required.iter().any(|one| one == name));
    let mut named: Vec<String> = properties
        .iter()
        .take(NAMED)
        .map(|(name, schema)| {
            let mark = if required(name) { "" } else { "?" };
            format!("\"{}\"{mark}: {}", shorten(name, 60), kind(schema))
        })
        .collect();
    if properties.len() > NAMED {
        named.push("…".to_owned());
    }
    format!(" {{{}}}", named.join(", "))
}

/// The type of an argument.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return shorten(&values.join("|"), 60);
    }
    match &schema["type"] {
        Value::String(kind) => shorten(kind, 30),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            shorten(&kinds.join("|"), 60)
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_shown_in_short() {
        for (schema, expected) in [
            (json!({}), ""),
            (json!({"type": "object", "properties": {}}), ""),
            (json!({"properties": 5}), ""),
            (
                json!({
                    "properties": {
                        "a": {"type": "string"},
                        "b": {"type": ["integer", "null"]},
                        "c": {"enum": ["x", 1]},
                        "d": true,
                    },
                    "required": ["a"],
                }),
                r#" {"a": string, "b"?: integer|null, "c"?: "x"|1, "d"?: any}"#,
            ),
        ] {
            assert_eq!(arguments(schema.as_object().unwrap()), expected);
        }
    }
}

//! Cuts the list of a server's tools down to what is used of it, as text, before the library makes a tree
//! of it: a list of 16 MiB would become one of hundreds.

use std::ops::Range;

use crate::json::{self, Object, Parts, quoted};

use super::tools::{DESCRIBED, LONGEST_NAME, NAMED};

/// How many tools of a server are used.
pub(super) const TOOLS: usize = 1000;

/// Messages of at most this length are left as they are, in bytes.
const SMALL: usize = 64 * 1024;

/// How long the list may be then, in bytes.
const LIST: usize = 2 * 1024 * 1024;

/// The longest type of an argument that is kept, in bytes.
const TYPE: usize = 256;

/// The message with less in it, if it is the response to `tools/list` and long.
pub(super) fn lean(message: &str) -> Option<String> {
    if message.len() <= SMALL {
        return None;
    }
    let bytes = message.as_bytes();
    let result = json::member(bytes, 0, "result")?;
    let tools = json::member(bytes, result.start, "tools")?;
    let mut list = String::from("[");
    let mut elements = json::elements(bytes, tools.start)?;
    for number in 0.. {
        let Some(tool) = elements.element() else {
            break;
        };
        if number > 0 {
            list.push(',');
        }
        // A tool that cannot be used shows that there are more than are used.
        let is_full = number == TOOLS || list.len() > LIST;
        list.push_str(&if is_full {
            tool_named(&too_long())
        } else {
            lean_tool(message, &tool)
        });
        if is_full {
            break;
        }
    }
    list.push(']');
    Some([&message[..tools.start], &list, &message[tools.end..]].concat())
}

/// A name that no tool may have.
fn too_long() -> String {
    "x".repeat(LONGEST_NAME + 1)
}

fn tool_named(name: &str) -> String {
    let name = Object::new().string("name", name);
    name.raw("inputSchema", "{}").end()
}

/// The members of a tool that are used, shortened.
fn lean_tool(message: &str, tool: &Range<usize>) -> String {
    let text = |name: &str| {
        let value = json::member(message.as_bytes(), tool.start, name)?;
        serde_json::from_str::<String>(&message[value]).ok()
    };
    let name = text("name").unwrap_or_default();
    if name.len() > LONGEST_NAME {
        return tool_named(&too_long());
    }
    let member = |from: usize, name: &str| json::member(message.as_bytes(), from, name);
    let mut lean = Object::new().string("name", &name);
    for name in ["title", "description"] {
        if let Some(text) = text(name) {
            // An additional character shows that the text is cut.
            let text: String = text.chars().take(DESCRIBED + 1).collect();
            lean = lean.string(name, &text);
        }
    }
    let hints = member(tool.start, "annotations");
    if let Some(hint) = hints.and_then(|hints| member(hints.start, "readOnlyHint"))
        && matches!(&message[hint.clone()], "true" | "false")
    {
        let hints = Object::new().raw("readOnlyHint", &message[hint]);
        lean = lean.raw("annotations", &hints.end());
    }
    let schema = member(tool.start, "inputSchema");
    let schema = schema.map_or_else(|| "{}".to_owned(), |schema| lean_schema(message, &schema));
    lean.raw("inputSchema", &schema).end()
}

/// The names and types of the first arguments.
fn lean_schema(message: &str, schema: &Range<usize>) -> String {
    let bytes = message.as_bytes();
    let member = |from: usize, name: &str| json::member(bytes, from, name);
    let (mut arguments, mut names) = (Object::new(), Vec::new());
    let properties = member(schema.start, "properties");
    let mut members = properties.and_then(|properties| json::members(bytes, properties.start));
    // An additional argument shows that there are more than are shown.
    while names.len() <= NAMED
        && let Some(argument) = members.as_mut().and_then(Parts::member)
    {
        let key = format!("\"{}\"", &message[argument.key]);
        let Some(name) = string(&key) else {
            continue;
        };
        let name: String = name.chars().take(DESCRIBED).collect();
        let mut kind = Object::new();
        for name in ["type", "enum"] {
            let value = member(argument.value.start, name);
            if let Some(value) = value.filter(|value| value.len() <= TYPE) {
                kind = kind.raw(name, &message[value]);
            }
        }
        arguments = arguments.raw(&name, &kind.end());
        names.push(name);
    }
    let mut required = Vec::new();
    let all = member(schema.start, "required");
    let mut all = all.and_then(|all| json::elements(bytes, all.start));
    while let Some(name) = all.as_mut().and_then(Parts::element) {
        let name = string(&message[name]);
        required.extend(
            name.filter(|name| names.contains(name))
                .as_deref()
                .map(quoted),
        );
    }
    let required = format!("[{}]", required.join(","));
    let schema = Object::new().raw("properties", &arguments.end());
    schema.raw("required", &required).end()
}

/// The string that is written so.
fn string(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn list(tools: &[Value], more: &str) -> String {
        let result = json!({ "tools": tools, "nextCursor": more, "_meta": { "n": 1 } });
        json!({ "jsonrpc": "2.0", "id": 7, "result": result }).to_string()
    }

    fn lean_list(message: &str) -> Value {
        serde_json::from_str(&lean(message).expect("it is long")).expect("it is JSON")
    }

    #[test]
    fn what_is_used_of_a_tool_is_kept() {
        let argument = json!({ "type": "string", "description": "x".repeat(100_000) });
        let tool = json!({
            "name": "t\u{e9}",
            "title": "T",
            "description": "d".repeat(1000),
            "inputSchema": {
                "type": "object",
                "properties": { "a\"b": argument, "c": { "enum": ["x", 1] }, "d": true },
                "required": ["c", "other"],
            },
            "outputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true, "title": "x" },
        });
        let lean = lean_list(&list(&[tool], "next"));
        let kept = json!({
            "name": "t\u{e9}",
            "title": "T",
            "description": "d".repeat(DESCRIBED + 1),
            "annotations": { "readOnlyHint": true },
            "inputSchema": {
                "properties": { "a\"b": { "type": "string" }, "c": { "enum": ["x", 1] }, "d": {} },
                "required": ["c"],
            },
        });
        let result = json!({ "tools": [kept], "nextCursor": "next", "_meta": { "n": 1 } });
        assert_eq!(lean, json!({ "jsonrpc": "2.0", "id": 7, "result": result }));
    }

    #[test]
    fn no_more_tools_are_kept_than_are_used() {
        let tools = (0..5000).map(|n| json!({ "name": format!("t{n}"), "inputSchema": {} }));
        let lean = lean_list(&list(&tools.collect::<Vec<_>>(), "next"));
        let tools = lean["result"]["tools"].as_array().unwrap();
        assert_eq!(tools.len(), TOOLS + 1);
        assert_eq!(tools[TOOLS - 1]["name"], format!("t{}", TOOLS - 1));
        assert!(tools[TOOLS]["name"].as_str().unwrap().len() > LONGEST_NAME);
    }

    #[test]
    fn tools_of_any_size_have_a_bound_together() {
        let properties: serde_json::Map<_, _> = (0..40)
            .map(|n| {
                (
                    format!("{n}{}", "n".repeat(180)),
                    json!({ "type": "t".repeat(250) }),
                )
            })
            .collect();
        let tool = json!({ "name": "t", "inputSchema": { "properties": properties } });
        let lean = lean(&list(&vec![tool; 900], "next")).unwrap();
        assert!(lean.len() < LIST + 64 * 1024, "{}", lean.len());
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        let long = "x".repeat(2 * SMALL);
        for message in [
            json!({ "result": { "content": [{ "text": long }] } }),
            json!({ "result": { "tools": long } }),
            json!({ "method": "x", "params": { "tools": [long] } }),
        ] {
            assert_eq!(lean(&message.to_string()), None);
        }
        assert_eq!(lean(&list(&[json!({ "name": "t" })], "next")), None);
        assert_eq!(lean(&format!("{{\"result\":{{\"tools\":[{long}")), None);
    }
}

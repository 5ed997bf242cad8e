//! The tools of MCP servers, as far as they are used. The rest of their descriptions may be of any size,
//! and no tree is made of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::json::{self, Parts};
use crate::text::shortened;

/// How many tools of a server are used.
const TOOLS: usize = 1000;

/// How long the names and descriptions of a server's tools may be together, in bytes.
const ALL: usize = 2 * 1024 * 1024;

/// How many characters of a name or a description are shown.
pub(super) const DESCRIBED: usize = 200;

/// The longest name of a tool that can be called, in bytes.
const LONGEST_NAME: usize = 1024;

/// How many arguments of a tool are named.
const NAMED: usize = 20;

/// The longest type of an argument that is read, in bytes.
const LONGEST_TYPE: usize = 64 * 1024;

/// The parts of a tool that are used here.
#[derive(Clone, Debug)]
pub(super) struct McpTool {
    pub(super) name: String,
    /// Whether the server declares it as read-only.
    pub(super) only_reads: bool,
    /// Its description in one line, for users.
    pub(super) line: String,
}

/// The tools of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct McpTools {
    pub(super) list: Vec<McpTool>,
    /// Whether the server has more tools than are used.
    pub(super) more: bool,
    /// The length of all names and lines.
    bytes: usize,
}

impl McpTools {
    /// Adds the tools of a page of the server's list, as far as there is room. `None` for another result.
    pub(super) fn add_page(&mut self, page: &str) -> Option<()> {
        let tools = json::text_member(page, "tools").filter(|tools| tools.starts_with('['))?;
        for tool in json::text_elements(tools) {
            match McpTool::read(tool) {
                Some(_) if self.is_full() => {
                    self.more = true;
                    break;
                }
                Some(tool) => {
                    self.bytes += tool.name.len() + tool.line.len();
                    self.list.push(tool);
                }
                None => self.more = true,
            }
        }
        Some(())
    }

    /// Whether no further tool is used.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() == TOOLS || self.bytes > ALL
    }
}

impl McpTool {
    /// The used parts of a tool; `None` if its name is too long.
    fn read(tool: &str) -> Option<Self> {
        let name = json::string_member(tool, "name").filter(|name| name.len() <= LONGEST_NAME)?;
        let hints = json::text_member(tool, "annotations");
        let hint = hints.and_then(|hints| json::text_member(hints, "readOnlyHint"));
        let text = |name| json::string_member(tool, name);
        let about = text("description").or_else(|| text("title"));
        let about = about.map(|about| format!(": {}", shortened(&about, DESCRIBED)));
        let arguments = json::text_member(tool, "inputSchema").map(arguments);
        Some(Self {
            only_reads: hint == Some("true"),
            line: format!(
                "  - `{}{}`{}\n",
                shortened(&name, DESCRIBED),
                arguments.unwrap_or_default(),
                about.unwrap_or_default()
            ),
            name,
        })
    }
}

/// The arguments of a tool, in short: ` {"path": string, "limit"?: integer}`.
fn arguments(schema: &str) -> String {
    let properties = json::text_member(schema, "properties").unwrap_or_default();
    let mut members = json::members(properties.as_bytes(), 0);
    // The first arguments by their names, and one more, which shows that there are more.
    let mut named = BTreeMap::new();
    while let Some(member) = members.as_mut().and_then(Parts::member) {
        let name = json::unescaped(&properties[member.key]).into_owned();
        named.insert(name, &properties[member.value]);
        if named.len() > NAMED + 1 {
            named.pop_last();
        }
    }
    if named.is_empty() {
        return String::new();
    }
    let required = json::text_member(schema, "required").unwrap_or_default();
    let required: BTreeSet<String> = json::text_elements(required)
        .filter_map(|name| serde_json::from_str(name).ok())
        .filter(|name| named.contains_key(name))
        .collect();
    let mut shown: Vec<String> = named
        .iter()
        .take(NAMED)
        .map(|(name, schema)| {
            let mark = if required.contains(name) { "" } else { "?" };
            format!("\"{}\"{mark}: {}", shortened(name, 60), kind(schema))
        })
        .collect();
    if named.len() > NAMED {
        shown.push("…".to_owned());
    }
    format!(" {{{}}}", shown.join(", "))
}

/// The type of an argument.
fn kind(schema: &str) -> String {
    let member = |name| {
        let text = json::text_member(schema, name)?;
        let read = (text.len() <= LONGEST_TYPE).then(|| serde_json::from_str(text));
        read?.ok()
    };
    if let Some(Value::Array(values)) = member("enum") {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return shortened(&values.join("|"), 60);
    }
    match member("type") {
        Some(Value::String(kind)) => shortened(&kind, 30),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            shortened(&kinds.join("|"), 60)
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tools(tools: &[Value]) -> McpTools {
        let mut read = McpTools::default();
        let page = json!({ "tools": tools, "_meta": { "n": 1 } }).to_string();
        read.add_page(&page).expect("it is a list");
        read
    }

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
            assert_eq!(arguments(&schema.to_string()), expected);
        }
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
        let McpTools { list, more, .. } = tools(&[tool]);
        assert!(!more && list.len() == 1 && list[0].only_reads);
        assert_eq!(list[0].name, "t\u{e9}");
        let arguments = r#"{"a"b"?: string, "c": "x"|1, "d"?: any}"#;
        let about = shortened(&"d".repeat(1000), DESCRIBED);
        assert_eq!(
            list[0].line,
            format!("  - `t\u{e9} {arguments}`: {about}\n")
        );
    }

    #[test]
    fn no_more_tools_are_kept_than_are_used() {
        let named = |n| json!({ "name": format!("t{n}"), "inputSchema": {} });
        let McpTools { list, more, .. } = tools(&(0..5000).map(named).collect::<Vec<_>>());
        assert!(more);
        assert_eq!(list.len(), TOOLS);
        assert_eq!(list[TOOLS - 1].name, format!("t{}", TOOLS - 1));
        assert!(!tools(&[named(1)]).more);
        let long = json!({ "name": "n".repeat(LONGEST_NAME + 1) });
        let McpTools { list, more, .. } = tools(&[long, named(1)]);
        assert!(more && list.len() == 1);
    }

    #[test]
    fn tools_of_any_size_have_a_bound_together() {
        let property = |n| {
            let name = format!("{n}{}", "é".repeat(180));
            (name, json!({ "type": "é".repeat(250) }))
        };
        let properties: serde_json::Map<_, _> = (0..40).map(property).collect();
        let tool = json!({ "name": "é".repeat(500), "inputSchema": { "properties": properties } });
        let tools = tools(&vec![tool; 900]);
        let bytes = tools
            .list
            .iter()
            .map(|tool| tool.line.len() + tool.name.len());
        assert!(tools.more && bytes.sum::<usize>() < ALL + 64 * 1024);
    }

    #[test]
    fn other_results_are_no_lists() {
        for page in ["{}", "5", r#"{"tools":5}"#, r#"{"tools":{}}"#] {
            assert_eq!(McpTools::default().add_page(page), None);
        }
    }
}

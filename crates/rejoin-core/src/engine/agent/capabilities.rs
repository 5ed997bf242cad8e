//! The capabilities of an agent that we use.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::json;
use crate::protocol::jetbrains;

/// An agent's capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a capability of its own"
)]
pub(super) struct Capabilities {
    /// Its name and version, if it reports them.
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    /// Whether the agent speaks version 2 of the protocol. If not, it speaks version 1.
    pub(super) is_native: bool,
    pub(super) load: bool,
    /// Whether the agent has ways to sign in.
    pub(super) sign_in: bool,
    pub(super) resume: bool,
    pub(super) list: bool,
    pub(super) close: bool,
    pub(super) delete: bool,
    pub(super) fork: bool,
    pub(super) title: bool,
    /// Whether the agent records conversations as rejoin does, and so knows how far each turn came.
    pub(super) history: bool,
    /// Whether the agent starts MCP servers.
    pub(super) mcp_stdio: bool,
    /// The modes in which it takes a system prompt.
    pub(super) system_prompts: BTreeSet<String>,
    /// The names of all session capabilities that it declares, known to us or not, and those of the
    /// parts of `list`, as `list.limit`, and of JetBrains' index, as `jetbrains.sessionRename`.
    pub(super) declared: BTreeSet<String>,
}

/// Whether a result of `initialize` names version 2 of the protocol without having its members: `info`,
/// which that requires, and `capabilities` in place of those of version 1. Such an agent speaks version
/// 1 and repeats the version that it was asked for.
pub(super) fn only_claims_2(result: &str) -> bool {
    let has = |name| json::text_member(result, name).is_some_and(|member| member.starts_with('{'));
    let is_of_1 = has("agentInfo") || has("agentCapabilities");
    let shows_2 = has("info") && (has("capabilities") || !is_of_1);
    json::text_member(result, "protocolVersion") == Some("2") && !shows_2
}

impl Capabilities {
    /// Reads the result of `initialize`.
    pub(super) fn read(result: &str) -> Self {
        let result = json::tree(result).unwrap_or_default();
        if result["protocolVersion"] == 2 {
            return Self::read_native(&result);
        }
        let capabilities = &result["agentCapabilities"];
        let session = &capabilities["sessionCapabilities"];
        let mut names = declared(session);
        for part in declared(&session["list"]) {
            names.insert(format!("list.{part}"));
        }
        let index = jetbrains::declared(&result).map(|name| format!("jetbrains.{name}"));
        names.extend(index);
        let can = |name: &str| names.contains(name);
        Self {
            name: text(&result["agentInfo"]["name"]),
            version: text(&result["agentInfo"]["version"]),
            is_native: false,
            load: capabilities["loadSession"] == true,
            sign_in: has_sign_in(&result),
            resume: can("resume"),
            list: can("list"),
            close: can("close"),
            delete: can("delete"),
            fork: can("fork"),
            title: can("title"),
            history: capabilities["sessionHistory"].is_object(),
            // Each agent of version 1 has to.
            mcp_stdio: true,
            system_prompts: system_prompts(session),
            declared: names,
        }
    }

    /// Reads it in version 2. An agent that has sessions can list, resume, replay and close them.
    fn read_native(result: &Value) -> Self {
        let capabilities = &result["capabilities"];
        let session = &capabilities["session"];
        let names = declared(session);
        let has_sessions = session.is_object();
        Self {
            name: text(&result["info"]["name"]),
            version: text(&result["info"]["version"]),
            is_native: true,
            load: has_sessions,
            sign_in: has_sign_in(result),
            resume: has_sessions,
            list: has_sessions,
            close: has_sessions,
            delete: names.contains("delete"),
            fork: names.contains("fork"),
            title: names.contains("title"),
            history: capabilities["_meta"]["rejoin"]["sessionHistory"].is_object(),
            mcp_stdio: declared(&session["mcp"]).contains("stdio"),
            system_prompts: system_prompts(session),
            declared: names,
        }
    }

    /// Whether the agent takes a system prompt with this mode.
    pub(super) fn takes_system_prompt(&self, prompt: &str) -> bool {
        let mode = json::string_member(prompt, "mode");
        mode.is_some_and(|mode| self.system_prompts.contains(&mode))
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn has_sign_in(result: &Value) -> bool {
    let methods = result["authMethods"].as_array();
    methods.is_some_and(|all| !all.is_empty())
}

/// The modes of system prompts that a session may have.
fn system_prompts(session: &Value) -> BTreeSet<String> {
    let prompt = &session["systemPrompt"];
    let mut modes = declared(&prompt["mode"]);
    if !matches!(prompt, Value::Null | Value::Bool(false)) {
        modes.insert("append".to_owned());
    }
    modes
}

/// The names of the capabilities in an object. A capability is an object; `null` and `false` mean
/// that it is absent.
fn declared(capabilities: &Value) -> BTreeSet<String> {
    let members = capabilities.as_object().into_iter().flatten();
    let declared = members.filter(|(_, value)| !matches!(value, Value::Null | Value::Bool(false)));
    declared.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_is_known_by_its_members() {
        for (result, claims) in [
            (
                r#"{"protocolVersion":2,"info":{"name":"a"},"capabilities":{}}"#,
                false,
            ),
            (r#"{"protocolVersion":2,"info":{"name":"a"}}"#, false),
            (
                r#"{"protocolVersion":2,"info":{},"capabilities":{},"agentInfo":{},"agentCapabilities":{}}"#,
                false,
            ),
            (
                r#"{"protocolVersion":2,"agentInfo":{},"agentCapabilities":{}}"#,
                true,
            ),
            (
                r#"{"protocolVersion":2,"info":{},"agentCapabilities":{}}"#,
                true,
            ),
            (
                r#"{"protocolVersion":2,"info":null,"capabilities":{}}"#,
                true,
            ),
            (r#"{"protocolVersion":2}"#, true),
            (r#"{"protocolVersion":1}"#, false),
        ] {
            assert_eq!(only_claims_2(result), claims, "{result}");
        }
    }

    #[test]
    fn only_declared_capabilities_count() {
        let read = Capabilities::read(
            r#"{"agentInfo":{"name":"a","version":"1"},"authMethods":[{}],"agentCapabilities":{"loadSession":true,"sessionHistory":{},
                "sessionCapabilities":{"resume":{},"list":{"limit":{},"x":null},"close":{"x":1},"delete":false,"fork":{},
                    "systemPrompt":{"mode":{"override":{},"_other":null}}}}}"#,
        );
        let expected = Capabilities {
            name: Some("a".to_owned()),
            version: Some("1".to_owned()),
            load: true,
            sign_in: true,
            resume: true,
            list: true,
            close: true,
            fork: true,
            history: true,
            mcp_stdio: true,
            system_prompts: ["append", "override"].map(str::to_owned).into(),
            declared: [
                "close",
                "fork",
                "list",
                "list.limit",
                "resume",
                "systemPrompt",
            ]
            .map(str::to_owned)
            .into(),
            ..Capabilities::default()
        };
        assert_eq!(read, expected);
        let native = Capabilities::read(
            r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"authMethods":[],
                "capabilities":{"session":{"delete":{},"fork":null,"mcp":{"stdio":{}},"systemPrompt":{}},"_meta":{"rejoin":{"sessionHistory":{}}}}}"#,
        );
        let expected = Capabilities {
            name: Some("a".to_owned()),
            version: Some("1".to_owned()),
            is_native: true,
            load: true,
            resume: true,
            list: true,
            close: true,
            delete: true,
            history: true,
            mcp_stdio: true,
            system_prompts: ["append".to_owned()].into(),
            declared: ["delete", "mcp", "systemPrompt"].map(str::to_owned).into(),
            ..Capabilities::default()
        };
        assert_eq!(native, expected);
        let none = Capabilities {
            mcp_stdio: true,
            ..Capabilities::default()
        };
        assert_eq!(Capabilities::read("{}"), none);
        assert_eq!(Capabilities::read("7"), none);
    }
}

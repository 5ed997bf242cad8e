//! Converts `initialize` for a client of version 2 whose agent speaks version 1.

use crate::json::{self, Members, Object, remade};

/// Capabilities that each client of version 2 has, in the form of version 1, where they are
/// declared.
const SESSION: &str = r#"{"compaction":{},"configOptions":{"boolean":{}},"notices":{}}"#;

/// The parameters in version 1. `protocolVersion` stays. Files and terminals, which a client of
/// version 2 does not have, are left out.
pub fn initialize_params(params: &str) -> String {
    let mut shown = Object::new();
    let mut capabilities = "{}";
    for (name, value) in json::text_members(params) {
        match name.as_str() {
            "info" => shown = shown.raw("clientInfo", value),
            "capabilities" => capabilities = value,
            // Members of version 1 that the client sends for agents of that version only: what they
            // say does not apply.
            "clientInfo" | "clientCapabilities" => {}
            _ => shown = shown.raw(&name, value),
        }
    }
    let capabilities = client_capabilities(capabilities);
    shown.raw("clientCapabilities", &capabilities).end()
}

/// The parameters for an agent that may speak version 2: what [`initialize_params`] returns, with the
/// members of version 2 unchanged.
pub fn initialize_params_of_both(params: &str) -> String {
    let old = initialize_params(params);
    let old = Members::of(&old).only(&["clientInfo", "clientCapabilities"]);
    Members::of(params).overlaid(old).text()
}

fn client_capabilities(capabilities: &str) -> String {
    // Whatever else a client of version 2 declares, it understands subagents.
    let mut shown = Object::new().raw("subagents", "{}");
    for (name, value) in json::text_members(capabilities) {
        match name.as_str() {
            "fs" | "terminal" | "session" | "subagents" => {}
            "auth" if value.starts_with('{') => shown = shown.raw("auth", &flags(value)),
            _ => shown = shown.raw(&name, value),
        }
    }
    shown.raw("session", SESSION).end()
}

/// An object of capabilities in version 1, where each is `true` or `false`.
fn flags(capabilities: &str) -> String {
    let mut shown = Object::new();
    for (name, value) in json::text_members(capabilities) {
        let value = match value {
            value if name == "_meta" => value,
            value if is_declared(value) => "true",
            _ => "false",
        };
        shown = shown.raw(&name, value);
    }
    shown.end()
}

/// Whether an optional capability is declared, by an object or by `true`.
fn is_declared(capability: &str) -> bool {
    !matches!(capability, "null" | "false")
}

/// The result of version 1 in version 2. `own` is our own result in version 2: the name is from
/// there if the agent has none, and the note about us in the capabilities.
pub fn initialize_result(result: &str, own: &str) -> String {
    let own_member = |name| json::text_member(own, name);
    let mut shown = Object::new();
    let mut capabilities = "{}";
    let mut info = own_member("info");
    for (name, value) in json::text_members(result) {
        match name.as_str() {
            "protocolVersion" => {
                shown = shown.optional(&name, own_member("protocolVersion"));
            }
            "agentInfo" if value.starts_with('{') => info = Some(value),
            "agentCapabilities" => capabilities = value,
            "authMethods" => shown = shown.raw("authMethods", &auth_methods(value)),
            // The latter two would contradict what is converted.
            "agentInfo" | "info" | "capabilities" => {}
            _ => shown = shown.raw(&name, value),
        }
    }
    let meta = own_member("capabilities").and_then(|own| json::text_member(own, "_meta"));
    let capabilities = agent_capabilities(capabilities, meta.unwrap_or("{}"));
    shown
        .optional("info", info)
        .raw("capabilities", &capabilities)
        .end()
}

fn agent_capabilities(capabilities: &str, own_meta: &str) -> String {
    let mut shown = Object::new();
    let member = |name| json::text_member(capabilities, name).unwrap_or("{}");
    let mut session = Object::new()
        .raw("prompt", &objects(member("promptCapabilities"), &[]))
        .raw("mcp", &mcp(member("mcpCapabilities")));
    for (name, value) in json::text_members(member("sessionCapabilities")) {
        // Every agent of version 2 can resume, close and list, so these are not declared.
        let extended = name == "list" && !json::text_members(value).is_empty();
        if extended
            || !matches!(
                name.as_str(),
                "list" | "prompt" | "mcp" | "resume" | "close"
            )
        {
            session = session.raw(&name, value);
        }
    }
    let mut meta = Members::of(own_meta);
    for (name, value) in json::text_members(capabilities) {
        match name.as_str() {
            "loadSession"
            | "promptCapabilities"
            | "mcpCapabilities"
            | "sessionCapabilities"
            | "sessionHistory"
            | "session" => {}
            "auth" if value.starts_with('{') => {
                // In version 2, signing out needs no capability.
                shown = shown.raw("auth", &Members::of(value).without(&["logout"]).text());
            }
            "_meta" => {
                for (name, value) in json::text_members(value) {
                    meta.set_default(&name, value);
                }
            }
            _ => shown = shown.raw(&name, value),
        }
    }
    let shown = shown.raw("session", &session.end());
    let meta = (!meta.is_empty()).then(|| meta.text());
    shown.optional("_meta", meta.as_deref()).end()
}

/// The transports of version 2: each agent has the first one, and none is `sse`.
fn mcp(capabilities: &str) -> String {
    let others = objects(capabilities, &["stdio", "sse"]);
    let first = Members::default().with("stdio", "{}");
    first.overlaid(Members::of(&others)).text()
}

/// An object of capabilities in version 2, where each is an object or absent. Those in `without`
/// are left out.
fn objects(capabilities: &str, without: &[&str]) -> String {
    remade(capabilities, |name, value| match value {
        _ if !is_declared(value) || without.contains(&name) => None,
        "true" => Some("{}".into()),
        value => Some(value.into()),
    })
}

fn auth_methods(methods: &str) -> String {
    let shown: Vec<_> = json::text_elements(methods).map(auth_method).collect();
    format!("[{}]", shown.join(","))
}

fn auth_method(method: &str) -> String {
    let is_typed = json::text_member(method, "type").is_some();
    let mut shown = Object::new();
    if !is_typed {
        shown = shown.string("type", "agent");
    }
    for (name, value) in json::text_members(method) {
        match name.as_str() {
            "id" => shown = shown.raw("methodId", value),
            "methodId" => {}
            "env" if value.starts_with('{') => shown = shown.raw("env", &variables(value)),
            _ => shown = shown.raw(&name, value),
        }
    }
    shown.end()
}

/// Environment variables as a list.
fn variables(env: &str) -> String {
    let members = json::text_members(env).into_iter();
    let members = members.map(|(name, value)| {
        let variable = Object::new().string("name", &name);
        variable.raw("value", value).end()
    });
    format!("[{}]", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::{v1, v2};
    use schemars::{JsonSchema, SchemaGenerator};
    use serde_json::Value;

    use super::*;

    fn conforms<T: JsonSchema>(text: &str) {
        let schema = SchemaGenerator::default().into_root_schema_for::<T>();
        let validator = jsonschema::validator_for(schema.as_value()).unwrap();
        let value: Value = serde_json::from_str(&text.replace("1e400", "1")).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{text}");
    }

    #[test]
    fn an_agent_gets_parameters_of_version_1() {
        for (params, expected) in [
            (
                r#"{"protocolVersion":2,"info":{"name":"n","version":"1"},"capabilities":{"elicitation":{"form":{},"url":null},"auth":{"terminal":{},"_meta":{"a":1e400}},"fs":{"readTextFile":true},"terminal":true,"_meta":{"b":1}},"clientCapabilities":{"fs":{"readTextFile":true}},"_meta":{}}"#,
                r#"{"protocolVersion":2,"clientInfo":{"name":"n","version":"1"},"_meta":{},"clientCapabilities":{"subagents":{},"elicitation":{"form":{},"url":null},"auth":{"terminal":true,"_meta":{"a":1e400}},"_meta":{"b":1},"session":S}}"#,
            ),
            (
                r#"{"protocolVersion":2,"info":{"name":"n","version":"1"},"capabilities":{"auth":{"terminal":null}}}"#,
                r#"{"protocolVersion":2,"clientInfo":{"name":"n","version":"1"},"clientCapabilities":{"subagents":{},"auth":{"terminal":false},"session":S}}"#,
            ),
            (
                r#"{"protocolVersion":2,"capabilities":null}"#,
                r#"{"protocolVersion":2,"clientCapabilities":{"subagents":{},"session":S}}"#,
            ),
        ] {
            let shown = initialize_params(params);
            assert_eq!(shown, expected.replace('S', SESSION));
            conforms::<v1::InitializeRequest>(&shown);
            let both = initialize_params_of_both(params);
            conforms::<v1::InitializeRequest>(&both);
            for name in ["info", "capabilities"] {
                assert_eq!(
                    json::text_member(&both, name),
                    json::text_member(params, name)
                );
            }
            for name in ["clientInfo", "clientCapabilities"] {
                assert_eq!(
                    json::text_member(&both, name),
                    json::text_member(&shown, name)
                );
            }
        }
    }

    #[test]
    fn a_client_gets_a_result_of_version_2() {
        let own = r#"{"protocolVersion":2,"info":{"name":"us","version":"0"},"capabilities":{"session":{},"_meta":{"rejoin":{"n":1}}}}"#;
        for (result, expected) in [
            (
                r#"{"protocolVersion":1,"agentInfo":{"name":"a","version":"1"},"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":false,"_meta":{"a":1e400}},"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"list":{},"resume":{},"close":{},"delete":{},"fork":null,"_odd":{}},"auth":{"logout":{},"status":{}},"sessionHistory":{},"providers":{},"_meta":{"b":1,"rejoin":2}},"authMethods":[{"id":"k","name":"K","description":null},{"type":"terminal","id":"t","name":"T","args":["-x"],"env":{"A":"b"}},{"type":"env_var","id":"e","name":"E","vars":[]}],"_meta":{"rejoin":{}},"x":1e400}"#,
                r#"{"protocolVersion":2,"authMethods":[{"type":"agent","methodId":"k","name":"K","description":null},{"type":"terminal","methodId":"t","name":"T","args":["-x"],"env":[{"name":"A","value":"b"}]},{"type":"env_var","methodId":"e","name":"E","vars":[]}],"_meta":{"rejoin":{}},"x":1e400,"info":{"name":"a","version":"1"},"capabilities":{"auth":{"status":{}},"providers":{},"session":{"prompt":{"image":{},"_meta":{"a":1e400}},"mcp":{"stdio":{},"http":{}},"delete":{},"fork":null,"_odd":{}},"_meta":{"rejoin":{"n":1},"b":1}}}"#,
            ),
            (
                r#"{"protocolVersion":1,"agentInfo":null,"authMethods":[]}"#,
                r#"{"protocolVersion":2,"authMethods":[],"info":{"name":"us","version":"0"},"capabilities":{"session":{"prompt":{},"mcp":{"stdio":{}}},"_meta":{"rejoin":{"n":1}}}}"#,
            ),
        ] {
            let shown = initialize_result(result, own);
            assert_eq!(shown, expected);
            conforms::<v2::InitializeResponse>(&shown);
        }
    }
}

//! Converts the parameters of requests that open a session.

use crate::json::{self, Members, Object, remade};

/// The parameters of such a request in version 1, which has no type for MCP servers of type `stdio`
/// and requires all lists. The replay is not part of them.
pub fn workspace_params(params: &str) -> String {
    let mut shown = Object::new();
    let mut servers = "[]";
    for (name, value) in json::text_members(params) {
        match name.as_str() {
            "replayFrom" => {}
            "mcpServers" => servers = value,
            "configOptions" => {
                // Version 1 does not give the type of an id.
                let entry = |entry| {
                    remade(entry, |name, value| {
                        let is_id = name == "type" && value == "\"id\"";
                        (!is_id).then(|| value.into())
                    })
                };
                let entries: Vec<_> = json::text_elements(value).map(entry).collect();
                shown = shown.raw(&name, &format!("[{}]", entries.join(",")));
            }
            _ => shown = shown.raw(&name, value),
        }
    }
    let listed: Vec<_> = json::text_elements(servers).map(server).collect();
    let servers = format!("[{}]", listed.join(","));
    shown.raw("mcpServers", &servers).end()
}

fn server(server: &str) -> String {
    let kind = json::string_member(server, "type");
    let lists: &[&str] = match kind.as_deref() {
        Some("stdio") => &["args", "env"],
        Some("http" | "sse") => &["headers"],
        _ => &[],
    };
    let mut shown = Members::of(&remade(server, |name, value| match name {
        // Version 1 has no name for this type.
        "type" if kind.as_deref() == Some("stdio") => None,
        _ if value == "null" && lists.contains(&name) => None,
        _ => Some(value.into()),
    }));
    for list in lists {
        shown.set_default(list, "[]");
    }
    shown.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_the_form_of_version_1() {
        let params = r#"{"cwd":"/w","replayFrom":{"type":"start"},"mcpServers":[{"type":"stdio","name":"a","command":"/a"},{"name":"b","type":"http","url":"u","headers":null,"x":1e400},{"type":"acp","name":"c","serverId":"i"},{"type":"stdio","name":"d","command":"/d","args":["x"],"env":[]}],"_meta":{}}"#;
        let expected = r#"{"cwd":"/w","_meta":{},"mcpServers":[{"name":"a","command":"/a","args":[],"env":[]},{"name":"b","type":"http","url":"u","x":1e400,"headers":[]},{"type":"acp","name":"c","serverId":"i"},{"name":"d","command":"/d","args":["x"],"env":[]}]}"#;
        assert_eq!(workspace_params(params), expected);
        for none in [r#"{"cwd":"/w"}"#, r#"{"cwd":"/w","mcpServers":null}"#] {
            assert_eq!(workspace_params(none), r#"{"cwd":"/w","mcpServers":[]}"#);
        }
    }
}

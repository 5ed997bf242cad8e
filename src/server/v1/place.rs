//! Decodes where a session works: folder, further folders, MCP servers.

use std::path::Path;

use agent_client_protocol::Error;
use serde::Deserialize;

use crate::record::header::{McpServer, Place};
use crate::server::error;
use crate::sys::path;

/// An MCP server as a client describes it.
#[derive(Debug, Deserialize)]
pub(super) struct Server {
    name: String,
    #[serde(rename = "type", default)]
    transport: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Named>>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: Option<Vec<Named>>,
}

/// An environment variable or a header.
#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    #[serde(rename = "value")]
    _value: String,
}

/// Checks a session's place and leaves out of it whatever may be a secret.
pub(super) fn place(
    cwd: &str,
    additional_directories: &[String],
    servers: &[Server],
) -> Result<Place, Error> {
    let mut directories = Vec::new();
    for (at, directory) in additional_directories.iter().enumerate() {
        directories.push(absolute(&format!("additionalDirectories[{at}]"), directory)?);
    }
    let servers = servers.iter().enumerate().map(|(at, server)| mcp_server(at, server));
    Ok(Place {
        cwd: absolute("cwd", cwd)?,
        additional_directories: directories,
        mcp_servers: servers.collect::<Result<_, _>>().map_err(error::invalid_params)?,
    })
}

/// A folder in its plain form.
pub(super) fn absolute(field: &str, folder: &str) -> Result<String, Error> {
    if folder.contains('\0') {
        return Err(error::invalid_params(format!("`{field}` contains a NUL character")));
    }
    if !Path::new(folder).is_absolute() {
        return Err(error::invalid_params(format!("`{field}` must be an absolute path")));
    }
    Ok(path::normalize(folder))
}

fn mcp_server(at: usize, server: &Server) -> Result<McpServer, String> {
    let missing = |field: &str| format!("`mcpServers[{at}].{field}` is missing");
    let names = |list: &Option<Vec<Named>>| -> Vec<String> {
        list.iter().flatten().map(|named| named.name.clone()).collect()
    };
    let (transport, target, secrets) = match server.transport.as_deref() {
        None | Some("stdio") => {
            let command = server.command.as_ref().ok_or_else(|| missing("command"))?;
            server.args.as_ref().ok_or_else(|| missing("args"))?;
            server.env.as_ref().ok_or_else(|| missing("env"))?;
            ("stdio", command.clone(), names(&server.env))
        }
        Some(transport @ ("http" | "sse")) => {
            let url = server.url.as_ref().ok_or_else(|| missing("url"))?;
            (transport, without_secrets(url), names(&server.headers))
        }
        Some(_) => return Err(format!("`mcpServers[{at}].type` is not a known transport")),
    };
    Ok(McpServer {
        name: server.name.clone(),
        transport: transport.to_owned(),
        target: Some(target),
        secrets,
    })
}

/// An address without user, password, query and fragment.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_kept() {
        let json = r#"[
            {"name":"a","command":"/bin/mcp","args":["--key","SECRET"],"env":[{"name":"KEY","value":"SECRET"}]},
            {"name":"b","type":"http","url":"https://me:SECRET@h.example/mcp?key=SECRET#SECRET","headers":[{"name":"Authorization","value":"SECRET"}]}
        ]"#;
        let servers: Vec<Server> = serde_json::from_str(json).unwrap();
        let place = place("/w", &[], &servers).unwrap();
        let kept = serde_json::to_string(&place).unwrap();
        assert!(!kept.contains("SECRET"), "{kept}");
        assert!(kept.contains("https://h.example/mcp") && kept.contains("Authorization"));
        assert!(kept.contains("/bin/mcp") && kept.contains("KEY"));
    }

    #[test]
    fn relative_folders_are_named() {
        for (cwd, more, field) in [("w", "/x", "`cwd`"), ("", "/x", "`cwd`"), ("/w", "x", "`additionalDirectories[0]`")] {
            let error = place(cwd, &[more.to_owned()], &[]).unwrap_err();
            assert!(error.message.contains(field), "{}", error.message);
        }
        assert_eq!(place("/w/a/../b/", &[], &[]).unwrap().cwd, "/w/b");
    }
}

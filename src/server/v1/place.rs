//! Decodes where a session works: folder, further folders, MCP servers.

use std::path::Path;

use agent_client_protocol::Error;
use serde::{Deserialize, Deserializer};

use crate::engine::{Secret, Wanted};
use crate::record::header::{McpServer, Place};
use crate::server::error;
use crate::sys::path;

use super::params::{decode, nullable};

/// The parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    cwd: String,
    #[serde(default, deserialize_with = "nullable")]
    additional_directories: Vec<String>,
    /// `Some` if the member is there, also where it is `null`.
    #[serde(default, deserialize_with = "some")]
    mcp_servers: Option<Vec<Server>>,
}

/// Which session is meant. A new one has no id yet, so there it is a member like any unknown one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    #[serde(default)]
    session_id: Option<String>,
}

/// Whether `mcpServers` must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Servers {
    /// It must, as the schema has it for new and load; `null` is fine.
    Required,
    /// It may be absent, as the schema has it for resume.
    Optional,
    /// It may be absent, as may be what a server needs no more than its defaults of, but each says
    /// of which type it is: version 2.
    Typed,
}

/// How a new session is wanted, but for its name.
pub(in crate::server) fn fresh(
    params: &str,
    servers: Servers,
    lenient: bool,
) -> Result<Wanted, Error> {
    wanted(String::new(), decode(params)?, params, servers, lenient)
}

/// How an existing session is wanted, by the name that the client has for it.
pub(in crate::server) fn existing(
    params: &str,
    servers: Servers,
    lenient: bool,
) -> Result<Wanted, Error> {
    let decoded: Params = decode(params)?;
    let missing = || error::invalid_params("`sessionId` is missing");
    let name = decode::<Session>(params)?.session_id.ok_or_else(missing)?;
    wanted(name, decoded, params, servers, lenient)
}

fn wanted(
    name: String,
    decoded: Params,
    params: &str,
    servers: Servers,
    lenient: bool,
) -> Result<Wanted, Error> {
    if servers == Servers::Required && decoded.mcp_servers.is_none() {
        return Err(error::invalid_params("`mcpServers` is missing"));
    }
    let mut named = decoded.mcp_servers.unwrap_or_default();
    if servers == Servers::Typed {
        for (at, server) in named.iter_mut().enumerate() {
            server.fill(at).map_err(error::invalid_params)?;
        }
    }
    let place = place(
        &decoded.cwd,
        &decoded.additional_directories,
        &named,
        lenient,
    )?;
    let params = Secret(params.into());
    Ok(Wanted {
        name,
        place,
        params,
    })
}

fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Server>>, D::Error> {
    nullable(deserializer).map(Some)
}

/// An MCP server as a client describes it.
#[derive(Debug, Deserialize)]
struct Server {
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

impl Server {
    /// Fills in what version 2 leaves to defaults.
    fn fill(&mut self, at: usize) -> Result<(), String> {
        match self.transport.as_deref() {
            Some("stdio" | "http") => {
                self.args.get_or_insert_default();
                self.env.get_or_insert_default();
                Ok(())
            }
            Some(_) => Err(format!("`mcpServers[{at}].type` is not a known transport")),
            None => Err(format!("`mcpServers[{at}].type` is missing")),
        }
    }
}

/// An environment variable or a header.
#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    #[serde(rename = "value")]
    _value: String,
}

/// Checks a session's place and leaves out of it whatever may be a secret. Whoever is `lenient`
/// leaves it to somebody else to know each server's transport.
fn place(
    cwd: &str,
    additional_directories: &[String],
    servers: &[Server],
    lenient: bool,
) -> Result<Place, Error> {
    let mut directories = Vec::new();
    for (at, directory) in additional_directories.iter().enumerate() {
        directories.push(absolute(
            &format!("additionalDirectories[{at}]"),
            directory,
        )?);
    }
    let servers = servers
        .iter()
        .enumerate()
        .map(|(at, server)| mcp_server(at, server, lenient));
    Ok(Place {
        cwd: absolute("cwd", cwd)?,
        additional_directories: directories,
        mcp_servers: servers
            .collect::<Result<_, _>>()
            .map_err(error::invalid_params)?,
    })
}

/// A folder in its plain form.
pub(super) fn absolute(field: &str, folder: &str) -> Result<String, Error> {
    if folder.contains('\0') {
        return Err(error::invalid_params(format!(
            "`{field}` contains a NUL character"
        )));
    }
    if !Path::new(folder).is_absolute() {
        return Err(error::invalid_params(format!(
            "`{field}` must be an absolute path"
        )));
    }
    Ok(path::normalize(folder))
}

fn mcp_server(at: usize, server: &Server, lenient: bool) -> Result<McpServer, String> {
    let missing = |field: &str| format!("`mcpServers[{at}].{field}` is missing");
    let names = |list: &Option<Vec<Named>>| -> Vec<String> {
        list.iter()
            .flatten()
            .map(|named| named.name.clone())
            .collect()
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
        Some(transport) if lenient => (transport, String::new(), names(&server.env)),
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
    let Some((scheme, rest)) = url.split_once("://") else {
        return String::new();
    };
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
        let place = place("/w", &[], &servers, false).unwrap();
        let kept = serde_json::to_string(&place).unwrap();
        assert!(!kept.contains("SECRET"), "{kept}");
        assert!(kept.contains("https://h.example/mcp") && kept.contains("Authorization"));
        assert!(kept.contains("/bin/mcp") && kept.contains("KEY"));
    }

    #[test]
    fn relative_folders_are_named() {
        for (cwd, more, field) in [
            ("w", "/x", "`cwd`"),
            ("", "/x", "`cwd`"),
            ("/w", "x", "`additionalDirectories[0]`"),
        ] {
            let error = place(cwd, &[more.to_owned()], &[], false).unwrap_err();
            assert!(error.message.contains(field), "{}", error.message);
        }
        assert_eq!(place("/w/a/../b/", &[], &[], false).unwrap().cwd, "/w/b");
    }
}

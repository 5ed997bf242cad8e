//! Decodes a session's workspace: its directories and MCP servers.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use zeroize::Zeroize;

use crate::engine::{Secret, SessionConfig};
use crate::protocol::v2;
use crate::record::header::{McpServer, Workspace};
use crate::server::error::{self, Error};
use crate::sys::path;

use super::params::{SessionParams, decode, nullable};

/// The parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    cwd: String,
    #[serde(default, deserialize_with = "nullable")]
    additional_directories: Vec<String>,
    /// `Some` if the member is present, even if it is `null`.
    #[serde(default, deserialize_with = "some")]
    mcp_servers: Option<Vec<McpServerParams>>,
    #[serde(default, deserialize_with = "nullable")]
    config_options: Vec<GivenOption>,
}

/// The value that a client gives an option of the session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenOption {
    config_id: String,
    #[serde(rename = "type", default)]
    kind: Option<String>,
    value: Value,
}

/// Fails with a description if a client gives options other values than it may: in version 2 each has a
/// type.
fn check_options(given: &[GivenOption], is_typed: bool) -> Result<(), String> {
    for (at, option) in given.iter().enumerate() {
        let fits = match (option.kind.as_deref(), &option.value) {
            (None, _) if is_typed => return Err(format!("`configOptions[{at}].type` is missing")),
            (None | Some("id"), value) => value.is_string(),
            (Some("boolean"), value) => value.is_boolean(),
            // A type of a later version, which the agent may know.
            (Some(_), _) => true,
        };
        if !fits {
            return Err(format!(
                "`configOptions[{at}].value` is not of the given type"
            ));
        }
        let earlier = &given[..at];
        if earlier
            .iter()
            .any(|earlier| earlier.config_id == option.config_id)
        {
            return Err(format!("`configOptions[{at}].configId` is there twice"));
        }
    }
    Ok(())
}

/// The rules for `mcpServers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum McpServersRule {
    /// The member is required, as for new and load in the schema; `null` is fine.
    Required,
    /// The member may be absent, as for resume in the schema.
    Optional,
    /// The member may be absent, but each server needs a type: version 2, for an engine of version
    /// 1, to which the parameters are converted.
    Typed,
    /// The member may be absent, but each server needs a type: version 2, for an engine of version
    /// 2.
    Native,
}

/// The configuration of a new session, without its name.
pub(super) fn fresh(params: &str, servers: McpServersRule) -> Result<SessionConfig, Error> {
    config(String::new(), decode(params)?, params, servers)
}

/// The configuration of an existing session, with the name by which the client knows it.
pub(super) fn existing(params: &str, servers: McpServersRule) -> Result<SessionConfig, Error> {
    let decoded: Params = decode(params)?;
    let SessionParams { session_id } = decode(params)?;
    config(session_id, decoded, params, servers)
}

fn config(
    name: String,
    decoded: Params,
    params: &str,
    servers: McpServersRule,
) -> Result<SessionConfig, Error> {
    if servers == McpServersRule::Required && decoded.mcp_servers.is_none() {
        return Err(error::invalid_params("`mcpServers` is missing"));
    }
    let is_typed = matches!(servers, McpServersRule::Typed | McpServersRule::Native);
    check_options(&decoded.config_options, is_typed).map_err(error::invalid_params)?;
    let named = decoded.mcp_servers.unwrap_or_default();
    if is_typed && let Some(at) = named.iter().position(|server| server.transport.is_none()) {
        let problem = format!("`mcpServers[{at}].type` is missing");
        return Err(error::invalid_params(problem));
    }
    let workspace = workspace(&decoded.cwd, &decoded.additional_directories, &named)?;
    let params = match servers {
        McpServersRule::Typed => Secret(Arc::new(v2::workspace_params(params).into())),
        McpServersRule::Required | McpServersRule::Optional | McpServersRule::Native => {
            Secret::new(params)
        }
    };
    Ok(SessionConfig {
        name,
        workspace,
        params,
    })
}

fn some<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<McpServerParams>>, D::Error> {
    nullable(deserializer).map(Some)
}

/// An MCP server as a client describes it.
#[derive(Debug, Deserialize)]
struct McpServerParams {
    name: String,
    #[serde(rename = "type", default)]
    transport: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default, rename = "args")]
    _args: Option<Vec<Unread>>,
    #[serde(default)]
    env: Option<Vec<NameAndValue>>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: Option<Vec<NameAndValue>>,
}

impl Drop for McpServerParams {
    fn drop(&mut self) {
        self.url.zeroize();
    }
}

/// An environment variable or a header.
#[derive(Debug, Deserialize)]
struct NameAndValue {
    name: String,
    #[serde(rename = "value")]
    _value: Unread,
}

/// A string that may be a secret, so it is not copied.
#[derive(Debug)]
struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyString;
        impl Visitor<'_> for AnyString {
            type Value = Unread;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, _: &str) -> Result<Unread, E> {
                Ok(Unread)
            }
        }
        deserializer.deserialize_str(AnyString)
    }
}

/// Checks a workspace and removes everything that may be a secret. A server of an unknown type is no
/// reason to refuse a session: the engine reports it as failed, or the wrapped agent decides.
fn workspace(
    cwd: &str,
    additional_directories: &[String],
    servers: &[McpServerParams],
) -> Result<Workspace, Error> {
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
        .map(|(at, server)| mcp_server(at, server));
    Ok(Workspace {
        cwd: absolute("cwd", cwd)?,
        additional_directories: directories,
        mcp_servers: servers
            .collect::<Result<_, _>>()
            .map_err(error::invalid_params)?,
    })
}

/// A directory in its normal form.
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

fn mcp_server(at: usize, server: &McpServerParams) -> Result<McpServer, String> {
    let missing = |field: &str| format!("`mcpServers[{at}].{field}` is missing");
    let names = |list: &Option<Vec<NameAndValue>>| -> Vec<String> {
        list.iter()
            .flatten()
            .map(|named| named.name.clone())
            .collect()
    };
    let (transport, target, secrets) = match server.transport.as_deref() {
        None | Some("stdio") => {
            let command = server.command.as_ref().ok_or_else(|| missing("command"))?;
            ("stdio", command.clone(), names(&server.env))
        }
        Some(transport @ ("http" | "sse")) => {
            let url = server.url.as_ref().ok_or_else(|| missing("url"))?;
            (transport, without_secrets(url), names(&server.headers))
        }
        Some(other) => (
            McpServer::type_name(other),
            String::new(),
            names(&server.env),
        ),
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

    const FOLDER: &str = if cfg!(windows) { "C:\\w" } else { "/w" };

    #[test]
    fn no_secret_is_kept() {
        let json = r#"[
            {"name":"a","command":"/bin/mcp","args":["--key","SECRET"],"env":[{"name":"KEY","value":"SECRET"}]},
            {"name":"b","type":"http","url":"https://me:SECRET@h.example/mcp?key=SECRET#SECRET","headers":[{"name":"Authorization","value":"SECRET"}]}
        ]"#;
        let servers: Vec<McpServerParams> = serde_json::from_str(json).unwrap();
        let workspace = workspace(FOLDER, &[], &servers).unwrap();
        let kept = serde_json::to_string(&workspace).unwrap();
        assert!(!kept.contains("SECRET"), "{kept}");
        assert!(kept.contains("https://h.example/mcp") && kept.contains("Authorization"));
        assert!(kept.contains("/bin/mcp") && kept.contains("KEY"));
    }

    #[test]
    fn relative_folders_are_named() {
        for (cwd, more, field) in [
            ("w", FOLDER, "`cwd`"),
            ("", FOLDER, "`cwd`"),
            (FOLDER, "x", "`additionalDirectories[0]`"),
        ] {
            let error = workspace(cwd, &[more.to_owned()], &[]).unwrap_err();
            assert!(error.message().contains(field), "{}", error.message());
        }
        let normal = workspace(&format!("{FOLDER}/a/../b/"), &[], &[]).unwrap();
        assert_eq!(Path::new(&normal.cwd), Path::new(FOLDER).join("b"));
    }
}

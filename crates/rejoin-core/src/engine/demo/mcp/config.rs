//! Parses the MCP servers in a request that opens a session.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::json;
use crate::record::header::McpServer;

use super::secrets::McpSecrets;

/// The configuration of one server. Equal configurations are the same server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ServerConfig {
    /// The name that users call it by.
    pub(super) name: String,
    /// The transport.
    pub(super) endpoint: Endpoint,
}

/// The transport of a server.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A subprocess of ours.
    Process {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Additional environment variables.
        env: Vec<(String, String)>,
    },
    /// Streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// Additional headers of each request.
        headers: Vec<(String, String)>,
    },
    /// A transport that is not supported here.
    Unsupported(String),
}

impl ZeroizeOnDrop for Endpoint {}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Names are not secret.
        let values = match self {
            Self::Process { args, env, .. } => {
                args.zeroize();
                env
            }
            Self::Http { url, headers } => {
                url.zeroize();
                headers
            }
            Self::Unsupported(_) => return,
        };
        for (_, value) in values {
            value.zeroize();
        }
    }
}

/// A server as in the protocol.
#[derive(Deserialize)]
struct McpServerDescription {
    name: String,
    #[serde(rename = "type", default)]
    transport: Option<String>,
    #[serde(default)]
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<NamedValue>>,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: Option<Vec<NamedValue>>,
}

#[derive(Deserialize)]
struct NamedValue {
    name: String,
    value: String,
}

/// The servers in the parameters of a request that opens a session, in the client's order. The
/// parameters were validated before.
pub(super) fn servers(params: &str) -> Vec<ServerConfig> {
    let Some(list) = json::text_member(params, "mcpServers") else {
        return Vec::new();
    };
    let list: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
    list.into_iter().filter_map(config).collect()
}

fn config(described: Value) -> Option<ServerConfig> {
    let server: McpServerDescription = serde_json::from_value(described).ok()?;
    let pairs = |list: Option<Vec<NamedValue>>| {
        let list = list.unwrap_or_default().into_iter();
        list.map(|named| (named.name, named.value)).collect()
    };
    let endpoint = match server.transport.as_deref() {
        None | Some("stdio") => Endpoint::Process {
            command: server.command,
            args: server.args.unwrap_or_default(),
            env: pairs(server.env),
        },
        Some("http") => Endpoint::Http {
            url: server.url,
            headers: pairs(server.headers),
        },
        Some(other) => Endpoint::Unsupported(McpServer::type_name(other).to_owned()),
    };
    Some(ServerConfig {
        name: server.name,
        endpoint,
    })
}

impl ServerConfig {
    /// Everything in the configuration that may be a secret.
    pub(super) fn secrets(&self) -> McpSecrets {
        match &self.endpoint {
            Endpoint::Process { args, env, .. } => {
                let values = env.iter().map(|(_, value)| value.clone());
                // A secret is often only a part of an argument, as in `--key=SECRET`.
                let parts = args.iter().filter_map(|arg| arg.split_once('='));
                let parts = parts.map(|(_, value)| value.to_owned());
                McpSecrets::new(args.iter().cloned().chain(parts).chain(values))
            }
            Endpoint::Http { url, headers } => {
                let values = headers.iter().flat_map(|(_, value)| {
                    // `Bearer SECRET`
                    let last = value.split_whitespace().last().unwrap_or_default();
                    [value.clone(), last.to_owned()]
                });
                McpSecrets::new(parts_of(url).chain(values))
            }
            Endpoint::Unsupported(_) => McpSecrets::default(),
        }
    }
}

/// The parts of a URL that may be secret: the URL itself, user and password, and the query.
fn parts_of(url: &str) -> impl Iterator<Item = String> {
    let (place, query) = url.split_once(['?', '#']).unwrap_or((url, ""));
    let authority = place.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let login = authority.rsplit_once('@').map_or("", |(login, _)| login);
    let query = query.split(['&', '#']).flat_map(|part| {
        let value = part.split_once('=').map_or(part, |(_, value)| value);
        [part.to_owned(), value.to_owned()]
    });
    let login = login.split(':').map(str::to_owned).chain(sent(login));
    let whole = (place != url || !login.clone().all(|part| part.is_empty()))
        .then(|| url.to_owned())
        .into_iter();
    let parts: Vec<String> = whole.chain(login).chain(query).collect();
    parts.into_iter()
}

/// The credentials as an HTTP server receives them.
#[cfg(feature = "mcp-http")]
fn sent(login: &str) -> Option<String> {
    use base64::Engine;
    let encode = |login: &str| base64::engine::general_purpose::STANDARD.encode(login);
    (!login.is_empty()).then(|| encode(login))
}

#[cfg(not(feature = "mcp-http"))]
fn sent(_: &str) -> Option<String> {
    None
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_in_order() {
        let params = r#"{"cwd":"/w","mcpServers":[
            {"name":"a","command":"/bin/a","args":["x"],"env":[{"name":"K","value":"V"}]},
            {"name":"b","type":"http","url":"http://h/","headers":[]},
            {"name":"c","type":"sse","url":"http://h/","headers":[]},
            {"name":"d","type":"stdio","command":"d","args":[],"env":[]}]}"#;
        let servers = servers(params);
        let names: Vec<_> = servers.iter().map(|server| &*server.name).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(
            servers[0].endpoint
                == Endpoint::Process {
                    command: "/bin/a".to_owned(),
                    args: vec!["x".to_owned()],
                    env: vec![pair("K", "V")],
                }
        );
        assert!(matches!(&servers[1].endpoint, Endpoint::Http { url, .. } if url == "http://h/"));
        assert!(matches!(&servers[2].endpoint, Endpoint::Unsupported(kind) if kind == "sse"));
        assert!(matches!(servers[3].endpoint, Endpoint::Process { .. }));
        for none in ["{}", r#"{"mcpServers":null}"#, r#"{"mcpServers":[]}"#] {
            assert!(super::servers(none).is_empty());
        }
    }

    #[test]
    fn secrets_are_overwritten() {
        fn overwrites<T: ZeroizeOnDrop>(_: &T) {}
        let params = crate::engine::Secret::new("{}");
        overwrites(&*params.0);
        let server = &servers(
            r#"{"mcpServers":[{"name":"a","command":"a","args":["long enough"],"env":[]}]}"#,
        )[0];
        overwrites(&server.endpoint);
        overwrites(&server.secrets());
    }

    #[test]
    fn secrets_of_a_configuration_are_hidden() {
        let params = r#"{"mcpServers":[
            {"name":"a","command":"/bin/a","args":["--key=ARG_SECRET"],"env":[{"name":"K","value":"ENV_SECRET"}]},
            {"name":"b","type":"http","url":"https://me:URL_SECRET@h.example/mcp?key=ASKED_SECRET#FRAG_SECRET","headers":[{"name":"Authorization","value":"Bearer HEAD_SECRET"}]}]}"#;
        for server in servers(params) {
            let secrets = server.secrets();
            for text in [
                "ARG_SECRET",
                "ENV_SECRET",
                "URL_SECRET",
                "ASKED_SECRET",
                "FRAG_SECRET",
                "HEAD_SECRET",
            ] {
                let hidden = !secrets.hide(&format!("it is {text}!")).contains(text);
                assert_eq!(hidden, params_of(&server).contains(text), "{text}");
            }
            assert!(!format!("{server:?}").contains("SECRET"));
        }
    }

    fn params_of(server: &ServerConfig) -> String {
        match &server.endpoint {
            Endpoint::Process { args, env, .. } => format!("{args:?} {env:?}"),
            Endpoint::Http { url, headers } => format!("{url} {headers:?}"),
            Endpoint::Unsupported(_) => String::new(),
        }
    }
}

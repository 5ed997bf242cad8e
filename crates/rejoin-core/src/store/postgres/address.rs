//! The address of a store in PostgreSQL.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::store::medium::place;
use crate::sys::environment::variable;

use super::password::{self, PasswordCommand};
use super::tls::Tls;

/// The schema, unless the address names another one.
const SCHEMA: &str = "rejoin";
/// The variable that names a command which prints the password.
const PASSWORD_COMMAND: &str = "REJOIN_STORE_PASSWORD_COMMAND";
/// How long a statement may take, and waits for a database that cannot be reached, unless the address
/// says it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The variables with passwords.
const PASSWORDS: [&str; 2] = ["PGPASSWORD", "PGPASSFILE"];

/// Where a store is, and how to get there.
pub(in crate::store) struct Address {
    pub(super) config: Config,
    pub(super) schema: String,
    /// Without a password.
    pub(super) shown: String,
    /// The command that prints the password, if there is one.
    pub(super) password_command: Option<PasswordCommand>,
    /// How connections are encrypted, if they are.
    pub(super) tls: Option<Tls>,
    /// How long a statement may take, and waits for a database that cannot be reached.
    pub(super) patience: Duration,
    /// The servers, in the order in which they are tried.
    pub(super) servers: Vec<DatabaseServer>,
    /// Whether connections take no settings: a pooler may give them to others.
    pub(super) is_plain: AtomicBool,
    /// The variables of the environment that were used.
    used: Vec<&'static str>,
}

/// A server of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabaseServer {
    pub(super) host: Host,
    /// Where it is, if that is not looked up by its name.
    pub(super) at: Option<IpAddr>,
    pub(super) port: u16,
}

/// The value of a variable of the environment.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Address {
    /// Reads an address such as `postgres://user@host/database?schema=name`. What it does not say
    /// comes from the environment variables that other programs use for it.
    pub(in crate::store) fn parse(place: &Path) -> Result<Self, String> {
        Self::parse_in(place, &variable)
    }

    fn parse_in(place: &Path, environment: Environment<'_>) -> Result<Self, String> {
        let text = place.to_string_lossy();
        let (base, query) = text.split_once('?').unwrap_or((&text, ""));
        let mut schema = SCHEMA.to_owned();
        let (mut mode, mut authorities) = (None, None);
        let mut patience = PATIENCE;
        let mut password_command = environment(PASSWORD_COMMAND);
        let mut others = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("schema", name)) => name.clone_into(&mut schema),
                Some(("sslmode", name)) => mode = Some(name),
                Some(("sslrootcert", file)) => {
                    let file = percent_decode_str(file).decode_utf8_lossy();
                    authorities = Some(PathBuf::from(file.into_owned()));
                }
                Some(("patience", time)) => {
                    patience = humantime::parse_duration(time)
                        .map_err(|error| format!("the patience {time:?}: {error}"))?;
                }
                Some(("password_command", command)) => {
                    let command = percent_decode_str(command).decode_utf8_lossy();
                    password_command = Some(command.into_owned());
                }
                Some(("password", _)) => {
                    return Err("the password belongs into PGPASSWORD or a file".to_owned());
                }
                _ => others.push(part),
            }
        }
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || !schema.chars().all(is_plain) {
            return Err(format!(
                "the schema {schema:?} has other characters than a-z, 0-9 and _"
            ));
        }
        let mut used = EnvironmentUse::of(environment);
        let base = used.with_port(base)?;
        let address = if others.is_empty() {
            base
        } else {
            format!("{base}?{}", others.join("&"))
        };
        let mut config: Config = address
            .parse()
            .map_err(|error| crate::sys::with_causes(&error))?;
        used.complete(&mut config)?;
        let is_local = |host: &Host| match host {
            Host::Tcp(name) => {
                matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1" | "[::1]")
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        let is_local = config.get_hosts().iter().all(is_local);
        let tls = match mode {
            Some("disable") => None,
            None if is_local => None,
            None | Some("verify-full") => Some(Tls::new(authorities.as_deref())?),
            Some(other) => {
                return Err(format!(
                    "sslmode={other} does not check who answers: leave it out, and name the \
                     server's authority with sslrootcert=FILE if the system does not trust it"
                ));
            }
        };
        config.ssl_mode(match tls {
            Some(_) => SslMode::Require,
            None => SslMode::Disable,
        });
        config.application_name("rejoin");
        Ok(Self {
            servers: DatabaseServer::of(&config),
            config,
            schema,
            shown: place::shown(place),
            password_command: password_command.map(PasswordCommand),
            tls,
            patience,
            is_plain: AtomicBool::new(false),
            used: used.names,
        })
    }

    /// The variables of the environment that lead to the store: those that were used for it, and the
    /// passwords in any case.
    pub(in crate::store) fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.used.iter().copied().chain(PASSWORDS)
    }
}

/// Which variables of the environment were used.
struct EnvironmentUse<'a> {
    environment: Environment<'a>,
    names: Vec<&'static str>,
}

impl<'a> EnvironmentUse<'a> {
    fn of(environment: Environment<'a>) -> Self {
        Self {
            environment,
            names: Vec::new(),
        }
    }

    fn variable(&mut self, name: &'static str) -> Option<String> {
        let value = (self.environment)(name)?;
        self.names.push(name);
        Some(value)
    }

    fn port(&mut self) -> Result<Option<u16>, String> {
        let Some(port) = self.variable("PGPORT") else {
            return Ok(None);
        };
        let number = port.parse();
        let number = number.map_err(|_| format!("PGPORT={port}: the number of a port is needed"));
        number.map(Some)
    }

    /// Adds the port of the environment to the servers of an address that have none.
    fn with_port(&mut self, base: &str) -> Result<String, String> {
        let begin = base.find("://").map_or(0, |at| at + "://".len());
        let end = base[begin..].find('/').map_or(base.len(), |at| begin + at);
        let begin = base[begin..end]
            .rfind('@')
            .map_or(begin, |at| begin + at + 1);
        let servers = &base[begin..end];
        let has_port = |server: &str| match server.rsplit_once(']') {
            Some((_, rest)) => rest.starts_with(':'),
            None => server.contains(':'),
        };
        if servers.is_empty() || servers.split(',').all(has_port) {
            return Ok(base.to_owned());
        }
        let Some(port) = self.port()? else {
            return Ok(base.to_owned());
        };
        let complete = |server| {
            if has_port(server) {
                server.to_owned()
            } else {
                format!("{server}:{port}")
            }
        };
        let servers: Vec<_> = servers.split(',').map(complete).collect();
        let (before, behind) = (&base[..begin], &base[end..]);
        Ok(format!("{before}{}{behind}", servers.join(",")))
    }

    /// Adds what the environment says.
    fn complete(&mut self, config: &mut Config) -> Result<(), String> {
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host(
                self.variable("PGHOST")
                    .unwrap_or_else(|| "localhost".to_owned()),
            );
        }
        if config.get_ports().is_empty()
            && let Some(port) = self.port()?
        {
            config.port(port);
        }
        if config.get_user().is_none() {
            let user = self.variable("PGUSER");
            let user = user.or_else(|| (self.environment)("USER"));
            config.user(user.unwrap_or_else(|| "postgres".to_owned()));
        }
        if config.get_dbname().is_none()
            && let Some(name) = self.variable("PGDATABASE")
        {
            config.dbname(name);
        }
        if config.get_password().is_none()
            && let Some(password) = (self.environment)("PGPASSWORD")
                .or_else(|| password::in_file(config, (self.environment)("PGPASSFILE")))
        {
            config.password(password);
        }
        Ok(())
    }
}

impl DatabaseServer {
    /// The servers of an address, in their order.
    fn of(config: &Config) -> Vec<Self> {
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let ports = config.get_ports();
        let server = |n: usize| {
            let at = addresses.get(n).copied();
            let host = hosts.get(n).cloned();
            Some(Self {
                host: host.or_else(|| Some(Host::Tcp(at?.to_string())))?,
                at,
                port: ports.get(n).or(ports.first()).copied().unwrap_or(5432),
            })
        };
        (0..hosts.len().max(addresses.len()))
            .filter_map(server)
            .collect()
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        match &self.host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", self.port),
            Host::Tcp(name) => format!("{name}:{}", self.port),
            #[cfg(unix)]
            Host::Unix(folder) => self.socket(folder).display().to_string(),
        }
    }

    #[cfg(unix)]
    pub(super) fn socket(&self, folder: &std::path::Path) -> std::path::PathBuf {
        folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// The name that its certificate must have.
    pub(super) fn certified(&self) -> &str {
        match &self.host {
            Host::Tcp(name) => name,
            #[cfg(unix)]
            Host::Unix(_) => "",
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_completes_an_address() {
        let variables = [
            ("PGHOST", "h"),
            ("PGPORT", "7"),
            ("PGUSER", "u"),
            ("PGDATABASE", "d"),
            ("PGPASSWORD", "p"),
        ];
        let environment = |name: &str| {
            let mut known = variables.iter();
            let (_, value) = known.find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        for (address, servers, used) in [
            ("postgres://u@a/d", "a:7", &["PGPORT"][..]),
            ("postgres://u:x@a:1/d", "a:1", &[]),
            ("postgres://u@a:1,b,[::1]/d", "a:1 b:7 [::1]:7", &["PGPORT"]),
            ("postgres://u@a/d?hostaddr=10.0.0.1", "a:7", &["PGPORT"]),
            (
                "postgres://",
                "h:7",
                &["PGHOST", "PGPORT", "PGUSER", "PGDATABASE"],
            ),
            ("postgres:///d", "h:7", &["PGHOST", "PGPORT", "PGUSER"]),
        ] {
            let place = format!(
                "{address}{}sslmode=disable",
                if address.contains('?') { '&' } else { '?' }
            );
            let address = Address::parse_in(Path::new(&place), &environment).unwrap();
            let names: Vec<_> = address.servers.iter().map(DatabaseServer::name).collect();
            assert_eq!(names.join(" "), servers, "{place}");
            assert_eq!(address.used, used, "{place}");
            let variables: Vec<_> = address.variables().collect();
            assert!(variables.ends_with(&PASSWORDS), "{variables:?}");
        }
    }

    #[test]
    fn an_error_names_the_variable() {
        for address in ["postgres://u@a/d", "postgres://"] {
            let environment = |name: &str| (name == "PGPORT").then(|| "abc".to_owned());
            let place = format!("{address}?sslmode=disable");
            let error = Address::parse_in(Path::new(&place), &environment).unwrap_err();
            assert!(error.contains("PGPORT=abc"), "{error}");
        }
    }

    #[test]
    fn an_address_names_its_schema() {
        let address = Address::parse(Path::new("postgres://u@localhost/d?schema=team_1")).unwrap();
        assert_eq!(address.schema, "team_1");
        assert!(address.tls.is_none());
        let address = "postgres://u@db.example.org/d?patience=3s&sslmode=disable";
        let address = Address::parse(Path::new(address)).unwrap();
        assert!(address.tls.is_none());
        assert_eq!(address.patience, Duration::from_secs(3));
        for wrong in [
            "postgres://u@localhost/d?schema=a\"b",
            "postgres://u@localhost/d?password=x",
            "postgres://u@localhost/d?nonsense=1",
            "postgres://u@db.example.org/d?sslmode=require",
            "postgres://u@db.example.org/d?sslrootcert=%2Fno%2Fsuch%2Ffile",
            "postgres://u@localhost/d?patience=long",
        ] {
            assert!(Address::parse(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}

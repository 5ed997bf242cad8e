//! The address of a store in PostgreSQL.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::store::medium::place;
use crate::sys::environment::variable;

use super::password::{self, PasswordCommand};
use super::tls::Tls;

/// The schema, unless the address names another one.
const SCHEMA: &str = "rejoin";
/// The variable that names a command which prints the password.
const PASSWORD_COMMAND: &str = "REJOIN_STORE_PASSWORD_COMMAND";
/// How long statements wait for a database that cannot be reached, unless the address says it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// When a silent connection is probed, and how often.
const PROBE: Duration = Duration::from_secs(5);

/// Where a store is, and how to get there.
pub(in crate::store) struct Address {
    pub(super) config: Config,
    pub(super) schema: String,
    /// Without a password.
    pub(super) shown: String,
    /// What prints the password, if something does.
    pub(super) password_command: Option<PasswordCommand>,
    /// How connections are encrypted, if they are.
    pub(super) tls: Option<Tls>,
    /// How long statements wait for a database that cannot be reached.
    pub(super) patience: Duration,
}

impl Address {
    /// Reads an address such as `postgres://user@host/database?schema=name`. What it does not say
    /// comes from the environment variables that other programs use for it.
    pub(super) fn parse(place: &Path) -> Result<Self, String> {
        let text = place.to_string_lossy();
        let (base, query) = text.split_once('?').unwrap_or((&text, ""));
        let mut schema = SCHEMA.to_owned();
        let (mut mode, mut authorities) = (None, None);
        let mut patience = PATIENCE;
        let mut password_command = variable(PASSWORD_COMMAND);
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
        let address = if others.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", others.join("&"))
        };
        let mut config: Config = address
            .parse()
            .map_err(|error| crate::sys::with_causes(&error))?;
        complete(&mut config);
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
        if config.get_hosts().len() > 1 {
            // The others only follow it.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config.ssl_mode(match tls {
            Some(_) => SslMode::Require,
            None => SslMode::Disable,
        });
        config
            .application_name("rejoin")
            .connect_timeout(CONNECT)
            .tcp_user_timeout(2 * PROBE)
            .keepalives_idle(PROBE)
            .keepalives_interval(PROBE);
        Ok(Self {
            config,
            schema,
            shown: place::shown(place),
            password_command: password_command.map(PasswordCommand),
            tls,
            patience,
        })
    }
}

/// Adds what the environment says.
fn complete(config: &mut Config) {
    if config.get_hosts().is_empty() {
        config.host(variable("PGHOST").unwrap_or_else(|| "localhost".to_owned()));
    }
    if config.get_ports().is_empty()
        && let Some(port) = variable("PGPORT").and_then(|port| port.parse().ok())
    {
        config.port(port);
    }
    if config.get_user().is_none() {
        let user = variable("PGUSER").or_else(|| variable("USER"));
        config.user(user.unwrap_or_else(|| "postgres".to_owned()));
    }
    if config.get_dbname().is_none()
        && let Some(name) = variable("PGDATABASE")
    {
        config.dbname(name);
    }
    if config.get_password().is_none()
        && let Some(password) = variable("PGPASSWORD").or_else(|| password::in_file(config))
    {
        config.password(password);
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

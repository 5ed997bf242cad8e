//! The address of a store in PostgreSQL.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::store::medium::place;
use crate::sys::environment::variable;

/// The schema, unless the address names another one.
const SCHEMA: &str = "rejoin";
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
}

impl Address {
    /// Reads an address such as `postgres://user@host/database?schema=name`. What it does not say
    /// comes from the environment variables that other programs use for it.
    pub(super) fn parse(place: &Path) -> Result<Self, String> {
        let text = place.to_string_lossy();
        let (base, query) = text.split_once('?').unwrap_or((&text, ""));
        let mut schema = SCHEMA.to_owned();
        let mut ours = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("schema", name)) => name.clone_into(&mut schema),
                Some(("password", _)) => {
                    return Err("the password belongs into PGPASSWORD or a file".to_owned());
                }
                _ => ours.push(part),
            }
        }
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || !schema.chars().all(is_plain) {
            return Err(format!(
                "the schema {schema:?} has other characters than a-z, 0-9 and _"
            ));
        }
        let address = if ours.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", ours.join("&"))
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
        if !config.get_hosts().iter().all(is_local) {
            return Err(
                "only servers on this machine can be reached yet: there is no TLS".to_owned(),
            );
        }
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
        && let Some(password) = variable("PGPASSWORD").or_else(|| password_in_file(config))
    {
        config.password(password);
    }
}

/// The password in the file of passwords, lines of `host:port:database:user:password`.
fn password_in_file(config: &Config) -> Option<String> {
    let file = variable("PGPASSFILE").map(std::path::PathBuf::from);
    let file = file.or_else(|| Some(std::env::home_dir()?.join(".pgpass")))?;
    let text = std::fs::read_to_string(file).ok()?;
    let host = match config.get_hosts().first()? {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or_default();
    let wanted = [
        &host,
        &port.to_string(),
        config.get_dbname().unwrap_or(user),
        user,
    ];
    text.lines().find_map(|line| password_of(line, wanted))
}

/// The password of a line, if the line is about this host, port, database and user.
fn password_of(line: &str, wanted: [&str; 4]) -> Option<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut()?.extend(characters.next()),
            c => fields.last_mut()?.push(c),
        }
    }
    let (password, fields) = fields.split_last()?;
    let fits = |(field, wanted): (&String, &str)| field == "*" || field == wanted;
    let is_it = fields.len() == 4 && fields.iter().zip(wanted).all(fits);
    is_it.then(|| password.clone())
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
    fn a_password_is_found_by_all_four() {
        let wanted = ["h", "5432", "d", "u"];
        for (line, found) in [
            ("h:5432:d:u:se:cret", Some("se:cret")),
            ("*:*:*:*:s\\:x\\\\", Some("s:x\\")),
            ("h:5433:d:u:no", None),
            ("# comment", None),
        ] {
            assert_eq!(password_of(line, wanted).as_deref(), found, "{line}");
        }
    }

    #[test]
    fn an_address_names_its_schema() {
        let address = Address::parse(Path::new("postgres://u@localhost/d?schema=team_1")).unwrap();
        assert_eq!(address.schema, "team_1");
        for wrong in [
            "postgres://u@localhost/d?schema=a\"b",
            "postgres://u@localhost/d?password=x",
            "postgres://u@localhost/d?nonsense=1",
        ] {
            assert!(Address::parse(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}

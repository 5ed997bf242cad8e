//! The options that every subcommand has.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};

use super::programs::quoted;

/// The environment variable for `--store`.
const STORE: &str = "REJOIN_STORE";
/// What is logged by default.
const LOG_LEVEL: &str = "warn";

/// Options of every subcommand.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// Folder in which sessions are stored, or the address of a store in PostgreSQL. By default
    /// rejoin's own in the user's data, such as ~/.local/share/rejoin; `rejoin doctor` shows it.
    // A variable of the environment may be set but empty, which counts as not set.
    #[arg(long, global = true, env = STORE, value_name = "PLACE", value_parser = path())]
    store: Option<PathBuf>,
    /// Command that prints the password of the store's database, for each connection.
    #[arg(
        long,
        global = true,
        env = "REJOIN_STORE_PASSWORD_COMMAND",
        value_name = "COMMAND"
    )]
    store_password_command: Option<String>,
    /// What to log: `off`, `error`, `warn`, `info`, `debug`, `trace`, or filters such as `rejoin=debug`.
    #[arg(
        long,
        global = true,
        env = "REJOIN_LOG",
        value_name = "LEVEL",
        default_value = LOG_LEVEL
    )]
    log_level: String,
    /// Append log lines to this file instead of writing them to stderr.
    #[arg(long, global = true, env = "REJOIN_LOG_FILE", value_name = "FILE", value_parser = path())]
    log_file: Option<PathBuf>,
    /// Start-up stage of the background host. Rejoin itself sets it.
    #[arg(long, global = true, hide = true)]
    host: Option<Stage>,
}

/// Stage of the start of a host, and the number of the host among those of its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The process leaves the client's session and starts the host.
    Detach(u8),
    /// The process is the host.
    Serve(u8),
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (stage, number) = text.split_once('-').unwrap_or((text, "1"));
        let number = number.parse().map_err(|_| "expected a number".to_owned())?;
        match stage {
            "detach" => Ok(Self::Detach(number)),
            "serve" => Ok(Self::Serve(number)),
            _ => Err("expected `detach` or `serve`".to_owned()),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Detach(number) => write!(f, "detach-{number}"),
            Self::Serve(number) => write!(f, "serve-{number}"),
        }
    }
}

impl Stage {
    /// The number of the host among those of its command line.
    pub(super) fn number(self) -> u8 {
        let (Self::Detach(number) | Self::Serve(number)) = self;
        number
    }
}

/// Accepts an empty path, too.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|path: OsString| PathBuf::from(path))
}

impl Global {
    /// The store that was given on the command line or in the environment.
    pub(super) fn store(&self) -> Option<&Path> {
        given(self.store.as_ref())
    }

    /// The command that prints the password of the store's database.
    pub(super) fn store_password_command(&self) -> Option<&str> {
        let command = self.store_password_command.as_deref();
        command.filter(|command| !command.is_empty())
    }

    /// The filter for log lines.
    pub(super) fn log_level(&self) -> &str {
        match self.log_level.as_str() {
            "" => LOG_LEVEL,
            level => level,
        }
    }

    /// Where to log to, if not to stderr.
    pub(super) fn log_file(&self) -> Option<&Path> {
        given(self.log_file.as_ref())
    }

    /// Start-up stage of the background host, if this process is to be one.
    pub(super) fn host(&self) -> Option<Stage> {
        self.host
    }

    /// Whether the command line names a store; the environment may do so for all commands.
    pub(super) fn names_store(&self) -> bool {
        let store = self.store().map(Path::as_os_str);
        store.is_some() && std::env::var_os(STORE).as_deref() != store
    }

    /// Whether the command line has `--store` with nothing behind it, as a script does whose variable
    /// is not set. In the environment, this counts as not set.
    pub(super) fn names_no_store(&self) -> bool {
        let is_empty = self
            .store
            .as_ref()
            .is_some_and(|store| store.as_os_str().is_empty());
        is_empty && std::env::var_os(STORE).is_none_or(|store| !store.is_empty())
    }

    /// Adds the store to each rejoin command that a message suggests and that names none, so that it
    /// finds the same sessions.
    pub(super) fn with_store(&self, text: &str) -> String {
        let command = self.command();
        let complete = |(place, part): (usize, &str)| match part.strip_prefix("rejoin ") {
            Some(rest) if place % 2 == 1 && !rest.contains("--store") => {
                format!("{command} {rest}")
            }
            _ => part.to_owned(),
        };
        let parts = text.split('`').enumerate().map(complete);
        parts.collect::<Vec<_>>().join("`")
    }

    fn command(&self) -> String {
        let Some(store) = self.store().filter(|_| self.names_store()) else {
            return "rejoin".to_owned();
        };
        format!("rejoin --store {}", quoted(&store.to_string_lossy()))
    }
}

fn given(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path)
        .filter(|path| !path.as_os_str().is_empty())
}

//! The options that every subcommand has.

use std::path::PathBuf;

/// Options of every subcommand.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Global {
    /// Folder in which sessions are kept.
    #[arg(long, global = true, env = "REJOIN_STORE", value_name = "DIR")]
    pub(super) store: Option<PathBuf>,
    /// What to log: `error`, `warn`, `info`, `debug`, `trace`, or filters such as `rejoin=debug`.
    #[arg(
        long,
        global = true,
        env = "REJOIN_LOG",
        value_name = "LEVEL",
        default_value = "warn"
    )]
    pub(super) log_level: String,
    /// Append the log to this file instead of writing it to stderr.
    #[arg(long, global = true, env = "REJOIN_LOG_FILE", value_name = "FILE")]
    pub(super) log_file: Option<PathBuf>,
}

impl Global {
    /// Whether the command line names a store; the environment may do so for all commands.
    pub(super) fn names_store(&self) -> bool {
        let store = self.store.as_ref().map(|store| store.as_os_str());
        store.is_some() && std::env::var_os("REJOIN_STORE").as_deref() != store
    }
}

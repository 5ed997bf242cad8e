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

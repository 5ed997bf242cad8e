//! Where log lines go: stderr or a file, never stdout.

use std::fs::OpenOptions;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use super::Global;
use super::exit::Failure;

/// Starts logging as the command line asks for.
#[expect(
    clippy::disallowed_methods,
    reason = "the log file is the user's, not the store's"
)]
pub(super) fn start(global: &Global) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&global.log_level).map_err(|error| {
        Failure::usage(format!("cannot read the log level: {error}"))
            .hint("use error, warn, info, debug or trace")
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false);
    match &global.log_file {
        None => builder.with_writer(std::io::stderr).init(),
        Some(path) => {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| {
                    Failure::new(format!(
                        "cannot open the log file {}: {error}",
                        path.display()
                    ))
                })?;
            builder.with_writer(Mutex::new(file)).init();
        }
    }
    Ok(())
}

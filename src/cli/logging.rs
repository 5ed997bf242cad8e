//! Where log lines go: stderr or a file, never stdout.

use std::fs::OpenOptions;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use super::exit::Failure;
use super::global::Global;

/// Starts logging as the command line asks for.
#[expect(
    clippy::disallowed_methods,
    reason = "the log file is the user's, not the store's"
)]
pub(super) fn start(global: &Global) -> Result<(), Failure> {
    // The SDK warns of each error that we answer, which is the client's business and not news.
    let quiet = ["error", "warn", "info"].contains(&global.log_level.as_str());
    let sdk = if quiet {
        ",agent_client_protocol=error"
    } else {
        ""
    };
    // These log whole messages and addresses, which may hold secrets, at any level.
    let silent = "rmcp=off,reqwest=off";
    let filter = format!("{}{sdk},{silent}", global.log_level);
    // A single word that is no level would be taken for the name of a module.
    let is_word = !global.log_level.contains(['=', ',', ':', '[']);
    if is_word && global.log_level.parse::<LevelFilter>().is_err() {
        let given = &global.log_level;
        return Err(Failure::usage(format!("there is no log level {given:?}"))
            .hint("use off, error, warn, info, debug or trace"));
    }
    let filter = EnvFilter::try_new(filter).map_err(|error| {
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

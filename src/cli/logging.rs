//! Where log lines go: stderr or a file, never stdout.

use std::fs::OpenOptions;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use crate::engine::agent::FOR_PEOPLE;

use super::exit::Failure;
use super::global::Global;

/// Starts logging as the command line asks for.
#[expect(
    clippy::disallowed_methods,
    reason = "the log file is the user's, not the store's"
)]
pub(super) fn start(global: &Global) -> Result<(), Failure> {
    let level = global.log_level();
    // A single word that is not a level would be parsed as the name of a module.
    let is_word = !level.contains(['=', ',', ':', '[']);
    if is_word && level.parse::<LevelFilter>().is_err() {
        return Err(Failure::usage(format!("there is no log level {level:?}"))
            .hint("use off, error, warn, info, debug or trace"));
    }
    let filter = EnvFilter::try_new(filter(level)).map_err(|error| {
        Failure::usage(format!("cannot read the log level: {error}"))
            .hint("use error, warn, info, debug or trace")
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false);
    match global.log_file() {
        None => builder.with_writer(std::io::stderr).init(),
        Some(path) => {
            let mut options = OpenOptions::new();
            options.create(true).append(true);
            // The log may contain parts of sessions. An existing file keeps its mode.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(path).map_err(|error| {
                Failure::new(format!(
                    "cannot open the log file {}: {error}",
                    path.display()
                ))
            })?;
            let people = std::io::stderr.with_filter(|line| line.target() == FOR_PEOPLE);
            builder.with_writer(Mutex::new(file).and(people)).init();
        }
    }
    Ok(())
}

/// The filter for what the user asks for. A level applies to our own lines only. Those of libraries
/// are about their internals, and appear only if they are named.
fn filter(wanted: &str) -> String {
    let mut filter = Vec::new();
    for part in wanted.split(',') {
        match part.trim().parse::<LevelFilter>() {
            Ok(level) => {
                let others = level.min(LevelFilter::WARN);
                filter.push(format!("{others},rejoin={level}"));
            }
            Err(_) => filter.push(part.to_owned()),
        }
    }
    // These log whole messages and addresses, which may hold secrets, at any level.
    filter.push("rmcp=off,reqwest=off".to_owned());
    filter.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_about_our_own_lines() {
        for (wanted, expected) in [
            ("debug", "warn,rejoin=debug"),
            ("warn", "warn,rejoin=warn"),
            ("off", "off,rejoin=off"),
            ("info,rusqlite=trace", "warn,rejoin=info,rusqlite=trace"),
            ("rejoin::session=debug", "rejoin::session=debug"),
        ] {
            let filter = filter(wanted);
            assert_eq!(filter, format!("{expected},rmcp=off,reqwest=off"));
            assert!(EnvFilter::try_new(filter).is_ok());
        }
    }
}

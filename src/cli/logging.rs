//! Where log lines go: stderr or a file, never stdout.

#[cfg(unix)]
use std::fs::File;
use std::fs::OpenOptions;
#[cfg(unix)]
use std::io::{self, Write};
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use crate::engine::agent::FOR_PEOPLE;

use super::exit::Failure;
use super::global::Global;
#[cfg(unix)]
use super::keep::Stage;

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
        #[cfg(unix)]
        None if global.host() == Some(Stage::Serve) => {
            let log = Bounded::stderr().map_err(Failure::cannot_start)?;
            builder.with_writer(Mutex::new(log)).init();
        }
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

/// The file that is the stderr of a process without a terminal. It begins anew when it gets long.
#[cfg(unix)]
#[derive(Debug)]
struct Bounded {
    file: File,
    len: u64,
}

/// How long it may get, in bytes.
#[cfg(unix)]
const LONGEST: u64 = 1024 * 1024;

#[cfg(unix)]
impl Bounded {
    fn stderr() -> io::Result<Self> {
        let stderr = std::os::fd::AsFd::as_fd(&io::stderr()).try_clone_to_owned();
        let file = File::from(stderr?);
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

#[cfg(unix)]
impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.len > LONGEST {
            // It is opened for appending, so what follows begins the file.
            self.file.set_len(0)?;
            self.len = 0;
        }
        let written = self.file.write(bytes)?;
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
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

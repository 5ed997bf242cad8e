//! Where log lines and messages go: stderr or a file, never stdout.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use rejoin::engine::agent::FOR_PEOPLE;

use super::exit::Failure;
use super::global::Global;
#[cfg(unix)]
use super::global::Stage;
use super::log_lines::LogLines;

/// Where messages and log lines go from the start of logging on.
static TARGETS: OnceLock<LogTargets> = OnceLock::new();

/// How long a process that ends waits for a reader of its last lines that does not read.
const AT_THE_END: Duration = Duration::from_secs(2);

/// How long a panic waits until its message is written: what follows may abort the process.
const PANIC: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct LogTargets {
    stderr: LogLines,
    /// The file of log lines, if they do not go to stderr.
    file: Option<LogLines>,
}

/// Starts logging as the command line asks for. In a process that `serves`, nothing waits for a
/// reader of the log.
pub(super) fn start(global: &Global, serves: bool) -> Result<(), Failure> {
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
    let file = global.log_file().map(|path| {
        let file = open(path);
        let what = |error| format!("cannot open the log file {}: {error}", path.display());
        file.map_err(|error| Failure::new(what(error)))
    });
    let file = file.transpose()?;
    let file = file.map(|file| {
        if serves {
            LogLines::queued(file)
        } else {
            LogLines::at_once(file)
        }
    });
    let stderr = match global.host() {
        #[cfg(unix)]
        Some(Stage::Serve(_)) => LogLines::queued(HostLog::stderr()),
        _ if serves => LogLines::queued(stderr()),
        _ => LogLines::at_once(stderr()),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Such errors would be printed to stderr, with a panic if that fails.
        .log_internal_errors(false)
        .with_ansi(false);
    match file.clone() {
        None => builder.with_writer(stderr.clone()).init(),
        Some(file) => {
            let people = stderr.clone();
            let people = people.with_filter(|line| line.target() == FOR_PEOPLE);
            builder.with_writer(file.and(people)).init();
        }
    }
    TARGETS.set(LogTargets { stderr, file }).ok();
    panic::set_hook(Box::new(report_panic));
    Ok(())
}

/// Standard error, for what is said to people. What cannot be written is lost.
#[derive(Debug)]
pub(super) struct StandardError;

impl StandardError {
    /// Writes a text, with its line breaks.
    pub(super) fn say(text: impl AsRef<[u8]>) {
        match TARGETS.get() {
            Some(targets) => targets.stderr.put(text.as_ref()),
            // The command line could not be read.
            None => LogLines::at_once(stderr()).put(text.as_ref()),
        }
    }

    /// Whether stderr is a terminal.
    pub(super) fn is_terminal() -> bool {
        stderr().is_terminal()
    }
}

impl Write for StandardError {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        Self::say(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until everything is written that was said and logged, but not long for a reader that does
/// not read.
pub(super) fn finish() {
    flush(AT_THE_END);
}

fn flush(patience: Duration) {
    if let Some(LogTargets { stderr, file }) = TARGETS.get() {
        stderr.flush(patience);
        if let Some(file) = file {
            file.flush(patience);
        }
    }
}

/// Reports a panic wherever log lines go, and on stderr.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let backtrace = std::backtrace::Backtrace::capture();
    let text = match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => {
            format!("thread '{name}' {panic}\nstack backtrace:\n{backtrace}\n")
        }
        _ => format!("thread '{name}' {panic}\n"),
    };
    if let Some(LogTargets { stderr, file }) = TARGETS.get() {
        stderr.put(text.as_bytes());
        if let Some(file) = file {
            file.put(text.as_bytes());
        }
        flush(PANIC);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the log file is the user's, not the store's"
)]
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    // The log may contain parts of sessions. An existing file keeps its mode.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is written to stderr goes through here"
)]
fn stderr() -> io::Stderr {
    io::stderr()
}

/// The file that is the stderr of a process without a terminal. It begins anew when it gets long.
#[cfg(unix)]
#[derive(Debug)]
struct HostLog {
    file: io::Stderr,
    len: u64,
}

/// The longest log of a host, in bytes.
#[cfg(unix)]
const LONGEST: u64 = 1024 * 1024;

#[cfg(unix)]
impl HostLog {
    fn stderr() -> Self {
        let file = stderr();
        let len =
            rustix::fs::fstat(&file).map_or(0, |info| u64::try_from(info.st_size).unwrap_or(0));
        Self { file, len }
    }
}

#[cfg(unix)]
impl Write for HostLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.len > LONGEST {
            // The file is opened for appending, so what follows begins the file.
            rustix::fs::ftruncate(&self.file, 0)?;
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
    // A library that logs whole messages and addresses, which may hold secrets, at any level.
    filter.push("reqwest=off".to_owned());
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
            assert_eq!(filter, format!("{expected},reqwest=off"));
            assert!(EnvFilter::try_new(filter).is_ok());
        }
    }
}

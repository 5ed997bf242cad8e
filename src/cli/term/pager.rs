//! The user's pager: another program that shows text page by page.

use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::exit::Failure;

use super::foreground::{Foreground, ForegroundEnd};
use super::style::Look;

/// The default pager: it ends by itself if all fits, shows colours, and leaves the text on the
/// screen.
const DEFAULT: &str = "less -FRX";
/// The default pager if it is to stay until the user leaves it.
const STAYING: &str = "less -R";
/// The characters that only a shell understands.
const SHELL: &str = "|&;<>()$`\\\"'*?[#~=%";
/// The exit codes of a program that failed, or is not there.
const FAILED: RangeInclusive<i32> = 1..=127;

/// A pager that runs.
pub(in crate::cli) struct Pager(Foreground);

impl Pager {
    /// Starts the pager, if output goes to a terminal and the user wants one that can be started.
    /// What is written to the second result is shown.
    pub(in crate::cli) fn start(look: &Look, stays: bool) -> Option<(Self, Box<dyn Write + Send>)> {
        let default = if stays { STAYING } else { DEFAULT };
        let pager = named().unwrap_or_else(|| default.to_owned());
        let mut command = command(&pager).filter(|_| look.terminal)?;
        let options = if stays { "R" } else { "FRX" };
        for (name, value) in [("LESS", options), ("LESSCHARSET", "utf-8"), ("LV", "-c")] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        if stays && is_less(&pager) {
            // The options on its command line count for more than those of the variable.
            command.arg("-+F");
        }
        Self::of(command)
    }

    /// Starts a program that shows what it is given. What is written to the second result is shown.
    pub(in crate::cli) fn of(mut command: Command) -> Option<(Self, Box<dyn Write + Send>)> {
        let mut program = Foreground::start(command.stdin(Stdio::piped())).ok()?;
        let stdin = program.stdin()?;
        Some((Self(program), Box::new(BufWriter::new(stdin))))
    }

    /// Waits until the user leaves it. False if it failed, and may have shown nothing. A failure without a
    /// message if a signal has asked this process to end, which has ended the pager.
    pub(in crate::cli) fn wait(self) -> Result<bool, Failure> {
        match self.0.wait() {
            Ok(ForegroundEnd::Signalled(code)) => Err(Failure::with_code(code, "")),
            Ok(ForegroundEnd::Ended(status)) => {
                let code = status.code();
                Ok(code.is_none_or(|code| !FAILED.contains(&code)))
            }
            Err(_) => Ok(false),
        }
    }
}

/// The pager that the user has named.
fn named() -> Option<String> {
    std::env::var_os("PAGER").map(|pager| pager.to_string_lossy().into_owned())
}

/// Whether the pager does not end by itself. Of others than `less` that is not known.
pub(in crate::cli) fn pager_stays() -> bool {
    named().is_none_or(|pager| is_less(&pager))
}

/// Whether this is the command of `less`, which takes further options.
fn is_less(pager: &str) -> bool {
    let program = pager.split_whitespace().next().map(Path::new);
    let program = program.and_then(|path| path.file_name());
    program.is_some_and(|name| name == "less") && !pager.contains(|c| SHELL.contains(c))
}

/// The command of a pager; none for one that only copies.
fn command(pager: &str) -> Option<Command> {
    let mut words = pager.split_whitespace();
    let program = words.next().filter(|_| pager.trim() != "cat")?;
    if cfg!(unix) && pager.contains(|c| SHELL.contains(c)) {
        let mut command = Command::new("sh");
        command.arg("-c").arg(pager);
        return Some(command);
    }
    let mut command = Command::new(program);
    command.args(words);
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pager: &str) -> Option<Vec<String>> {
        let command = command(pager)?;
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Some(
            words
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
        )
    }

    #[test]
    fn a_pager_is_a_command() {
        let some = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(words(""), None);
        assert_eq!(words(" cat "), None);
        assert_eq!(words("less -FRX"), some(&["less", "-FRX"]));
        if cfg!(unix) {
            let quoted = "less '-P my prompt'";
            assert_eq!(words(quoted), some(&["sh", "-c", quoted]));
        }
    }
}

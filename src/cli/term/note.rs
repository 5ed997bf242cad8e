//! Messages for users, on stderr.

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::logging::StandardError;

use super::printable::printable;
use super::style::Look;
use super::width::hanging;

/// The beginnings of messages and of hints, which are equally wide.
const NAME: &str = "rejoin: ";
const HINT: &str = "  hint: ";

/// Prints a message, and what to do about it.
pub(in crate::cli) fn note(global: &Global, text: &str, hint: Option<&str>) {
    let look = Look::messages();
    print(NAME, &printable(text), &look);
    if let Some(hint) = hint {
        print(HINT, &printable(&global.with_store(hint)), &look);
    }
}

/// Prints a failure, unless that was done before.
pub(in crate::cli) fn report(global: &Global, failure: &Failure) {
    if !failure.message().is_empty() {
        note(global, failure.message(), failure.next());
    }
}

/// Reports the failures among results. Returns the others, and how a command with such a failure ends.
pub(in crate::cli) fn successes<T>(
    global: &Global,
    results: Vec<Result<T, Failure>>,
) -> (Vec<T>, Result<(), Failure>) {
    let (mut successes, mut end) = (Vec::with_capacity(results.len()), Ok(()));
    for result in results {
        match result {
            Ok(success) => successes.push(success),
            Err(failure) => {
                report(global, &failure);
                end = Err(Failure::reported());
            }
        }
    }
    (successes, end)
}

/// Prints a text behind its beginning. In a terminal its lines are broken between words.
fn print(beginning: &str, text: &str, look: &Look) {
    let text = format!("{beginning}{text}");
    if !look.terminal {
        return StandardError::say(text + "\n");
    }
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let spaces = line.len() - line.trim_start().len();
        let indent = if number == 0 { beginning.len() } else { spaces };
        lines.extend(hanging(line, indent, look.width));
    }
    StandardError::say(lines.join("\n") + "\n");
}

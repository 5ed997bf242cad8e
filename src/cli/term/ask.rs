//! Questions to the user and progress messages: on stderr, so that stdout has only what was
//! requested.
#![expect(
    clippy::disallowed_methods,
    reason = "asks what stdin is and reads answers, while no client is served"
)]

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::exit::Failure;
use crate::cli::logging::StandardError;

use super::printable::printable;
use super::style::Look;
use super::width::hanging;

/// Work that takes less time shows no message.
const QUIET_FOR: Duration = Duration::from_secs(1);
/// How often a message about running work changes.
const STEP: Duration = Duration::from_millis(200);
/// Moves to the first column and clears the line.
const CLEAR: &str = "\r\u{1b}[K";

/// Whether stdin is a terminal.
pub(in crate::cli) fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Asks before something that cannot be undone, unless `yes` confirms it already. Any answer but
/// yes is a no, and without a terminal nothing may be done.
pub(in crate::cli) fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !stdin_is_terminal() {
        let why = "this cannot be undone and needs a confirmation, but stdin is not a terminal";
        return Err(Failure::usage(why).hint("add `--yes` to confirm it"));
    }
    if ask(question)? {
        Ok(())
    } else {
        Err(Failure::new("nothing was removed"))
    }
}

/// Asks a question on stderr; whether the answer is yes.
pub(in crate::cli) fn ask(question: &str) -> Result<bool, Failure> {
    let question = format!("{} [y/N]", printable(question));
    let lines = hanging(&question, 0, Look::messages().width.saturating_sub(2));
    StandardError::say(lines.join("\n") + " ");
    let mut answer = String::new();
    let length = io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    if length == 0 {
        // Ctrl-D leaves the cursor behind the question.
        StandardError::say("\n");
    }
    Ok(is_yes(&answer))
}

/// Reads lines from the terminal until there are no more or `read` wants none.
pub(in crate::cli) fn answers(mut read: impl FnMut(String) -> bool) {
    for line in io::stdin().lines() {
        if !line.is_ok_and(&mut read) {
            return;
        }
    }
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

/// Does some work and shows a message if it takes long.
pub(in crate::cli) fn busy<T>(
    doing: impl FnOnce() -> String + Send,
    work: impl FnOnce() -> T,
) -> T {
    if !StandardError::is_terminal() {
        return work();
    }
    busy_on(&mut StandardError, QUIET_FOR, doing, work)
}

fn busy_on<T>(
    out: &mut (dyn Write + Send),
    quiet_for: Duration,
    doing: impl FnOnce() -> String + Send,
    work: impl FnOnce() -> T,
) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(quiet_for) == Err(mpsc::RecvTimeoutError::Timeout) {
                write!(out, "{}", printable(&doing())).ok();
                out.flush().ok();
                is_done.recv().ok();
                write!(out, "{CLEAR}").ok();
                out.flush().ok();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Shows the progress of work, if it takes long.
pub(in crate::cli) struct Progress {
    out: Option<Box<dyn Write>>,
    next: Instant,
    step: Duration,
    shown: bool,
}

impl Progress {
    /// On stderr, if that is a terminal.
    pub(in crate::cli) fn new() -> Self {
        let out = StandardError::is_terminal().then(|| Box::new(StandardError) as Box<dyn Write>);
        Self::on(out, QUIET_FOR, STEP)
    }

    fn on(out: Option<Box<dyn Write>>, quiet_for: Duration, step: Duration) -> Self {
        Self {
            out,
            next: Instant::now() + quiet_for,
            step,
            shown: false,
        }
    }

    /// Shows this text, if an update is due.
    pub(in crate::cli) fn at(&mut self, text: impl FnOnce() -> String) {
        let Some(out) = &mut self.out else { return };
        let now = Instant::now();
        if now >= self.next {
            self.next = now + self.step;
            self.shown = true;
            write!(out, "{CLEAR}{}", printable(&text())).ok();
            out.flush().ok();
        }
    }

    /// Clears the message, so that other output has its place.
    pub(in crate::cli) fn clear(&mut self) {
        if std::mem::take(&mut self.shown)
            && let Some(out) = &mut self.out
        {
            write!(out, "{CLEAR}").ok();
            out.flush().ok();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use rejoin::sys::lock;

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(lock(&self.0).clone()).unwrap()
        }
    }

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_is_shown_when_it_is_due_and_cleared() {
        let screen = Screen::default();
        let out = || Some(Box::new(screen.clone()) as Box<dyn Write>);
        let mut late = Progress::on(out(), Duration::from_hours(1), Duration::ZERO);
        late.at(|| "never".to_owned());
        drop(late);
        assert_eq!(screen.text(), "");
        let mut at_once = Progress::on(out(), Duration::ZERO, Duration::ZERO);
        at_once.at(|| "1".to_owned());
        at_once.at(|| "2\r".to_owned());
        drop(at_once);
        assert_eq!(screen.text(), format!("{CLEAR}1{CLEAR}2\\u{{d}}{CLEAR}"));
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        for yes in ["y\n", "Y\r\n", " yes \n", "YES"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yes please\n", "ja\n", "yy\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }

    #[test]
    fn long_work_shows_a_message() {
        let mut screen = Screen::default();
        let (shown, is_shown) = mpsc::channel();
        let doing = move || {
            shown.send(()).unwrap();
            "Reading 3 sessions …".to_owned()
        };
        let result = busy_on(&mut screen, Duration::ZERO, doing, || {
            is_shown.recv().unwrap();
            7
        });
        assert_eq!(result, 7);
        assert_eq!(screen.text(), format!("Reading 3 sessions …{CLEAR}"));
        let mut screen = Screen::default();
        busy_on(&mut screen, Duration::from_hours(1), String::new, || ());
        assert_eq!(screen.text(), "");
    }
}

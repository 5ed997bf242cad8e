//! How output looks: whether it is for people, in colour, how wide, and in which time zone.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Effects, Style};

use crate::cli::logging::StandardError;
use rejoin::conversation::Decision;
use rejoin::sys::{Timestamp, Zone};

use super::relative_time::{minute, relative};

/// How wide the output is if nothing says it.
const WIDTH: usize = 80;
/// Fewer columns are not used: nothing can be read in them.
const LEAST_WIDTH: usize = 20;

/// Titles and the heads of tables.
pub(in crate::cli) const STRONG: Style = Style::new().bold();
/// The style of less important text.
pub(in crate::cli) const FAINT: Style = Style::new().effects(Effects::DIMMED);
/// The style of text that can be copied into the next command.
pub(in crate::cli) const ID: Style = AnsiColor::Cyan.on_default();
/// The style of text that was searched for.
pub(in crate::cli) const HIT: Style = AnsiColor::Yellow.on_default().bold();
/// The style of work that is going on.
pub(in crate::cli) const ACTIVE: Style = AnsiColor::Green.on_default();
/// The style of text that needs someone's attention.
pub(in crate::cli) const WAITING: Style = AnsiColor::Yellow.on_default();
/// The style of errors, and of lines that go away.
pub(in crate::cli) const WRONG: Style = AnsiColor::Red.on_default();
pub(in crate::cli) const PLAIN: Style = Style::new();
pub(in crate::cli) const EMPHASIS: Style = Style::new().effects(Effects::ITALIC);
pub(in crate::cli) const HEADING: Style = AnsiColor::Magenta.on_default().bold();
pub(in crate::cli) const CODE: Style = AnsiColor::Cyan.on_default();
pub(in crate::cli) const USER: Style = AnsiColor::Blue.on_default().bold();
pub(in crate::cli) const AGENT: Style = AnsiColor::Green.on_default().bold();
pub(in crate::cli) const GOOD: Style = AnsiColor::Green.on_default();
pub(in crate::cli) const BAD: Style = AnsiColor::Red.on_default();

/// The style of a line of a change, by its sign.
pub(in crate::cli) fn of_sign(sign: char) -> Style {
    match sign {
        '+' => GOOD,
        '-' => BAD,
        _ => PLAIN,
    }
}

/// The style of what became of a request for permission.
pub(in crate::cli) fn of_decision(decision: &Decision) -> Style {
    match decision {
        Decision::Allowed(_) => GOOD,
        Decision::Rejected(_) => BAD,
        Decision::Open => WAITING,
        _ => FAINT,
    }
}

/// How output looks.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Look {
    /// Whether a person sees the output at once; otherwise it is for a program.
    pub(in crate::cli) terminal: bool,
    /// Whether the output has colours.
    pub(in crate::cli) colour: bool,
    /// How many columns a line may have.
    pub(in crate::cli) width: usize,
    /// The time zone of the person.
    pub(in crate::cli) zone: Zone,
    /// The person's home folder.
    pub(in crate::cli) home: Option<PathBuf>,
}

impl Look {
    /// The look of the standard output of this process, with a stream that shows the colours.
    /// `NO_COLOR` and `CLICOLOR_FORCE` say whether there are any, `COLUMNS` how wide it is.
    pub(in crate::cli) fn standard(stdout: io::Stdout) -> (Self, Box<dyn Write + Send>) {
        let colour = AutoStream::choice(&stdout) != ColorChoice::Never;
        let look = Self::of(stdout.is_terminal(), colour);
        // Old consoles of Windows have to be asked for colours.
        let stream: Box<dyn Write + Send> = if colour {
            Box::new(io::BufWriter::new(AutoStream::always(stdout)))
        } else {
            Box::new(io::BufWriter::new(stdout))
        };
        (look, stream)
    }

    /// The look of messages on stderr: without colours, since they may quote anything.
    pub(in crate::cli) fn messages() -> Self {
        Self::of(StandardError::is_terminal(), false)
    }

    fn of(terminal: bool, colour: bool) -> Self {
        Self {
            terminal,
            colour,
            width: columns(terminal).unwrap_or(WIDTH).max(LEAST_WIDTH),
            zone: Zone::Local,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
        }
    }

    /// The text in this style, if there are colours.
    pub(in crate::cli) fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// A time as people say it, in at most 15 columns.
    pub(in crate::cli) fn when(&self, at: Timestamp, now: Timestamp) -> String {
        relative(at, now, self.zone)
    }

    /// A time to the minute.
    pub(in crate::cli) fn minute(&self, at: Timestamp) -> String {
        minute(at, self.zone)
    }

    /// A folder, with `~` for the home folder.
    pub(in crate::cli) fn folder(&self, path: &str) -> String {
        let home = self.home.as_ref().and_then(|home| home.to_str());
        let home = home.map(|home| home.trim_end_matches(['/', '\\']));
        let home = home.filter(|home| !home.is_empty());
        let inside = home.and_then(|home| path.strip_prefix(home));
        match inside {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => format!("~{rest}"),
            _ => path.to_owned(),
        }
    }
}

/// The width that the environment names, or that of the terminal.
fn columns(terminal: bool) -> Option<usize> {
    let named = std::env::var_os("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok());
    named.filter(|columns| *columns > 0).or_else(|| {
        let (width, _) = terminal_size::terminal_size().filter(|_| terminal)?;
        Some(usize::from(width.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_folder_is_short() {
        let look = |home: &str| Look {
            terminal: true,
            colour: false,
            width: 80,
            zone: Zone::Ahead(0),
            home: Some(home.into()),
        };
        for (home, path, shown) in [
            ("/home/ada", "/home/ada/cache", "~/cache"),
            ("/home/ada/", "/home/ada", "~"),
            ("/home/ada", "/home/adam/cache", "/home/adam/cache"),
            ("/", "/srv", "/srv"),
            ("/home/ada", "/srv", "/srv"),
        ] {
            assert_eq!(look(home).folder(path), shown, "{home}");
        }
    }

    #[test]
    fn without_colours_text_is_as_it_is() {
        let mut look = Look {
            terminal: true,
            colour: false,
            width: 80,
            zone: Zone::Ahead(0),
            home: None,
        };
        assert_eq!(look.paint(STRONG, "a"), "a");
        look.colour = true;
        assert_eq!(look.paint(STRONG, "a"), "\u{1b}[1ma\u{1b}[0m");
        assert_eq!(look.paint(STRONG, ""), "");
    }
}

//! Standard output of the subcommands whose output users read.

use std::io::{self, Write};

use crate::cli::exit::Failure;

use super::printable::printable_json;
use super::style::Look;
use super::width::hanging;

/// Standard output. If its reader goes away, it ends without an error.
pub(in crate::cli) struct Output {
    inner: Box<dyn Write + Send>,
    look: Look,
    closed: bool,
}

impl Output {
    /// The standard output of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "no client is served while this is used"
    )]
    pub(in crate::cli) fn standard() -> Self {
        let (look, stdout) = Look::standard(io::stdout());
        Self::on(stdout, look)
    }

    /// Output that looks like this.
    pub(in crate::cli) fn on(inner: Box<dyn Write + Send>, look: Look) -> Self {
        Self {
            inner,
            look,
            closed: false,
        }
    }

    /// How it looks.
    pub(in crate::cli) fn look(&self) -> &Look {
        &self.look
    }

    /// Whether the output goes to a terminal.
    pub(in crate::cli) fn is_terminal(&self) -> bool {
        self.look.terminal
    }

    /// Whether to print colours.
    pub(in crate::cli) fn colour(&self) -> bool {
        self.look.colour
    }

    /// Whether the reader has gone away, so that the rest need not be produced.
    pub(in crate::cli) fn closed(&self) -> bool {
        self.closed
    }

    /// Prints a line. Text from sessions must have gone through
    /// [`printable`](super::printable()).
    pub(in crate::cli) fn line(&mut self, line: impl AsRef<str>) -> Result<(), Failure> {
        self.raw(line.as_ref())?;
        self.raw("\n")
    }

    /// Prints a sentence, in a terminal on as many lines as it takes.
    pub(in crate::cli) fn say(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        let text = text.as_ref();
        if !self.look.terminal {
            return self.line(text);
        }
        let indent = text.len() - text.trim_start_matches(' ').len();
        for line in hanging(text, indent, self.look.width) {
            self.line(line)?;
        }
        Ok(())
    }

    /// Prints a value as indented JSON.
    pub(in crate::cli) fn json(&mut self, value: &serde_json::Value) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(format!("cannot print JSON: {error}")))?;
        self.line(printable_json(&text))
    }

    /// Prints text as it is.
    pub(in crate::cli) fn raw(&mut self, text: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let result = self.inner.write_all(text.as_bytes());
        self.checked(result)
    }

    /// Flushes what was printed.
    pub(in crate::cli) fn flush(&mut self) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let result = self.inner.flush();
        self.checked(result)
    }

    /// Flushes what is left.
    pub(in crate::cli) fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }

    fn checked(&mut self, result: io::Result<()>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => Err(Failure::new(format!(
                "cannot write to standard output: {error}"
            ))),
        }
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("look", &self.look)
            .finish_non_exhaustive()
    }
}

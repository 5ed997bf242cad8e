//! Standard output of the subcommands that people read.

use std::io::{self, IsTerminal, Write};

use super::exit::Failure;

/// Standard output. A reader that goes away ends it quietly.
pub struct Output {
    inner: Box<dyn Write + Send>,
    colour: bool,
    closed: bool,
}

impl Output {
    /// The process's own.
    #[expect(
        clippy::disallowed_methods,
        reason = "no client is served while this is used"
    )]
    pub fn standard() -> Self {
        let stdout = io::stdout();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = stdout.is_terminal() && !plain;
        Self {
            inner: Box::new(io::BufWriter::new(stdout)),
            colour,
            closed: false,
        }
    }

    /// Whether colours are shown.
    pub fn colour(&self) -> bool {
        self.colour
    }

    /// Whether nobody reads any more, so that the rest need not be made.
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Prints a line. Text from sessions must have gone through
    /// [`printable`](super::printable::printable).
    pub fn line(&mut self, line: impl AsRef<str>) -> Result<(), Failure> {
        self.raw(line.as_ref())?;
        self.raw("\n")
    }

    /// Prints a value as indented JSON.
    pub fn json(&mut self, value: &serde_json::Value) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(format!("cannot print JSON: {error}")))?;
        self.line(text)
    }

    /// Prints text as it is.
    pub fn raw(&mut self, text: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let result = self.inner.write_all(text.as_bytes());
        self.told(result)
    }

    /// Brings what was printed to its reader.
    pub fn flush(&mut self) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let result = self.inner.flush();
        self.told(result)
    }

    /// Prints what is left.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }

    fn told(&mut self, result: io::Result<()>) -> Result<(), Failure> {
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
            .field("colour", &self.colour)
            .finish_non_exhaustive()
    }
}

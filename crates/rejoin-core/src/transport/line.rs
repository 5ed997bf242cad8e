//! Splits a byte stream into lines of bounded length.

use std::io::{self, BufRead};

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// How much of a rejected line is kept, to find the request's id in it.
pub const KEPT_OF_REFUSED: usize = 4096;

/// A line of input, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub enum InputLine {
    /// A line within the limit.
    Whole(Vec<u8>),
    /// A line beyond the limit. Only its beginning was kept.
    TooLong {
        /// The first bytes, at most [`KEPT_OF_REFUSED`].
        start: Vec<u8>,
        /// Its full length in bytes.
        len: u64,
    },
}

/// Splits bytes into lines of at most `limit` bytes. A longer line is skipped without keeping it in memory.
#[derive(Debug)]
pub struct LineSplitter {
    limit: usize,
    line: Vec<u8>,
    /// How many bytes of the line there were, kept or not.
    len: u64,
}

impl LineSplitter {
    /// A splitter at the beginning of a line.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            len: 0,
        }
    }

    /// Takes bytes up to the end of the line. Returns how many, and the line if it is complete.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, Option<InputLine>) {
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        self.len += part.len() as u64;
        if self.len <= self.limit as u64 {
            self.line.extend_from_slice(part);
        } else {
            // Frees the excess buffer before more arrives.
            let missing = KEPT_OF_REFUSED.saturating_sub(self.line.len());
            self.line
                .extend_from_slice(&part[..missing.min(part.len())]);
            self.line.truncate(KEPT_OF_REFUSED);
            self.line.shrink_to_fit();
        }
        match end {
            Some(end) => (end + 1, Some(self.end())),
            None => (bytes.len(), None),
        }
    }

    /// The line that has begun, if the input ends without its line break.
    pub fn finish(&mut self) -> Option<InputLine> {
        (self.len > 0).then(|| self.end())
    }

    fn end(&mut self) -> InputLine {
        let line = std::mem::take(&mut self.line);
        let len = std::mem::take(&mut self.len);
        if len <= self.limit as u64 {
            InputLine::Whole(line)
        } else {
            InputLine::TooLong { start: line, len }
        }
    }
}

/// Reads lines of bounded length.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    lines: LineSplitter,
}

impl<R> LineReader<R> {
    /// A reader of lines of at most `limit` bytes from `input`.
    pub fn new(input: R, limit: usize) -> Self {
        let lines = LineSplitter::new(limit);
        Self { input, lines }
    }
}

impl<R: BufRead> LineReader<R> {
    /// The next line, or `None` at the end of input. The last line may lack its line break.
    pub fn next_line(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            let bytes = match self.input.fill_buf() {
                Ok([]) => return Ok(self.lines.finish()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (taken, line) = self.lines.take(bytes);
            self.input.consume(taken);
            if line.is_some() {
                return Ok(line);
            }
        }
    }
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    /// Waits for the next line; `None` at the end of input. The last line may lack its line break. A wait
    /// that is dropped loses nothing.
    pub async fn line(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(self.lines.finish());
            }
            let (taken, line) = self.lines.take(bytes);
            self.input.consume(taken);
            if line.is_some() {
                return Ok(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    fn lines(bytes: &[u8], limit: usize, buffer: usize) -> Vec<InputLine> {
        let mut reader = LineReader::new(BufReader::with_capacity(buffer, bytes), limit);
        std::iter::from_fn(|| reader.next_line().unwrap()).collect()
    }

    #[test]
    fn splits_on_line_feeds_only() {
        let text = "a\u{2028}b\u{85}\r\n\nlast";
        let expected = ["a\u{2028}b\u{85}\r", "", "last"];
        let whole = expected.map(|line| InputLine::Whole(line.as_bytes().to_vec()));
        assert_eq!(lines(text.as_bytes(), 100, 3), whole);
    }

    #[test]
    fn a_line_beyond_the_limit_keeps_its_start_and_the_next_is_read() {
        let mut bytes = vec![b'x'; 10_000];
        bytes.extend_from_slice(b"\nok\n");
        let found = lines(&bytes, 5_000, 64);
        assert_eq!(
            found[0],
            InputLine::TooLong {
                start: vec![b'x'; KEPT_OF_REFUSED],
                len: 10_000
            }
        );
        assert_eq!(found[1], InputLine::Whole(b"ok".to_vec()));
    }

    proptest! {
        #[test]
        fn any_bytes_come_back_as_lines(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            limit in 0usize..50,
            buffer in 1usize..40,
        ) {
            let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let found = lines(&bytes, limit, buffer);
            prop_assert_eq!(found.len(), expected.len());
            for (found, expected) in found.into_iter().zip(expected) {
                match found {
                    InputLine::Whole(line) => {
                        prop_assert!(line.len() <= limit);
                        prop_assert_eq!(line, expected);
                    }
                    InputLine::TooLong { start, len } => {
                        prop_assert!(expected.len() > limit);
                        prop_assert_eq!(len, expected.len() as u64);
                        prop_assert!(expected.starts_with(&start));
                    }
                }
            }
        }
    }
}

//! Splits a byte stream into lines of bounded length.

use std::io::{self, BufRead};

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

/// Reads lines of at most `limit` bytes. A longer line is skipped without keeping it in memory.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    limit: usize,
}

impl<R: BufRead> LineReader<R> {
    /// A reader of `input`.
    pub fn new(input: R, limit: usize) -> Self {
        Self { input, limit }
    }

    /// The next line, or `None` at the end of input. The last line may lack its line break.
    pub fn next_line(&mut self) -> io::Result<Option<InputLine>> {
        let mut line = Vec::new();
        let mut len = 0u64;
        let mut begun = false;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok(begun.then(|| self.finish(line, len)));
            }
            begun = true;
            let end = memchr::memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            len += part.len() as u64;
            if len <= self.limit as u64 {
                line.extend_from_slice(part);
            } else {
                // Frees the excess buffer before more arrives.
                let missing = KEPT_OF_REFUSED.saturating_sub(line.len()).min(part.len());
                line.extend_from_slice(&part[..missing]);
                line.truncate(KEPT_OF_REFUSED);
                line.shrink_to_fit();
            }
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(self.finish(line, len)));
            }
        }
    }

    fn finish(&self, line: Vec<u8>, len: u64) -> InputLine {
        if len <= self.limit as u64 {
            InputLine::Whole(line)
        } else {
            InputLine::TooLong { start: line, len }
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

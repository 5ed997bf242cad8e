//! Reads lines in blocks, for a reader that handles many at once without copying.
//!
//! [`LineReader`](super::line::LineReader) returns each line as an owned buffer, which suits the
//! requests of a client. Output of another program is handled in the read buffer.

use std::io::{self, Read};

/// Receives lines.
pub trait LineSink {
    /// A line, without its line break.
    fn line(&mut self, line: &[u8]);

    /// The beginning of a line that exceeds the limit. Its rest is skipped.
    fn too_long(&mut self, start: &[u8]);

    /// All that was read has been passed on; the next read may block.
    fn rest(&mut self);
}

/// How much of a line beyond the limit is passed on, in bytes.
const START: usize = 4096;

/// Passes each line of `input` to `lines` until the input ends. Reads about `block` bytes at once.
/// Of a line beyond `limit` bytes only the beginning is passed on, and no more is kept in memory.
pub fn pump(
    mut input: impl Read,
    block: usize,
    limit: usize,
    lines: &mut impl LineSink,
) -> io::Result<()> {
    let mut buffer = vec![0; block];
    let mut held = 0;
    // Whether the next bytes belong to a line beyond the limit.
    let mut passing = false;
    let ended = loop {
        if held == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let got = match input.read(&mut buffer[held..]) {
            Ok(0) => break Ok(()),
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(error),
        };
        let (mut from, mut searched) = (0, held);
        held += got;
        while let Some(at) = memchr::memchr(b'\n', &buffer[searched..held]) {
            let end = searched + at;
            if !std::mem::take(&mut passing) {
                lines.line(&buffer[from..end]);
            }
            from = end + 1;
            searched = from;
        }
        lines.rest();
        buffer.copy_within(from..held, 0);
        held -= from;
        if held > limit && !passing {
            passing = true;
            lines.too_long(&buffer[..START.min(held)]);
        }
        if passing {
            held = 0;
        }
        if held == 0 && buffer.len() > 4 * block {
            buffer = vec![0; block];
        }
    };
    if held > 0 && !passing {
        lines.line(&buffer[..held]);
    }
    lines.rest();
    ended
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Shown {
        lines: Vec<Vec<u8>>,
        too_long: usize,
    }

    impl LineSink for Shown {
        fn line(&mut self, line: &[u8]) {
            self.lines.push(line.to_vec());
        }

        fn too_long(&mut self, _: &[u8]) {
            self.too_long += 1;
        }

        fn rest(&mut self) {}
    }

    proptest! {
        #[test]
        fn every_line_within_the_limit_is_shown(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..400),
            block in 1usize..40,
        ) {
            // A line that was read to its end is passed on whatever its length, so the limit is
            // larger.
            let mut shown = Shown::default();
            pump(&bytes[..], block, 1000, &mut shown).unwrap();
            let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            prop_assert_eq!(shown.lines, expected);
            prop_assert_eq!(shown.too_long, 0);
        }
    }

    #[test]
    fn a_line_beyond_the_limit_is_told_of_once_and_the_next_is_shown() {
        let bytes = [&[b'x'; 10_000][..], b"\nok\n", &[b'y'; 10_000]].concat();
        let mut shown = Shown::default();
        pump(&bytes[..], 64, 500, &mut shown).unwrap();
        assert_eq!(shown.lines, [b"ok"]);
        assert_eq!(shown.too_long, 2);
    }
}

//! Reads the lines of a file, with their offsets, in large blocks.
//!
//! A line that can be a record is returned whole. A line that cannot, since it does not begin like
//! a record, contains NUL bytes or is too long, may be as long as the file: its middle is left out.
//! Complete records can still be found in what is kept of its two ends.

use std::fmt;
use std::io;

use crate::record::line::{LONGEST, OPEN};

use super::medium::Image;

/// How much is read at once, in bytes.
const BLOCK: usize = 256 * 1024;
/// How much is read first, in bytes: enough for headers and short sessions.
const FIRST: usize = 16 * 1024;
/// The minimum that is kept of each end of a line whose middle is left out, in bytes. Shorter lines
/// are kept whole.
pub(super) const KEPT: usize = 1024 * 1024;

/// A position in a file, with the bytes around it. Each call gets the file as an argument, so that
/// a log can read its own file while its lock owns it.
pub(super) struct LineBuffer {
    /// Bytes `start..end` were read and not yet returned.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The offset of `buffer[start]` in the file.
    offset: u64,
    /// Where to stop, as if the file ended there.
    limit: u64,
    /// The number of the next line, if known.
    number: Option<u64>,
    /// The last line that was returned had no line break; if one follows now, it belongs to it.
    owed: bool,
    /// The last read filled the buffer, so there may be more.
    filled: bool,
    /// The part of the current line that is left out.
    gap: Option<Gap>,
}

/// The middle of a line, which is not in the buffer.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// How much of the line is before it.
    at: usize,
    len: u64,
}

/// A line in the buffer, valid until the next one is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferedLine {
    start: usize,
    /// How many bytes of it are in the buffer.
    pub(super) len: usize,
    /// Its offset in the file.
    pub(super) offset: u64,
    /// Whether a line break follows. Only the last line can lack one.
    pub(super) ended: bool,
    gap: Option<Gap>,
}

impl BufferedLine {
    /// The offset in the file of its byte `at`.
    pub(super) fn offset_of(&self, at: usize) -> u64 {
        let left_out = self.gap.filter(|gap| at > gap.at);
        self.offset + at as u64 + left_out.map_or(0, |gap| gap.len)
    }

    /// Whether nothing is left out between its bytes `from` and `to`.
    pub(super) fn is_whole(&self, from: usize, to: usize) -> bool {
        self.gap.is_none_or(|gap| to <= gap.at || from > gap.at)
    }
}

impl LineBuffer {
    pub(super) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            limit: u64::MAX,
            number: Some(1),
            owed: false,
            filled: false,
            gap: None,
        }
    }

    /// Continues at `offset`, where a line must begin. Reads the file again.
    pub(super) fn seek(&mut self, offset: u64) {
        self.number = (offset == 0).then_some(1);
        self.start = 0;
        self.end = 0;
        self.offset = offset;
        self.owed = false;
        self.gap = None;
    }

    /// Reads the last line again from the file, from its byte `at` on.
    pub(super) fn again(&mut self, line: &BufferedLine, at: usize) {
        let number = self.number;
        self.seek(line.offset_of(at));
        self.number = number.map(|next| next - u64::from(line.ended));
    }

    /// Where the next line begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn limit(&mut self, limit: u64) {
        self.limit = limit;
        // Bytes beyond it may be in the buffer already.
        self.end = self.start;
    }

    /// The bytes of a line, without its line break.
    pub(super) fn bytes(&self, line: &BufferedLine) -> &[u8] {
        &self.buffer[line.start..line.start + line.len]
    }

    /// Changes the bytes of a line in the buffer. Returns what `change` returns.
    pub(super) fn edit(
        &mut self,
        line: &BufferedLine,
        change: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        change(&mut self.buffer[line.start..line.start + line.len])
    }

    /// The next line; none at the end of the file, where more may follow later.
    pub(super) fn next(&mut self, file: &dyn Image) -> io::Result<Option<BufferedLine>> {
        let mut searched = 0;
        let mut checked = 0;
        loop {
            if self.owed && self.start < self.end {
                self.owed = false;
                if self.buffer[self.start] == b'\n' {
                    self.start += 1;
                    self.offset += 1;
                    self.number = self.number.map(|number| number + 1);
                }
            }
            let unsearched = &self.buffer[self.start + searched..self.end];
            if let Some(found) = memchr::memchr(b'\n', unsearched) {
                return Ok(Some(self.take(searched + found, true)));
            }
            self.leave_out(&mut checked);
            searched = self.end - self.start;
            if !self.fill(file)? {
                break;
            }
        }
        let rest = self.end - self.start;
        if rest == 0 {
            return Ok(None);
        }
        self.owed = true;
        Ok(Some(self.take(rest, false)))
    }

    /// The number of a line, counted from 1. Counts from the start of the file if necessary.
    pub(super) fn number(&mut self, line: &BufferedLine, file: &dyn Image) -> io::Result<u64> {
        let behind = u64::from(line.ended);
        if let Some(next) = self.number {
            return Ok(next - behind);
        }
        let mut number = 1;
        let mut block = vec![0; BLOCK];
        let mut at = 0;
        while at < line.offset {
            let want = usize::try_from(line.offset - at).map_or(BLOCK, |left| left.min(BLOCK));
            let got = file.read_at(&mut block[..want], at)?;
            if got == 0 {
                break;
            }
            number += memchr::memchr_iter(b'\n', &block[..got]).count() as u64;
            at += got as u64;
        }
        self.number = Some(number + behind);
        Ok(number)
    }

    fn take(&mut self, len: usize, ended: bool) -> BufferedLine {
        let line = BufferedLine {
            start: self.start,
            len,
            offset: self.offset,
            ended,
            gap: self.gap.take().filter(|gap| gap.len > 0),
        };
        let whole = len + usize::from(ended);
        self.start += whole;
        self.offset = line.offset_of(len) + u64::from(ended);
        self.number = self.number.map(|number| number + u64::from(ended));
        line
    }

    /// Drops the middle of a long line that is not a record. The first `checked` bytes have no NUL
    /// after the gap.
    fn leave_out(&mut self, checked: &mut usize) {
        let held = &self.buffer[self.start..self.end];
        if held.len() <= KEPT {
            return;
        }
        let nul = memchr::memrchr(0, &held[*checked..]).map(|found| found + *checked);
        let gap = match self.gap {
            Some(gap) => gap,
            None if nul.is_none() && begins_as_record(held) && held.len() <= LONGEST => {
                *checked = held.len();
                return;
            }
            None => Gap {
                // A record that lost its line break may precede the NUL bytes,
                at: memchr::memchr(0, held).map_or(floor(held, KEPT), |found| found + 1),
                len: 0,
            },
        };
        // and another may follow them.
        let mut from = nul.unwrap_or(gap.at).max(gap.at);
        let tail = &held[from..];
        let may_be_record = begins_as_record(tail.strip_prefix(b"\0").unwrap_or(tail));
        let is_long = tail.len() > if may_be_record { LONGEST } else { 2 * KEPT };
        if is_long {
            from = floor(held, held.len() - KEPT);
        }
        if from > gap.at {
            let at = self.start + gap.at;
            self.buffer.copy_within(self.start + from..self.end, at);
            self.end -= from - gap.at;
        }
        let len = gap.len + (from - gap.at) as u64;
        self.gap = Some(Gap { at: gap.at, len });
        *checked = self.end - self.start;
    }

    /// Reads more into the buffer; false at the end.
    fn fill(&mut self, file: &dyn Image) -> io::Result<bool> {
        let left_out = self.gap.map_or(0, |gap| gap.len);
        let at = self.offset + (self.end - self.start) as u64 + left_out;
        let left = usize::try_from(self.limit.saturating_sub(at)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(false);
        }
        self.make_room();
        let room = (self.buffer.len() - self.end).min(left);
        let got = file.read_at(&mut self.buffer[self.end..self.end + room], at)?;
        self.end += got;
        self.filled = self.end == self.buffer.len();
        Ok(got > 0)
    }

    /// Moves the rest to the front and makes room after it. After a very long line the buffer
    /// becomes small again.
    fn make_room(&mut self) {
        let rest = self.start..self.end;
        self.end -= self.start;
        self.start = 0;
        let size = match self.buffer.len() {
            0 => FIRST,
            size if size <= self.end => (2 * size).max(BLOCK),
            _ if self.filled && self.end < BLOCK / 2 => BLOCK,
            size => size,
        };
        if size == self.buffer.len() {
            self.buffer.copy_within(rest, 0);
        } else {
            let mut buffer = vec![0; size];
            buffer[..self.end].copy_from_slice(&self.buffer[rest]);
            self.buffer = buffer;
        }
    }
}

fn begins_as_record(bytes: &[u8]) -> bool {
    bytes.starts_with(OPEN)
}

/// The last index at or before `at` that is not inside a character.
fn floor(bytes: &[u8], at: usize) -> usize {
    let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut places = (at.saturating_sub(3)..=at).rev();
    places.find(|place| !inside(place)).unwrap_or(at)
}

impl fmt::Debug for LineBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineBuffer")
            .field("offset", &self.offset)
            .field("buffered", &(self.end - self.start))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;

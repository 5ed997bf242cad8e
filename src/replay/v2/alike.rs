//! Knows a line that is laid out as the last chunk was, from comparing what is around the text.
//!
//! Nearly all lines are chunks of the message that the line before was of. Such a line differs
//! from that in its text and its time only, and is passed on as that was.

use std::ops::Range;

use crate::record::json;

use super::line::Update;

/// The last chunk, if it was passed on as it is.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// Its line up to its text; empty if there is none.
    head: Vec<u8>,
    /// Where the time stands in that.
    time: Range<usize>,
    /// The line from the quote behind the text on.
    tail: Vec<u8>,
}

impl Alike {
    /// Whether a line says more of the same message, and is to be passed on as it is.
    pub(super) fn fits(&self, line: &[u8]) -> bool {
        if self.head.is_empty() || line.len() < self.head.len() + self.tail.len() {
            return false;
        }
        let (head, rest) = line.split_at(self.head.len());
        let (text, tail) = rest.split_at(rest.len() - self.tail.len());
        let time = &head[self.time.clone()];
        tail == self.tail
            && head[..self.time.start] == self.head[..self.time.start]
            && head[self.time.end..] == self.head[self.time.end..]
            && memchr::memchr2(b'"', b'\\', time).is_none()
            && json::is_string_body(text)
    }

    /// Remembers a chunk, if it is one of text.
    pub(super) fn learn(&mut self, update: &Update<'_, '_>) {
        self.forget();
        let line = update.line;
        let text = update.get("content").and_then(|content| {
            let kind = json::member(line, content.start, "type")?;
            let text = json::member(line, content.start, "text")?;
            (&line[kind] == b"\"text\"").then(|| json::string_body(line, &text))?
        });
        if let Some(text) = text {
            self.head.extend_from_slice(&line[..text.start]);
            self.tail.extend_from_slice(&line[text.end..]);
            self.time = update.spot.time.clone().unwrap_or_default();
        }
    }

    /// Something else came.
    pub(super) fn forget(&mut self) {
        self.head.clear();
        self.tail.clear();
    }
}

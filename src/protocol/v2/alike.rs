//! Recognizes a line with the same layout as the last chunk by comparing the bytes around its text.
//!
//! Nearly all lines are chunks of the same message as the line before. Such a line differs only in
//! its text and time, and is forwarded as that one was.

use std::ops::Range;

use crate::json;

use super::line::Update;

/// The last chunk, if it was forwarded unchanged.
#[derive(Debug, Default)]
pub(super) struct ChunkLayoutCache {
    /// Its line up to its text. Empty without a chunk.
    head: Vec<u8>,
    /// The range of the time in `head`.
    time: Range<usize>,
    /// The line from the quote after the text.
    tail: Vec<u8>,
}

impl ChunkLayoutCache {
    /// Whether a line continues the same message and is to be forwarded unchanged.
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

    /// Remembers a chunk, if it is a text chunk.
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

    /// Forgets the chunk, since a different line came.
    pub(super) fn forget(&mut self) {
        self.head.clear();
        self.tail.clear();
    }
}

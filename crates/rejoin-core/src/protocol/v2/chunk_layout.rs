//! Recognizes a line with the same layout as the last chunk by comparing the bytes around its text.
//!
//! Nearly all lines are chunks of the same message as the line before. Such a line differs only in
//! its text and time, and is forwarded as that one was.

use std::ops::Range;

use crate::json::{self, TextLayout};

use super::line::UpdateLine;

/// The last chunk, if it was forwarded unchanged.
#[derive(Debug, Default)]
pub(super) struct ChunkLayoutCache {
    layout: TextLayout,
    /// The range of the time before the text.
    time: Range<usize>,
}

impl ChunkLayoutCache {
    /// Whether a line continues the same message and is to be forwarded unchanged.
    pub(super) fn fits(&self, line: &[u8]) -> bool {
        let text = self.layout.text_beside(line, self.time.clone());
        text.is_some() && memchr::memchr2(b'"', b'\\', &line[self.time.clone()]).is_none()
    }

    /// Remembers a chunk, if it is a text chunk.
    pub(super) fn learn(&mut self, update: &UpdateLine<'_, '_>) {
        self.forget();
        let line = update.line;
        let text = update.get("content").and_then(|content| {
            let kind = json::member(line, content.start, "type")?;
            let text = json::member(line, content.start, "text")?;
            (&line[kind] == b"\"text\"").then(|| json::string_body(line, &text))?
        });
        if let Some(text) = text {
            self.layout.learn(line, &text);
            self.time = update.spot.time.clone().unwrap_or_default();
        }
    }

    /// Forgets the chunk, since a different line came.
    pub(super) fn forget(&mut self) {
        self.layout.forget();
    }
}

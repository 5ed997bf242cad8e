//! Reads the lines of one child, fast where a line is laid out as an earlier one.
//!
//! Nearly all lines are chunks of text that differ in nothing but the text. If what is before and
//! behind the text is the same as in a line that was read, only the text has to be checked, and
//! all places are where they were, or as much further on as the text is longer.

use super::message::{Envelope, Message, classify, envelope, refused, text_of};
use super::scan::{self, Span};
use crate::record::json;

/// How many layouts are remembered: a few sessions at once, each with messages and thoughts.
const LAYOUTS: usize = 4;
/// The longest layout that is remembered, in bytes without its text.
const LAYOUT_LIMIT: usize = 4096;

/// Reads lines; keeps the layouts of the last ones.
#[derive(Debug, Default)]
pub struct Reader {
    layouts: Vec<Layout>,
    /// Which layout to forget next.
    next: usize,
}

#[derive(Debug)]
struct Layout {
    /// All up to and with the quote that opens the text.
    before: Vec<u8>,
    /// All from the quote that closes it.
    behind: Vec<u8>,
    /// Where that quote was.
    end: usize,
    envelope: Envelope,
}

impl Reader {
    /// Reads one line, with or without its line break, as [`read`](super::read) does.
    pub fn read<'a>(&mut self, line: &'a [u8]) -> Message<'a> {
        let Some(text) = text_of(line) else {
            return refused(line);
        };
        if let Some(envelope) = self.layouts.iter().find_map(|layout| layout.fit(text)) {
            return classify(text, &envelope);
        }
        let Some(envelope) = envelope(text) else {
            return refused(line);
        };
        if let Some(layout) = Layout::of(text, &envelope) {
            self.remember(layout);
        }
        classify(text, &envelope)
    }

    fn remember(&mut self, layout: Layout) {
        if self.layouts.len() < LAYOUTS {
            self.layouts.push(layout);
        } else {
            self.layouts[self.next] = layout;
            self.next = (self.next + 1) % LAYOUTS;
        }
    }
}

impl Layout {
    /// The layout around the text of a chunk; `None` for any other message.
    fn of(text: &str, envelope: &Envelope) -> Option<Self> {
        let fields = envelope.params.update?;
        let content = fields.content?;
        let bytes = text.as_bytes();
        let body = json::member(bytes, content.start, "text")?;
        let body = json::string_body(bytes, &body)?;
        let short = text.len() - body.len() <= LAYOUT_LIMIT;
        short.then(|| Self {
            before: bytes[..body.start].to_vec(),
            behind: bytes[body.end..].to_vec(),
            end: body.end,
            envelope: *envelope,
        })
    }

    /// Where things are in a line of this layout; `None` if it has another.
    fn fit(&self, text: &str) -> Option<Envelope> {
        let rest = text.as_bytes().strip_prefix(self.before.as_slice())?;
        let body = rest.strip_suffix(self.behind.as_slice())?;
        let start = self.before.len();
        let end = start + body.len();
        if scan::string(text, start.checked_sub(1)?)? != end + 1 {
            return None;
        }
        let moved = |at: usize| {
            let behind = at.checked_sub(self.end);
            behind.map_or(at, |behind| end + behind)
        };
        Some(self.envelope.map(|span| Span {
            start: moved(span.start),
            end: moved(span.end),
        }))
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;

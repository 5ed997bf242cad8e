//! Parses the lines of one agent, with a fast path for lines with the layout of an earlier one.
//!
//! Nearly all lines are chunks that differ only in their text. If the bytes before and after the
//! text equal those of an earlier line, only the text has to be checked. All positions are the
//! same, or moved by the difference in length.

use super::message::{AgentMessage, MessageSpans, classify, envelope, refused, text_of};
use crate::json::{self, Span, TextLayout};

/// How many layouts are kept: for a few sessions, each with messages and thoughts.
const LAYOUTS: usize = 4;
/// Parses lines; keeps the layouts of the last ones.
#[derive(Debug, Default)]
pub(in crate::engine::agent) struct MessageReader {
    layouts: Vec<MessageLayout>,
    /// The index of the layout to replace next.
    next: usize,
}

#[derive(Debug)]
struct MessageLayout {
    around: TextLayout,
    /// The position of the quote that closes the text.
    end: usize,
    envelope: MessageSpans,
}

impl MessageReader {
    /// Parses one line, with or without its line break, as [`read`](super::read) does.
    pub(in crate::engine::agent) fn read<'a>(&mut self, line: &'a [u8]) -> AgentMessage<'a> {
        let Some(text) = text_of(line) else {
            return refused(line);
        };
        if let Some(envelope) = self.layouts.iter().find_map(|layout| layout.apply(text)) {
            return classify(text, &envelope);
        }
        let Some(envelope) = envelope(text) else {
            return refused(line);
        };
        if let Some(layout) = MessageLayout::of(text, &envelope) {
            self.remember(layout);
        }
        classify(text, &envelope)
    }

    fn remember(&mut self, layout: MessageLayout) {
        if self.layouts.len() < LAYOUTS {
            self.layouts.push(layout);
        } else {
            self.layouts[self.next] = layout;
            self.next = (self.next + 1) % LAYOUTS;
        }
    }
}

impl MessageLayout {
    /// The layout around the text of a chunk; `None` for any other message.
    fn of(text: &str, envelope: &MessageSpans) -> Option<Self> {
        let fields = envelope.params.update?;
        let content = fields.content?;
        let bytes = text.as_bytes();
        let body = json::member(bytes, content.start, "text")?;
        let body = json::string_body(bytes, &body)?;
        let mut around = TextLayout::default();
        around.learn(bytes, &body);
        (!around.is_empty()).then_some(Self {
            around,
            end: body.end,
            envelope: *envelope,
        })
    }

    /// The parts of a line of this layout; `None` if it has another one.
    fn apply(&self, text: &str) -> Option<MessageSpans> {
        let end = self.around.text(text.as_bytes())?.end;
        let moved = |at: usize| {
            let after = at.checked_sub(self.end);
            after.map_or(at, |after| end + after)
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

//! Recognizes messages that differ from an earlier one only in one string.
//!
//! Nearly all updates are chunks of the same message as the update before. If the bytes around the
//! text are the same, then so is everything else that parsing would find.

use std::ops::Range;

use super::scan::string_end;

/// Longer layouts are not learned, in bytes without the text.
const LONGEST: usize = 4096;

/// The bytes around the text of a message.
#[derive(Debug, Default)]
pub struct TextLayout {
    /// Everything up to and including the quote that opens the text. Empty without a message.
    before: Vec<u8>,
    /// Everything from the quote that closes it.
    after: Vec<u8>,
}

impl TextLayout {
    /// Learns the layout of a valid message whose text, without its quotes, is at `text`.
    pub fn learn(&mut self, message: &[u8], text: &Range<usize>) {
        self.forget();
        if message.len() - text.len() <= LONGEST {
            self.before.extend_from_slice(&message[..text.start]);
            self.after.extend_from_slice(&message[text.end..]);
        }
    }

    /// Forgets the layout.
    pub fn forget(&mut self) {
        self.before.clear();
        self.after.clear();
    }

    /// Whether there is no layout.
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    /// Whether this layout is what surrounds the text at `text` in a message.
    pub fn is_around(&self, message: &[u8], text: &Range<usize>) -> bool {
        !self.is_empty()
            && message[..text.start] == self.before[..]
            && message[text.end..] == self.after[..]
    }

    /// The text of a message with this layout, without its quotes. `None` if the message has another
    /// layout, or its text is not a valid string.
    pub fn text(&self, message: &[u8]) -> Option<Range<usize>> {
        self.text_beside(message, 0..0)
    }

    /// The text of a message with this layout, like [`text`](Self::text), where the bytes at
    /// `hole`, a range before the text, may differ from the layout's.
    pub fn text_beside(&self, message: &[u8], hole: Range<usize>) -> Option<Range<usize>> {
        let quote = self.before.len().checked_sub(1)?;
        let (before, rest) = message.split_at_checked(self.before.len())?;
        let text = rest.strip_suffix(self.after.as_slice())?;
        let is_alike = before[..hole.start] == self.before[..hole.start]
            && before[hole.end..] == self.before[hole.end..];
        let end = quote + 1 + text.len();
        (is_alike && string_end(message, quote) == Some(end + 1)).then_some(quote + 1..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_may_differ() {
        let mut layout = TextLayout::default();
        assert_eq!(layout.text(b""), None);
        layout.learn(br#"{"a":1,"t":"x"}"#, &(12..13));
        for (message, text) in [
            (r#"{"a":1,"t":""}"#, Some("")),
            (r#"{"a":1,"t":"y\" "}"#, Some("y\\\" ")),
            (r#"{"a":2,"t":"y"}"#, None),
            (r#"{"a":1,"t":"y","b":"z"}"#, None),
            (r#"{"a":1,"t":"y\"}"#, None),
            (r#"{"a":1,"t":"y\x"}"#, None),
            (r#"{"a":1,"t":"}"#, None),
            ("", None),
        ] {
            let found = layout.text(message.as_bytes()).map(|range| &message[range]);
            assert_eq!(found, text, "{message}");
        }
        let other = r#"{"a":2,"t":"y"}"#;
        assert_eq!(layout.text_beside(other.as_bytes(), 5..6), Some(12..13));
        layout.learn(&[b' '; LONGEST + 1], &(1..1));
        assert!(layout.is_empty());
    }
}

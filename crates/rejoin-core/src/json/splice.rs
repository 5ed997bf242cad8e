//! Changes single places of a JSON text and keeps every other byte.

use std::borrow::Cow;
use std::ops::Range;

use super::scan::skip_space;

/// Changes to a text, applied together.
#[derive(Debug)]
pub struct Splice<'a> {
    text: &'a [u8],
    edits: Vec<(Range<usize>, Cow<'a, [u8]>)>,
}

impl<'a> Splice<'a> {
    /// No changes yet.
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            edits: Vec::with_capacity(2),
        }
    }

    /// The text without its changes.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Replaces a range. Ranges must not overlap.
    pub fn replace(&mut self, range: Range<usize>, instead: impl Into<Cow<'a, [u8]>>) {
        self.edits.push((range, instead.into()));
    }

    /// Inserts a member before the existing members of the object at `at`.
    pub fn member(&mut self, at: usize, member: &[u8]) {
        let empty = self.text.get(skip_space(self.text, at + 1)) == Some(&b'}');
        let comma: &[u8] = if empty { b"" } else { b"," };
        self.replace(at + 1..at + 1, [member, comma].concat());
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Writes a range of the text with its changes.
    pub fn write(mut self, part: Range<usize>, out: &mut Vec<u8>) {
        // An insertion comes before a replacement at the same position.
        self.edits
            .sort_by_key(|(range, _)| (range.start, range.end));
        let mut at = part.start;
        for (range, instead) in &self.edits {
            debug_assert!(at <= range.start, "parts do not overlap");
            if range.start < at {
                continue;
            }
            out.extend_from_slice(&self.text[at..range.start]);
            out.extend_from_slice(instead);
            at = range.end;
        }
        out.extend_from_slice(&self.text[at..part.end]);
    }

    /// The whole text with its changes.
    pub fn into_bytes(self) -> Vec<u8> {
        let (len, mut out) = (self.text.len(), Vec::new());
        self.write(0..len, &mut out);
        out
    }
}

//! Changes single places of a JSON text and keeps every other byte.

use std::borrow::Cow;
use std::ops::Range;

use crate::json;

/// Changes to a text, applied together.
#[derive(Debug)]
pub(super) struct Splice<'a> {
    text: &'a [u8],
    edits: Vec<(Range<usize>, Cow<'a, [u8]>)>,
}

impl<'a> Splice<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            edits: Vec::with_capacity(2),
        }
    }

    /// Replaces a range. Ranges must not overlap.
    pub(super) fn replace(&mut self, range: Range<usize>, instead: impl Into<Cow<'a, [u8]>>) {
        self.edits.push((range, instead.into()));
    }

    /// Adds members to `_meta.rejoin` of the object at `at`. `members` is the text between the
    /// braces. A `_meta` that is not an object is replaced, since it could not hold them.
    pub(super) fn note(&mut self, at: usize, members: &[u8]) {
        let Some(meta) = json::member(self.text, at, "_meta") else {
            let note = [b"\"_meta\":{\"rejoin\":{", members, b"}}"].concat();
            return self.member(at, &note);
        };
        if json::members(self.text, meta.start).is_none() {
            let note = [b"{\"rejoin\":{", members, b"}}"].concat();
            return self.replace(meta, note);
        }
        match json::member(self.text, meta.start, "rejoin") {
            None => {
                let note = [b"\"rejoin\":{", members, b"}"].concat();
                self.member(meta.start, &note);
            }
            Some(ours) if json::members(self.text, ours.start).is_some() => {
                self.member(ours.start, members);
            }
            Some(other) => self.replace(other, [b"{", members, b"}"].concat()),
        }
    }

    /// Inserts a member before the existing members of the object at `at`.
    pub(super) fn member(&mut self, at: usize, member: &[u8]) {
        let empty = self.text.get(json::skip_space(self.text, at + 1)) == Some(&b'}');
        let comma: &[u8] = if empty { b"" } else { b"," };
        self.replace(at + 1..at + 1, [member, comma].concat());
    }

    /// Whether there are no changes.
    pub(super) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Writes a range of the text with its changes.
    pub(super) fn write(mut self, part: Range<usize>, out: &mut Vec<u8>) {
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
}

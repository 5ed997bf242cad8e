//! Splits or truncates a message that is too long for one line, in the replay only. What is truncated
//! is marked.
//!
//! First the longest strings lose their middle. All get the same maximum length, the largest that
//! makes the line fit. Image, audio and binary blocks longer than that are replaced by a text block
//! that describes them. If that is not enough, large members of the update become stubs that the
//! protocol's schema accepts. If even that is not enough, a message says that an update was here.
//! Ids and the names of kinds are never shortened.

use std::ops::Range;

use crate::json::{Splice, split};
use crate::protocol::text_block::chunk_text;

use super::envelope::{EnvelopeWriter, ReplayedLine, TAIL};
use super::{REPEATED, Replay, stub, truncation};

/// The maximum length of the note about a cut.
const CUT_NOTE: usize = 48;

/// A message that is too long.
#[derive(Debug)]
pub(super) struct Oversize<'a> {
    /// The line before it is cut, with its newline.
    pub(super) line: &'a [u8],
    /// The position in the line of the brace that closes our note.
    pub(super) note_end: usize,
    /// The range of its `update`.
    pub(super) update: Range<usize>,
    /// When it was recorded.
    pub(super) at: &'a str,
}

impl Oversize<'_> {
    /// Writes a line of at most `limit` bytes in place of this one.
    pub(super) fn cut(&self, envelope: &EnvelopeWriter, limit: usize, out: &mut Vec<u8>) {
        if self.shorten(limit, out) {
            return;
        }
        let start = out.len();
        self.stub(envelope, out);
        if out.len() - start > limit {
            out.truncate(start);
            self.mention(envelope, out);
        }
    }

    /// Shortens strings and media until the line fits. Returns false, with nothing written, if they
    /// are not what makes it long.
    fn shorten(&self, limit: usize, out: &mut Vec<u8>) -> bool {
        let need = (self.line.len() + CUT_NOTE).saturating_sub(limit);
        let Some(cuts) = truncation::cuts(self.line, need) else {
            return false;
        };
        let removed = cuts.iter().map(|cut| cut.range.len()).sum();
        let note = note(removed);
        let mut splice = Splice::new(self.line);
        splice.replace(self.note_end..self.note_end, note);
        for cut in cuts {
            splice.replace(cut.range, cut.instead);
        }
        splice.write(0..self.line.len(), out);
        true
    }

    /// Writes the update with its large members replaced by stubs, without the other members.
    fn stub(&self, envelope: &EnvelopeWriter, out: &mut Vec<u8>) {
        let update = &self.line[self.update.clone()];
        let (stub, mut removed) = stub::of_update(update);
        removed += self.beside(envelope);
        envelope.open(self.at, &note(removed), out);
        out.extend(stub);
        out.extend_from_slice(TAIL);
    }

    /// Writes a message that says that an update was here.
    fn mention(&self, envelope: &EnvelopeWriter, out: &mut Vec<u8>) {
        let removed = self.update.len() + self.beside(envelope);
        envelope.open(self.at, &note(removed), out);
        out.extend_from_slice(b"{\"sessionUpdate\":\"agent_message_chunk\",\"content\":");
        out.extend(truncation::text_block(&truncation::marker(removed)));
        out.push(b'}');
        out.extend_from_slice(TAIL);
    }

    /// The number of bytes outside the update that are not ours.
    fn beside(&self, envelope: &EnvelopeWriter) -> usize {
        let mut ours = Vec::new();
        envelope.open(self.at, b"", &mut ours);
        let ours = ours.len() + TAIL.len() + self.update.len();
        self.line.len().saturating_sub(ours)
    }
}

impl Replay {
    /// Splits or truncates a line that is too long. Returns true if content was lost.
    pub(super) fn part_or_cut(&mut self, line: &ReplayedLine, at: &str, out: &mut Vec<u8>) -> bool {
        let too_long = out.len() - line.start > self.limits.line;
        let long_text = !self.options.exact && line.update.len() > self.limits.text;
        if !too_long && !long_text {
            return false;
        }
        let start = line.start;
        let update = line.update.start - start..line.update.end - start;
        let whole = &out[start..];
        let text = chunk_text(&whole[update.clone()]);
        let parts = text.and_then(|text| {
            let text = update.start + text.start..update.start + text.end;
            let length = self.part_length(text.len(), whole.len() - text.len())?;
            Some((text, length))
        });
        if let Some((text, length)) = parts {
            if length < text.len() {
                self.scratch.clear();
                self.scratch.extend_from_slice(whole);
                out.truncate(start);
                let (before, behind) = (&self.scratch[..text.start], &self.scratch[text.end..]);
                for part in split::parts(&self.scratch[text.clone()], length) {
                    out.extend_from_slice(before);
                    out.extend_from_slice(part);
                    out.extend_from_slice(behind);
                }
            }
            return false;
        }
        let is_cut = whole.len() > self.limits.line;
        if is_cut {
            self.scratch.clear();
            self.scratch.extend_from_slice(whole);
            out.truncate(start);
            let oversize = Oversize {
                line: &self.scratch,
                note_end: line.note_end - start,
                update,
                at,
            };
            oversize.cut(&self.envelope, self.limits.line, out);
        }
        is_cut
    }

    /// The maximum length of the parts of a chunk's text, if what surrounds the text (`around`) can
    /// be repeated with each of them.
    fn part_length(&self, text: usize, around: usize) -> Option<usize> {
        let room = self.limits.line.checked_sub(around)?;
        let config = if self.options.exact {
            text
        } else {
            self.limits.text
        };
        if around <= REPEATED.min(self.limits.line / 2) {
            Some(config.min(room))
        } else {
            // Much is repeated, so make as few parts as possible, and none if they would still be
            // many.
            (text <= room || around <= room).then_some(room)
        }
    }
}

fn note(removed: usize) -> Vec<u8> {
    format!(",\"cut\":{{\"bytes\":{removed}}}").into_bytes()
}

#[cfg(test)]
#[path = "cut_tests.rs"]
mod tests;

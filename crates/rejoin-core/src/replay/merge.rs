//! Joins adjacent text chunks of one message into one, by joining their escaped text.
//!
//! Two chunks are joined if nothing but their text would differ: the same kind, the same message id
//! or none, a text block with no annotations, `_meta` or unknown members. A chunk that ends in the
//! first half of an escaped surrogate pair is never joined with one that begins with the second
//! half: separately they are two invalid characters, joined they would be one valid character that
//! nobody sent.

use std::ops::Range;

use crate::json::{self, TextLayout, split};
use crate::protocol::text_block::plain_text;

use super::envelope::{EnvelopeWriter, TAIL};
use super::held_line::append;

/// The maximum length of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkLimits {
    /// Bytes of escaped text of a chunk that was joined from several that are not longer than this.
    pub(super) joined: usize,
    /// Bytes of escaped text.
    pub(super) text: usize,
    /// Bytes of the line.
    pub(super) line: usize,
}

/// A chunk that may be joined with others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    /// The JSON of its kind.
    kind: &'a [u8],
    /// The JSON of its message id. Empty if it has none.
    id: &'a [u8],
    /// Its text, inside the quotes.
    text: Range<usize>,
}

/// Parses an update as a chunk that may be joined with others. `None` for any other update.
pub(super) fn chunk(update: &[u8]) -> Option<Chunk<'_>> {
    let (mut kind, mut id, mut text) = (None, None, None);
    let mut parts = json::members(update, 0)?;
    while let Some(member) = parts.member() {
        let value = &update[member.value.clone()];
        let before = match &update[member.key] {
            b"sessionUpdate" => match value {
                b"\"agent_message_chunk\"" | b"\"agent_thought_chunk\"" => kind.replace(value),
                _ => return None,
            },
            b"messageId" if value == b"null" || value[0] == b'"' => id.replace(value),
            b"content" => {
                let seen = text.replace(plain_text(update, member.value.start)?);
                seen.is_some().then_some(value)
            }
            _ => return None,
        };
        if before.is_some() {
            return None;
        }
    }
    (parts.end() == Some(update.len())).then_some(Chunk {
        kind: kind?,
        id: id.unwrap_or_default(),
        text: text?,
    })
}

/// The pending chunk, to which others may be joined, as a line without its end.
#[derive(Debug, Default)]
pub(super) struct PendingChunk {
    /// The line up to the end of the text. Empty if no chunk is pending.
    line: Vec<u8>,
    /// Where the text begins in it.
    text: usize,
    /// The rest of the update, from the quote after the text.
    rest: Vec<u8>,
    /// The bytes around the text in the update.
    layout: TextLayout,
    kind: Vec<u8>,
    id: Vec<u8>,
}

impl PendingChunk {
    /// Joins an update to the pending chunk if it has the same layout. Nearly all chunks do, so
    /// comparing the bytes around the text replaces parsing. `text` is the text of the update, if
    /// it is known.
    pub(super) fn join_alike(
        &mut self,
        update: &[u8],
        text: Option<Range<usize>>,
        limits: ChunkLimits,
    ) -> bool {
        if self.line.is_empty() {
            return false;
        }
        let text = match text {
            Some(text) => self.layout.is_around(update, &text).then_some(text),
            None => self.layout.text(update),
        };
        text.is_some_and(|text| self.append(&update[text], limits))
    }

    /// Joins a chunk to the pending one if both belong to one message, whatever their layout.
    pub(super) fn join(&mut self, update: &[u8], chunk: &Chunk<'_>, limits: ChunkLimits) -> bool {
        !self.line.is_empty()
            && self.kind == chunk.kind
            && self.id == chunk.id
            && self.append(&update[chunk.text.clone()], limits)
    }

    fn append(&mut self, text: &[u8], limits: ChunkLimits) -> bool {
        let line = self.line.len() + text.len() + self.rest.len() + TAIL.len();
        // A long chunk needs long buffers in any case.
        let most = if text.len() > limits.joined {
            limits.text
        } else {
            limits.joined
        };
        let fits = self.line.len() - self.text + text.len() <= most && line <= limits.line;
        let fuses = split::begins_with_low_surrogate(text)
            && split::ends_in_high_surrogate(&self.line[self.text..]);
        if fits && !fuses {
            self.line.extend_from_slice(text);
        }
        fits && !fuses
    }

    /// Makes a chunk the pending one, if it is within the limits. No other may be pending.
    pub(super) fn begin(
        &mut self,
        envelope: &EnvelopeWriter,
        at: &str,
        update: &[u8],
        chunk: &Chunk<'_>,
        limits: ChunkLimits,
    ) -> bool {
        debug_assert!(self.line.is_empty(), "what waits is flushed first");
        envelope.open(at, b"", &mut self.line);
        if chunk.text.len() > limits.text
            || self.line.len() + update.len() + TAIL.len() > limits.line
        {
            self.line.clear();
            return false;
        }
        self.text = self.line.len() + chunk.text.start;
        self.line.extend_from_slice(&update[..chunk.text.end]);
        self.rest.clear();
        self.rest.extend_from_slice(&update[chunk.text.end..]);
        self.layout.learn(update, &chunk.text);
        self.kind.clear();
        self.kind.extend_from_slice(chunk.kind);
        self.id.clear();
        self.id.extend_from_slice(chunk.id);
        true
    }

    /// Whether no chunk is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Writes the pending chunk.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        if !self.line.is_empty() {
            self.line.extend_from_slice(&self.rest);
            self.line.extend_from_slice(TAIL);
            append(&mut self.line, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(update: &str) -> Option<(&str, &str)> {
        let chunk = chunk(update.as_bytes())?;
        Some((std::str::from_utf8(chunk.id).unwrap(), &update[chunk.text]))
    }

    #[test]
    fn every_layout_of_a_plain_chunk_is_read() {
        for (update, id, text) in [
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":"m"}"#,
                "\"m\"",
                "a",
            ),
            (
                r#"{"sessionUpdate":"agent_thought_chunk","messageId":"m","content":{"text":"\"}","type":"text"}}"#,
                "\"m\"",
                "\\\"}",
            ),
            (
                r#"{ "messageId" : null, "content" : { "type" : "text", "text" : "" }, "sessionUpdate" : "agent_message_chunk" }"#,
                "null",
                "",
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#,
                "",
                "a",
            ),
        ] {
            assert_eq!(read(update), Some((id, text)), "{update}");
        }
    }

    #[test]
    fn anything_more_or_less_than_a_plain_chunk_is_left_alone() {
        for update in [
            "",
            "{}",
            "null",
            r#"{"sessionUpdate":"agent_message_chunk"}"#,
            r#"{"content":{"type":"text","text":"a"}}"#,
            r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"a"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"_meta":null}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":1}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","annotations":null}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":1}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"text":"a","text":"b"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","type":"text"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"image","text":"a"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":["type","text"]}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"messageId":"m","messageId":"m"}"#,
            r#"{"sessionUpdate":"agent_message_chunk","sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"content":{"type":"text","text":"b"}}"#,
        ] {
            assert_eq!(read(update), None, "{update}");
        }
    }
}

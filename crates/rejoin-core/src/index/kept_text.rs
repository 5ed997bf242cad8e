//! The text of other tools' conversations, kept beside the words of the full-text index.
//!
//! The text around a hit in a log is read from the log again, since the index says where. A tool's
//! file can only be read as a whole, which takes too long for a search. The text is what is indexed,
//! so long input and output of tools is clipped. Packed, it has about a tenth of the length of the
//! files.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::conversation::{Field, Passage};

/// No piece of text is longer, in bytes.
const LONGEST: usize = 256 << 20;

/// A passage without its text, as it is kept: field, number of the record, time, id, kind of the
/// tool call, length of the text.
#[derive(Serialize, Deserialize)]
struct Kept<'a>(
    u8,
    u64,
    #[serde(borrow)] Cow<'a, str>,
    Option<String>,
    Option<String>,
    usize,
);

/// The passages as they are kept: a line that describes them, and behind it all of their texts.
pub(super) fn pack(passages: &[Passage]) -> Vec<u8> {
    let kept: Vec<_> = passages
        .iter()
        .map(|passage| {
            Kept(
                passage.field as u8,
                passage.offset,
                passage.at.as_str().into(),
                passage.id.clone(),
                passage.tool_kind.clone(),
                passage.text.len(),
            )
        })
        .collect();
    let mut plain = serde_json::to_vec(&kept).unwrap_or_default();
    plain.push(b'\n');
    for passage in passages {
        plain.extend_from_slice(passage.text.as_bytes());
    }
    lz4_flex::compress_prepend_size(&plain)
}

/// The passages that were kept; none if this is something else.
pub(super) fn unpack(packed: &[u8]) -> Option<Vec<Passage>> {
    let (size, packed) = lz4_flex::block::uncompressed_size(packed).ok()?;
    if size > LONGEST {
        return None;
    }
    let plain = lz4_flex::decompress(packed, size).ok()?;
    let plain = simdutf8::basic::from_utf8(&plain).ok()?;
    let (kept, mut texts) = plain.split_once('\n')?;
    let kept: Vec<Kept<'_>> = serde_json::from_str(kept).ok()?;
    let passages = kept.into_iter().map(|kept| {
        let Kept(field, offset, at, id, tool_kind, len) = kept;
        let (text, rest) = texts.split_at_checked(len)?;
        texts = rest;
        Some(Passage {
            field: *Field::ALL.get(usize::from(field))?,
            offset,
            at: at.into_owned(),
            id,
            tool_kind,
            text: text.to_owned(),
        })
    });
    passages.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let passage = |field, text: &str| Passage {
            field,
            offset: 7,
            at: "2026-11-21T08:30:00.123Z".to_owned(),
            id: Some("a\"b".to_owned()),
            tool_kind: None,
            text: text.to_owned(),
        };
        let passages = [
            passage(Field::Prompt, "Fix \n it"),
            passage(Field::Answer, ""),
            passage(Field::ToolOutput, &"a line ¶\n".repeat(1000)),
        ];
        let packed = pack(&passages);
        assert!(packed.len() < 1000, "{}", packed.len());
        assert_eq!(unpack(&packed).unwrap(), passages);
        assert_eq!(unpack(&pack(&[])).unwrap(), []);
    }

    #[test]
    fn anything_else_is_nothing() {
        let mut packed = pack(&[]);
        packed.truncate(packed.len() - 1);
        for bytes in [
            &packed[..],
            b"",
            b"abc",
            &[0xff; 40],
            &lz4_flex::compress_prepend_size(b"{}\n"),
            &lz4_flex::compress_prepend_size(b"[[0,1,\"\",null,null,2]]\na"),
            &lz4_flex::compress_prepend_size("[[0,1,\"\",null,null,1]]\n¶".as_bytes()),
        ] {
            assert_eq!(unpack(bytes), None);
        }
    }
}

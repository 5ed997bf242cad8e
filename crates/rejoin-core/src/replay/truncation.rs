//! Finds what can be removed from a JSON text to shorten it: long strings and media.

use std::ops::Range;

use crate::json::{self, split};
use crate::sys::grouped;

/// Strings are not shortened below this, or markers would soon be most of the text.
const SHORTEST: usize = 256;
/// The maximum length of a marker.
const MARKER: usize = 128;
/// The maximum length of the block that replaces a medium.
const INSTEAD: usize = 1024;
/// How much of a medium's type or URI is quoted in its replacement.
const QUOTED: usize = 256;
/// The maximum depth at which strings are searched.
const MAX_DEPTH: usize = 64;
/// Members with a name that something else refers to.
const NAMES: [&[u8]; 6] = [
    b"sessionId",
    b"sessionUpdate",
    b"messageId",
    b"toolCallId",
    b"terminalId",
    b"compactionId",
];

/// A range to remove, and its replacement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) range: Range<usize>,
    pub(super) instead: Vec<u8>,
}

/// A long string, without its quotes, or the object of a content block with a medium.
#[derive(Debug)]
struct TruncationCandidate {
    range: Range<usize>,
    medium: bool,
}

/// The ranges to remove from `text` to make it at least `need` bytes shorter, in order. `None` if
/// strings and media are not enough.
pub(super) fn cuts(text: &[u8], need: usize) -> Option<Vec<Cut>> {
    cuts_of(text, [json::skip_space(text, 0)], need)
}

/// The ranges to remove like [`cuts`], only from the values that begin at these places.
pub(super) fn cuts_of(
    text: &[u8],
    values: impl IntoIterator<Item = usize>,
    need: usize,
) -> Option<Vec<Cut>> {
    let mut search = TruncationSearch {
        text,
        spots: Vec::new(),
    };
    for at in values {
        search.value(at, 0)?;
    }
    let length = longest(&search.spots, need)?;
    let cut = |spot: &TruncationCandidate| (spot.saved(length) > 0).then(|| spot.cut(text, length));
    Some(search.spots.iter().filter_map(cut).collect())
}

/// The largest maximum length for all candidates that saves `need` bytes.
fn longest(spots: &[TruncationCandidate], need: usize) -> Option<usize> {
    let enough = |length| spots.iter().map(|spot| spot.saved(length)).sum::<usize>() >= need;
    let mut good = SHORTEST;
    if !enough(good) {
        return None;
    }
    let mut bad = spots.iter().map(|spot| spot.range.len()).max()? + 1;
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        if enough(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

impl TruncationCandidate {
    /// The minimum number of bytes saved if nothing may be longer than `length`.
    fn saved(&self, length: usize) -> usize {
        let length = if self.medium {
            length.max(INSTEAD)
        } else {
            length
        };
        self.range.len().saturating_sub(length)
    }

    fn cut(&self, text: &[u8], length: usize) -> Cut {
        let own = &text[self.range.clone()];
        if self.medium {
            let instead = text_block(&description(own));
            let range = self.range.clone();
            return Cut { range, instead };
        }
        // The end of an output is as informative as its beginning.
        let half = (length - MARKER) / 2;
        let (from, to) = (split::floor(own, half), split::ceil(own, own.len() - half));
        let instead = format!("\\n{}\\n", marker(to - from)).into_bytes();
        let range = self.range.start + from..self.range.start + to;
        Cut { range, instead }
    }
}

struct TruncationSearch<'a> {
    text: &'a [u8],
    spots: Vec<TruncationCandidate>,
}

impl TruncationSearch<'_> {
    /// Searches the value that begins at `at` and returns its end.
    fn value(&mut self, at: usize, depth: usize) -> Option<usize> {
        let before = self.spots.len();
        match self.text.get(at)? {
            b'"' => {
                let end = json::string_end(self.text, at)?;
                self.spot(at + 1..end - 1, false);
                Some(end)
            }
            b'{' if depth < MAX_DEPTH => {
                let mut parts = json::members(self.text, at)?;
                while let Some(member) = parts.member() {
                    if !NAMES.contains(&&self.text[member.key]) {
                        self.value(member.value.start, depth + 1)?;
                    }
                }
                let end = parts.end()?;
                if self.spots.len() > before && is_medium(&self.text[at..end]) {
                    self.spots.truncate(before);
                    self.spot(at..end, true);
                }
                Some(end)
            }
            b'[' if depth < MAX_DEPTH => {
                let mut parts = json::elements(self.text, at)?;
                while let Some(element) = parts.element() {
                    self.value(element.start, depth + 1)?;
                }
                parts.end()
            }
            _ => json::value_end(self.text, at),
        }
    }

    fn spot(&mut self, range: Range<usize>, medium: bool) {
        if range.len() > SHORTEST {
            self.spots.push(TruncationCandidate { range, medium });
        }
    }
}

/// Whether a content block holds data that is useless in part.
fn is_medium(block: &[u8]) -> bool {
    let Some(kind) = json::member(block, 0, "type") else {
        return false;
    };
    match &block[kind] {
        b"\"image\"" | b"\"audio\"" => json::member(block, 0, "data").is_some(),
        b"\"resource\"" => json::member(block, 0, "resource")
            .is_some_and(|resource| json::member(block, resource.start, "blob").is_some()),
        _ => false,
    }
}

/// Describes a medium, for the text that replaces it. Escaped.
fn description(block: &[u8]) -> String {
    let quote = |at: usize, key: &str| {
        let body = json::string_body(block, &json::member(block, at, key)?)?;
        let body = std::str::from_utf8(&block[body]).ok()?;
        (body.len() <= QUOTED).then_some(body)
    };
    let inner = json::member(block, 0, "resource").map_or(0, |resource| resource.start);
    let words = [
        quote(0, "type"),
        quote(inner, "mimeType"),
        quote(inner, "uri"),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    format!(
        "[{}: {}",
        words.join(", "),
        &marker(block.len())["[… ".len()..]
    )
}

/// The text that marks missing bytes. Needs no escaping.
pub(super) fn marker(bytes: usize) -> String {
    format!(
        "[… {} bytes cut in the replay; the log has all of it]",
        grouped(bytes)
    )
}

/// A text block. `text` is escaped.
pub(super) fn text_block(text: &str) -> Vec<u8> {
    format!("{{\"type\":\"text\",\"text\":\"{text}\"}}").into_bytes()
}

//! Text for a briefing: of bounded length, taken out of JSON, and descriptions of other content.

use crate::json::{self, text_body, text_member};
use crate::text::shortened;

/// The longest type or name, in characters.
const WORD: usize = 80;
/// The longest address, in characters.
const ADDRESS: usize = 300;

/// A text that grows, up to a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Clip {
    limit: usize,
    head: String,
    /// The end of the text; empty while nothing is left out.
    tail: String,
    /// How many bytes are left out between the beginning and the end.
    left_out: u64,
}

impl Clip {
    /// An empty text that takes about `limit` bytes, and never more than twice as many.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// The text with its gap; `None` if it is empty.
    pub(super) fn shown(&self) -> Option<String> {
        match self.parts() {
            ("", 0, _) => None,
            (text, 0, _) => Some(text.to_owned()),
            (head, left_out, tail) => Some(format!("{head}\n… {left_out} bytes …\n{tail}")),
        }
    }

    /// How many bytes are kept.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.left_out == 0
    }

    /// The beginning, the number of bytes left out after it, and the end.
    pub(super) fn parts(&self) -> (&str, u64, &str) {
        (&self.head, self.left_out, &self.tail)
    }

    /// Appends text that has JSON escapes.
    pub(super) fn push_escaped(&mut self, body: &str) {
        // Text that would be left out anyway is not unescaped. If this cuts an escape in two, a few
        // wrong characters appear beside the gap.
        let most = self.limit.saturating_mul(8).saturating_add(64);
        if body.len() <= 2 * most {
            return self.push(&json::unescape(body));
        }
        let head = body.floor_char_boundary(most);
        let tail = body.floor_char_boundary(body.len() - most);
        self.push(&json::unescape(&body[..head]));
        self.split();
        self.left_out += (tail - head) as u64;
        self.push(&json::unescape(&body[tail..]));
    }

    /// Appends text.
    pub(super) fn push(&mut self, text: &str) {
        if self.left_out == 0 && self.head.len() + text.len() <= self.limit {
            self.head.push_str(text);
            return;
        }
        let half = self.limit / 2;
        if self.left_out == 0 {
            self.head.push_str(text);
            self.split();
        } else {
            self.tail.push_str(text);
        }
        if self.tail.len() > self.limit {
            let cut = self.tail.floor_char_boundary(self.tail.len() - half);
            self.left_out += cut as u64;
            self.tail.drain(..cut);
            self.tail.shrink_to(self.limit);
        }
    }

    /// This text, whole.
    pub(super) fn of(text: &str) -> Self {
        let mut clip = Self::new(text.len());
        clip.push(text);
        clip
    }

    /// Appends another text.
    pub(super) fn push_clip(&mut self, other: &Self) {
        self.push(&other.head);
        if other.left_out > 0 {
            self.split();
            self.left_out += other.left_out;
            self.push(&other.tail);
        }
    }

    /// The text in at most `room` bytes: half from its beginning, half from its end.
    pub(super) fn within(&self, room: usize) -> Self {
        let mut clip = Self {
            limit: room,
            ..self.clone()
        };
        if clip.len() > room {
            let whole = clip.len() as u64 + clip.left_out;
            let end = if clip.left_out > 0 {
                &self.tail
            } else {
                &self.head
            };
            let from = end.len().saturating_sub(room / 2);
            end[end.ceil_char_boundary(from)..].clone_into(&mut clip.tail);
            clip.head.truncate(clip.head.floor_char_boundary(room / 2));
            clip.left_out = whole - clip.len() as u64;
        }
        clip
    }

    /// Splits a long text into its beginning and its end.
    fn split(&mut self) {
        let half = self.limit / 2;
        let begin = self.head.floor_char_boundary(half);
        let rest = &self.head[begin..];
        let cut = rest.floor_char_boundary(rest.len().saturating_sub(half));
        if self.left_out == 0 && cut > 0 {
            self.left_out = cut as u64;
            self.tail = rest[cut..].to_owned();
            self.head.truncate(begin);
            self.head.shrink_to_fit();
        }
    }
}

/// A JSON string, or the JSON of another value, on one line of at most `chars` characters. `None`
/// if nothing is left.
pub(super) fn line(value: &str, chars: usize) -> Option<String> {
    let body = text_body(value);
    let text = body.unwrap_or(value);
    // A character takes at most two escapes of six bytes.
    let most = chars.saturating_mul(12).saturating_add(64);
    let start = &text[..text.floor_char_boundary(most)];
    let line = match body {
        Some(_) => shortened(&json::unescape(start), chars),
        None => shortened(start, chars),
    };
    (!line.is_empty()).then_some(line)
}

/// A JSON string on one line of at most `chars` characters. `None` for other values, and if nothing
/// is left.
pub(super) fn short(value: &str, chars: usize) -> Option<String> {
    text_body(value)?;
    line(value, chars)
}

/// A member of an object that is a JSON string, on one line of at most `chars` characters. `None`
/// for other values, and if nothing is left.
pub(super) fn short_member(object: &str, key: &str, chars: usize) -> Option<String> {
    short(text_member(object, key)?, chars)
}

/// The text of a content block, still escaped, if it is a text block.
pub(super) fn block_text(block: &str) -> Option<&str> {
    let kind = text_member(block, "type").and_then(text_body);
    text_body(text_member(block, "text")?).filter(|_| kind == Some("text"))
}

/// A description of a content block that is not text: its type, size and origin.
pub(super) fn block_name(block: &str) -> String {
    let inner = text_member(block, "resource").unwrap_or(block);
    let word = |key| short_member(inner, key, WORD);
    let kind = short_member(block, "type", WORD);
    let size = text_member(inner, "size").and_then(|size| size.parse().ok());
    let words = [
        Some(kind.map_or_else(
            || "unknown content".to_owned(),
            |kind| kind.replace('_', " "),
        )),
        word("title").or_else(|| word("name")),
        word("mimeType"),
        (size.or_else(|| media_size(inner))).map(|size: usize| format!("{size} bytes")),
        short_member(inner, "uri", ADDRESS),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The size of a medium or a file, in bytes.
fn media_size(of: &str) -> Option<usize> {
    let body = |key| text_body(text_member(of, key)?);
    // Four characters of Base64 encode three bytes.
    let decoded = |base64: &str| base64.trim_end_matches('=').len() * 3 / 4;
    (body("data").or_else(|| body("blob")).map(decoded)).or_else(|| Some(body("text")?.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_within_the_limit_is_whole() {
        let mut clip = Clip::new(10);
        clip.push("abc");
        clip.push_escaped(r"d\u00e9\nf\ud83d\ude00");
        assert_eq!(clip.parts(), ("abcd", 3, "f😀"));
        let mut clip = Clip::new(12);
        clip.push("abc");
        clip.push_escaped(r"d\u00e9\nf\ud83d\ude00");
        assert_eq!(clip.parts(), ("abcdé\nf😀", 0, ""));
    }

    #[test]
    fn of_a_long_text_both_ends_are_kept() {
        let mut clip = Clip::new(20);
        for n in 0..1000 {
            clip.push(&format!("{n:03}é "));
            assert!(clip.len() <= 40);
        }
        let (head, left_out, tail) = clip.parts();
        assert_eq!(head, "000é 001");
        assert!(tail.ends_with("999é "), "{tail}");
        assert_eq!(
            head.len() + tail.len() + usize::try_from(left_out).unwrap(),
            6000
        );
    }

    #[test]
    fn an_endless_text_is_not_unescaped_whole() {
        let mut clip = Clip::new(10);
        clip.push_escaped(&r"\u0061\\".repeat(1_000_000));
        let (head, left_out, tail) = clip.parts();
        assert!(head.starts_with(r"a\a\") && tail.ends_with(r"a\"));
        assert!(left_out > 7_000_000 && clip.len() <= 20);
    }

    #[test]
    fn a_text_in_less_room_keeps_both_ends() {
        let mut clip = Clip::new(100);
        clip.push("abcdeé😀fghijk");
        assert_eq!(clip.within(17).parts(), clip.parts());
        assert_eq!(clip.within(8).parts(), ("abcd", 9, "hijk"));
        assert_eq!(clip.within(0).parts(), ("", 17, ""));
        let mut clip = Clip::new(4);
        clip.push("abcdefgh");
        assert_eq!(clip.within(2).parts(), ("a", 6, "h"));
    }

    #[test]
    fn a_block_is_named_by_type_size_and_address() {
        for (block, expected) in [
            (
                r#"{"type":"image","data":"AAAAAA==","mimeType":"image/png","uri":"file:///a.png"}"#,
                "image, image/png, 4 bytes, file:///a.png",
            ),
            (
                r#"{"type":"audio","data":"","mimeType":"audio/wav"}"#,
                "audio, audio/wav, 0 bytes",
            ),
            (
                r#"{"type":"resource","resource":{"uri":"file:///a.rs","text":"abc"}}"#,
                "resource, 3 bytes, file:///a.rs",
            ),
            (
                r#"{"type":"resource_link","name":"n","title":"t\nu","size":7,"uri":"u"}"#,
                "resource link, t u, 7 bytes, u",
            ),
            (r#"{"type":"hologram"}"#, "hologram"),
            ("7", "unknown content"),
            ("", "unknown content"),
        ] {
            assert_eq!(block_name(block), expected);
        }
    }
}

//! Text of bounded length: if it is too long, its beginning and its end are kept.

use crate::json;

/// A text that grows, up to a limit.
#[derive(Clone, Debug)]
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
            head: String::new(),
            tail: String::new(),
            left_out: 0,
        }
    }

    /// How many bytes are kept.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.left_out == 0
    }

    /// The beginning, the number of bytes left out behind it, and the end.
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
        let (head, tail) = (floor(body, most), floor(body, body.len() - most));
        self.push(&json::unescape(&body[..head]));
        self.part();
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
            self.part();
        } else {
            self.tail.push_str(text);
        }
        if self.tail.len() > self.limit {
            let cut = floor(&self.tail, self.tail.len() - half);
            self.left_out += cut as u64;
            self.tail.drain(..cut);
            self.tail.shrink_to(self.limit);
        }
    }

    /// Splits a long text into its beginning and its end.
    fn part(&mut self) {
        let half = self.limit / 2;
        let behind = &self.head[floor(&self.head, half)..];
        let cut = floor(behind, behind.len().saturating_sub(half));
        if self.left_out == 0 && cut > 0 {
            self.left_out = cut as u64;
            self.tail = behind[cut..].to_owned();
            self.head.truncate(floor(&self.head, half));
            self.head.shrink_to_fit();
        }
    }
}

/// The last boundary between two characters at or before `at`.
pub(super) fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

/// A text on one line, without invisible characters, of at most `chars` characters.
pub(super) fn one_line(text: &str, chars: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        let space = usize::from(!line.is_empty());
        let len = word.chars().count();
        if count + space + len > chars {
            let room = chars.saturating_sub(count + space + 1);
            if space > 0 && room > 0 {
                line.push(' ');
            }
            line.extend(word.chars().take(room));
            line.push('…');
            return line;
        }
        if space > 0 {
            line.push(' ');
        }
        line.push_str(word);
        count += space + len;
    }
    line
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
    fn a_line_has_no_more_characters_than_asked_for() {
        for (text, chars, line) in [
            (" a\n\tb\u{0}c  ", 10, "a b c"),
            ("one two", 7, "one two"),
            ("one two", 6, "one t…"),
            ("one two", 4, "one…"),
            ("one two", 1, "…"),
            ("", 5, ""),
        ] {
            assert_eq!(one_line(text, chars), line, "{text} {chars}");
        }
    }
}

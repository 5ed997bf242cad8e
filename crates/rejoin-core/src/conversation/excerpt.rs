//! The beginning and the end of a long text in JSON.

use std::collections::VecDeque;

use crate::json::{self, split};

/// How much of the beginning, and how much of the end, is kept, in bytes.
pub(super) const KEPT: usize = 2048;

/// A string is encoded data if this many bytes at its beginning are all letters, digits and signs of
/// such an encoding.
const ENCODED: usize = 256;

/// Collects strings of a payload, one on each line.
pub(super) struct Excerpt<'a> {
    /// Whether everything is kept.
    whole: bool,
    text: String,
    /// The strings, still escaped, that follow `text`, as far as they may be the end.
    last: VecDeque<&'a str>,
    last_len: usize,
    /// Whether the first of them continues the last line of `text`.
    continues: bool,
}

impl<'a> Excerpt<'a> {
    /// An empty one. `whole` is whether everything is to be kept.
    pub(super) fn new(whole: bool) -> Self {
        Self {
            whole,
            text: String::new(),
            last: VecDeque::new(),
            last_len: 0,
            continues: false,
        }
    }

    /// Whether the excerpt has no text.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Adds the member of an object, if it is a string.
    pub(super) fn member(&mut self, object: &'a str, name: &str) {
        if let Some(body) = json::text_member(object, name).and_then(json::text_body) {
            self.string(body);
        }
    }

    /// Adds all strings in a value but the names of members and encoded data.
    pub(super) fn strings_in(&mut self, value: &'a str) {
        let bytes = value.as_bytes();
        let mut at = 0;
        while let Some(quote) = memchr::memchr(b'"', &bytes[at..]) {
            let start = at + quote;
            let Some(end) = json::string_end(bytes, start) else {
                return;
            };
            at = end;
            let is_name = bytes.get(json::skip_space(bytes, end)) == Some(&b':');
            let body = &value[start + 1..end - 1];
            if !is_name && !is_encoded(body.as_bytes()) {
                self.string(body);
            }
        }
    }

    /// Adds the string with this body.
    pub(super) fn string(&mut self, body: &'a str) {
        if body.is_empty() {
            return;
        }
        if self.whole {
            return line(&mut self.text, body);
        }
        let room = KEPT.saturating_sub(self.text.len());
        if room == 0 || !self.last.is_empty() {
            return self.keep(body);
        }
        let (begin, rest) = body.split_at(split::floor(body.as_bytes(), room));
        line(&mut self.text, begin);
        if !rest.is_empty() {
            self.continues = true;
            self.keep(rest);
        }
    }

    /// Keeps a string in case that it is the end.
    fn keep(&mut self, body: &'a str) {
        self.last_len += body.len();
        self.last.push_back(body);
        while let Some(first) = self.last.front().map(|first| first.len())
            && self.last_len - first >= KEPT
        {
            self.last_len -= first;
            self.last.pop_front();
            self.continues = false;
        }
    }

    /// The text.
    pub(super) fn text(mut self) -> String {
        for mut body in std::mem::take(&mut self.last) {
            let extra = self.last_len.saturating_sub(KEPT);
            if extra > 0 {
                // Only the first is longer than what is kept of all.
                body = &body[split::ceil(body.as_bytes(), extra)..];
                self.last_len = 0;
                self.continues = false;
            }
            if std::mem::take(&mut self.continues) {
                self.text.push_str(&json::unescaped(body));
            } else {
                line(&mut self.text, body);
            }
        }
        self.text
    }
}

/// Whether a string looks like an image or a file.
fn is_encoded(body: &[u8]) -> bool {
    let is_code = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    let begin = body.get(..ENCODED);
    begin.is_some_and(|begin| begin.iter().all(is_code))
}

/// Adds the body of a string as a line.
fn line(text: &mut String, body: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&json::unescaped(body));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(value: &str, whole: bool) -> String {
        let mut excerpt = Excerpt::new(whole);
        excerpt.strings_in(value);
        excerpt.text()
    }

    #[test]
    fn strings_but_no_names_and_no_encoded_data() {
        let data = "QUJD".repeat(100);
        let value = format!(r#"{{"command" : ["a\n","b"],"n":7,"x":{{"c":"d\"é"}},"i":"{data}"}}"#);
        for whole in [false, true] {
            assert_eq!(excerpt(&value, whole), "a\n\nb\nd\"é");
        }
        assert_eq!(excerpt(r#""ab"#, false), "");
    }

    #[test]
    fn the_middle_of_long_text_is_left_out() {
        let lines: Vec<String> = (0..2000).map(|n| format!("line {n} é")).collect();
        let joined = lines.join("\n");
        let one = serde_json::to_string(&joined).unwrap();
        let many = serde_json::to_string(&lines).unwrap();
        for value in [one, many] {
            assert_eq!(excerpt(&value, true), joined);
            let text = excerpt(&value, false);
            assert!(text.starts_with("line 0 é\nline 1 é\n"), "{text}");
            assert!(text.ends_with("line 1998 é\nline 1999 é"), "{text}");
            assert!((3000..5000).contains(&text.len()), "{}", text.len());
        }
    }

    #[test]
    fn text_that_fits_is_kept_as_it_is() {
        for len in [1, KEPT - 1, KEPT, KEPT + 1, 2 * KEPT - 1, 2 * KEPT] {
            let text = "ab ".repeat(len)[..len].to_owned();
            let value = serde_json::to_string(&text).unwrap();
            assert_eq!(excerpt(&value, false), text, "{len}");
        }
    }
}

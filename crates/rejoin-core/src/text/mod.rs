//! Text for people: on one line, shortened, and compared line by line.

use std::iter;

/// Characters on one line: a run of white space becomes a single space, and none is at either end.
pub fn one_line(text: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    let mut rest = text.skip_while(|c| c.is_whitespace()).peekable();
    iter::from_fn(move || {
        let next = rest.next()?;
        if !next.is_whitespace() {
            return Some(next);
        }
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        rest.peek().map(|_| ' ')
    })
}

/// A text on one line of at most `most` characters, without control characters. The last character
/// of a text that is too long is an ellipsis. Reads little more than what is shown.
pub fn shortened(text: &str, most: usize) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut rest = one_line(visible);
    let mut line: String = rest.by_ref().take(most).collect();
    if rest.next().is_some() {
        line.pop();
        line.truncate(line.trim_end().len());
        line.push('…');
    }
    line
}

/// The part of a text that another one replaces: lines before and after it are the same in both.
#[derive(Debug, PartialEq, Eq)]
pub struct ReplacedLines<'l, 'a> {
    /// The number of equal lines at the beginning.
    pub before: usize,
    /// The lines that go.
    pub old: &'l [&'a str],
    /// The lines that come.
    pub new: &'l [&'a str],
}

impl<'l, 'a> ReplacedLines<'l, 'a> {
    /// Compares the lines of two texts.
    pub fn between(old: &'l [&'a str], new: &'l [&'a str]) -> Self {
        let same = |(a, b): &(&&str, &&str)| a == b;
        let before = old.iter().zip(new).take_while(same).count();
        let (old, new) = (&old[before..], &new[before..]);
        let after = old.iter().rev().zip(new.iter().rev());
        let after = after.take_while(same).count();
        Self {
            before,
            old: &old[..old.len() - after],
            new: &new[..new.len() - after],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_single_spaces_between_its_words() {
        for (text, line) in [
            ("", ""),
            (" \r\n\t", ""),
            (" a\r\n b\u{2003}c ", "a b c"),
            ("a", "a"),
        ] {
            let shown: String = one_line(text.chars()).collect();
            assert_eq!(shown, line, "{text:?}");
        }
    }

    #[test]
    fn a_line_has_no_more_characters_than_asked_for() {
        for (text, most, line) in [
            (" a\n\tb\u{0}c  ", 10, "a b c"),
            ("one two", 7, "one two"),
            ("one two \n ", 7, "one two"),
            ("one two", 6, "one t…"),
            ("one two", 5, "one…"),
            ("one two", 4, "one…"),
            ("one two", 1, "…"),
            ("ééééé", 4, "ééé…"),
            ("", 5, ""),
        ] {
            assert_eq!(shortened(text, most), line, "{text:?} {most}");
        }
    }

    #[test]
    fn equal_lines_around_a_change_are_left_out() {
        let replaced = |old: &[&str], new: &[&str]| {
            let found = ReplacedLines::between(old, new);
            (found.before, found.old.join(""), found.new.join(""))
        };
        let shown = |before, old: &str, new: &str| (before, old.to_owned(), new.to_owned());
        assert_eq!(
            replaced(&["a", "b", "c"], &["a", "x", "y", "c"]),
            shown(1, "b", "xy")
        );
        assert_eq!(replaced(&["a"], &["a", "a"]), shown(1, "", "a"));
        assert_eq!(replaced(&["a"], &["a"]), shown(1, "", ""));
        assert_eq!(replaced(&[], &["a"]), shown(0, "", "a"));
    }
}

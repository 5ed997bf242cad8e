//! Fits text into the columns of a terminal.

use unicode_width::UnicodeWidthChar;

/// The character that makes the one before it an emoji, which some terminals show in two columns.
const EMOJI: char = '\u{fe0f}';

/// How many columns a text takes. Terminals differ in whether they show joined emoji and letters as
/// one; this is the larger number, so that no line is wider than expected.
pub(in crate::cli) fn width(text: &str) -> usize {
    pieces(text).map(|(_, wide)| wide).sum()
}

/// The parts of a text that no line may separate, and how many columns each takes.
pub(in crate::cli) fn pieces(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.chars();
        let (first, second) = (chars.next()?, chars.next());
        let (count, wide) = match second {
            Some(second) if is_half_flag(first) && is_half_flag(second) => (2, 2),
            Some(EMOJI) => (2, of_char(first).max(2)),
            _ if is_half_flag(first) => (1, 2),
            _ => (1, of_char(first)),
        };
        let end = rest.chars().take(count).map(char::len_utf8).sum();
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some((piece, wide))
    })
}

fn of_char(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// Two of these are a flag.
fn is_half_flag(c: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&c)
}

/// The beginning of a text, in at most `room` columns.
pub(in crate::cli) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let (mut left, mut end) = (room.saturating_sub(1), 0);
    for (piece, wide) in pieces(text) {
        match left.checked_sub(wide) {
            Some(rest) => left = rest,
            None => break,
        }
        end += piece.len();
    }
    let kept = text[..end].trim_end();
    if room == 0 {
        String::new()
    } else {
        format!("{kept}…")
    }
}

/// The end of a text, in at most `room` columns; of a path, whole names if they fit.
pub(in crate::cli) fn cut_start(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(1);
    let fits = |at: &usize| width(&text[*at..]) <= room;
    let names = text.match_indices(['/', '\\']).map(|(at, _)| at);
    let mut places = pieces(text).scan(0, |at, (piece, _)| {
        *at += piece.len();
        Some(*at - piece.len())
    });
    let begin = names
        .filter(|at| *at > 0)
        .find(fits)
        .or_else(|| places.find(fits));
    format!("…{}", &text[begin.unwrap_or(text.len())..])
}

/// A text in lines of at most `room` columns, broken between words. A command in backticks stays on
/// one line if it fits there, so that it can be copied. A longer word has a line of its own.
pub(in crate::cli) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in words(text, room) {
        if !line.is_empty() && width(&line) + 1 + width(&word) > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// The words of a text; what is in backticks is one of them, unless it is wider than `room`.
fn words(text: &str, room: usize) -> Vec<String> {
    let is_open = |word: &str| word.matches('`').count() % 2 == 1;
    let mut words = Vec::<String>::new();
    let mut rest = text.split_whitespace();
    while let Some(word) = rest.next() {
        let mut quoted = word.to_owned();
        let mut behind = rest.clone();
        while is_open(&quoted)
            && let Some(next) = behind.next()
        {
            quoted = format!("{quoted} {next}");
        }
        if is_open(&quoted) || width(&quoted) > room {
            words.push(word.to_owned());
        } else {
            words.push(quoted);
            rest = behind;
        }
    }
    words
}

/// A line as the lines that fit into `room` columns. Those that follow the first one are indented by
/// as many columns as it has letters before `indent`.
pub(in crate::cli) fn hanging(line: &str, indent: usize, room: usize) -> Vec<String> {
    if width(line) <= room {
        return vec![line.to_owned()];
    }
    let (head, rest) = line.split_at(indent);
    let lines = wrapped(rest, room.saturating_sub(indent)).into_iter();
    let spaces = " ".repeat(width(head));
    let lines = lines.enumerate().map(|(number, line)| {
        let before = if number == 0 { head } else { &spaces };
        format!("{before}{line}")
    });
    lines.collect()
}

/// A text with spaces after it, `room` columns wide.
pub(in crate::cli) fn pad(text: &str, room: usize) -> String {
    let missing = room.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_the_columns_that_it_takes() {
        for (text, room, shown) in [
            ("Fix Redis", 9, "Fix Redis"),
            ("Fix Redis", 8, "Fix Red…"),
            ("Fix Redis", 5, "Fix…"),
            ("Fix Redis", 1, "…"),
            ("Fix Redis", 0, ""),
            ("修复缓存", 8, "修复缓存"),
            ("修复缓存", 7, "修复缓…"),
            ("修复缓存", 6, "修复…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("👩‍👩‍👧 family", 6, "👩‍👩\u{200d}…"),
            ("❤️❤️❤️", 5, "❤️❤️…"),
            ("🇩🇪🇫🇷🇮🇹", 6, "🇩🇪🇫🇷🇮🇹"),
            ("🇩🇪🇫🇷🇮🇹", 5, "🇩🇪🇫🇷…"),
            ("🇩🇪🇫🇷🇮🇹", 4, "🇩🇪…"),
            ("a🇩b🇪", 5, "a🇩b…"),
            // Where the letters are joined, this takes fewer columns.
            ("لا❤️", 4, "لا❤️"),
            ("لا❤️", 3, "لا…"),
        ] {
            assert_eq!(cut(text, room), shown, "{text} in {room}");
            for room in 0..20 {
                let shown = cut(text, room);
                assert!(width(&shown) <= room, "{shown:?} in {room}");
                assert!(unicode_width::UnicodeWidthStr::width(&*shown) <= room);
                assert!(width(&pad(&shown, room)) == room, "{shown:?} in {room}");
                let end = cut_start(text, room.max(1));
                assert!(width(&end) <= room.max(1), "{end:?} in {room}");
            }
        }
    }

    #[test]
    fn sentences_are_broken_between_words() {
        for (line, indent, room, shown) in [
            ("a b c", 0, 5, &["a b c"][..]),
            ("one two three", 0, 8, &["one two", "three"]),
            ("  one two three", 2, 8, &["  one", "  two", "  three"]),
            ("say: one  two", 5, 9, &["say: one", "     two"]),
            ("use `a b c` or d", 0, 8, &["use", "`a b c`", "or d"]),
            ("use `a b c d e`, d", 0, 8, &["use `a b", "c d e`,", "d"]),
            ("it`s one of two", 0, 8, &["it`s one", "of two"]),
            ("a /long/path/name b", 0, 6, &["a", "/long/path/name", "b"]),
        ] {
            assert_eq!(hanging(line, indent, room), shown, "{line} in {room}");
        }
    }

    #[test]
    fn of_a_path_the_end_is_shown() {
        for (path, room, shown) in [
            ("~/projects/cache", 16, "~/projects/cache"),
            ("~/projects/cache", 15, "…/cache"),
            ("/home/ada/projects/cache", 18, "…/projects/cache"),
            ("~/cache", 6, "…cache"),
            (r"C:\Users\ada\cache", 11, r"…\ada\cache"),
            ("éé", 2, "éé"),
        ] {
            assert_eq!(cut_start(path, room), shown, "{path} in {room}");
        }
    }
}

//! Fits text into the columns of a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many columns a text takes. Terminals differ in whether they show joined emoji as one; this is
/// the larger number, so that no line is wider than expected.
pub(super) fn width(text: &str) -> usize {
    text.width().max(text.chars().map(of_char).sum())
}

fn of_char(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// The beginning of a text, in at most `room` columns.
pub(super) fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let end = text.char_indices().find_map(|(at, c)| {
        // A variation selector makes some characters wider than they are alone.
        let wide = if is_widened(&text[at..]) {
            2
        } else {
            of_char(c)
        };
        match left.checked_sub(wide) {
            Some(rest) => {
                left = rest;
                None
            }
            None => Some(at),
        }
    });
    let kept = text[..end.unwrap_or(text.len())].trim_end();
    if room == 0 {
        String::new()
    } else {
        format!("{kept}…")
    }
}

fn is_widened(text: &str) -> bool {
    text.chars().nth(1) == Some('\u{fe0f}')
}

/// The end of a text, in at most `room` columns; of a path, whole names if they fit.
pub(super) fn cut_start(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(1);
    let fits = |at: &usize| width(&text[*at..]) <= room;
    let names = text.match_indices(['/', '\\']).map(|(at, _)| at);
    let mut characters = text.char_indices().map(|(at, _)| at);
    let begin = names
        .filter(|at| *at > 0)
        .find(fits)
        .or_else(|| characters.find(fits));
    format!("…{}", &text[begin.unwrap_or(text.len())..])
}

/// A text with spaces after it, `room` columns wide.
pub(super) fn pad(text: &str, room: usize) -> String {
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
        ] {
            assert_eq!(cut(text, room), shown, "{text} in {room}");
            for room in 0..20 {
                let shown = cut(text, room);
                assert!(width(&shown) <= room, "{shown:?} in {room}");
                assert!(width(&pad(&shown, room)) == room, "{shown:?} in {room}");
                let end = cut_start(text, room.max(1));
                assert!(width(&end) <= room.max(1), "{end:?} in {room}");
            }
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

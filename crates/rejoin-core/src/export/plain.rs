//! Removes what only a terminal understands from text.

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// The text without escape sequences and control characters. Line breaks and tabs stay; a carriage
/// return alone is what a progress display writes before it repeats its line, so only the last
/// version of the line stays.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ESCAPE => skip_sequence(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => shown.truncate(shown.rfind('\n').map_or(0, |at| at + 1)),
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => {}
            c => shown.push(c),
        }
    }
    shown
}

/// The text on one line, without escape sequences and control characters.
pub fn one_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ").trim().to_owned()
}

/// Skips the rest of an escape sequence.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        // A control sequence ends with a letter or one of a few signs.
        Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
        // A string, such as a title or the target of a link, ends with a bell or `ESC \`.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next() {
                if c == BELL || c == ESCAPE && chars.next_if_eq(&'\\').is_some() {
                    break;
                }
            }
        }
        Some('(' | ')' | '#' | '%' | ' ') => _ = chars.next(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_for_a_terminal_is_left() {
        for (text, shown) in [
            (
                "\u{1b}[1;31mred\u{1b}[0m\tplain\r\nnext",
                "red\tplain\nnext",
            ),
            (
                "\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link",
                "alink",
            ),
            (
                "first\n 10%\r 20%\r100%\ndone\u{8}\u{9b}",
                "first\n100%\ndone",
            ),
            ("\u{1b}(Bé\u{1b}", "é"),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(text), shown, "{text:?}");
        }
    }
}

//! Makes stored text safe to show on a terminal.

/// Text that cannot move a terminal's cursor, change its colours or hide a part of itself: control
/// characters and those that turn the direction of writing are shown as escapes. Line breaks and
/// tabs stay.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() || hides(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

fn hides(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left() {
        let text = "a\x1b[31mred\x07\r\u{9b}2J\u{202e}x\ty\nz";
        assert_eq!(
            printable(text),
            "a\\u{1b}[31mred\\u{7}\\u{d}\\u{9b}2J\\u{202e}x\ty\nz"
        );
    }
}

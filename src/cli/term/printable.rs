//! Makes stored text safe to show on a terminal.

use std::fmt::Write;

/// Text that cannot move a terminal's cursor, change its colours or hide a part of itself: control
/// characters and those that change the direction of text are shown as escapes. Line breaks and
/// tabs stay.
pub(in crate::cli) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// JSON text with unsafe characters as escapes, which keeps its meaning: such a character occurs
/// only in strings, where an escape means the same character.
pub(in crate::cli) fn printable_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                write!(shown, "\\u{unit:04x}").ok();
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Printable text on one line.
pub(in crate::cli) fn one_line(text: &str) -> String {
    printable(&text.replace(['\n', '\t'], " "))
}

/// Whether a character can affect the terminal or the text around it.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left() {
        let text = "a\x1b[31mred\x07\r\u{9b}2J\u{202e}x\u{61c}\ty\nz";
        assert_eq!(
            printable(text),
            "a\\u{1b}[31mred\\u{7}\\u{d}\\u{9b}2J\\u{202e}x\\u{61c}\ty\nz"
        );
    }

    #[test]
    fn json_means_the_same_without_control_characters() {
        let value = serde_json::json!({ "a\u{7f}": "b\u{9b}2J\u{202e}\u{61c}\n\u{1b}é\u{1f600}" });
        let shown = printable_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(
            shown,
            "{\n  \"a\\u007f\": \"b\\u009b2J\\u202e\\u061c\\n\\u001bé\u{1f600}\"\n}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }
}

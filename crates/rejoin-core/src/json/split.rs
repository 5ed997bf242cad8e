//! Finds where escaped text may be split: between characters, never inside one.

/// Splits `text` into parts of at most `max` bytes. A character that is longer than `max` is a part
/// of its own.
pub fn parts(text: &[u8], max: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let len = match floor(rest, max) {
            0 => character(rest),
            len => len,
        };
        let (part, behind) = rest.split_at(len);
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
}

/// The last position at or before `max` where `text` may be split.
pub fn floor(text: &[u8], max: usize) -> usize {
    if max >= text.len() {
        return text.len();
    }
    let mut at = max;
    while at > 0 && text[at] & 0b1100_0000 == 0b1000_0000 {
        at -= 1;
    }
    if let Some(escape) = escape_before(text, at)
        && escape + escape_len(text, escape) > at
    {
        at = escape;
    }
    // Two escapes that together are one character.
    if is_unit(&text[at..], b"cdefCDEF") && ends_in_high_surrogate(&text[..at]) {
        at -= UNIT;
    }
    at
}

/// The first position at or after `min` where `text` may be split.
pub fn ceil(text: &[u8], min: usize) -> usize {
    match floor(text, min) {
        at if at < min => at + character(&text[at..]),
        at => at,
    }
}

/// Whether `text` ends with the escape of the first half of a surrogate pair.
pub fn ends_in_high_surrogate(text: &[u8]) -> bool {
    text.len().checked_sub(UNIT).is_some_and(|at| {
        is_unit(&text[at..], b"89abAB") && escape_before(text, text.len()) == Some(at)
    })
}

/// Whether `text` begins with the escape of the second half of a surrogate pair.
pub fn begins_with_low_surrogate(text: &[u8]) -> bool {
    is_unit(text, b"cdefCDEF")
}

/// The length of `\uXXXX`.
const UNIT: usize = 6;

/// Whether `text` begins with a `\uDxxx` whose second digit is one of these.
fn is_unit(text: &[u8], second: &[u8]) -> bool {
    matches!(text, [b'\\', b'u', b'd' | b'D', digit, a, b, ..]
        if second.contains(digit) && a.is_ascii() && b.is_ascii())
}

/// The start of the last escape that begins before `at`, at most one escape's length before it. A
/// backslash begins an escape if the run of backslashes up to it has an odd length.
fn escape_before(text: &[u8], at: usize) -> Option<usize> {
    let window = at.saturating_sub(UNIT);
    let last = window + text[window..at].iter().rposition(|byte| *byte == b'\\')?;
    let run = text[..=last]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count();
    if run % 2 == 1 {
        Some(last)
    } else {
        Some(last - 1)
    }
}

/// The length of the escape at `at`. Invalid JSON may have unknown escapes: they count as shorter,
/// so that no character is split in any text.
fn escape_len(text: &[u8], at: usize) -> usize {
    let behind = text.get(at + 2..).unwrap_or_default();
    match text.get(at + 1) {
        Some(b'u') if behind.iter().take(UNIT - 2).all(u8::is_ascii) => UNIT,
        Some(byte) if byte.is_ascii() => 2,
        _ => 1,
    }
}

/// The length of the first character: a plain one, an escape or a pair of escapes.
fn character(text: &[u8]) -> usize {
    let len = match text.first() {
        None => 0,
        Some(b'\\') if ends_in_high_surrogate(text.get(..UNIT).unwrap_or_default()) => {
            let pair = begins_with_low_surrogate(&text[UNIT..]);
            if pair { 2 * UNIT } else { UNIT }
        }
        Some(b'\\') => escape_len(text, 0),
        Some(_) => {
            let more = text[1..]
                .iter()
                .take_while(|byte| *byte & 0b1100_0000 == 0b1000_0000);
            1 + more.count()
        }
    };
    len.min(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ATOMS: [&str; 16] = [
        "a",
        " ",
        "é",
        "\u{2028}",
        "😀",
        "\\n",
        "\\\\",
        "\\\"",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\uD83D\\uDE00",
        "\\ud83d",
        "\\ude00",
        "u",
        "d83d",
        "\\/",
    ];

    fn is_half(rest: &str, digits: &str) -> bool {
        let rest = rest.to_lowercase();
        let digit = rest
            .strip_prefix("\\ud")
            .and_then(|rest| rest.chars().next());
        digit.is_some_and(|digit| digits.contains(digit))
    }

    /// Where text made of atoms may be split, found from the start, one character at a time.
    fn places(text: &str) -> Vec<usize> {
        let mut places = vec![0];
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let pair = is_half(rest, "89ab") && is_half(rest.get(6..).unwrap_or_default(), "cdef");
            at += if pair {
                12
            } else if rest.starts_with("\\u") {
                6
            } else if rest.starts_with('\\') {
                2
            } else {
                rest.chars().next().unwrap().len_utf8()
            };
            places.push(at);
        }
        places
    }

    fn check(text: &str) {
        let bytes = text.as_bytes();
        let places = places(text);
        for at in 0..=bytes.len() + 2 {
            let floored = *places.iter().rfind(|place| **place <= at).unwrap();
            assert_eq!(floor(bytes, at), floored, "floor {at} of {text:?}");
            let above = places.iter().find(|place| **place >= at);
            assert_eq!(
                ceil(bytes, at),
                *above.unwrap_or(&bytes.len()),
                "ceil {at} of {text:?}"
            );
            let parts: Vec<_> = parts(bytes, at).collect();
            assert_eq!(parts.concat(), bytes);
            for part in parts {
                assert!(part.len() <= at.max(12), "{at} of {text:?}");
                let quoted = [b"\"", part, b"\""].concat();
                assert_eq!(crate::json::string_end(&quoted, 0), Some(quoted.len()));
                assert!(std::str::from_utf8(part).is_ok());
            }
        }
    }

    #[test]
    fn tricky_texts_are_parted_between_characters() {
        for text in [
            "",
            "plain",
            "\\\\\\\\\\\\n\\\\\\\\u",
            "\\\\ud83d\\\\ude00\\ud83d\\ude00",
            "\\ud83d\\ud83d\\ude00\\ude00",
            "x\\\\\\ud83d\\ude00\\\\",
            "😀é\\u2028\u{2028}",
        ] {
            check(text);
        }
    }

    #[test]
    fn broken_escapes_are_no_panic() {
        for text in [
            "\\",
            "a\\",
            "\\u",
            "\\u12",
            "\\ud83d\\u",
            "\\\\\\",
            "\\é",
            "\\ud8é",
            "\\ude\u{fffd}0",
            "\\ud83d\\ude\u{fffd}0",
        ] {
            for max in 0..8 {
                let parts: Vec<_> = parts(text.as_bytes(), max).collect();
                assert_eq!(parts.concat(), text.as_bytes());
                for part in parts {
                    assert!(std::str::from_utf8(part).is_ok(), "{max} of {text:?}");
                }
                assert!(ceil(text.as_bytes(), max) <= text.len());
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parted_between_characters(
            atoms in prop::collection::vec(prop::sample::select(&ATOMS[..]), 0..24),
        ) {
            check(&atoms.concat());
        }
    }
}

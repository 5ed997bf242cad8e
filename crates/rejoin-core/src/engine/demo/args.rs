//! Parses what follows a command's name.

use std::time::Duration;

/// The longest time that a command may be given, in seconds.
pub(super) const LONGEST_SECONDS: f64 = 3600.0;

/// The text without one line break or other white space character at its start.
pub(super) fn skip_space(text: &str) -> &str {
    let rest = text.strip_prefix("\r\n");
    rest.or_else(|| text.strip_prefix(char::is_whitespace))
        .unwrap_or(text)
}

/// Parses a whole number. `1_000`, `1,000`, `+3` and `#3` are valid; a number that is too large
/// becomes the largest possible one.
pub(super) fn whole(word: &str) -> Option<u64> {
    let digits: String = word
        .trim_start_matches(['+', '#'])
        .chars()
        .filter(|&c| c != '_' && c != ',')
        .collect();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Parses a time in seconds, from 0 to [`LONGEST_SECONDS`]. `2`, `0.5`, `0,5`, `2s` and `500ms` are
/// valid.
pub(super) fn seconds(word: &str) -> Option<Duration> {
    let word = word.to_ascii_lowercase().replace(',', ".");
    let (number, unit) = match (word.strip_suffix("ms"), word.strip_suffix('s')) {
        (Some(number), _) => (number, 0.001),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (word.as_str(), 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * unit;
    (0.0..=LONGEST_SECONDS)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_leniently() {
        for (word, expected) in [
            ("3", Some(3)),
            ("+3", Some(3)),
            ("#3", Some(3)),
            ("10_000", Some(10_000)),
            ("1,000", Some(1000)),
            ("99999999999999999999", Some(u64::MAX)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("x", None),
            ("_", None),
            ("٣", None),
        ] {
            assert_eq!(whole(word), expected, "{word:?}");
        }
    }

    #[test]
    fn times_are_read_leniently_and_have_a_limit() {
        for (word, expected) in [
            ("0", Some(0)),
            ("2", Some(2000)),
            ("0.5", Some(500)),
            ("0,5", Some(500)),
            (".25", Some(250)),
            ("2s", Some(2000)),
            ("500ms", Some(500)),
            ("500MS", Some(500)),
            ("3600", Some(3_600_000)),
            ("3600.1", None),
            ("-1", None),
            ("-0.0", Some(0)),
            ("inf", None),
            ("nan", None),
            ("1e400", None),
            ("", None),
            ("s", None),
            ("soon", None),
        ] {
            assert_eq!(
                seconds(word),
                expected.map(Duration::from_millis),
                "{word:?}"
            );
        }
    }
}

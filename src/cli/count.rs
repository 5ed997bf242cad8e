//! Formats numbers of things in words, and parses numbers from the command line.

use crate::sys::grouped;

/// `1 session`, `2 sessions`, `20,000 sessions`.
pub(super) fn count(number: usize, thing: &str) -> String {
    let ending = match number {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {thing}{ending}", grouped(number))
}

/// How many keys and tokens were masked.
pub(super) fn masked_keys(number: usize) -> String {
    match number {
        0 => "no key or token was found that could be masked".to_owned(),
        1 => "masked 1 key or token".to_owned(),
        number => format!("masked {} keys and tokens", grouped(number)),
    }
}

/// Parses a number from the command line.
pub(super) fn number(text: &str) -> Result<usize, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || "expected a number".to_owned();
    // A number that overflows means everything there is.
    let read = || text.parse().unwrap_or(usize::MAX);
    digits.then(read).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_counted() {
        assert_eq!(count(0, "session"), "0 sessions");
        assert_eq!(count(1, "session"), "1 session");
        assert_eq!(count(999, "session"), "999 sessions");
        assert_eq!(count(1_234_567, "session"), "1,234,567 sessions");
        assert_eq!(count(1, "process"), "1 process");
        assert_eq!(count(2, "process"), "2 processes");
    }

    #[test]
    fn numbers_are_digits() {
        assert_eq!(number("0"), Ok(0));
        assert_eq!(number("99999999999999999999999"), Ok(usize::MAX));
        for wrong in ["", "abc", "-1", "+1", "1.5", "1 "] {
            assert_eq!(
                number(wrong),
                Err("expected a number".to_owned()),
                "{wrong}"
            );
        }
    }
}

//! Numbers of things in words.

use rejoin::sys::grouped;

/// `1 session`, `2 sessions`, `20,000 sessions`.
pub(in crate::cli) fn count(number: usize, thing: &str) -> String {
    let ending = match number {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {thing}{ending}", grouped(number))
}

/// How many keys and tokens were masked.
pub(in crate::cli) fn masked_keys(number: usize) -> String {
    match number {
        0 => "no key or token was found that could be masked".to_owned(),
        1 => "masked 1 key or token".to_owned(),
        number => format!("masked {} keys and tokens", grouped(number)),
    }
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
}

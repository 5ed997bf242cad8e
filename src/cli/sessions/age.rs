//! Parses ages from the command line: `90d`, `12h`.

use std::time::Duration;

/// Parses a whole number with its unit: `s`, `m`, `h`, `d` or `w`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "not a number with a unit, such as 90d, 12h or 2w".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).unwrap_or_default();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds).ok_or("that is too long")?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit() {
        for (text, seconds) in [("0s", 0), ("90m", 5400), ("12h", 43200), ("30d", 2_592_000)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "d",
            "30",
            "-1d",
            "+1d",
            "1.5h",
            "30 d",
            "1é",
            "99999999999999999999d",
        ] {
            assert!(age(bad).is_err(), "{bad}");
        }
        assert!(age("18446744073709551615w").is_err());
    }
}

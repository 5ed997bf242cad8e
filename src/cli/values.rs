//! Values of options: numbers, sizes, ages and time limits, and those that an environment variable may
//! set for all commands.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use super::exit::Failure;

/// Parses a number from the command line.
pub(super) fn number(text: &str) -> Result<usize, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || "expected a number".to_owned();
    // A number that overflows means everything there is.
    let read = || text.parse().unwrap_or(usize::MAX);
    digits.then(read).ok_or_else(wrong)
}

/// Parses how many entries a list has at most from the command line.
pub(super) fn limit(text: &str) -> Result<usize, String> {
    match number(text)? {
        0 => Err("nothing would be listed: expected 1 or more".to_owned()),
        limit => Ok(limit),
    }
}

/// A number of bytes, or that there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) Option<usize>);

/// The default of limits to what is replayed, for a variable that is set but empty, too.
const DEFAULT_SIZE: Size = Size(Some(64 << 10));

/// A limit below this would leave little but markers.
const LEAST_SIZE: usize = 1024;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => return Ok(DEFAULT_SIZE),
            "none" => return Ok(Self(None)),
            _ => {}
        }
        let bytes = bytes(text).map_err(|wrong| format!("{wrong}, or `none`"))?;
        if bytes < LEAST_SIZE {
            return Err(format!(
                "the least is {LEAST_SIZE} bytes; `none` leaves nothing out"
            ));
        }
        Ok(Self(Some(bytes)))
    }
}

/// Parses a number of bytes, with or without a unit.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || "write a size as `64K` or `1M`".to_owned();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: usize = number.parse().map_err(|_| wrong())?;
    Ok(number.saturating_mul(unit))
}

/// A time limit, or that there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeout(pub(super) Option<Duration>);

/// 100 years: used where no limit is set.
const NO_LIMIT: Duration = Duration::from_hours(100 * 365 * 24);

impl Timeout {
    /// The limit as a duration; without a limit, a very long one.
    pub(super) fn or_forever(self) -> Duration {
        self.0.unwrap_or(NO_LIMIT)
    }
}

impl FromStr for Timeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if matches!(text, "none" | "0") {
            return Ok(Self(None));
        }
        let time = duration(text).map_err(|error| format!("{error}, or `none`"))?;
        Ok(Self((!time.is_zero()).then_some(time)))
    }
}

/// Parses a length of time.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let read = humantime::parse_duration(text);
    read.map_err(|error| format!("{error}; write a time as `30s`, `12h` or `90d`"))
}

/// Parses the time after which sessions expire; a number without a unit is one of days.
pub(super) fn expiry(text: &str) -> Result<Duration, String> {
    let time = match text.parse() {
        Ok(days) => Duration::from_hours(24).saturating_mul(days),
        Err(_) => duration(text)?,
    };
    if time.is_zero() || time > NO_LIMIT {
        return Err("expected a time between `1s` and `36500d`".to_owned());
    }
    Ok(time)
}

/// The value of an option that an environment variable may set for all commands, or what is wrong with
/// it: that is reported when the value is used, so that a wrong one does not disturb the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EnvValue<T>(Result<T, String>);

impl<T: FromStr<Err = String>> FromStr for EnvValue<T> {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

impl<T> EnvValue<T> {
    /// The value; `names` are the option and the variable.
    pub(super) fn get(&self, names: &str) -> Result<&T, Failure> {
        let wrong = |error: &String| Failure::usage(format!("{names}: {error}"));
        self.0.as_ref().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_size_may_have_a_unit_or_be_none() {
        for (text, size) in [
            ("2000", Some(2000)),
            ("64K", Some(65_536)),
            ("1MiB", Some(1 << 20)),
            ("99999999999G", Some(usize::MAX)),
            ("none", None),
            ("", Some(65_536)),
        ] {
            assert_eq!(text.parse(), Ok(Size(size)), "{text}");
        }
        for text in ["K", "1.5M", "-1", "64 K", "64KB/s", "0", "1023"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_may_be_none() {
        for (text, limit) in [
            ("30s", Some(30_000)),
            ("1m 30s", Some(90_000)),
            ("250ms", Some(250)),
            ("0", None),
            ("0s", None),
            ("none", None),
        ] {
            let limit = limit.map(Duration::from_millis);
            assert_eq!(text.parse(), Ok(Timeout(limit)), "{text}");
        }
        for text in ["", "abc", "30", "-1s"] {
            let error = text.parse::<Timeout>().unwrap_err();
            assert!(
                error.ends_with("write a time as `30s`, `12h` or `90d`, or `none`"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [
            ("0s", 0),
            ("90m", 5400),
            ("1h 30m", 5400),
            ("2w", 1_209_600),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "d", "30", "-1d", "+1d", "1é", "99999999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for (text, days) in [("30", 30), ("30d", 30), ("48h", 2)] {
            assert_eq!(expiry(text), Ok(Duration::from_hours(24 * days)), "{text}");
        }
        for wrong in ["0", "0d", "36501", "-1"] {
            assert!(expiry(wrong).is_err(), "{wrong}");
        }
    }
}

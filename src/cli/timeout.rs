//! Time limits as options: `30s`, `2m`, or `none`.

use std::str::FromStr;
use std::time::Duration;

/// A time limit, or that there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeout(pub(super) Option<Duration>);

/// Used where no limit is set: 100 years.
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
        let time = humantime::parse_duration(text)
            .map_err(|error| format!("{error}; write a time as `30s` or `2m`, or `none`"))?;
        Ok(Self((!time.is_zero()).then_some(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                error.ends_with("write a time as `30s` or `2m`, or `none`"),
                "{error}"
            );
        }
    }
}

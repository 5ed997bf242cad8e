//! Wall-clock time in UTC milliseconds, in the format of the log and the protocol.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, Timelike, Utc};

use super::zone::Zone;

/// A time in UTC, in whole milliseconds since 1970-01-01.
///
/// Prints as `YYYY-MM-DDTHH:MM:SS.sssZ`: 24 characters for the years 0 to 9999, so that printed
/// times sort as strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last time that prints in 24 characters: 9999-12-31T23:59:59.999Z.
    const MAX_MILLIS: i64 = 253_402_300_799_999;

    /// A time from milliseconds since 1970. A value that would not print in 24 characters is
    /// clamped to the nearest that does.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(0, Self::MAX_MILLIS))
    }

    /// The time of a [`SystemTime`], or 1970 if that is earlier, as on a machine whose clock has
    /// lost its battery.
    pub fn of_system(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// The day in the time zone of this machine, such as `2026-11-23`.
    pub fn local_day(self) -> String {
        Zone::Local.shown(self).date().to_string()
    }

    /// Parses the format that [`Display`](fmt::Display) prints, and any other RFC 3339 time.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|time| Self::from_millis(time.timestamp_millis()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (digits, mut value) in [
            (0..4, time.year().unsigned_abs()),
            (5..7, time.month()),
            (8..10, time.day()),
            (11..13, time.hour()),
            (14..16, time.minute()),
            (17..19, time.second()),
            (20..23, time.timestamp_subsec_millis()),
        ] {
            for digit in text[digits].iter_mut().rev() {
                *digit += (value % 10) as u8;
                value /= 10;
            }
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

/// A source of the current time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where sys::Clock meets the real clock"
    )]
    fn now(&self) -> Timestamp {
        // Not chrono's `Utc::now`, which panics before 1970.
        Timestamp::of_system(SystemTime::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_before_1970_shows_1970() {
        for (time, millis) in [
            (UNIX_EPOCH - Duration::from_hours(1), 0),
            (UNIX_EPOCH, 0),
            (UNIX_EPOCH + Duration::from_millis(1), 1),
        ] {
            assert_eq!(Timestamp::of_system(time).as_millis(), millis);
        }
    }

    #[test]
    fn prints_in_24_characters_and_reads_back() {
        for millis in [
            0,
            1,
            1_795_250_000_123,
            Timestamp::MAX_MILLIS,
            i64::MAX,
            i64::MIN,
        ] {
            let time = Timestamp::from_millis(millis);
            let text = time.to_string();
            assert_eq!(text.len(), 24, "{text}");
            assert_eq!(Timestamp::parse(&text), Some(time));
        }
        assert_eq!(
            Timestamp::from_millis(1).to_string(),
            "1970-01-01T00:00:00.001Z"
        );
    }
}

//! Times of day where the user is.

use chrono::{DateTime, FixedOffset, Local, NaiveDateTime, TimeZone, Utc};

use super::clock::Timestamp;

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// The time zone of this machine.
    Local,
    /// A time zone that is always so many minutes ahead of UTC.
    Ahead(i16),
}

impl Zone {
    /// The time that a clock there shows at this moment.
    pub fn shown(self, at: Timestamp) -> NaiveDateTime {
        let time = DateTime::<Utc>::from_timestamp_millis(at.as_millis()).unwrap_or_default();
        match self.offset() {
            None => time.with_timezone(&Local).naive_local(),
            Some(offset) => time.with_timezone(&offset).naive_local(),
        }
    }

    /// When a clock there shows this for the first time; none if it never does, as in the hour that
    /// summer time skips.
    pub fn time(self, shown: NaiveDateTime) -> Option<Timestamp> {
        let millis = match self.offset() {
            None => Local
                .from_local_datetime(&shown)
                .earliest()?
                .timestamp_millis(),
            Some(offset) => offset
                .from_local_datetime(&shown)
                .earliest()?
                .timestamp_millis(),
        };
        Some(Timestamp::from_millis(millis))
    }

    /// None if it is that of the machine, which changes with the season.
    fn offset(self) -> Option<FixedOffset> {
        match self {
            Self::Local => None,
            Self::Ahead(minutes) => FixedOffset::east_opt(i32::from(minutes) * 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_the_time_of_its_zone() {
        let time = Timestamp::parse("2026-11-23T23:30:00.000Z").unwrap();
        for (zone, shown) in [
            (Zone::Ahead(0), "2026-11-23 23:30:00"),
            (Zone::Ahead(330), "2026-11-24 05:00:00"),
            (Zone::Ahead(-60), "2026-11-23 22:30:00"),
        ] {
            assert_eq!(zone.shown(time).to_string(), shown);
            assert_eq!(zone.time(zone.shown(time)), Some(time));
        }
    }
}

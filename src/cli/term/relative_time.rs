//! Times as people say them, in their time zone.

use chrono::Datelike;

use rejoin::sys::{Timestamp, Zone};

const MINUTE: i64 = 60 * 1000;
const HOUR: i64 = 60 * MINUTE;

/// A time in at most 15 characters, as seen from `now`: `3 min ago`, `today 09:12`,
/// `yesterday 14:05`, `Fri 14:05`, `Nov 3`, `Nov 3, 2025`.
pub(in crate::cli) fn relative(at: Timestamp, now: Timestamp, zone: Zone) -> String {
    let age = now.as_millis() - at.as_millis();
    // Clocks of two machines may differ a little.
    if (-MINUTE..MINUTE).contains(&age) {
        return "just now".to_owned();
    }
    if (MINUTE..HOUR).contains(&age) {
        return format!("{} min ago", age / MINUTE);
    }
    let (then, today) = (zone.shown(at), zone.shown(now));
    let days = (today.date() - then.date()).num_days();
    let form = match days {
        0 => "today %H:%M",
        1 => "yesterday %H:%M",
        2..=6 => "%a %H:%M",
        _ if days > 0 && then.year() == today.year() => "%b %-d",
        _ => "%b %-d, %Y",
    };
    then.format(form).to_string()
}

/// A time to the minute: `2026-11-23 14:05`.
pub(in crate::cli) fn minute(at: Timestamp, zone: Zone) -> String {
    zone.shown(at).format("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn times_are_said_as_seen_from_now() {
        let now = time("2026-11-23T14:05:30Z");
        for (at, said) in [
            ("2026-11-23T14:06:00Z", "just now"),
            ("2026-11-23T14:04:31Z", "just now"),
            ("2026-11-23T14:04:30Z", "1 min ago"),
            ("2026-11-23T13:05:31Z", "59 min ago"),
            ("2026-11-23T13:05:30Z", "today 14:05"),
            ("2026-11-22T23:00:00Z", "today 00:00"),
            ("2026-11-22T22:59:00Z", "yesterday 23:59"),
            ("2026-11-21T23:00:00Z", "yesterday 00:00"),
            ("2026-11-21T22:59:00Z", "Sat 23:59"),
            ("2026-11-16T23:00:00Z", "Tue 00:00"),
            ("2026-11-16T22:59:00Z", "Nov 16"),
            ("2026-01-01T12:00:00Z", "Jan 1"),
            ("2025-12-31T12:00:00Z", "Dec 31, 2025"),
            // From a clock that was ahead.
            ("2026-11-23T15:00:00Z", "today 16:00"),
            ("2026-11-25T12:00:00Z", "Nov 25, 2026"),
        ] {
            let said_now = relative(time(at), now, Zone::Ahead(60));
            assert_eq!(said_now, said, "{at}");
            assert!(said_now.len() <= 15, "{said_now}");
        }
        let at = time("2026-11-23T14:05:30Z");
        assert_eq!(minute(at, Zone::Ahead(-15)), "2026-11-23 13:50");
    }
}

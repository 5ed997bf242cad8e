//! Holds a replay back to so many lines in a second.

use std::time::Duration;

/// The longest rest between two looks at whether the replay was cancelled.
const STEP: Duration = Duration::from_millis(50);

/// How fast a replay may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Lines in a second.
    rate: Option<u64>,
}

impl Pace {
    /// Unlimited without a rate.
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate }
    }

    /// Whether lines are to be sent one by one.
    pub(super) fn is_limited(self) -> bool {
        self.rate.is_some()
    }

    /// Blocks the thread for as long as `lines` take at this pace, or until `cancelled`.
    pub(super) fn rest(self, lines: u64, cancelled: impl Fn() -> bool) {
        let mut left = self.time(lines);
        while !left.is_zero() && !cancelled() {
            let step = left.min(STEP);
            std::thread::sleep(step);
            left -= step;
        }
    }

    fn time(self, lines: u64) -> Duration {
        let Some(rate) = self.rate.filter(|rate| *rate > 0) else {
            return Duration::ZERO;
        };
        Duration::from_secs(1).saturating_mul(u32::try_from(lines).unwrap_or(u32::MAX))
            / u32::try_from(rate).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_take_so_long() {
        for (rate, lines, millis) in [
            (None, 1000, 0),
            (Some(1000), 1, 1),
            (Some(100), 50, 500),
            (Some(0), 9, 0),
        ] {
            assert_eq!(Pace::new(rate).time(lines), Duration::from_millis(millis));
        }
    }

    #[test]
    fn a_cancelled_replay_does_not_rest() {
        // At this pace one line would take the better part of a day.
        Pace::new(Some(1)).rest(80_000, || true);
    }
}

//! The steps of turns that a briefing does not show in full: commands, and the files that were read
//! and changed, in order, each once.

use std::collections::{HashMap, VecDeque};

/// The overhead of each step besides its text, in bytes.
const OVERHEAD: usize = 96;

/// A step of the agent's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The verb of the step, such as `ran` or `read`.
    pub(super) verb: &'static str,
    /// The command or the file.
    pub(super) what: String,
    /// How it ended, unless that is normal.
    pub(super) outcome: String,
    /// How often it was done.
    pub(super) times: u64,
}

impl Step {
    /// The step on one line.
    pub(super) fn line(&self) -> String {
        let mut more = Vec::new();
        if self.times > 1 {
            more.push(format!("{} times", self.times));
        }
        match self.outcome.as_str() {
            "" => {}
            outcome if self.times > 1 => more.push(format!("the last time {outcome}")),
            outcome => more.push(outcome.to_owned()),
        }
        let Self { verb, what, .. } = self;
        match more.as_slice() {
            [] => format!("{verb} {what}"),
            more => format!("{verb} {what} ({})", more.join(", ")),
        }
    }

    fn size(&self) -> usize {
        OVERHEAD + self.what.len() + self.outcome.len()
    }
}

/// Steps in the order in which each was done last. The oldest are dropped beyond a size.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail {
    most: usize,
    size: usize,
    /// By its place in the order.
    steps: VecDeque<Option<Step>>,
    /// How many places came before the first that is kept.
    gone: u64,
    /// Where each step is.
    places: HashMap<(&'static str, String), u64>,
    /// How many steps were dropped.
    dropped: u64,
}

impl Trail {
    /// An empty one that takes about `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Adds steps.
    pub(super) fn extend(&mut self, steps: impl IntoIterator<Item = Step>) {
        for mut step in steps {
            let key = (step.verb, step.what.clone());
            let place = self.gone + self.steps.len() as u64;
            if let Some(before) = self.places.insert(key, place)
                && let Some(before) = self.take(before)
            {
                step.times += before.times;
            }
            self.size += step.size();
            self.steps.push_back(Some(step));
        }
        while self.size > self.most
            && let Some(oldest) = self.steps.pop_front()
        {
            self.gone += 1;
            if let Some(step) = oldest {
                self.size -= step.size();
                self.dropped += 1;
                self.places.remove(&(step.verb, step.what));
            }
        }
        // Places that are empty now cost memory, too.
        if self.steps.len() > 2 * self.places.len() + 64 {
            self.steps.retain(Option::is_some);
            self.gone = 0;
            for (place, step) in self.steps.iter().flatten().enumerate() {
                let key = (step.verb, step.what.clone());
                self.places.insert(key, place as u64);
            }
        }
    }

    /// All of them.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().flatten()
    }

    fn take(&mut self, place: u64) -> Option<Step> {
        let at = usize::try_from(place.checked_sub(self.gone)?).ok()?;
        let step = self.steps.get_mut(at)?.take()?;
        self.size -= step.size();
        Some(step)
    }

    /// The newest steps that fit into `room` bytes, as lines, and how many are left out.
    pub(super) fn lines(&self, room: usize) -> (Vec<String>, u64) {
        let mut left = room;
        let mut lines = VecDeque::new();
        let mut left_out = self.dropped;
        for step in self.steps.iter().rev().flatten() {
            let line = step.line();
            match left.checked_sub(line.len() + 1) {
                Some(rest) if left_out == self.dropped => {
                    left = rest;
                    lines.push_front(line);
                }
                _ => left_out += 1,
            }
        }
        (lines.into(), left_out)
    }

    /// Visits the text of each step.
    pub(super) fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        for step in self.steps.iter().flatten() {
            visit(&step.what);
        }
    }

    /// About how much memory it takes, in bytes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(verb: &'static str, what: &str, outcome: &str) -> Step {
        Step {
            verb,
            what: what.to_owned(),
            outcome: outcome.to_owned(),
            times: 1,
        }
    }

    #[test]
    fn each_step_is_listed_once_where_it_was_done_last() {
        let mut trail = Trail::new(10_000);
        trail.extend([
            step("ran", "make", "exit code 2"),
            step("read", "/a", ""),
            step("edited", "/a", ""),
            step("ran", "make", "exit code 0"),
            step("read", "/a", ""),
        ]);
        let (lines, left_out) = trail.lines(1000);
        assert_eq!(
            lines,
            [
                "edited /a",
                "ran make (2 times, the last time exit code 0)",
                "read /a (2 times)"
            ]
        );
        assert_eq!(left_out, 0);
        assert_eq!(
            trail.lines(30),
            (vec!["read /a (2 times)".to_owned()], 2),
            "the newest are shown"
        );
    }

    #[test]
    fn its_size_is_bounded() {
        let mut trail = Trail::new(2000);
        for n in 0..10_000 {
            let what = format!("file {}", n % 700);
            trail.extend([step("read", &what, ""), step("ran", "make", "")]);
            assert!(trail.size() <= 2000 && trail.steps.len() < 200);
        }
        let (lines, left_out) = trail.lines(2000);
        assert!(lines.len() > 5 && left_out > 100);
        assert_eq!(lines.last().unwrap(), "ran make (10000 times)");
        trail.extend([step("read", "x", "")]);
        assert_eq!(trail.lines(2000).0.last().unwrap(), "read x");
    }
}

//! Counts the records and parts of records that readers leave out because they do not know their kinds.

use std::collections::BTreeMap;

/// How many different names are kept. What tools write is bounded by nothing else.
const MOST_NAMES: usize = 50;
/// The longest name that is kept, in characters.
const LONGEST_NAME: usize = 60;
/// The name of what has none, or of what is beyond the bounds.
const OTHER: &str = "other";

/// How many records of each unknown kind there are, by the names that the tool gives to the kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownKinds(BTreeMap<String, usize>);

impl UnknownKinds {
    /// Counts one of this kind.
    pub(super) fn add(&mut self, kind: Option<&str>) {
        self.count(kind.unwrap_or(OTHER), 1);
    }

    /// Counts what was counted elsewhere.
    pub fn extend(&mut self, others: Self) {
        for (kind, count) in others.0 {
            self.count(&kind, count);
        }
    }

    fn count(&mut self, kind: &str, more: usize) {
        let is_kept = kind.chars().count() <= LONGEST_NAME
            && (self.0.len() < MOST_NAMES || self.0.contains_key(kind));
        let kind = if is_kept { kind } else { OTHER };
        *self.0.entry(kind.to_owned()).or_default() += more;
    }

    /// How many records there are of all kinds.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// The kinds by their names, with the number of records of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(kind, count)| (kind.as_str(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_numbers_are_not() {
        let mut kinds = UnknownKinds::default();
        for number in 0..2 * MOST_NAMES {
            kinds.add(Some(&format!("kind {number}")));
        }
        kinds.add(Some("kind 0"));
        kinds.add(Some(&"x".repeat(LONGEST_NAME + 1)));
        kinds.add(None);
        assert_eq!(kinds.total(), 2 * MOST_NAMES + 3);
        assert_eq!(kinds.iter().count(), MOST_NAMES + 1);
        assert!(kinds.iter().any(|kind| kind == ("kind 0", 2)));
        assert!(kinds.iter().any(|kind| kind == (OTHER, MOST_NAMES + 2)));
    }
}

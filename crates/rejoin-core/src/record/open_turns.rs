//! Tracks the open turns of a log.

use std::collections::VecDeque;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::text_member;

/// Tracks the turns of a log through its prompts and ends.
///
/// Turns may overlap, since some agents accept a prompt while they answer another one. An `end`
/// with an id ends the turn of the prompt with this id; one without ends all open turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTurns<T> {
    turns: VecDeque<(Box<str>, T)>,
}

impl<T> Default for OpenTurns<T> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
        }
    }
}

impl OpenTurns<()> {
    /// The maximum number of open turns. Beyond it the oldest are dropped: the log lost their ends.
    pub const MOST: usize = 256;

    /// The turns of prompts with these ids.
    pub fn of(ids: impl IntoIterator<Item = String>) -> Self {
        let mut open = Self::default();
        for id in ids {
            open.begin(Some(&id), ());
        }
        open
    }
}

/// As the list of the ids.
impl Serialize for OpenTurns<()> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(id, ())| id))
    }
}

impl<'de> Deserialize<'de> for OpenTurns<()> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<String>::deserialize(deserializer).map(Self::of)
    }
}

impl<T> OpenTurns<T> {
    /// Begins a turn with `what` as its data. Returns the data of a turn that was dropped for it.
    pub fn begin(&mut self, id: Option<&str>, what: T) -> Option<T> {
        self.turns.push_back((id.unwrap_or_default().into(), what));
        if self.turns.len() <= OpenTurns::MOST {
            return None;
        }
        self.turns.pop_front().map(|(_, what)| what)
    }

    /// Handles a `begin` with this id: a turn that has ended begins again, with `what` as its data.
    pub fn resume(&mut self, id: Option<&str>, what: T) {
        if !self.iter().any(|(open, _)| Some(open) == id) {
            self.begin(id, what);
        }
    }

    /// Handles an `end` with this id, if it has one. Returns the data of the turns that it ends,
    /// the oldest first.
    pub fn end(&mut self, id: Option<&str>) -> Vec<T> {
        let Some(id) = id else {
            return self.turns.drain(..).map(|(_, what)| what).collect();
        };
        let place = self.turns.iter().position(|(open, _)| &**open == id);
        let ended = place.and_then(|place| self.turns.remove(place));
        ended.into_iter().map(|(_, what)| what).collect()
    }

    /// Whether no turn is open.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How many turns are open.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// The open turns, the oldest first: the id of the prompt and the turn's data.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.turns.iter().map(|(id, what)| (&**id, what))
    }

    /// The data of the oldest open turn.
    pub fn first(&self) -> Option<&T> {
        self.turns.front().map(|(_, what)| what)
    }
}

/// Whether an `end` with this payload says that the turn was interrupted, by a crash or by a fork.
pub fn is_interrupted(payload: &str) -> bool {
    text_member(payload, "interrupted").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_with_an_id_ends_one_turn_and_another_one_all() {
        let mut open = OpenTurns::default();
        assert_eq!(open.end(None), [0_usize; 0]);
        for (number, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
            assert_eq!(open.begin(Some(id), number), None);
        }
        assert_eq!(open.end(Some("b")), [1]);
        assert_eq!(open.end(Some("b")), [0; 0]);
        assert_eq!(open.end(Some("x")), [0; 0]);
        assert_eq!(open.first(), Some(&0));
        let ids: Vec<_> = open.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["a", "c", "d"]);
        assert_eq!(open.end(None), [0, 2, 3]);
        assert!(open.is_empty());
    }

    #[test]
    fn a_turn_that_has_ended_begins_again() {
        let mut open = OpenTurns::default();
        open.begin(Some("a"), 1);
        open.resume(Some("a"), 2);
        assert_eq!(open.end(None), [1]);
        open.resume(Some("a"), 3);
        assert_eq!(open.end(Some("a")), [3]);
    }

    #[test]
    fn turns_that_never_end_take_no_memory() {
        let mut open = OpenTurns::default();
        let given_up: Vec<_> = (0..1000).filter_map(|n| open.begin(None, n)).collect();
        assert_eq!(given_up.len(), 1000 - OpenTurns::MOST);
        assert_eq!(given_up[0], 0);
        assert_eq!(open.len(), OpenTurns::MOST);
    }
}

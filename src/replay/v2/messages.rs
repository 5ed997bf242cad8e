//! Gives every message one id, and no two messages the same one.
//!
//! A client of version 2 puts a chunk where the message of its id stands; one of version 1 puts
//! it where it comes. So that both see the same order, a message is a run of chunks of one role
//! here, as in `record::transcript`. Nearly every run has an id of its own already. One that has
//! none is called by its turn and number, and one whose id an earlier run had gets a number
//! behind it. What is said depends on nothing but the lines before, so it is the same each time.

use crate::record::transcript::Role;
use crate::replay::ids::{Id, Ids};
use crate::replay::topic::plain;

/// How many ids are tried in the place of one. What is known of more messages than any session
/// has may be so vague that each seems to be taken.
const TRIES: u32 = 4096;

/// The messages of one session so far.
#[derive(Debug, Default)]
pub(super) struct Messages {
    seen: Ids,
    /// The message that the next chunk may belong to.
    run: Option<Run>,
    is_first: bool,
    /// The last id that was used again, and how often.
    again: Option<(Id, u32)>,
    /// The turn in which messages were called by numbers, and the last number.
    turn: Vec<u8>,
    unnamed: u32,
}

#[derive(Debug)]
struct Run {
    role: Role,
    /// The id of its chunks, between its quotes; `None` for a run that began without one.
    given: Option<Vec<u8>>,
    /// The id that it is shown with, between its quotes, if that is another one.
    shown: Option<Vec<u8>>,
}

impl Messages {
    /// Whether the last chunk was the first of its message.
    pub(super) fn has_begun(&self) -> bool {
        self.is_first
    }

    /// Something else stands behind the last message.
    pub(super) fn pause(&mut self) {
        self.run = None;
    }

    /// The next chunk, with what stands between the quotes of its id, if it has one. Answers with
    /// the id that takes the place of that, in the same form; `None` if it stays. `turn` says in
    /// which turn the chunk stands.
    pub(super) fn chunk<'t>(
        &mut self,
        role: Role,
        id: Option<&[u8]>,
        turn: impl FnOnce() -> Option<&'t [u8]>,
    ) -> Option<&[u8]> {
        let goes_on = self.run.as_ref().is_some_and(|run| {
            run.role == role
                && match (id, &run.given) {
                    (Some(id), Some(given)) => given == id || plain(given) == plain(id),
                    _ => true,
                }
        });
        self.is_first = !goes_on;
        if !goes_on {
            let shown = match id {
                Some(id) => self.again(id),
                None => Some(self.name(turn())),
            };
            self.run = Some(Run {
                role,
                given: id.map(<[u8]>::to_vec),
                shown,
            });
        }
        let run = self.run.as_mut()?;
        if run.given.is_none() {
            run.given = id.map(<[u8]>::to_vec);
        }
        match (&run.shown, id) {
            (Some(shown), _) => Some(shown),
            (None, Some(_)) => None,
            (None, None) => run.given.as_deref(),
        }
    }

    /// The id in the place of one that an earlier message had.
    fn again(&mut self, id: &[u8]) -> Option<Vec<u8>> {
        let base = Id::of(&plain(id));
        if self.seen.add(base) {
            return None;
        }
        let first = match self.again {
            Some((last, number)) if last == base => number.saturating_add(1),
            _ => 2,
        };
        let mut number = first;
        loop {
            let shown = [id, format!(".{number}").as_bytes()].concat();
            if self.seen.add(Id::of(&plain(&shown))) || number - first == TRIES {
                self.again = Some((base, number));
                return Some(shown);
            }
            number = number.saturating_add(1);
        }
    }

    /// The id of a message that has none.
    fn name(&mut self, turn: Option<&[u8]>) -> Vec<u8> {
        if let Some(turn) = turn
            && self.turn != turn
        {
            self.turn = turn.to_vec();
            self.unnamed = 0;
        }
        let turn: &[u8] = if self.turn.is_empty() {
            b"0"
        } else {
            &self.turn
        };
        let first = self.unnamed;
        loop {
            self.unnamed = self.unnamed.saturating_add(1);
            let name = [b"rejoin_", turn, format!("_{}", self.unnamed).as_bytes()].concat();
            if self.seen.add(Id::of(&name)) || self.unnamed - first >= TRIES {
                return name;
            }
        }
    }
}

//! Gives every message one id, and no two messages the same one.
//!
//! A client of version 2 puts a chunk where the message of its id stands; one of version 1 puts
//! it where it comes. So that both see the same order, a message is a run of chunks of one role
//! here, as in `record::transcript`. Nearly every run has an id of its own already. One that has
//! none is called by its turn and number, and one whose id an earlier run had gets a number
//! behind it. What is said depends on nothing but the lines before, so it is the same each time.

use std::io::Write;

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
    run: Run,
    /// The last id that was used again, and how often.
    again: Option<(Id, u32)>,
    /// The turn in which messages were called by numbers, and the last number.
    turn: Vec<u8>,
    unnamed: u32,
}

#[derive(Debug, Default)]
struct Run {
    /// Whose it is; `None` if there is none.
    role: Option<Role>,
    /// How many chunks it has had.
    chunks: u64,
    /// The id of its chunks, between its quotes; empty for a run that began without one.
    given: Vec<u8>,
    is_given: bool,
    /// The id that it is shown with, between its quotes, if that is another one.
    shown: Option<Vec<u8>>,
}

impl Run {
    fn give(&mut self, id: Option<&[u8]>) {
        self.given.clear();
        self.given.extend_from_slice(id.unwrap_or_default());
        self.is_given = id.is_some();
    }
}

impl Messages {
    /// How many chunks the message has had so far that the last one belongs to.
    pub(super) fn chunks(&self) -> u64 {
        self.run.chunks
    }

    /// Something else stands behind the last message.
    pub(super) fn pause(&mut self) {
        self.run.role = None;
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
        let run = &self.run;
        let goes_on = run.role == Some(role)
            && match id {
                Some(id) if run.is_given => run.given == id || plain(&run.given) == plain(id),
                _ => true,
            };
        if goes_on {
            self.run.chunks += 1;
            if !self.run.is_given {
                self.run.give(id);
            }
        } else {
            self.run.shown = match id {
                Some(id) => self.again(id),
                None => Some(self.name(turn())),
            };
            self.run.role = Some(role);
            self.run.chunks = 1;
            self.run.give(id);
        }
        let run = &self.run;
        match (&run.shown, id) {
            (Some(shown), _) => Some(shown),
            (None, None) if run.is_given => Some(&run.given),
            (None, _) => None,
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
            let mut shown = Vec::with_capacity(id.len() + 11);
            shown.extend_from_slice(id);
            // Writing to memory does not fail.
            write!(shown, ".{number}").ok();
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

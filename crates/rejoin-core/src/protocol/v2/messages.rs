//! Gives every message exactly one id, and no two messages the same one.
//!
//! A client of version 2 puts a chunk into the message with its id; a client of version 1 puts it
//! where it arrives. So that both show the same order, a message here is a run of chunks of one
//! role, as in `conversation::transcript`. Nearly every run already has its own id. A run without an id
//! is named by its turn and number, and a run with the id of an earlier run gets a number as
//! suffix. The ids depend only on the lines before, so they are deterministic.

use std::io::Write;

use crate::json::unescaped_bytes;
use crate::protocol::Role;
use crate::protocol::{Id, IdSet};

/// How many ids are tried to replace one. With more messages than any real session has, the set of
/// known ids may have so many false positives that each seems to be taken.
const TRIES: u32 = 4096;

/// The messages of one session so far.
#[derive(Debug, Default)]
pub(super) struct V2Messages {
    seen: IdSet,
    /// The message that the next chunk may belong to.
    run: Run,
    /// The last id that was reused, and how often.
    again: Option<(Id, u32)>,
    /// The turn in which messages were named by numbers, and the last number.
    turn: Vec<u8>,
    unnamed: u32,
}

#[derive(Debug, Default)]
struct Run {
    /// The role of its chunks. `None` without a run.
    role: Option<Role>,
    /// The number of its chunks.
    chunks: u64,
    /// The id of its chunks, between its quotes. Empty for a run that began without one.
    given: Vec<u8>,
    is_given: bool,
    /// The id that it is shown with, between its quotes, if that differs.
    shown: Option<Vec<u8>>,
}

impl Run {
    fn give(&mut self, id: Option<&[u8]>) {
        self.given.clear();
        self.given.extend_from_slice(id.unwrap_or_default());
        self.is_given = id.is_some();
    }
}

impl V2Messages {
    /// How many chunks the current message has so far.
    pub(super) fn chunks(&self) -> u64 {
        self.run.chunks
    }

    /// Something else follows the last message.
    pub(super) fn pause(&mut self) {
        self.run.role = None;
    }

    /// Takes a part of a message that has the form of version 2, with the text between the quotes
    /// of its id.
    pub(super) fn take(&mut self, role: Role, id: &[u8]) {
        self.seen.add(Id::of(&unescaped_bytes(id)));
        self.run.role = Some(role);
        self.run.shown = None;
        self.run.give(Some(id));
    }

    /// Takes the next chunk, with the text between the quotes of its id, if it has one. Returns the
    /// id that replaces it, in the same form, or `None` if it is kept. `turn` returns the turn of
    /// the chunk.
    pub(super) fn chunk<'t>(
        &mut self,
        role: Role,
        id: Option<&[u8]>,
        turn: impl FnOnce() -> Option<&'t [u8]>,
    ) -> Option<&[u8]> {
        let run = &self.run;
        let goes_on = run.role == Some(role)
            && match id {
                Some(id) if run.is_given => {
                    run.given == id || unescaped_bytes(&run.given) == unescaped_bytes(id)
                }
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

    /// The replacement for an id that an earlier message had.
    fn again(&mut self, id: &[u8]) -> Option<Vec<u8>> {
        let base = Id::of(&unescaped_bytes(id));
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
            // Writing to memory cannot fail.
            write!(shown, ".{number}").ok();
            if self.seen.add(Id::of(&unescaped_bytes(&shown))) || number - first == TRIES {
                self.again = Some((base, number));
                return Some(shown);
            }
            number = number.saturating_add(1);
        }
    }

    /// An id for a message without one.
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

//! Gives every tool call an id of its own if an agent uses an id again.
//!
//! An id of the agent always refers to the latest call that has it.

use std::collections::{HashMap, HashSet};

use crate::protocol::update::ends_call;

use super::used_ids::{Hash, UsedIds, hash, numbered, split_number};

/// The tool calls of one session.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    used: UsedIds,
    /// The latest call of each of the agent's ids.
    latest: HashMap<Hash, NumberedCall>,
    /// The ids that were made here.
    ours: HashSet<Hash>,
    turn: u32,
}

#[derive(Clone, Copy, Debug)]
struct NumberedCall {
    /// The number that is appended to its id; 0 for none.
    number: u32,
    /// The turn in which it began.
    turn: u32,
    ended: bool,
}

impl CallIds {
    /// A call that is open may still get updates, but a further `tool_call` with its id is a new
    /// call.
    pub(super) fn turn_begins(&mut self) {
        self.turn += 1;
    }

    /// A `tool_call` with its status: returns the number of its id. It is a new call unless a call
    /// of the same turn is open under this id.
    pub(super) fn begin(&mut self, id: &str, status: Option<&str>) -> u32 {
        let open = |call: &&mut NumberedCall| !call.ended && call.turn == self.turn;
        if let Some(call) = self.latest.get_mut(&hash(0, id)).filter(open) {
            call.set_status(status);
            return call.number;
        }
        self.add(id, status)
    }

    /// A client request about a call: returns the number of its id. The request may precede its
    /// `tool_call`, so after a call that has ended it is about a new one.
    pub(super) fn ask(&mut self, id: &str) -> u32 {
        let call = self.latest.get(&hash(0, id));
        match call.filter(|call| !call.ended) {
            Some(call) => call.number,
            None => self.add(id, None),
        }
    }

    /// A `tool_call_update` with its status: returns the number of its id.
    pub(super) fn update(&mut self, id: &str, status: Option<&str>) -> u32 {
        if let Some(call) = self.latest.get_mut(&hash(0, id)) {
            call.set_status(status);
            return call.number;
        }
        // The agent sent no `tool_call` for it. It is passed on as it is, but the id is now in use.
        self.used.mark(id);
        self.insert(id, 0, status);
        0
    }

    /// The number of the latest call of this id.
    pub(super) fn number(&self, id: &str) -> u32 {
        self.latest.get(&hash(0, id)).map_or(0, |call| call.number)
    }

    /// The agent's own id, if this is one that we made.
    pub(super) fn own<'a>(&self, id: &'a str) -> Option<&'a str> {
        let (base, _) = split_number(id)?;
        self.ours.contains(&hash(0, id)).then_some(base)
    }

    /// Restores the state from a call or an update in the log.
    pub(super) fn recall(&mut self, id: &str, begins: bool, status: Option<&str>) {
        if let Some((base, number)) = split_number(id) {
            let known = self.latest.get(&hash(0, base)).copied();
            // Ours if it was made before, or if we would have made exactly this id here.
            let made = self.ours.contains(&hash(0, id));
            let now = known.is_some_and(|call| call.ended || call.turn != self.turn)
                && !self.used.is_used(id)
                && self.used.number(base) == number;
            if !made && now {
                self.add(base, status);
                return;
            }
            if let (true, Some(call)) = (made, self.latest.get_mut(&hash(0, base))) {
                if call.number == number {
                    call.set_status(status);
                }
                return;
            }
        }
        match self.latest.get_mut(&hash(0, id)) {
            Some(call) if !begins || call.turn == self.turn => call.set_status(status),
            _ => {
                self.used.mark(id);
                self.insert(id, 0, status);
            }
        }
    }

    fn add(&mut self, id: &str, status: Option<&str>) -> u32 {
        let number = self.used.number(id);
        let full = numbered(id, number);
        self.used.mark(&full);
        if number > 0 {
            self.ours.insert(hash(0, &full));
        }
        self.insert(id, number, status);
        number
    }

    fn insert(&mut self, id: &str, number: u32, status: Option<&str>) {
        let mut call = NumberedCall {
            number,
            turn: self.turn,
            ended: false,
        };
        call.set_status(status);
        self.latest.insert(hash(0, id), call);
    }
}

impl NumberedCall {
    /// No status means no change. An unknown status counts as open, as clients show such a call as
    /// still running.
    fn set_status(&mut self, status: Option<&str>) {
        if let Some(status) = status {
            self.ended = ends_call(status);
        }
    }
}

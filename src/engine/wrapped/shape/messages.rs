//! Gives every message an id, and no two messages the same one.
//!
//! A message is a run of chunks of one role. Where the agent names it, the name says which chunks
//! belong to it, within one turn; where the agent does not, adjacent chunks do.

use std::collections::HashMap;
use std::sync::Arc;

use super::names::{Hash, Names, hash, numbered, parted};
use super::scan::unescaped;
use crate::record::transcript::Role;
use crate::sys::Ids;

/// What has to be done about a chunk's id.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// It stays.
    None,
    /// It has none and gets this one, given as it stands between quotes, with this number.
    Give(&'a str, u32),
    /// Another message has it, so it gets this number.
    Number(u32),
}

/// The messages of one session.
#[derive(Debug)]
pub(super) struct Messages {
    ids: Arc<dyn Ids>,
    names: Names,
    /// The numbers of this turn's messages, by role and the agent's id.
    turn: HashMap<Hash, u32>,
    last: Last,
}

/// The message that the next chunk may belong to.
#[derive(Debug, Default)]
struct Last {
    /// None if something else came since.
    role: Option<Role>,
    /// Its id as it stands between quotes, without the number.
    body: String,
    number: u32,
}

impl Messages {
    pub(super) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            ids,
            names: Names::default(),
            turn: HashMap::new(),
            last: Last::default(),
        }
    }

    /// A prompt stands behind all messages so far: an id that comes again means a new one.
    pub(super) fn turn_begins(&mut self) {
        self.turn.clear();
        self.pause();
    }

    /// Something else stands behind the last message.
    pub(super) fn pause(&mut self) {
        self.last.role = None;
    }

    /// The next chunk, with what stands between the quotes of its id, if it has one.
    pub(super) fn chunk(&mut self, role: Role, body: Option<&str>) -> Change<'_> {
        let same = self.last.role == Some(role);
        if let Some(body) = body {
            if !same || self.last.body != body {
                self.last.number = self.named(role, &unescaped(body));
                self.begin(role, body);
            }
            return match self.last.number {
                0 => Change::None,
                number => Change::Number(number),
            };
        }
        if !same {
            let id = self.ids.message();
            self.last.number = self.named(role, &id);
            self.begin(role, &id);
        }
        Change::Give(&self.last.body, self.last.number)
    }

    fn begin(&mut self, role: Role, body: &str) {
        self.last.role = Some(role);
        self.last.body.clear();
        self.last.body.push_str(body);
    }

    /// The number of the message that the agent calls `id`.
    fn named(&mut self, role: Role, id: &str) -> u32 {
        let key = hash(role as u8 + 1, id);
        if let Some(number) = self.turn.get(&key) {
            return *number;
        }
        let number = self.names.number(id);
        self.names.mark(&numbered(id, number));
        self.turn.insert(key, number);
        number
    }

    /// Takes note of a chunk that was written down earlier.
    pub(super) fn recall(&mut self, role: Role, body: &str) {
        let id = unescaped(body);
        if self.turn.contains_key(&hash(role as u8 + 1, &id)) {
            return;
        }
        // An id that could be a number of ours, at a place where we would have given it.
        if let Some((base, number)) = parted(&id) {
            let key = hash(role as u8 + 1, base);
            match self.turn.get(&key) {
                Some(known) if *known == number => return,
                None if self.names.number(base) == number => {
                    self.turn.insert(key, number);
                    self.names.mark(&id);
                    return;
                }
                _ => {}
            }
        }
        self.names.mark(&id);
        self.turn.insert(hash(role as u8 + 1, &id), 0);
    }
}

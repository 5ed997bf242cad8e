//! Gives every message an id that no other message of the same role has.
//!
//! Agents may give a thought and the text that follows it the same id: in the protocol their roles
//! distinguish them, so both keep it. A message is a run of chunks of one role. If the agent gives
//! ids, the chunks of one id within one turn are a message; if not, adjacent chunks are.

use std::collections::HashMap;
use std::sync::Arc;

use super::used_ids::{Hash, UsedIds, hash, numbered, split_number};
use crate::json::unescaped;
use crate::protocol::Role;
use crate::sys::Ids;

/// The change that a chunk's id needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageIdChange<'a> {
    /// The id is kept.
    None,
    /// The chunk has no id: insert this one, escaped as between quotes, and append this number
    /// unless it is 0.
    Give(&'a str, u32),
    /// Another message of the same role has the id; append this number.
    Number(u32),
}

/// The messages of one session.
#[derive(Debug)]
pub(super) struct MessageIds {
    ids: Arc<dyn Ids>,
    /// The ids in use, for each role.
    used: [UsedIds; 3],
    /// The numbers of this turn's messages, by role and the agent's id.
    turn: HashMap<Hash, u32>,
    last: Last,
    /// Whether the last chunk has continued the message of the one before it.
    has_continued: bool,
}

/// The message that the next chunk may continue.
#[derive(Debug, Default)]
struct Last {
    /// `None` if another update has come since.
    role: Option<Role>,
    /// Its id without the number, escaped as between quotes.
    body: String,
    number: u32,
}

impl MessageIds {
    pub(super) fn new(ids: Arc<dyn Ids>) -> Self {
        Self {
            ids,
            used: Default::default(),
            turn: HashMap::new(),
            last: Last::default(),
            has_continued: false,
        }
    }

    /// A prompt follows all messages so far: an id that is used again belongs to a new message.
    pub(super) fn turn_begins(&mut self) {
        self.turn.clear();
        self.pause();
    }

    /// Another update follows the last message.
    pub(super) fn pause(&mut self) {
        self.last.role = None;
        self.has_continued = false;
    }

    /// The next chunk, with the escaped text of its id, if it has one.
    pub(super) fn chunk(&mut self, role: Role, body: Option<&str>) -> MessageIdChange<'_> {
        let same = self.last.role == Some(role);
        self.has_continued = same && body.is_none_or(|body| self.last.body == body);
        if let Some(body) = body {
            if !self.has_continued {
                self.last.number = self.named(role, &unescaped(body));
                self.begin(role, body);
            }
            return match self.last.number {
                0 => MessageIdChange::None,
                number => MessageIdChange::Number(number),
            };
        }
        if !same {
            let id = self.ids.message();
            self.last.number = self.named(role, &id);
            self.begin(role, &id);
        }
        MessageIdChange::Give(&self.last.body, self.last.number)
    }

    /// Whether the last chunk has continued the message of the one before it.
    pub(super) fn has_continued(&self) -> bool {
        self.has_continued
    }

    fn begin(&mut self, role: Role, body: &str) {
        self.last.role = Some(role);
        self.last.body.clear();
        self.last.body.push_str(body);
    }

    /// The number for the message that has the agent's id `id`.
    fn named(&mut self, role: Role, id: &str) -> u32 {
        let key = hash(role as u8 + 1, id);
        if let Some(number) = self.turn.get(&key) {
            return *number;
        }
        let used = &mut self.used[role as usize];
        let number = used.number(id);
        used.mark(&numbered(id, number));
        self.turn.insert(key, number);
        number
    }

    /// Restores the state from a chunk in the log.
    pub(super) fn recall(&mut self, role: Role, body: &str) {
        let id = unescaped(body);
        if self.turn.contains_key(&hash(role as u8 + 1, &id)) {
            return;
        }
        let used = &mut self.used[role as usize];
        // An id with a number that we would have given here.
        if let Some((base, number)) = split_number(&id) {
            let key = hash(role as u8 + 1, base);
            match self.turn.get(&key) {
                Some(known) if *known == number => return,
                None if used.number(base) == number => {
                    self.turn.insert(key, number);
                    used.mark(&id);
                    return;
                }
                _ => {}
            }
        }
        used.mark(&id);
        self.turn.insert(hash(role as u8 + 1, &id), 0);
    }
}

//! The position in a session where a page of turns begins, as text for the client.
//!
//! The position holds the byte offset in the log, so that a page far from the beginning costs no
//! more than the first one. A log is append-only, so the offset stays right. It belongs to its
//! session.

use crate::protocol::cursor;
use crate::sys::SessionId;

/// The beginning of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnPosition {
    /// How many turns come before the one at `offset`.
    pub turn: u64,
    /// The byte offset in the log where its first record begins.
    pub offset: u64,
    /// Whether the turn after that one is meant. An answer may be empty and have no record, so it
    /// is found by its prompt.
    pub next: bool,
}

impl TurnPosition {
    /// The beginning of a session.
    pub const START: Self = Self {
        turn: 0,
        offset: 0,
        next: false,
    };

    /// The position as a cursor of this session.
    pub fn cursor(self, id: &SessionId) -> String {
        let kind = if self.next { 'a' } else { 'q' };
        let text = format!("{kind}{}-{}", self.turn, self.offset);
        cursor::seal(&text, &scope(id))
    }

    /// Parses a cursor of this session.
    pub fn parse(cursor: &str, id: &SessionId) -> Option<Self> {
        let text = cursor::open(cursor, &scope(id))?;
        let (turn, offset) = text.get(1..)?.split_once('-')?;
        Some(Self {
            turn: turn.parse().ok()?,
            offset: offset.parse().ok()?,
            next: text.starts_with('a'),
        })
    }
}

fn scope(id: &SessionId) -> String {
    format!("Turns {id}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Ids;
    use crate::sys::ids::RandomIds;

    #[test]
    fn reads_back_for_its_own_session_only() {
        let (id, other) = (RandomIds.session(), RandomIds.session());
        for (turn, offset, next) in [(0, 0, false), (7, 4096, true), (u64::MAX, u64::MAX, true)] {
            let place = TurnPosition { turn, offset, next };
            let cursor = place.cursor(&id);
            assert_eq!(TurnPosition::parse(&cursor, &id), Some(place));
            assert_eq!(TurnPosition::parse(&cursor, &other), None);
        }
        for bad in ["", "q", "é0-0", "q1", "a----"] {
            let cursor = cursor::seal(bad, &scope(&id));
            assert_eq!(TurnPosition::parse(&cursor, &id), None, "{bad}");
        }
    }
}

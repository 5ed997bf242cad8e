//! The position in a session where a page of turns begins, as text for the client.
//!
//! It holds the byte offset in the log, so that a page far from the beginning costs no more than
//! the first one. A log is append-only, so the offset stays right. A checksum over it and the
//! session's id distinguishes our cursors from any others.

use crate::sys::SessionId;

/// The beginning of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// How many turns come before the one at `offset`.
    pub(super) turn: u64,
    /// The byte offset in the log where its first record begins.
    pub(super) offset: u64,
    /// Whether the turn after that one is meant. An answer may be empty and have no record, so it
    /// is found by its prompt.
    pub(super) next: bool,
}

impl Place {
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
        let sum = crc32fast::hash(format!("1 {id} {text}").as_bytes());
        format!("{text}-{sum:08x}")
    }

    /// Parses a cursor of this session.
    pub fn parse(cursor: &str, id: &SessionId) -> Option<Self> {
        let mut parts = cursor.get(1..)?.split('-');
        let place = Self {
            turn: parts.next()?.parse().ok()?,
            offset: parts.next()?.parse().ok()?,
            next: cursor.starts_with('a'),
        };
        // One spelling only: two different cursors are never the same position.
        (place.cursor(id) == cursor).then_some(place)
    }
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
            let place = Place { turn, offset, next };
            let cursor = place.cursor(&id);
            assert_eq!(Place::parse(&cursor, &id), Some(place));
            assert_eq!(Place::parse(&cursor, &other), None);
            for at in 0..cursor.len() {
                let mut bad = cursor.clone().into_bytes();
                bad[at] = if bad[at] == b'7' { b'8' } else { b'7' };
                let bad = String::from_utf8(bad).unwrap();
                assert_eq!(Place::parse(&bad, &id), None, "{bad}");
                assert_eq!(Place::parse(&cursor[..at], &id), None);
            }
        }
        for bad in ["", "q", "é0-0-0", "q+1-0-00000000", "q1-0", "a----"] {
            assert_eq!(Place::parse(bad, &id), None, "{bad}");
        }
    }
}

//! Keeps ids unique: the second user of an id gets it with a number appended.
//!
//! Only a hash of each id is kept, so that a conversation of a hundred thousand calls takes a few
//! megabytes. If two ids have the same hash, one of them gets a number that it does not need.
//!
//! A log has only the ids with their numbers. When it is read back, an id counts as ours if we
//! would have made exactly this one there. An agent that numbers its ids in the same way is
//! understood as long as it runs; after a restart, a late update may go to the wrong one of two.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};

/// The hash of an id.
pub(super) type Hash = u64;

/// The hash of an id, with `salt` before it where the same id may occur in several roles.
pub(super) fn hash(salt: u8, id: &str) -> Hash {
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(salt);
    hasher.write(id.as_bytes());
    hasher.finish()
}

/// An id with its number: unchanged for 0, `<id>~<number>` otherwise.
pub(super) fn numbered(id: &str, number: u32) -> String {
    if number == 0 {
        id.to_owned()
    } else {
        format!("{id}~{number}")
    }
}

/// The id and the number, if [`numbered`] may have made this id.
pub(super) fn split_number(id: &str) -> Option<(&str, u32)> {
    let (base, digits) = id.rsplit_once('~')?;
    let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| plain && *number >= 2)?;
    Some((base, number))
}

/// Which ids are in use.
#[derive(Debug, Default)]
pub(super) struct UsedIds {
    used: HashSet<Hash>,
    /// For ids that were looked up before: all smaller numbers are in use.
    taken: HashMap<Hash, u32>,
}

impl UsedIds {
    pub(super) fn is_used(&self, id: &str) -> bool {
        self.used.contains(&hash(0, id))
    }

    pub(super) fn mark(&mut self, id: &str) {
        self.used.insert(hash(0, id));
    }

    /// The number for a new user of an id: 0 if it is unused, else the first free one from 2 on.
    /// The numbered id is not marked as used yet.
    pub(super) fn number(&mut self, id: &str) -> u32 {
        if !self.is_used(id) {
            return 0;
        }
        let first = self.taken.entry(hash(0, id)).or_insert(2);
        while self.used.contains(&hash(0, &numbered(id, *first))) {
            *first += 1;
        }
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_skip_what_is_in_use() {
        let mut used = UsedIds::default();
        for id in ["a", "a~2", "a~4"] {
            assert_eq!(used.number(id), 0);
            used.mark(id);
        }
        for expected in [3, 5, 6] {
            let number = used.number("a");
            assert_eq!(number, expected);
            used.mark(&numbered("a", number));
        }
        assert_eq!(used.number("a~2"), 2);
        assert_eq!(used.number("b"), 0);
    }

    #[test]
    fn only_numbered_ids_are_split() {
        assert_eq!(split_number("a~2"), Some(("a", 2)));
        assert_eq!(split_number("~a~12"), Some(("~a", 12)));
        for other in [
            "a",
            "a~",
            "a~1",
            "a~0",
            "a~02",
            "a~+3",
            "a~x",
            "a~9999999999",
            "~",
        ] {
            assert_eq!(split_number(other), None, "{other}");
        }
    }
}

//! Keeps ids from being used twice: the second user of an id gets it with a number behind it.
//!
//! What is kept of an id is a hash, so that a conversation of a hundred thousand calls takes a few
//! megabytes. Two ids with one hash would cost one of them a number that it did not need.
//!
//! A log has the ids with their numbers only. When it is read back, an id that stands where we
//! would have made just this one counts as ours. An agent that numbers its ids in the same way is
//! understood as long as it runs; after a restart, a late update may go to the wrong one of two.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};

/// What is kept of an id.
pub(super) type Hash = u64;

/// The hash of an id, with `salt` before it where one id may stand for several things.
pub(super) fn hash(salt: u8, id: &str) -> Hash {
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(salt);
    hasher.write(id.as_bytes());
    hasher.finish()
}

/// An id with its number: as it came for 0, `<id>~<number>` otherwise.
pub(super) fn numbered(id: &str, number: u32) -> String {
    if number == 0 {
        id.to_owned()
    } else {
        format!("{id}~{number}")
    }
}

/// The id and the number that [`numbered`] made an id of, if it did.
pub(super) fn parted(id: &str) -> Option<(&str, u32)> {
    let (base, digits) = id.rsplit_once('~')?;
    let plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| plain && *number >= 2)?;
    Some((base, number))
}

/// Which ids are in use.
#[derive(Debug, Default)]
pub(super) struct Names {
    used: HashSet<Hash>,
    /// Below which number all of an id's numbers are taken, where that was looked for before.
    taken: HashMap<Hash, u32>,
}

impl Names {
    pub(super) fn is_used(&self, id: &str) -> bool {
        self.used.contains(&hash(0, id))
    }

    pub(super) fn mark(&mut self, id: &str) {
        self.used.insert(hash(0, id));
    }

    /// The number for a new user of an id: 0 if there is no other, else the first from 2 on that
    /// is free. The id with its number is not marked as used yet.
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
        let mut names = Names::default();
        for id in ["a", "a~2", "a~4"] {
            assert_eq!(names.number(id), 0);
            names.mark(id);
        }
        for expected in [3, 5, 6] {
            let number = names.number("a");
            assert_eq!(number, expected);
            names.mark(&numbered("a", number));
        }
        assert_eq!(names.number("a~2"), 2);
        assert_eq!(names.number("b"), 0);
    }

    #[test]
    fn only_what_could_be_ours_is_parted() {
        assert_eq!(parted("a~2"), Some(("a", 2)));
        assert_eq!(parted("~a~12"), Some(("~a", 12)));
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
            assert_eq!(parted(other), None, "{other}");
        }
    }
}

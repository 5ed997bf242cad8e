//! A set of names in bounded memory: exact while it is small, a Bloom filter when it is large.
//!
//! Up to tens of thousands of names, each takes eight bytes and some overhead. Beyond that the set
//! takes two megabytes, regardless of the number of names. It has no false negatives and few false
//! positives: two in a million with 200,000 names, one in seven hundred with a million. The answers
//! are deterministic.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

/// How many names are stored exactly.
const FEW: usize = 56 * 1024;
/// A block of the filter: one cache line.
type Block = [u64; 8];
/// How many blocks the filter has; a power of two.
const BLOCKS: u64 = 1 << 15;
/// How many bits represent each name.
const PROBES: u32 = 5;

/// The hash of a name, as a set stores it. The hash has no seed, so every replay has the same false
/// positives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u64);

impl Id {
    /// The hash of a name.
    pub fn of(name: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(name);
        Self(hasher.finish())
    }
}

/// A set of names.
#[derive(Clone, Debug)]
pub enum IdSet {
    /// Hashes of 64 bits: collisions are not to be expected.
    Few(HashSet<u64, BuildHasherDefault<AsItIs>>),
    /// A Bloom filter whose bits for a name lie in one block.
    Many(Box<[Block]>),
}

impl Default for IdSet {
    fn default() -> Self {
        Self::Few(HashSet::default())
    }
}

impl IdSet {
    /// Adds a name. Returns true if it was absent.
    pub fn add(&mut self, Id(hash): Id) -> bool {
        match self {
            Self::Few(hashes) if hashes.len() < FEW => hashes.insert(hash),
            Self::Few(hashes) => {
                let mut filter = vec![Block::default(); BLOCKS as usize].into_boxed_slice();
                #[expect(
                    clippy::iter_over_hash_type,
                    reason = "the bits come out the same in any order"
                )]
                for hash in hashes.iter() {
                    mark(&mut filter, *hash);
                }
                let is_new = !hashes.contains(&hash);
                mark(&mut filter, hash);
                *self = Self::Many(filter);
                is_new
            }
            Self::Many(filter) => mark(filter, hash),
        }
    }

    /// Whether no name was added.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Few(hashes) if hashes.is_empty())
    }

    /// Whether a name is in the set.
    pub fn has(&self, Id(hash): Id) -> bool {
        match self {
            Self::Few(hashes) => hashes.contains(&hash),
            Self::Many(filter) => {
                let block = &filter[block(hash)];
                bits(hash).all(|(word, bit)| block[word] & bit != 0)
            }
        }
    }
}

/// Sets the bits of a name. Returns true if one of them was not set.
fn mark(filter: &mut [Block], hash: u64) -> bool {
    let block = &mut filter[block(hash)];
    let mut is_new = false;
    for (word, bit) in bits(hash) {
        is_new |= block[word] & bit == 0;
        block[word] |= bit;
    }
    is_new
}

/// The block that holds the bits of a name.
fn block(hash: u64) -> usize {
    (hash % BLOCKS) as usize
}

/// The bits of a block that represent a name: the word of each, and the bit in it.
fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    // Nine bits of the hash for each. The lowest bits have selected the block.
    let rest = hash / BLOCKS;
    (0..PROBES).map(move |n| {
        let at = (rest >> (9 * n)) % 512;
        ((at / 64) as usize, 1 << (at % 64))
    })
}

/// A hasher for values that are hashes already.
#[derive(Debug, Default)]
pub struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_found_and_hardly_anything_else() {
        let mut ids = IdSet::default();
        let id = |n: usize| Id::of(format!("call_{n}").as_bytes());
        let count = 3 * FEW;
        for n in 0..count {
            assert!(!matches!(ids, IdSet::Many(_)) || n >= FEW);
            let is_new = ids.add(id(n));
            assert!(is_new, "{n}");
            assert!(!ids.add(id(n / 2)));
        }
        assert!(matches!(ids, IdSet::Many(_)));
        assert!((0..count).all(|n| ids.has(id(n))));
        let mistaken = (count..2 * count).filter(|n| ids.has(id(*n))).count();
        assert_eq!(mistaken, 0);
    }
}

//! Small damage to bytes that were good.

use proptest::prelude::*;
use proptest::sample::Index;

/// One change.
#[derive(Clone, Debug)]
pub(super) enum Mutation {
    Flip(Index, u8),
    Insert(Index, u8),
    /// Something that means something where it does not belong.
    Plant(Index, &'static [u8]),
    Remove(Index, usize),
    Repeat(Index, usize, Index),
    Blank(Index, usize),
    Cut(Index),
}

const PLANTS: [&[u8]; 12] = [
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"\"",
    b"\\",
    b"{\"crc\":\"",
    b",\"seq\":18446744073709551615",
    b"99999999999999999999999999",
];

/// A few changes, mostly one.
pub(super) fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let at = any::<Index>;
    let one = prop_oneof![
        3 => (at(), 1..=255u8).prop_map(|(at, mask)| Mutation::Flip(at, mask)),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        3 => (at(), prop::sample::select(&PLANTS[..])).prop_map(|(at, plant)| Mutation::Plant(at, plant)),
        2 => (at(), 1..200usize).prop_map(|(at, len)| Mutation::Remove(at, len)),
        1 => (at(), 1..400usize, at()).prop_map(|(at, len, to)| Mutation::Repeat(at, len, to)),
        1 => (at(), 1..100usize).prop_map(|(at, len)| Mutation::Blank(at, len)),
        1 => at().prop_map(Mutation::Cut),
    ];
    prop::collection::vec(one, 1..5)
}

/// The bytes with these changes, one after the other.
pub(super) fn mutated(bytes: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for mutation in mutations {
        let place = |at: &Index| at.index(bytes.len() + 1);
        let within = |at: usize, len: usize| at..bytes.len().min(at + len);
        match mutation {
            Mutation::Flip(at, mask) => {
                if let Some(byte) = place(at).checked_sub(1) {
                    bytes[byte] ^= mask;
                }
            }
            Mutation::Insert(at, byte) => bytes.insert(place(at), *byte),
            Mutation::Plant(at, plant) => {
                let at = place(at);
                bytes.splice(at..at, plant.iter().copied());
            }
            Mutation::Remove(at, len) => {
                bytes.drain(within(place(at), *len));
            }
            Mutation::Repeat(at, len, to) => {
                let part = bytes[within(place(at), *len)].to_vec();
                let to = place(to);
                bytes.splice(to..to, part);
            }
            Mutation::Blank(at, len) => {
                let range = within(place(at), *len);
                bytes[range].fill(0);
            }
            Mutation::Cut(at) => bytes.truncate(place(at)),
        }
    }
    bytes
}

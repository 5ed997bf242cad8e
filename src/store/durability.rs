//! How much is made to survive a power cut, and when.

use std::fmt;
use std::str::FromStr;

/// What a power cut may take. What the death of the process may take is the same in all three:
/// nothing that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Whatever the system has not written by itself: nothing is ever synced.
    Os,
    /// What was appended since the end of the last turn.
    #[default]
    Turn,
    /// Nothing that was appended: each record is synced.
    Each,
}

/// How precious a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It may wait for the next sync.
    Buffered,
    /// With it everything before it shall be safe: a new session, the end of a turn.
    Turn,
}

impl Durability {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Os, Self::Turn, Self::Each];

    /// The name by which it is chosen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Turn => "turn",
            Self::Each => "each",
        }
    }

    /// Whether a record is synced when it is appended.
    pub fn syncs(self, sync: Sync) -> bool {
        match self {
            Self::Os => false,
            Self::Turn => sync == Sync::Turn,
            Self::Each => true,
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of no durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of os, turn, each")]
pub struct UnknownDurability;

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(name: &str) -> Result<Self, UnknownDurability> {
        let found = Self::ALL.into_iter().find(|known| known.as_str() == name);
        found.ok_or(UnknownDurability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for durability in Durability::ALL {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        assert_eq!("TURN".parse::<Durability>(), Err(UnknownDurability));
    }
}

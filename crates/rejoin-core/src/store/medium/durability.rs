//! Durability modes: when logs are synced, and so which records survive a power failure.

use std::fmt;
use std::str::FromStr;

/// The records that a power failure may lose. The death of the process alone loses no record in any
/// mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Whatever the system has not yet written to disk: logs are never synced.
    Os,
    /// The records since the end of the last turn.
    #[default]
    Turn,
    /// Nothing: each record is synced.
    Each,
}

/// Whether a record asks for a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// The record can wait for the next sync.
    Buffered,
    /// The record must be synced with everything before it: a new session, the end of a turn.
    Turn,
}

impl Durability {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Os, Self::Turn, Self::Each];

    /// Its name on the command line.
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

/// A name that is not a durability mode.
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

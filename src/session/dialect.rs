//! How a client is told of turns: the one thing about its protocol version that sessions know.

use crate::replay::v2::View;

/// How a connection tells of turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The answer to a prompt is the end of its turn, and there is one prompt at a time.
    #[default]
    Answered,
    /// A prompt is answered when it is in the log, and updates tell what becomes of it. Prompts
    /// that come during a turn are held until it ends.
    Told,
}

impl Dialect {
    /// How its client sees updates, if not as they are in the log.
    pub(super) fn view(self) -> Option<View> {
        match self {
            Self::Answered => None,
            Self::Told => Some(View::new()),
        }
    }

    /// The version of the protocol that is spoken so.
    pub fn version(self) -> u16 {
        match self {
            Self::Answered => 1,
            Self::Told => 2,
        }
    }
}

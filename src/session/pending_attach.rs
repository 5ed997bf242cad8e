//! What an engine makes ready for.

/// A request that waits for the engine to be ready. `R` is what its answer is sent with.
#[derive(Debug)]
pub(super) enum PendingAttach<R> {
    /// A new session.
    New(R),
    /// A session that is made out of another one.
    Fork(R),
    /// A session that the engine's agent has, and whether it is to be replayed, too.
    Import(R, bool),
    /// The load that is under way, whose replay begins when the engine is ready.
    BeforeReplay,
    /// The load that is under way, whose reply is with the replay.
    Load {
        /// Whether the session was open before it.
        was_open: bool,
    },
    /// A session that goes on, and whether it was open before.
    Resume(R, bool),
}

impl<R> PendingAttach<R> {
    /// Where the answer goes, unless it is a load's.
    pub(super) fn into_reply(self) -> Option<R> {
        match self {
            Self::New(reply)
            | Self::Fork(reply)
            | Self::Import(reply, _)
            | Self::Resume(reply, _) => Some(reply),
            Self::BeforeReplay | Self::Load { .. } => None,
        }
    }
}

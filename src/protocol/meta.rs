//! What rejoin adds to messages: members of `_meta.rejoin`, and names that begin with `_rejoin/`.

/// The member of `_meta` that holds everything of ours.
pub const REJOIN: &str = "rejoin";
/// In an update of a replay: when it was first sent.
pub const AT: &str = "at";
/// In an update of a replay: the number of its turn.
pub const TURN: &str = "turn";
/// In an update of a replay: its turn was interrupted behind it.
pub const INTERRUPTED: &str = "interrupted";
/// The kind of `replayFrom` that begins a replay at a message.
pub const FROM_MESSAGE: &str = "_rejoin/message";

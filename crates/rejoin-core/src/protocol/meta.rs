//! Additions of rejoin to messages: members of `_meta.rejoin`, and names that begin with
//! `_rejoin/`.

use crate::json::{self, Splice};

/// The member of `_meta` that holds everything of ours.
pub const REJOIN: &str = "rejoin";
/// In a request that opens a session: it is taken over from a process that has it open.
pub const TAKE_OVER: &str = "takeOver";
/// In an update of a replay: when it was first sent.
pub const AT: &str = "at";
/// In an update of a replay: the number of its turn.
pub const TURN: &str = "turn";
/// In an update with the user's message: the client that has sent it, if the session had several.
pub const CLIENT: &str = "client";
/// In a request that opens a session: its client only looks on.
pub const OBSERVE: &str = "observe";
/// In `session/delete`: the session is deleted even if others have it open.
pub const FORCE: &str = "force";
/// In an update of a replay: its turn was interrupted behind it.
pub const INTERRUPTED: &str = "interrupted";
/// In an update that was converted to version 1: the updates of version 2 that it was made of.
pub const UPDATES: &str = "updates";
/// The kind of `replayFrom` that begins a replay at a message.
pub const FROM_MESSAGE: &str = "_rejoin/message";
/// The id of the option that represents an agent's modes, where `mode` is not free for that.
pub const MODE_CONFIG_ID: &str = "rejoin_mode";
/// The id of the option that represents an agent's models.
pub const MODEL_CONFIG_ID: &str = "rejoin_model";
/// How `_rejoin/search` can look for something.
pub const SEARCH_MODES: [&str; 3] = ["words", "substring", "regex"];

/// Whether a member of `_meta.rejoin` is set in parameters.
pub fn is_set(params: &str, name: &str) -> bool {
    let meta = json::text_member(params, "_meta");
    let ours = meta.and_then(|meta| json::text_member(meta, REJOIN));
    ours.and_then(|ours| json::text_member(ours, name)) == Some("true")
}

/// Adds members to `_meta.rejoin` of the object at `at`. `members` is the text between the braces. A
/// `_meta` that is not an object is replaced, since it could not hold them.
pub fn add_note(splice: &mut Splice<'_>, at: usize, members: &[u8]) {
    let text = splice.text();
    let Some(meta) = json::member(text, at, "_meta") else {
        return splice.member(at, &[b"\"_meta\":{\"rejoin\":{", members, b"}}"].concat());
    };
    if json::members(text, meta.start).is_none() {
        return splice.replace(meta, [b"{\"rejoin\":{", members, b"}}"].concat());
    }
    match json::member(text, meta.start, REJOIN) {
        None => splice.member(meta.start, &[b"\"rejoin\":{", members, b"}"].concat()),
        Some(ours) if json::members(text, ours.start).is_some() => {
            splice.member(ours.start, members);
        }
        Some(other) => splice.replace(other, [b"{", members, b"}"].concat()),
    }
}

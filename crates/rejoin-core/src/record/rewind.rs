//! Rewinds of a session: records that say which of the earlier records are its conversation from then on.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{AgentPlace, AgentSessionId, Kind, snapshot_of};
use crate::json;
use crate::protocol::UpdateKind;

/// How the message begins that says in a conversation that it goes on from an earlier place.
pub const WENT_BACK: &str = "[rejoin] Went ";

/// The place that a session goes back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RewindTarget {
    /// Before the message with this id, which may have been undone itself.
    Message(String),
    /// Before the message of the user with this id, which another prompt is to replace.
    Prompt(String),
    /// Behind the message with this id, as far as it has come in its turn.
    Behind(String),
    /// To the place of the conversation with the id of this cursor.
    Cursor(String),
    /// Behind so many turns, as they are numbered now.
    Turns(u64),
    /// Before the last rewind, which brings back what that one has undone.
    Undo,
}

impl RewindTarget {
    /// Whether turns that run are cancelled for it, as the drafts of the protocol have it for theirs.
    /// Otherwise it is refused while one runs.
    pub fn cancels_turns(&self) -> bool {
        matches!(self, Self::Prompt(_) | Self::Behind(_))
    }
}

/// The payload of a `rewind` record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rewind {
    /// The records before this one that are the conversation from here on: ranges of sequence numbers with
    /// exclusive ends, in ascending order.
    pub history: Vec<(u64, u64)>,
    /// How many turns are in them.
    pub turns: u64,
    /// The message before which the conversation ends, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The place in a session of an agent up to which that session has exactly this history, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<AgentPlace>,
    /// Whether it brings back what the rewind before it has undone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The name of the client that has asked for it, if the session has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

impl Rewind {
    /// Reads a payload; `None` if it is damaged.
    pub fn read(payload: &str) -> Option<Self> {
        serde_json::from_str(payload).ok()
    }

    /// The session of an agent that ends at the place, in which the agent goes on. Without one it goes on in
    /// a session that it makes later.
    pub fn session_at_place(payload: &str) -> Option<AgentSessionId> {
        let place = Self::read(payload)?.agent_session?;
        place.cursor.is_none().then_some(place.session)
    }
}

/// The records of a log that are the conversation now, after the log's last rewind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewoundHistory {
    ranges: Vec<Range<u64>>,
    /// The sequence number of the last rewind. Everything from there on counts.
    since: u64,
}

impl RewoundHistory {
    /// The history that the rewind with this sequence number and payload leaves; `None` if it is damaged.
    pub fn of(seq: u64, payload: &str) -> Option<Self> {
        let rewind = Rewind::read(payload)?;
        let ranges: Vec<_> = rewind.history.iter().map(|(from, to)| *from..*to).collect();
        let mut end = 0;
        for range in &ranges {
            if range.start < end || range.end < range.start || range.end > seq {
                return None;
            }
            end = range.end;
        }
        Some(Self { ranges, since: seq })
    }

    /// Whether the record with this sequence number is in it.
    pub fn contains(&self, seq: u64) -> bool {
        if seq >= self.since {
            return true;
        }
        let before = self.ranges.partition_point(|range| range.start <= seq);
        let last = before.checked_sub(1).map(|last| &self.ranges[last]);
        last.is_some_and(|range| range.contains(&seq))
    }

    /// Whether the record was a part of the conversation and is not in it any longer. The state of a session
    /// is never undone, wherever it was recorded.
    pub fn lacks(&self, seq: u64, kind: Kind, payload: &str) -> bool {
        !self.contains(seq) && is_conversation(kind, payload)
    }

    /// The parts of it before a sequence number, as the payload of a rewind has them.
    pub fn before(&self, seq: u64) -> Vec<(u64, u64)> {
        let last = self.since..u64::MAX;
        let ranges = self.ranges.iter().chain([&last]);
        let cut = ranges.map(|range| (range.start, range.end.min(seq)));
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for (from, to) in cut.filter(|(from, to)| from < to) {
            match parts.last_mut() {
                Some((_, end)) if *end == from => *end = to,
                _ => parts.push((from, to)),
            }
        }
        parts
    }
}

/// Whether a record is a part of the conversation, and not of the state of its session.
fn is_conversation(kind: Kind, payload: &str) -> bool {
    match kind {
        Kind::Update => !UpdateKind::of(payload.as_bytes()).is_snapshot(),
        Kind::UpdateParams => {
            let update = json::text_member(payload, "update").unwrap_or_default();
            !UpdateKind::of(update.as_bytes()).is_snapshot()
        }
        Kind::UpdateV2 => snapshot_of(kind, payload).is_none(),
        Kind::Prompt
        | Kind::Begin
        | Kind::Subagent
        | Kind::SubagentV2
        | Kind::Output
        | Kind::Transient
        | Kind::TransientV2
        | Kind::Ask
        | Kind::Answer
        | Kind::End
        | Kind::Rewind => true,
        Kind::Session | Kind::Info | Kind::Reopen | Kind::AgentSessionId | Kind::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_what_its_ranges_and_everything_since_then_have() {
        let history = RewoundHistory::of(20, r#"{"history":[[0,5],[8,9]]}"#).unwrap();
        let contained: Vec<_> = (0..24).filter(|seq| history.contains(*seq)).collect();
        assert_eq!(contained, [0, 1, 2, 3, 4, 8, 20, 21, 22, 23]);
        assert!(history.lacks(6, Kind::Prompt, "{}"));
        assert!(!history.lacks(6, Kind::Info, "{}"));
        assert!(!history.lacks(4, Kind::Prompt, "{}"));
    }

    #[test]
    fn the_part_before_a_place_is_what_led_there() {
        let history = RewoundHistory::of(20, r#"{"history":[[0,5],[8,12]]}"#).unwrap();
        assert_eq!(history.before(30), [(0, 5), (8, 12), (20, 30)]);
        assert_eq!(history.before(10), [(0, 5), (8, 10)]);
        assert_eq!(history.before(8), [(0, 5)]);
        let joined = RewoundHistory::of(12, r#"{"history":[[0,5],[5,12]]}"#).unwrap();
        assert_eq!(joined.before(14), [(0, 14)]);
    }

    #[test]
    fn a_snapshot_that_was_written_as_an_update_is_state() {
        let history = RewoundHistory::of(9, r#"{"history":[[0,1]]}"#).unwrap();
        let title = r#"{"sessionUpdate":"session_info_update","title":"t"}"#;
        let params = format!(r#"{{"update":{title},"_meta":{{}}}}"#);
        assert!(!history.lacks(4, Kind::Update, title));
        for kind in [Kind::UpdateParams, Kind::UpdateV2] {
            assert!(!history.lacks(4, kind, &params), "{kind:?}");
        }
        assert!(history.lacks(4, Kind::Update, r#"{"sessionUpdate":"plan"}"#));
    }

    #[test]
    fn ranges_that_cannot_be_are_damage() {
        for payload in [
            r#"{"history":[[5,3]]}"#,
            r#"{"history":[[0,5],[4,6]]}"#,
            r#"{"history":[[0,21]]}"#,
            r#"{"history":[[0]]}"#,
            r#"{"history":7}"#,
        ] {
            assert_eq!(RewoundHistory::of(20, payload), None, "{payload}");
        }
        assert!(RewoundHistory::of(20, "{}").is_some());
    }
}

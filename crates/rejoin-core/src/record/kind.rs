//! The kinds of records a log is made of.

use crate::protocol::UpdateClass;

/// The kind of a record. Its name in the log is [`Kind::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The first record: format, id, workspace, client, engine.
    Session,
    /// A prompt of the user: the parameters of `session/prompt` without the session's id.
    Prompt,
    /// An update that the client was sent: the `update` object of `session/update`, verbatim.
    Update,
    /// An update from a notification with more members than `sessionId` and `update`: its
    /// parameters without the session's id, verbatim.
    UpdateParams,
    /// An update of a subagent's session, which the wrapped agent runs within this one: the
    /// parameters of the notification, the subagent's session id first.
    Subagent,
    /// An update of an agent of version 2, in the form of that version: the parameters of the
    /// notification without the session's id, verbatim.
    UpdateV2,
    /// An update of a subagent of an agent of version 2, in the form of that version: the
    /// parameters of the notification, the subagent's session id first.
    SubagentV2,
    /// An update of an agent of version 2 about the session itself, in the form of that version,
    /// that was sent to the client but is not part of the history: the parameters without the
    /// session's id, verbatim.
    TransientV2,
    /// An engine gets the prompt with this id now: written before that, for prompts that have an
    /// idempotency key.
    Begin,
    /// The end of a turn: stop reason, error or interruption.
    End,
    /// A request for permission or elicitation that was sent to the client.
    Ask,
    /// The client's answer to it.
    Answer,
    /// The state from here on: a snapshot of the agent, or data of our own, such as whether the
    /// session is archived.
    Info,
    /// Another workspace; written with the first prompt after a load.
    Reopen,
    /// The wrapped agent's own id for this session.
    AgentSessionId,
    /// An update that was sent to the client but is not part of the history: an echo of the user's
    /// own prompt, or a notice.
    Transient,
    /// The conversation goes on from an earlier place: which of the records before are its history.
    Rewind,
    /// An update that only replays send: the output of a client's terminal, as text, or a tool call
    /// that the client knows from a request for permission.
    Output,
    /// A kind of a later version: kept and reported, but not interpreted.
    Unknown,
}

impl Kind {
    /// The kind of the record of an update of this class.
    pub const fn of_update(class: UpdateClass) -> Self {
        match class {
            UpdateClass::History => Self::Update,
            UpdateClass::Snapshot => Self::Info,
            UpdateClass::Event => Self::Transient,
        }
    }

    const NAMED: [(Self, &'static str); 18] = [
        (Self::Session, "session"),
        (Self::Prompt, "prompt"),
        (Self::Update, "update"),
        (Self::UpdateParams, "update_params"),
        (Self::Subagent, "subagent"),
        (Self::UpdateV2, "update_v2"),
        (Self::SubagentV2, "subagent_v2"),
        (Self::TransientV2, "transient_v2"),
        (Self::Begin, "begin"),
        (Self::End, "end"),
        (Self::Ask, "ask"),
        (Self::Answer, "answer"),
        (Self::Info, "info"),
        (Self::Reopen, "reopen"),
        (Self::AgentSessionId, "inner"),
        (Self::Transient, "transient"),
        (Self::Output, "output"),
        (Self::Rewind, "rewind"),
    ];

    /// The kind's name in the log.
    pub fn as_str(self) -> &'static str {
        Self::NAMED
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("unknown", |(_, name)| name)
    }

    /// Whether such a record is part of the conversation and counts as activity of the session.
    pub fn is_activity(self) -> bool {
        match self {
            Self::Prompt
            | Self::Update
            | Self::UpdateParams
            | Self::Subagent
            | Self::UpdateV2
            | Self::SubagentV2
            | Self::Output
            | Self::Ask
            | Self::Answer
            | Self::End => true,
            Self::Session
            | Self::Begin
            | Self::Info
            | Self::Reopen
            | Self::AgentSessionId
            | Self::Transient
            | Self::TransientV2
            | Self::Rewind
            | Self::Unknown => false,
        }
    }

    /// The kind with this name in the log.
    pub fn parse(name: &[u8]) -> Self {
        // Nearly all records are updates.
        if name == b"update" {
            return Self::Update;
        }
        let known = Self::NAMED
            .iter()
            .find(|(_, known)| known.as_bytes() == name);
        known.map_or(Self::Unknown, |(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for (kind, name) in Kind::NAMED {
            assert_eq!(Kind::parse(name.as_bytes()), kind);
            assert_eq!(kind.as_str(), name);
        }
        assert_eq!(Kind::parse(b"toast"), Kind::Unknown);
    }
}

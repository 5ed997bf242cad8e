//! The kinds of session updates, and what an update is about, found by reading as little of it as
//! possible.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Serialize;

use crate::json::{self, Object};

use super::ProtocolVersion;

/// The kinds of session updates of both versions. What holds for each is its row in the table below;
/// code names a kind only for what is special about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateKind {
    /// A part of a message.
    Chunk(Role),
    /// A whole message, in place of what was known of it; version 2.
    Message(Role),
    /// The beginning of a tool call; version 1.
    ToolCall,
    /// A change of a tool call; in version 2 also its beginning.
    ToolCallUpdate,
    /// A further item in the content of a tool call; version 2.
    ToolCallContent,
    /// The state of an agent's terminal; version 2.
    Terminal,
    /// More output of an agent's terminal; version 2.
    TerminalOutput,
    /// A whole plan; version 1.
    Plan,
    /// A whole plan, one of several.
    PlanUpdate,
    /// The removal of such a plan.
    PlanRemoved,
    /// A snapshot of the available commands.
    AvailableCommands,
    /// A snapshot of the current mode; version 1.
    CurrentMode,
    /// A snapshot of the config options.
    ConfigOptions,
    /// A snapshot of the tokens used.
    Usage,
    /// A snapshot of the session's title and the like. Absent members mean no change.
    SessionInfo,
    /// What the session is doing now; version 2.
    SessionState,
    /// The beginning or a change of a subagent. In the protocol's documentation: `subagents`.
    Subagent,
    /// A message from one session to another, without the content that comes in chunks.
    SessionMessage,
    /// A part of the content of such a message.
    SessionMessageChunk,
    /// The beginning or a change of a compaction of the agent's context.
    Compaction,
    /// A part of a compaction's summary.
    CompactionSummary,
    /// A one-time event, which the protocol keeps out of the history.
    Notice,
    /// What the user may want to prompt next.
    PromptSuggestions,
    /// A place of the agent's at which the session can be forked. Nobody knows whether an agent that was
    /// started again still takes it.
    Cursor,
    /// The end of a replay; version 2. Rejoin sends it itself, and an agent's own ends with the agent's
    /// replay.
    ReplayComplete,
    /// The session has gone back: this is where its history ends now. Version 2, in the drafts of
    /// `session/rewind`.
    HistoryTruncated,
    /// A kind that only tests know: what its row alone gives it.
    #[cfg(test)]
    Sample,
    /// Anything else, including what is not an update.
    Other,
}

/// What an update is to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateClass {
    /// A part of the history, which is replayed in its place.
    History,
    /// How things are now: only the last of its kind counts, and is sent once behind a replay.
    Snapshot,
    /// A one-time event: recorded and sent, but not replayed.
    Event,
}

/// The text of an update, for those who read a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateText {
    /// The name of the member that has it: a string, a content block, or an array of content blocks.
    pub member: &'static str,
    /// The author, if the text is a part of what was said: then pages of turns, briefings and the
    /// search have it. Exports show any text.
    pub author: Option<Role>,
}

/// A row of the table: what holds for all updates of a kind.
struct UpdateRow {
    kind: UpdateKind,
    /// The value of `sessionUpdate`.
    name: &'static str,
    class: UpdateClass,
    text: Option<UpdateText>,
    /// The names of the members that are ids of sessions.
    sessions: &'static [&'static str],
}

impl UpdateRow {
    const fn new(kind: UpdateKind, name: &'static str, class: UpdateClass) -> Self {
        Self {
            kind,
            name,
            class,
            text: None,
            sessions: &[],
        }
    }

    /// The row of a kind whose text, in this member, was said.
    const fn said(self, member: &'static str, author: Role) -> Self {
        let author = Some(author);
        Self {
            text: Some(UpdateText { member, author }),
            ..self
        }
    }

    /// The row of a kind whose text, in this member, is only shown.
    const fn shown(self, member: &'static str) -> Self {
        let author = None;
        Self {
            text: Some(UpdateText { member, author }),
            ..self
        }
    }

    /// The row of a kind that refers to sessions, by these members.
    const fn naming(self, sessions: &'static [&'static str]) -> Self {
        Self { sessions, ..self }
    }
}

const fn history(kind: UpdateKind, name: &'static str) -> UpdateRow {
    UpdateRow::new(kind, name, UpdateClass::History)
}

const fn snapshot(kind: UpdateKind, name: &'static str) -> UpdateRow {
    UpdateRow::new(kind, name, UpdateClass::Snapshot)
}

const fn event(kind: UpdateKind, name: &'static str) -> UpdateRow {
    UpdateRow::new(kind, name, UpdateClass::Event)
}

/// All kinds but [`UpdateKind::Other`]: first those that come most often, since names are looked up
/// in this order. Replays send snapshots in it.
///
/// A kind is the same in both versions unless [`v1`](super::v1) or [`v2`](super::v2) names it.
#[rustfmt::skip]
const ROWS: &[UpdateRow] = {
    use UpdateKind as U;
    &[
        history(U::Chunk(Role::Agent), "agent_message_chunk").said("content", Role::Agent),
        history(U::Chunk(Role::Thought), "agent_thought_chunk").said("content", Role::Thought),
        history(U::Chunk(Role::User), "user_message_chunk").said("content", Role::User),
        history(U::ToolCallUpdate, "tool_call_update"),
        history(U::ToolCall, "tool_call"),
        history(U::ToolCallContent, "tool_call_content_chunk"),
        history(U::TerminalOutput, "terminal_output_chunk"),
        history(U::Terminal, "terminal_update"),
        history(U::Message(Role::Agent), "agent_message"),
        history(U::Message(Role::Thought), "agent_thought"),
        history(U::Message(Role::User), "user_message"),
        history(U::Plan, "plan"),
        history(U::PlanUpdate, "plan_update"),
        history(U::PlanRemoved, "plan_removed"),
        snapshot(U::AvailableCommands, "available_commands_update"),
        snapshot(U::CurrentMode, "current_mode_update"),
        snapshot(U::ConfigOptions, "config_option_update"),
        snapshot(U::Usage, "usage_update"),
        snapshot(U::SessionInfo, "session_info_update"),
        // For subagents it is a part of the history.
        history(U::SessionState, "state_update"),
        history(U::Subagent, "subagent_update").naming(&["sessionId", "subagentSessionId"]),
        history(U::SessionMessage, "session_message")
            .naming(&["senderSessionId", "recipientSessionId"]),
        history(U::SessionMessageChunk, "session_message_chunk"),
        history(U::Compaction, "compaction_update").shown("summary"),
        history(U::CompactionSummary, "compaction_summary_chunk"),
        event(U::Notice, "notice"),
        event(U::PromptSuggestions, "prompt_suggestions_update"),
        event(U::Cursor, "cursor_update"),
        event(U::ReplayComplete, "replay_complete"),
        event(U::HistoryTruncated, "history_truncated"),
        #[cfg(test)]
        history(U::Sample, "_sample").said("text", Role::Agent),
    ]
};

impl UpdateKind {
    /// The kind of `update`, the JSON of an update object.
    pub fn of(update: &[u8]) -> Self {
        name(update).map_or(Self::Other, |name| Self::of_name(&name))
    }

    /// The kind of an update with this name.
    pub fn of_name(name: &[u8]) -> Self {
        let mut rows = ROWS.iter();
        rows.find(|row| row.name.as_bytes() == name)
            .map_or(Self::Other, |row| row.kind)
    }

    /// All kinds but [`UpdateKind::Other`].
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.kind)
    }

    fn row(self) -> Option<&'static UpdateRow> {
        ROWS.iter().find(|row| row.kind == self)
    }

    /// The value of `sessionUpdate`; empty for [`UpdateKind::Other`].
    pub fn name(self) -> &'static str {
        self.row().map_or("", |row| row.name)
    }

    /// What its updates are to a session. Those of unknown kinds are a part of the history.
    pub fn class(self) -> UpdateClass {
        self.row().map_or(UpdateClass::History, |row| row.class)
    }

    /// The capability of a client, below `session`, without which it is sent no updates of this kind. An
    /// agent decides by it, too; but a session may have several clients.
    pub fn client_capability(self, version: ProtocolVersion) -> Option<&'static str> {
        match (self, version) {
            (Self::PromptSuggestions, _) => Some("promptSuggestions"),
            (Self::Cursor, ProtocolVersion::V1) => Some("cursors"),
            _ => None,
        }
    }

    /// Where its updates have text, if they have any for those who read a conversation.
    pub fn text(self) -> Option<UpdateText> {
        self.row()?.text
    }

    /// The names of the members of an update that are ids of sessions.
    pub fn session_members(self) -> &'static [&'static str] {
        self.row().map_or(&[], |row| row.sessions)
    }

    /// The beginning of an update of this kind.
    pub fn object(self) -> Object {
        Object::new().string("sessionUpdate", self.name())
    }

    /// The place of a snapshot in the order in which replays send them.
    pub fn snapshot_order(self) -> Option<usize> {
        let is_its = |row: &UpdateRow| row.kind == self && row.class == UpdateClass::Snapshot;
        ROWS.iter().position(is_its)
    }

    /// Whether an update of this kind is a snapshot.
    pub fn is_snapshot(self) -> bool {
        self.class() == UpdateClass::Snapshot
    }

    /// Whether an update of this kind changes or begins a tool call, in the form of version 1.
    pub const fn is_call(self) -> bool {
        matches!(self, Self::ToolCall | Self::ToolCallUpdate)
    }
}

impl UpdateText {
    /// The content blocks of an update of the kind, each as JSON text. A text without a block is
    /// put into one.
    pub fn blocks(self, update: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let value = json::text_member(update, self.member).unwrap_or_default();
        let (one, list) = match value.bytes().next() {
            Some(b'{') => (Some(value.into()), ""),
            Some(b'"') => {
                let block = Object::new().string("type", "text").raw("text", value);
                (Some(block.end().into()), "")
            }
            _ => (None, value),
        };
        one.into_iter()
            .chain(json::text_elements(list).map(Cow::Borrowed))
    }
}

/// The parts of an update that were found when it was checked, so that no reader has to search for
/// them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateParts {
    /// Its kind.
    pub kind: UpdateKind,
    /// The value of its `toolCallId`: the start and the end.
    pub call: Option<(usize, usize)>,
    /// The text of a chunk, between its quotes: the start and the end.
    pub text: Option<(usize, usize)>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The agent, to the user.
    Agent,
    /// The agent, to itself.
    Thought,
}

impl Role {
    /// The role of a chunk, by the name of its update.
    pub fn of_chunk(name: &str) -> Option<Self> {
        match UpdateKind::of_name(name.as_bytes()) {
            UpdateKind::Chunk(role) => Some(role),
            _ => None,
        }
    }

    /// The name of the update with a chunk of this role.
    pub fn chunk(self) -> &'static str {
        UpdateKind::Chunk(self).name()
    }
}

/// Whether a tool call with this status has ended. Clients show one with an unknown status as running.
pub fn ends_call(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

/// The name of an update's kind, without escapes.
pub fn name(update: &[u8]) -> Option<Cow<'_, [u8]>> {
    static KEY: LazyLock<MemberFinder> =
        LazyLock::new(|| MemberFinder::new("sessionUpdate", "\"sessionUpdate\""));
    let value = KEY.member(update)?;
    Some(json::unescaped_bytes(
        &update[json::string_body(update, &value)?],
    ))
}

/// The id of the tool call that an update is about, without escapes. An id that is not a string is
/// returned as its JSON text.
pub fn call_id(update: &[u8]) -> Option<Cow<'_, [u8]>> {
    static KEY: LazyLock<MemberFinder> =
        LazyLock::new(|| MemberFinder::new("toolCallId", "\"toolCallId\""));
    KEY.member(update).map(|value| id_text(update, value))
}

/// The id at `value`, as [`call_id`] returns it.
pub fn id_text(update: &[u8], value: Range<usize>) -> Cow<'_, [u8]> {
    let body = json::string_body(update, &value);
    json::unescaped_bytes(&update[body.unwrap_or(value)])
}

/// A member that is usually near the start of an object.
struct MemberFinder {
    name: &'static str,
    /// Its name in its quotes.
    quoted: Finder<'static>,
}

impl MemberFinder {
    fn new(name: &'static str, quoted: &'static str) -> Self {
        Self {
            name,
            quoted: Finder::new(quoted),
        }
    }

    /// The value of the member like [`json::member`], but what follows the member is not parsed,
    /// only searched for a second member of this name.
    fn member(&self, object: &[u8]) -> Option<Range<usize>> {
        let mut parts = json::members(object, 0)?;
        while let Some(member) = parts.member() {
            if &object[member.key] == self.name.as_bytes() {
                return match self.quoted.find(&object[member.value.end..]) {
                    None => Some(member.value),
                    Some(_) => json::member(object, 0, self.name),
                };
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_counts_however_it_is_written() {
        for (update, topic) in [
            (r#"{"sessionUpdate":"tool_call"}"#, UpdateKind::ToolCall),
            (
                r#" { "a" : {"sessionUpdate":"plan"} , "sessionUpdate" : "tool_call_update" } "#,
                UpdateKind::ToolCallUpdate,
            ),
            (
                r#"{"sessionUpdate":"plan","x":{"sessionUpdate":"notice"}}"#,
                UpdateKind::Plan,
            ),
            (
                r#"{"sessionUpdate":"plan","sessionUpdate":"notice"}"#,
                UpdateKind::Notice,
            ),
            (
                r#"{"sessionUpdate":"tool\u005fcall"}"#,
                UpdateKind::ToolCall,
            ),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\"sessionUpdate\":\"plan\""}}"#,
                UpdateKind::Chunk(Role::Agent),
            ),
            (
                r#"{"sessionUpdate":"available_commands_update"}"#,
                UpdateKind::AvailableCommands,
            ),
            (
                r#"{"sessionUpdate":"session_info_update"}"#,
                UpdateKind::SessionInfo,
            ),
            (r#"{"sessionUpdate":"moon_update"}"#, UpdateKind::Other),
            (r#"{"sessionUpdate":7}"#, UpdateKind::Other),
            (r#"{"x":{"sessionUpdate":"plan"}}"#, UpdateKind::Other),
            (r#"["sessionUpdate","plan"]"#, UpdateKind::Other),
            (r#"{"sessionUpdate":"pl"#, UpdateKind::Other),
            ("", UpdateKind::Other),
        ] {
            assert_eq!(UpdateKind::of(update.as_bytes()), topic, "{update}");
        }
    }

    #[test]
    fn ids_are_compared_by_what_they_say() {
        let id = |update: &str| call_id(update.as_bytes()).map(Cow::into_owned);
        assert_eq!(
            id(r#"{"toolCallId":"a\u0062\"\/"}"#),
            Some(br#"ab"/"#.to_vec())
        );
        assert_eq!(
            id(r#"{"toolCallId":"x","toolCallId":"y"}"#),
            Some(b"y".to_vec())
        );
        assert_eq!(id(r#"{"toolCallId":7}"#), Some(b"7".to_vec()));
        assert_eq!(id(r#"{"rawInput":{"toolCallId":"x"}}"#), None);
    }
}

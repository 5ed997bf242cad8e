//! The kinds of session updates, and what an update is about, found by reading as little of it as
//! possible.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Serialize;

use crate::json::{self, Object};

/// The kinds of session updates of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateKind {
    /// A part of a message.
    Chunk(Role),
    /// The beginning of a tool call.
    ToolCall,
    /// A change of a tool call.
    ToolCallUpdate,
    /// A whole plan.
    Plan,
    /// A snapshot of the available commands.
    AvailableCommands,
    /// A snapshot of the current mode.
    CurrentMode,
    /// A snapshot of the config options.
    ConfigOptions,
    /// A snapshot of the tokens used.
    Usage,
    /// A snapshot of the session's title and the like. Absent members mean no change.
    SessionInfo,
    /// The beginning or a change of a subagent. In the protocol's documentation: `subagents`.
    Subagent,
    /// A one-time event, which the protocol keeps out of the history.
    Notice,
    /// Anything else, including what is not an update.
    Other,
}

impl UpdateKind {
    /// Updates with the current state. Only the last of each counts, and none is part of the
    /// history. In the order in which replays send them.
    pub const SNAPSHOTS: [Self; 5] = [
        Self::AvailableCommands,
        Self::CurrentMode,
        Self::ConfigOptions,
        Self::Usage,
        Self::SessionInfo,
    ];

    /// The kind of `update`, the JSON of an update object.
    pub fn of(update: &[u8]) -> Self {
        name(update).map_or(Self::Other, |name| Self::of_name(&name))
    }

    /// The kind of an update with this name.
    pub fn of_name(name: &[u8]) -> Self {
        match name {
            b"user_message_chunk" => Self::Chunk(Role::User),
            b"agent_message_chunk" => Self::Chunk(Role::Agent),
            b"agent_thought_chunk" => Self::Chunk(Role::Thought),
            b"tool_call" => Self::ToolCall,
            b"tool_call_update" => Self::ToolCallUpdate,
            b"plan" => Self::Plan,
            b"available_commands_update" => Self::AvailableCommands,
            b"current_mode_update" => Self::CurrentMode,
            b"config_option_update" => Self::ConfigOptions,
            b"usage_update" => Self::Usage,
            b"session_info_update" => Self::SessionInfo,
            b"subagent_update" => Self::Subagent,
            b"notice" => Self::Notice,
            _ => Self::Other,
        }
    }

    /// The value of `sessionUpdate`; empty for [`UpdateKind::Other`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chunk(role) => role.chunk(),
            Self::ToolCall => "tool_call",
            Self::ToolCallUpdate => "tool_call_update",
            Self::Plan => "plan",
            Self::AvailableCommands => "available_commands_update",
            Self::CurrentMode => "current_mode_update",
            Self::ConfigOptions => "config_option_update",
            Self::Usage => "usage_update",
            Self::SessionInfo => "session_info_update",
            Self::Subagent => "subagent_update",
            Self::Notice => "notice",
            Self::Other => "",
        }
    }

    /// The beginning of an update of this kind.
    pub fn object(self) -> Object {
        Object::new().string("sessionUpdate", self.name())
    }

    /// Its position among [`UpdateKind::SNAPSHOTS`], if it is one.
    pub fn snapshot(self) -> Option<usize> {
        Self::SNAPSHOTS.iter().position(|kind| *kind == self)
    }

    /// Whether an update of this kind changes or begins a tool call.
    pub const fn is_call(self) -> bool {
        matches!(self, Self::ToolCall | Self::ToolCallUpdate)
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

    /// The role of a whole message of version 2, by the name of its update.
    pub fn of_message(name: &str) -> Option<Self> {
        match name {
            "user_message" => Some(Self::User),
            "agent_message" => Some(Self::Agent),
            "agent_thought" => Some(Self::Thought),
            _ => None,
        }
    }

    /// The name of the update with a chunk of this role.
    pub const fn chunk(self) -> &'static str {
        match self {
            Self::User => "user_message_chunk",
            Self::Agent => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
        }
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

//! Finds what an update is about by reading as little of it as possible.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json;
use crate::record::transcript::SNAPSHOTS;

/// The kinds of updates that a replay treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateTopic {
    /// A part of a message.
    Chunk,
    /// The beginning of a tool call.
    Call,
    /// An update of a tool call.
    CallUpdate,
    /// A snapshot of the current state. The number is its position in [`SNAPSHOTS`].
    Snapshot(usize),
    /// A notice: a one-time event.
    Notice,
    /// A plan.
    Plan,
    /// Anything else, including what is not an update.
    Other,
}

impl UpdateTopic {
    /// The kind of `update`, the JSON of an update object.
    pub(super) fn of(update: &[u8]) -> Self {
        name(update).map_or(Self::Other, |name| Self::of_name(&name))
    }

    /// The kind of an update with this name.
    pub(super) fn of_name(name: &[u8]) -> Self {
        match name {
            b"agent_message_chunk" | b"agent_thought_chunk" | b"user_message_chunk" => Self::Chunk,
            b"tool_call" => Self::Call,
            b"tool_call_update" => Self::CallUpdate,
            b"notice" => Self::Notice,
            b"plan" => Self::Plan,
            _ => SNAPSHOTS
                .iter()
                .position(|snapshot| snapshot.as_bytes() == name)
                .map_or(Self::Other, Self::Snapshot),
        }
    }
}

/// The name of an update's kind, without escapes.
pub(super) fn name(update: &[u8]) -> Option<Cow<'_, [u8]>> {
    static KEY: LazyLock<Key> = LazyLock::new(|| Key::new("sessionUpdate", "\"sessionUpdate\""));
    let value = KEY.member(update)?;
    Some(plain(&update[json::string_body(update, &value)?]))
}

/// The id of the tool call that an update is about, without escapes. An id that is not a string is
/// returned as its JSON text.
pub(super) fn call_id(update: &[u8]) -> Option<Cow<'_, [u8]>> {
    static KEY: LazyLock<Key> = LazyLock::new(|| Key::new("toolCallId", "\"toolCallId\""));
    let value = KEY.member(update)?;
    let body = json::string_body(update, &value);
    Some(plain(&update[body.unwrap_or(value)]))
}

/// Unescapes text.
pub(super) fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    match std::str::from_utf8(text) {
        Ok(escaped) => Cow::Owned(json::unescape(escaped).into_bytes()),
        Err(_) => Cow::Borrowed(text),
    }
}

/// A member that is usually near the start of an object.
struct Key {
    name: &'static str,
    /// Its name in its quotes.
    quoted: Finder<'static>,
}

impl Key {
    fn new(name: &'static str, quoted: &'static str) -> Self {
        Self {
            name,
            quoted: Finder::new(quoted),
        }
    }

    /// The same as [`json::member`], but what follows the member is not parsed, only searched for a
    /// second member of this name.
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
            (r#"{"sessionUpdate":"tool_call"}"#, UpdateTopic::Call),
            (
                r#" { "a" : {"sessionUpdate":"plan"} , "sessionUpdate" : "tool_call_update" } "#,
                UpdateTopic::CallUpdate,
            ),
            (
                r#"{"sessionUpdate":"plan","x":{"sessionUpdate":"notice"}}"#,
                UpdateTopic::Plan,
            ),
            (
                r#"{"sessionUpdate":"plan","sessionUpdate":"notice"}"#,
                UpdateTopic::Notice,
            ),
            (r#"{"sessionUpdate":"tool\u005fcall"}"#, UpdateTopic::Call),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\"sessionUpdate\":\"plan\""}}"#,
                UpdateTopic::Chunk,
            ),
            (
                r#"{"sessionUpdate":"available_commands_update"}"#,
                UpdateTopic::Snapshot(0),
            ),
            (
                r#"{"sessionUpdate":"session_info_update"}"#,
                UpdateTopic::Snapshot(4),
            ),
            (r#"{"sessionUpdate":"moon_update"}"#, UpdateTopic::Other),
            (r#"{"sessionUpdate":7}"#, UpdateTopic::Other),
            (r#"{"x":{"sessionUpdate":"plan"}}"#, UpdateTopic::Other),
            (r#"["sessionUpdate","plan"]"#, UpdateTopic::Other),
            (r#"{"sessionUpdate":"pl"#, UpdateTopic::Other),
            ("", UpdateTopic::Other),
        ] {
            assert_eq!(UpdateTopic::of(update.as_bytes()), topic, "{update}");
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

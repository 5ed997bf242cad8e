//! What an update is about, told from as little of it as will do.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::record::json;
use crate::record::transcript::SNAPSHOTS;

/// What an update is about, as far as a replay treats it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// A part of a message.
    Chunk,
    /// The beginning of a tool call.
    Call,
    /// What became of a tool call.
    CallUpdate,
    /// How things are now; the number is its place in [`SNAPSHOTS`].
    Snapshot(usize),
    /// Something that passed.
    Notice,
    /// A plan.
    Plan,
    /// Anything else, also what is no update.
    Other,
}

impl Topic {
    /// What `update`, the JSON of an update object, is about.
    pub(super) fn of(update: &[u8]) -> Self {
        name(update).map_or(Self::Other, |name| Self::of_name(&name))
    }

    /// What an update of this name is about.
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

/// The id of the tool call that an update is about, without escapes; one that is no string is
/// taken as it stands.
pub(super) fn call_id(update: &[u8]) -> Option<Cow<'_, [u8]>> {
    static KEY: LazyLock<Key> = LazyLock::new(|| Key::new("toolCallId", "\"toolCallId\""));
    let value = KEY.member(update)?;
    let body = json::string_body(update, &value);
    Some(plain(&update[body.unwrap_or(value)]))
}

/// What escaped text says.
pub(super) fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    match std::str::from_utf8(text) {
        Ok(escaped) => Cow::Owned(json::unescape(escaped).into_bytes()),
        Err(_) => Cow::Borrowed(text),
    }
}

/// A member that usually stands early in an object.
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

    /// The same as [`json::member`], but what stands behind the member is not read: it is only
    /// searched for a second one of this name.
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
            (r#"{"sessionUpdate":"tool_call"}"#, Topic::Call),
            (
                r#" { "a" : {"sessionUpdate":"plan"} , "sessionUpdate" : "tool_call_update" } "#,
                Topic::CallUpdate,
            ),
            (
                r#"{"sessionUpdate":"plan","x":{"sessionUpdate":"notice"}}"#,
                Topic::Plan,
            ),
            (
                r#"{"sessionUpdate":"plan","sessionUpdate":"notice"}"#,
                Topic::Notice,
            ),
            (r#"{"sessionUpdate":"tool\u005fcall"}"#, Topic::Call),
            (
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\"sessionUpdate\":\"plan\""}}"#,
                Topic::Chunk,
            ),
            (
                r#"{"sessionUpdate":"available_commands_update"}"#,
                Topic::Snapshot(0),
            ),
            (
                r#"{"sessionUpdate":"session_info_update"}"#,
                Topic::Snapshot(4),
            ),
            (r#"{"sessionUpdate":"moon_update"}"#, Topic::Other),
            (r#"{"sessionUpdate":7}"#, Topic::Other),
            (r#"{"x":{"sessionUpdate":"plan"}}"#, Topic::Other),
            (r#"["sessionUpdate","plan"]"#, Topic::Other),
            (r#"{"sessionUpdate":"pl"#, Topic::Other),
            ("", Topic::Other),
        ] {
            assert_eq!(Topic::of(update.as_bytes()), topic, "{update}");
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

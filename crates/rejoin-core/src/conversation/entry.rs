//! Reads what one record adds to a conversation, for all readers: each keeps the part that it needs.

use std::borrow::Cow;

use crate::json;
use crate::protocol::update::call_id;
use crate::protocol::{Role, UpdateKind, UpdateText};
use crate::record::{Kind, Record};

/// What an update adds to a conversation.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A part of a message.
    Chunk(ChunkEntry<'a>),
    /// The beginning of a tool call, or changes to one.
    Call(CallEntry<'a>),
    /// A plan in place of the one before it: the JSON array of its entries.
    Plan(&'a str),
    /// Anything else.
    Other,
}

impl<'a> Entry<'a> {
    /// Reads an update of this kind.
    pub fn of(kind: UpdateKind, update: &'a str) -> Self {
        match kind {
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => Self::Call(CallEntry::of(update)),
            UpdateKind::Plan => {
                json::text_member(update, "entries").map_or(Self::Other, Self::Plan)
            }
            _ => ChunkEntry::of(kind, update).map_or(Self::Other, Self::Chunk),
        }
    }
}

/// The update in a record of the session or of a subagent, in the form of version 1, with the id of
/// the subagent's session as JSON text.
pub fn update_in<'a>(record: &Record<'a>) -> Option<(Option<&'a str>, &'a str)> {
    let payload = record.payload;
    match record.kind {
        Kind::Update | Kind::Output => Some((None, payload)),
        Kind::UpdateParams => Some((None, json::text_member(payload, "update")?)),
        Kind::Subagent => Some((
            Some(json::text_member(payload, "sessionId")?),
            json::text_member(payload, "update")?,
        )),
        _ => None,
    }
}

/// The blocks of a prompt, each as JSON text.
pub fn prompt_blocks(payload: &str) -> impl Iterator<Item = &str> {
    json::text_elements(json::text_member(payload, "prompt").unwrap_or_default())
}

/// A part of a message, or another text that was said.
#[derive(Clone, Copy, Debug)]
pub struct ChunkEntry<'a> {
    /// The author.
    pub role: Role,
    /// The JSON text of the message's id, empty if it has none.
    pub message: &'a str,
    /// The name of the update's kind if its text is no part of a message.
    pub alone: Option<&'static str>,
    update: &'a str,
    text: UpdateText,
}

impl<'a> ChunkEntry<'a> {
    /// Reads an update of this kind. `None` if it says nothing.
    fn of(kind: UpdateKind, update: &'a str) -> Option<Self> {
        let text = kind.text()?;
        let id = json::text_member(update, "messageId");
        Some(Self {
            role: text.author?,
            message: id.filter(|id| *id != "null").unwrap_or_default(),
            alone: (!matches!(kind, UpdateKind::Chunk(_))).then(|| kind.name()),
            update,
            text,
        })
    }

    /// The content blocks as JSON text: one of a chunk as the protocol has it.
    pub fn blocks(&self) -> impl Iterator<Item = Cow<'a, str>> {
        self.text.blocks(self.update)
    }
}

/// The beginning of a tool call, or changes to one.
#[derive(Clone, Copy, Debug)]
pub struct CallEntry<'a>(&'a str);

impl<'a> CallEntry<'a> {
    /// Reads an update of a tool call.
    pub fn of(update: &'a str) -> Self {
        Self(update)
    }

    /// The call's id, without escapes.
    pub fn id(&self) -> Option<Cow<'a, [u8]>> {
        call_id(self.0.as_bytes())
    }

    /// The members that have a value, each of which replaces the one before it: names, still
    /// escaped, and values as JSON text. `null` means no change, except for raw input and output,
    /// for which it is a value.
    pub fn members(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let update = self.0;
        let mut members = json::members(update.as_bytes(), 0);
        let all = std::iter::from_fn(move || {
            let member = members.as_mut()?.member()?;
            Some((&update[member.key], &update[member.value]))
        });
        all.filter(|(name, value)| *name != "sessionUpdate" && has_value(name, *value == "null"))
    }
}

/// Whether a member of a tool call's update that is `null`, or not, has a value.
pub(super) fn has_value(name: &str, is_null: bool) -> bool {
    !is_null || matches!(name, "rawInput" | "rawOutput")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::conversation::{
        Field, SearchText, Transcript, TranscriptEntry, TurnContent, TurnFold,
    };

    const SAMPLE: &str = r#"{"sessionUpdate":"_sample","text":"It r\u0061ins"}"#;
    const CHUNK: &str =
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#;

    #[test]
    fn readers_have_the_text_of_a_kind_by_its_row() {
        let updates = [CHUNK, SAMPLE, SAMPLE, CHUNK];
        let mut turn = TurnFold::new(Role::Agent, "", 1000);
        let (mut words, mut transcript) = (SearchText::default(), Transcript::default());
        for update in updates {
            turn.entry(&Entry::of(UpdateKind::of(update.as_bytes()), update));
            words.record(0, &Record::sample(Kind::Update, None, update));
            transcript.update(update);
        }
        let turn: Value = serde_json::from_str(&turn.write(String::new())).unwrap();
        let block = |text: &str| json!({"type": "text", "text": text});
        let (a, rains) = (block("a"), block("It rains"));
        assert_eq!(turn["content"], json!([a, rains, rains, a]));
        let found = words.take().into_iter();
        let found: Vec<_> = found.map(|passage| (passage.field, passage.text)).collect();
        let said = ["a", "It rains", "It rains", "a"];
        assert_eq!(found, said.map(|text| (Field::Answer, text.to_owned())));
        let [_, TranscriptEntry::Other { update }, ..] = &transcript.entries[..] else {
            panic!("{transcript:?}");
        };
        assert_eq!(*TranscriptEntry::text_blocks(update)[0], rains);
    }

    #[test]
    fn a_text_is_a_string_a_block_or_a_list_of_blocks() {
        let text = UpdateText {
            member: "t",
            author: None,
        };
        for (value, blocks) in [
            (r#""a\n""#, &[r#"{"type":"text","text":"a\n"}"#][..]),
            (r#"{"type":"image"}"#, &[r#"{"type":"image"}"#]),
            (r#"[{"n":1e400}, {}]"#, &[r#"{"n":1e400}"#, "{}"]),
            ("null", &[]),
            ("7", &[]),
        ] {
            let update = format!(r#"{{"t":{value}}}"#);
            assert_eq!(text.blocks(&update).collect::<Vec<_>>(), blocks);
        }
        assert_eq!(text.blocks("{}").count(), 0);
    }
}

//! Extracts the searchable text of a log: messages of the user and the agent, and titles of tool
//! calls.
//!
//! Thoughts, plans and the input and output of tools are left out: they are many times as long and
//! not what people remember of a conversation.

use std::ops::Range;

use super::{InVersion1, Kind, Record};
use crate::json;

/// Collects the text of records.
#[derive(Debug, Default)]
pub struct SearchText {
    text: String,
    /// Kind and id of the message that the text ends with. Empty between messages.
    message: Vec<u8>,
    converted: InVersion1,
}

impl SearchText {
    /// Takes the next record.
    pub fn record(&mut self, record: &Record<'_>) {
        if self.converted.passes(record.kind) {
            return self.take_record(record);
        }
        let mut converted = std::mem::take(&mut self.converted);
        converted.record(record, &mut |record| self.take_record(record));
        self.converted = converted;
    }

    fn take_record(&mut self, record: &Record<'_>) {
        let payload = record.payload;
        let bytes = payload.as_bytes();
        match record.kind {
            Kind::Prompt => self.prompt(payload),
            Kind::Update => self.update(payload, 0),
            Kind::UpdateParams => {
                if let Some(update) = json::member(bytes, 0, "update") {
                    self.update(payload, update.start);
                }
            }
            Kind::Info => {
                self.message.clear();
                // A title that the agent set.
                let within = json::member(bytes, 0, "update").map_or(0, |update| update.start);
                self.member(payload, within, "title");
            }
            // An end with an id may come within a message of another turn.
            Kind::End if record.id.is_none() => self.message.clear(),
            _ => {}
        }
    }

    /// The length of the text in bytes.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether the text ends with a message that may continue.
    pub fn within_message(&self) -> bool {
        !self.message.is_empty()
    }

    /// Takes the text, leaving none.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn prompt(&mut self, payload: &str) {
        self.message.clear();
        let bytes = payload.as_bytes();
        let Some(mut blocks) = json::member_elements(bytes, 0, "prompt") else {
            return;
        };
        while let Some(block) = blocks.element() {
            self.block(payload, block.start);
        }
    }

    fn update(&mut self, payload: &str, at: usize) {
        let bytes = payload.as_bytes();
        let Some(name) = json::member(bytes, at, "sessionUpdate") else {
            return;
        };
        match &bytes[name.clone()] {
            b"\"agent_message_chunk\"" | b"\"user_message_chunk\"" => {
                let Some(content) = json::member(bytes, at, "content") else {
                    return;
                };
                let id = json::member(bytes, at, "messageId").unwrap_or(0..0);
                let message = [&bytes[name], &bytes[id]].concat();
                let text = json::member(bytes, content.start, "text");
                match text.and_then(|text| json::string_body(bytes, &text)) {
                    // A word may be split between two chunks of a message.
                    Some(text) if self.message == message => self.more(&payload[text]),
                    Some(text) => {
                        self.line(&payload[text]);
                        self.message = message;
                    }
                    None => {
                        self.message.clear();
                        self.block(payload, content.start);
                    }
                }
            }
            b"\"tool_call\"" | b"\"tool_call_update\"" => {
                self.message.clear();
                self.member(payload, at, "title");
            }
            _ => self.message.clear(),
        }
    }

    /// Adds the text of a content block, or its name.
    fn block(&mut self, payload: &str, at: usize) {
        for name in ["text", "title", "name", "uri"] {
            self.member(payload, at, name);
        }
        if let Some(resource) = json::member(payload.as_bytes(), at, "resource") {
            self.member(payload, resource.start, "uri");
        }
    }

    fn member(&mut self, payload: &str, at: usize, name: &str) {
        let bytes = payload.as_bytes();
        let value = json::member(bytes, at, name);
        let body: Option<Range<usize>> = value.and_then(|value| json::string_body(bytes, &value));
        if let Some(body) = body {
            self.line(&payload[body]);
        }
    }

    fn line(&mut self, body: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.more(body);
    }

    fn more(&mut self, body: &str) {
        if body.contains('\\') {
            self.text.push_str(&json::unescape(body));
        } else {
            self.text.push_str(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(records: &[(Kind, &str)]) -> String {
        let mut spoken = SearchText::default();
        for (kind, payload) in records {
            spoken.record(&Record {
                seq: 0,
                at: "2026-11-21T08:30:00.123Z",
                kind: *kind,
                id: None,
                payload,
                parts: None,
            });
        }
        spoken.take()
    }

    #[test]
    fn what_was_said_and_what_tools_are_called() {
        let text = spoken(&[
            (
                Kind::Prompt,
                r#"{"prompt":[{"type":"text","text":"Fix \u0041\nit"},{"type":"resource_link","name":"a.rs","uri":"file:///w/a.rs"},{"type":"resource","resource":{"uri":"file:///b","text":"not this"}},{"type":"image","data":"bm90IHRoaXM="}],"_meta":{"text":"not this"}}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"not this"}}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"It wo"},"messageId":"m1"}"#,
            ),
            (
                Kind::Update,
                r#"{"messageId":"m1","sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"rks."}}"#,
            ),
            (
                Kind::UpdateParams,
                r#"{"_meta":{},"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Next"},"messageId":"m2"}}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read b","rawInput":{"title":"not this"}}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"plan","entries":[{"content":"not this"}]}"#,
            ),
            (
                Kind::Info,
                r#"{"sessionUpdate":"session_info_update","title":"Given"}"#,
            ),
            (Kind::Answer, r#"{"title":"not this"}"#),
            (Kind::End, r#"{"stopReason":"end_turn"}"#),
        ]);
        assert_eq!(
            text,
            "Fix A\nit\na.rs\nfile:///w/a.rs\nfile:///b\nIt works.\nNext\nRead b\nGiven"
        );
    }

    #[test]
    fn updates_of_version_2_say_what_they_say() {
        let text = spoken(&[
            (
                Kind::UpdateV2,
                r#"{"update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"It wo"}}}"#,
            ),
            (
                Kind::UpdateV2,
                r#"{"update":{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"It works."}]}}"#,
            ),
            (
                Kind::UpdateV2,
                r#"{"update":{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Read b"}}"#,
            ),
            (
                Kind::UpdateV2,
                r#"{"update":{"sessionUpdate":"agent_thought","messageId":"t","content":[{"type":"text","text":"not this"}]}}"#,
            ),
            (
                Kind::UpdateV2,
                r#"{"update":{"sessionUpdate":"session_info_update","title":"Given"}}"#,
            ),
            (
                Kind::TransientV2,
                r#"{"update":{"sessionUpdate":"user_message","messageId":"u","content":[{"type":"text","text":"not this"}]}}"#,
            ),
        ]);
        assert_eq!(text, "It works.\nRead b\nGiven");
    }

    #[test]
    fn odd_payloads_say_nothing() {
        for payload in [
            "",
            "{",
            "[]",
            r#"{"prompt":7}"#,
            r#"{"prompt":[7,{"text":7},{"text":"#,
        ] {
            for kind in [Kind::Prompt, Kind::Update, Kind::UpdateParams, Kind::Info] {
                assert_eq!(spoken(&[(kind, payload)]), "", "{payload}");
            }
        }
        let odd =
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud83d"}}"#;
        assert_eq!(spoken(&[(Kind::Update, odd)]), "\u{fffd}");
    }
}

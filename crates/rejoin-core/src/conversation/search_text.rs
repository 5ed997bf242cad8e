//! Extracts the searchable text of a log: what was said and thought, what tools were given and what
//! they returned, titles, and names of files.

use super::entry::{CallEntry, ChunkEntry, Entry, prompt_blocks, update_in};
use super::excerpt::{Excerpt, KEPT};
use super::passage::{Field, Passage};
use crate::json;
use crate::protocol::UpdateKind;
use crate::record::{InVersion1, Kind, Record};

/// An update of a tool call often repeats what an earlier one said. It is compared with so many
/// passages before it.
const COMPARED: usize = 16;

/// Collects the text of records.
#[derive(Debug, Default)]
pub struct SearchText {
    passages: Vec<Passage>,
    /// The length of all texts in bytes.
    len: usize,
    /// The subagent, kind and id of the message that the text ends with. Empty between messages.
    message: String,
    /// Whether long input and output of tools is kept as a whole.
    whole: bool,
    /// Where the current record begins.
    offset: u64,
    converted: InVersion1,
}

impl SearchText {
    /// Collects the input and output of tools as a whole. Otherwise only the beginning and the end
    /// are collected if it is long.
    pub fn whole() -> Self {
        Self {
            whole: true,
            ..Self::default()
        }
    }

    /// Goes on behind these passages, at the beginning of a turn.
    pub fn after(passages: Vec<Passage>) -> Self {
        Self {
            len: passages.iter().map(|passage| passage.text.len()).sum(),
            passages,
            ..Self::default()
        }
    }

    /// Takes the next record, which begins at `offset` in the log.
    pub fn record(&mut self, offset: u64, record: &Record<'_>) {
        self.offset = offset;
        if self.converted.passes(record.kind) {
            return self.take_record(record);
        }
        let mut converted = std::mem::take(&mut self.converted);
        converted.record(record, &mut |record| self.take_record(record));
        self.converted = converted;
    }

    fn take_record(&mut self, record: &Record<'_>) {
        let payload = record.payload;
        if let Some((subagent, update)) = update_in(record) {
            let parts = record.parts.filter(|_| update.len() == payload.len());
            let kind = parts.map_or_else(|| UpdateKind::of(update.as_bytes()), |parts| parts.kind);
            let text = parts.and_then(|parts| parts.text);
            match Entry::of(kind, update) {
                Entry::Chunk(chunk) if chunk.alone.is_some() => self.alone(record, &chunk),
                Entry::Chunk(chunk) => {
                    let text = text.map(|(start, end)| &update[start..end]);
                    self.chunk(record, subagent.unwrap_or_default(), &chunk, text);
                }
                Entry::Call(call) => {
                    self.message.clear();
                    self.call(record, &call);
                }
                Entry::Plan(_) | Entry::Other => self.message.clear(),
            }
            return;
        }
        match record.kind {
            Kind::Prompt => self.prompt(record),
            Kind::Info => {
                self.message.clear();
                // A title that the agent set.
                let mut text = Excerpt::new(true);
                let update = json::text_member(payload, "update").unwrap_or(payload);
                text.member(update, "title");
                self.add(record, Field::Title, None, None, text.text());
            }
            // An end with an id may come within a message of another turn.
            Kind::End if record.id.is_none() => self.message.clear(),
            _ => {}
        }
    }

    /// The length of the text in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.passages.is_empty()
    }

    /// Whether the text ends with a message that may continue.
    pub fn within_message(&self) -> bool {
        !self.message.is_empty()
    }

    /// Takes the text, leaving none.
    pub fn take(&mut self) -> Vec<Passage> {
        self.len = 0;
        std::mem::take(&mut self.passages)
    }

    fn prompt(&mut self, record: &Record<'_>) {
        self.message.clear();
        let mut text = Excerpt::new(true);
        for content in prompt_blocks(record.payload) {
            block(&mut text, content);
        }
        let id = record.id.map(str::to_owned);
        self.add(record, Field::Prompt, id, None, text.text());
    }

    /// Adds a chunk of the message of a subagent, or of the session. `text` is its text, if it is
    /// known.
    fn chunk(
        &mut self,
        record: &Record<'_>,
        subagent: &str,
        chunk: &ChunkEntry<'_>,
        text: Option<&str>,
    ) {
        let message = [subagent, chunk.role.chunk(), chunk.message].concat();
        let content = match text {
            Some(_) => None,
            None => chunk.blocks().next(),
        };
        let content = content.as_deref().unwrap_or_default();
        let text = text.or_else(|| json::text_body(json::text_member(content, "text")?));
        // A word may be split between two chunks of a message.
        if let Some(text) = text
            && self.message == message
            && let Some(last) = self.passages.last_mut()
        {
            let more = json::unescaped(text);
            last.text.push_str(&more);
            self.len += more.len();
            return;
        }
        let is_text = text.is_some();
        let text = text.map_or_else(
            || {
                let mut text = Excerpt::new(true);
                block(&mut text, content);
                text.text()
            },
            json::unescape,
        );
        self.message.clear();
        if is_text && !text.is_empty() {
            self.message = message;
        }
        let id = json::text_body(chunk.message).map(json::unescape);
        self.add(record, Field::said_by(chunk.role), id, None, text);
    }

    /// Adds a text that is no part of a message.
    fn alone(&mut self, record: &Record<'_>, chunk: &ChunkEntry<'_>) {
        self.message.clear();
        let blocks: Vec<_> = chunk.blocks().collect();
        let mut text = Excerpt::new(true);
        for content in &blocks {
            block(&mut text, content);
        }
        self.add(record, Field::said_by(chunk.role), None, None, text.text());
    }

    /// Adds what an update says about a tool call.
    fn call(&mut self, record: &Record<'_>, update: &CallEntry<'_>) {
        let [mut title, mut kind, mut locations] = [""; 3];
        let [mut content, mut input, mut output] = [""; 3];
        for (name, value) in update.members() {
            let place = match name {
                "title" => &mut title,
                "kind" => &mut kind,
                "locations" => &mut locations,
                "content" => &mut content,
                "rawInput" => &mut input,
                "rawOutput" => &mut output,
                _ => continue,
            };
            *place = value;
        }
        let id = update
            .id()
            .map(|id| String::from_utf8_lossy(&id).into_owned());
        let kind = json::text_body(kind).map(json::unescape);

        let mut tool = Excerpt::new(true);
        if let Some(title) = json::text_body(title) {
            tool.string(title);
        }
        for location in json::text_elements(locations) {
            tool.member(location, "path");
        }

        let mut given = Excerpt::new(self.whole);
        given.strings_in(input);

        let mut returned = Excerpt::new(self.whole);
        for part in json::text_elements(content) {
            for name in ["path", "newText", "oldText"] {
                returned.member(part, name);
            }
            if let Some(content) = json::text_member(part, "content") {
                block(&mut returned, content);
            }
        }
        // Usually the same again.
        if returned.is_empty() {
            returned.strings_in(output);
        }

        let texts = [
            (Field::Tool, tool),
            (Field::ToolInput, given),
            (Field::ToolOutput, returned),
        ];
        for (field, text) in texts {
            self.add(record, field, id.clone(), kind.clone(), text.text());
        }
    }

    /// Adds a text, or replaces what an earlier update said about the same tool call.
    fn add(
        &mut self,
        record: &Record<'_>,
        field: Field,
        id: Option<String>,
        tool_kind: Option<String>,
        text: String,
    ) {
        if text.is_empty() {
            return;
        }
        if field.role() == Field::Tool.role() && id.is_some() {
            let mut recent = self.passages.iter_mut().rev().take(COMPARED);
            if let Some(known) = recent.find(|known| {
                let compared = known.text.len().min(KEPT);
                known.field == field
                    && known.id == id
                    && text.as_bytes().get(..compared) == known.text.as_bytes().get(..compared)
            }) {
                self.len = self.len - known.text.len() + text.len();
                known.text = text;
                known.tool_kind = tool_kind.or(known.tool_kind.take());
                return;
            }
        }
        self.len += text.len();
        self.passages.push(Passage {
            field,
            offset: self.offset,
            at: record.at.to_owned(),
            id,
            tool_kind,
            text,
        });
    }
}

/// Adds the text of a content block, or its name.
fn block<'a>(text: &mut Excerpt<'a>, block: &'a str) {
    for name in ["text", "title", "name", "uri"] {
        text.member(block, name);
    }
    if let Some(resource) = json::text_member(block, "resource") {
        text.member(resource, "uri");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(records: &[(Kind, &str)]) -> String {
        let texts = passages(records).into_iter().map(|passage| passage.text);
        texts.collect::<Vec<_>>().join("\n")
    }

    fn passages(records: &[(Kind, &str)]) -> Vec<Passage> {
        let mut spoken = SearchText::default();
        for (kind, payload) in records {
            let record = Record {
                at: "2026-11-21T08:30:00.123Z",
                ..Record::sample(*kind, None, payload)
            };
            spoken.record(7, &record);
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
                r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Hm"}}"#,
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
                r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read b","kind":"read","locations":[{"path":"/w/b","line":1}],"rawInput":{"title":"b","n":1}}"#,
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
            "Fix A\nit\na.rs\nfile:///w/a.rs\nfile:///b\nHm\nIt works.\nNext\nRead b\n/w/b\nb\nGiven"
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
                r#"{"update":{"sessionUpdate":"agent_thought","messageId":"t","content":[{"type":"text","text":"Hm"}]}}"#,
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
        assert_eq!(text, "It works.\nRead b\nHm\nGiven");
    }

    #[test]
    fn tools_say_what_they_were_given_and_returned() {
        let found = passages(&[
            (
                Kind::Update,
                r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","kind":"execute","rawInput":{"command":["ls","-l"]}}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"ls","content":[{"type":"content","content":{"type":"text","text":"one"}}]}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","rawOutput":{"stdout":"not this"},"content":[{"type":"content","content":{"type":"text","text":"one two"}},{"type":"diff","path":"/w/a","oldText":"b","newText":"c"},{"type":"terminal","terminalId":"not this"}]}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"tool_call_update","toolCallId":"d","rawOutput":{"stdout":"out"}}"#,
            ),
            (
                Kind::Subagent,
                r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"sub"}}}"#,
            ),
            (
                Kind::Update,
                r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"own"}}"#,
            ),
        ]);
        let found: Vec<_> = found
            .iter()
            .map(|passage| (passage.field, passage.id.as_deref(), &*passage.text))
            .collect();
        assert_eq!(
            found,
            [
                (Field::Tool, Some("c"), "ls"),
                (Field::ToolInput, Some("c"), "ls\n-l"),
                (Field::ToolOutput, Some("c"), "one two\n/w/a\nc\nb"),
                (Field::ToolOutput, Some("d"), "out"),
                (Field::Answer, None, "sub"),
                (Field::Answer, None, "own"),
            ]
        );
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

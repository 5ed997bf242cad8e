//! The places in a log at which its session can be forked: before each message of the user, and after each
//! turn and each compaction that has finished.

use std::collections::VecDeque;
use std::ops::Range;

use super::cursor::{Cursor, CursorSide, has_completed, is_user_message, update_of};
use super::{Kind, OpenTurns, Record};
use crate::json::{self, Object};
use crate::protocol::{Role, UpdateKind, update};

/// How many of the messages, tool calls and compactions that began last are known: an update of an
/// earlier one counts as the beginning of another.
const KNOWN: usize = 1024;

/// A place at which a session can be forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its id.
    pub cursor: Cursor,
    /// The message, tool call or compaction that is next to it.
    anchor: Entity,
}

/// Something with an id that clients show: a message, a tool call or a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entity {
    kind: EntityKind,
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntityKind {
    Message(Role),
    SessionMessage,
    ToolCall,
    Compaction,
}

/// Finds the places of a log, record by record.
#[derive(Debug)]
pub struct Places {
    session: String,
    open: OpenTurns<()>,
    /// What has begun, in its order, each with the number of its first record.
    entities: VecDeque<(Entity, u64)>,
    /// How many of them there were so far.
    begun: u64,
    /// The number of the record of the last prompt.
    prompt: Option<u64>,
    /// The message that was met last.
    last: Option<LastMessage>,
}

/// The message that was met last: what the payloads of its records usually have in common.
#[derive(Debug)]
struct LastMessage {
    /// The beginning: the kind of the update, and the id of the message if that comes next.
    head: String,
    /// Otherwise the id, and where it begins, in bytes from the end.
    id: String,
    from_end: usize,
}

impl Place {
    /// The members of a `cursor_update` that announces it, as the beginning of an object.
    pub fn members(&self, object: Object) -> Object {
        let side = match self.cursor.side {
            CursorSide::Before => "before",
            CursorSide::After => "after",
        };
        let Entity { kind, id } = &self.anchor;
        object.written("cursorId", |text| {
            // Nothing but the id of the anchor may have to be escaped.
            text.push('"');
            text.push_str(&self.cursor.to_string());
            text.push_str(r#"","capabilities":{"fork":{}},"anchor":{"type":""#);
            text.push_str(kind.name());
            text.push_str(r#"",""#);
            text.push_str(kind.id_member());
            text.push_str(r#"":"#);
            text.push_str(&json::quoted(id));
            text.push_str(r#","position":""#);
            text.push_str(side);
            text.push_str(r#""}"#);
        })
    }
}

impl Entity {
    /// What an anchor is at, in the JSON text of a `cursor_update`.
    pub(super) fn anchored(anchor: &str) -> Option<Self> {
        let name = json::string_member(anchor, "type")?;
        let kind = EntityKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)?;
        let id = json::string_member(anchor, kind.id_member())?;
        Some(Self { kind, id })
    }

    pub(super) fn is_user_message(&self) -> bool {
        self.kind == EntityKind::Message(Role::User)
    }
}

impl EntityKind {
    const ALL: [Self; 6] = [
        Self::Message(Role::User),
        Self::Message(Role::Agent),
        Self::Message(Role::Thought),
        Self::SessionMessage,
        Self::ToolCall,
        Self::Compaction,
    ];

    /// The kind of what updates of this kind are about.
    fn of(kind: UpdateKind) -> Option<Self> {
        Some(match kind {
            UpdateKind::Chunk(role) | UpdateKind::Message(role) => Self::Message(role),
            UpdateKind::SessionMessage | UpdateKind::SessionMessageChunk => Self::SessionMessage,
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate | UpdateKind::ToolCallContent => {
                Self::ToolCall
            }
            UpdateKind::Compaction | UpdateKind::CompactionSummary => Self::Compaction,
            _ => return None,
        })
    }

    /// The `type` of an anchor.
    fn name(self) -> &'static str {
        match self {
            Self::Message(Role::User) => "user_message",
            Self::Message(Role::Agent) => "agent_message",
            Self::Message(Role::Thought) => "agent_thought",
            Self::SessionMessage => "session_message",
            Self::ToolCall => "tool_call",
            Self::Compaction => "compaction",
        }
    }

    /// The member with its id, in anchors and in updates.
    fn id_member(self) -> &'static str {
        match self {
            Self::Message(_) | Self::SessionMessage => "messageId",
            Self::ToolCall => "toolCallId",
            Self::Compaction => "compactionId",
        }
    }
}

impl Places {
    /// The places of the session with this id, from a record outside of turns on.
    pub fn new(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            open: OpenTurns::default(),
            entities: VecDeque::new(),
            begun: 0,
            prompt: None,
            last: None,
        }
    }

    /// Whether no turn is open.
    pub fn is_between_turns(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a record with this payload only continues the message that was met last. False if its
    /// payload has another layout than the one before.
    pub fn continues_message(&self, kind: Kind, payload: &str) -> bool {
        let last = self.last.as_ref();
        matches!(kind, Kind::Update | Kind::UpdateParams | Kind::UpdateV2)
            && last.is_some_and(|last| last.has(payload))
    }

    /// Whether the message that was met last is known.
    pub fn knows_message(&self) -> bool {
        self.last.is_some()
    }

    /// Takes the next record. Returns the place that is next to it, if there is one.
    pub fn record(&mut self, record: &Record<'_>) -> Option<Place> {
        match record.kind {
            Kind::Prompt => {
                if self.open.is_empty() {
                    self.entities.clear();
                    self.last = None;
                }
                self.open.begin(record.id, ());
                self.prompt = Some(record.seq);
                let kind = EntityKind::Message(Role::User);
                let id = record.id?.to_owned();
                self.begin(Entity { kind, id }, record.seq);
                self.place(record, CursorSide::Before)
            }
            Kind::Begin => {
                self.open.resume(record.id, ());
                None
            }
            Kind::End => {
                self.open.end(record.id);
                let is_last = self.open.is_empty();
                self.place(record, CursorSide::After).filter(|_| is_last)
            }
            _ if self.continues_message(record.kind, record.payload) => None,
            _ => {
                let (kind, update) = update_of(record)?;
                self.update(record, kind, update)
            }
        }
    }

    fn update(&mut self, record: &Record<'_>, kind: UpdateKind, update: &str) -> Option<Place> {
        let entity = EntityKind::of(kind)?;
        self.last = None;
        let id = if entity == EntityKind::ToolCall {
            let id = update::call_id(update.as_bytes())?;
            String::from_utf8(id.into_owned()).ok()?
        } else {
            let value = json::member(update.as_bytes(), 0, entity.id_member())?;
            let id = json::string(update.as_bytes(), &value)?;
            let id = String::from_utf8(id.into_owned()).ok()?;
            if matches!(entity, EntityKind::Message(_)) {
                self.last = LastMessage::of(record, kind, value);
            }
            id
        };
        let entity = Entity { kind: entity, id };
        let is_new = !self.entities.iter().any(|(known, _)| *known == entity);
        if is_new {
            self.begin(entity, record.seq);
        }
        match kind {
            _ if is_new && is_user_message(kind) => self.place(record, CursorSide::Before),
            UpdateKind::Compaction if has_completed(update) => {
                self.place(record, CursorSide::After)
            }
            _ => None,
        }
    }

    fn begin(&mut self, entity: Entity, seq: u64) {
        if self.entities.len() == KNOWN {
            self.entities.pop_front();
        }
        self.entities.push_back((entity, seq));
        self.begun += 1;
    }

    /// How many messages, tool calls and compactions have begun so far.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The number of the record of the last prompt.
    pub(super) fn prompt(&self) -> Option<u64> {
        self.prompt
    }

    /// The number of the first record of this, and of what began next, if it began in the last turns.
    pub(super) fn place_of(&self, entity: &Entity) -> Option<(u64, Option<u64>)> {
        let mut entities = self.entities.iter();
        let at = entities.position(|(known, _)| known == entity)?;
        let next = self.entities.get(at + 1).map(|(_, seq)| *seq);
        Some((self.entities[at].1, next))
    }

    /// The place next to a record, at what has begun last.
    fn place(&self, record: &Record<'_>, side: CursorSide) -> Option<Place> {
        Some(Place {
            cursor: Cursor::of(&self.session, record, side),
            anchor: self.entities.back()?.0.clone(),
        })
    }
}

impl LastMessage {
    /// The message of an update of this kind, in a record. `id` is the place of its id in the update.
    fn of(record: &Record<'_>, kind: UpdateKind, id: Range<usize>) -> Option<Self> {
        let around = match record.kind {
            Kind::Update => "",
            _ => r#"{"update":"#,
        };
        let payload = record.payload;
        let rest = payload.strip_prefix(around)?;
        let rest = rest.strip_prefix(r#"{"sessionUpdate":""#)?;
        let rest = rest.strip_prefix(kind.name())?.strip_prefix('"')?;
        let head = payload.len() - rest.len();
        let (begin, end) = (around.len() + id.start, around.len() + id.end);
        let name = payload
            .get(..begin)?
            .strip_suffix(r#","messageId":"#)?
            .len();
        Some(if name == head {
            Self {
                head: payload.get(..end)?.to_owned(),
                id: String::new(),
                from_end: 0,
            }
        } else {
            Self {
                head: payload.get(..head)?.to_owned(),
                from_end: payload.len() - name,
                id: payload.get(name..end)?.to_owned(),
            }
        })
    }

    fn has(&self, payload: &str) -> bool {
        let payload = payload.as_bytes();
        payload.starts_with(self.head.as_bytes())
            && (self.id.is_empty() || {
                let end = payload.len().checked_sub(self.from_end);
                end.is_some_and(|end| payload[end..].starts_with(self.id.as_bytes()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(role: &str, id: &str, text: &str) -> String {
        format!(
            r#"{{"sessionUpdate":"{role}_chunk","content":{{"type":"text","text":"{text}"}},"messageId":"{id}"}}"#
        )
    }

    fn call(kind: &str, id: &str) -> String {
        format!(r#"{{"sessionUpdate":"{kind}","toolCallId":"{id}"}}"#)
    }

    /// The places of these records, each as the number of the record and the anchor.
    fn places(records: &[(Kind, Option<&str>, &str)]) -> Vec<String> {
        let mut places = Places::new("s");
        let mut found = Vec::new();
        for ((kind, id, payload), seq) in records.iter().zip(1..) {
            let record = Record {
                seq,
                ..Record::sample(*kind, *id, payload)
            };
            if let Some(place) = places.record(&record) {
                assert!(place.cursor.is_at("s", &record));
                let members = place.members(Object::new()).end();
                let anchor = json::text_member(&members, "anchor").unwrap();
                found.push(format!("{seq} {anchor}"));
            }
        }
        found
    }

    const PROMPT: &str = r#"{"prompt":[]}"#;
    const END: &str = r#"{"stopReason":"end_turn"}"#;

    fn message(kind: &str, id: &str, position: &str) -> String {
        format!(r#"{{"type":"{kind}","messageId":"{id}","position":"{position}"}}"#)
    }

    #[test]
    fn a_turn_has_a_place_before_it_and_one_after_it() {
        let [a, b] = [("one"), ("two, \\\"messageId\\\":\\\"m9\\\"")]
            .map(|text| chunk("agent_message", "m1", text));
        let thought = chunk("agent_thought", "m2", "");
        let records = [
            (Kind::Info, None, "{}"),
            (Kind::Prompt, Some("u1"), PROMPT),
            (Kind::Update, None, &a),
            (Kind::Update, None, &b),
            (Kind::End, None, END),
            (Kind::Prompt, Some("u2"), PROMPT),
            (Kind::End, None, END),
            (Kind::Prompt, Some("u3"), PROMPT),
            (Kind::Update, None, &a),
            (Kind::Update, None, &thought),
            (Kind::Update, None, &b),
            (Kind::Transient, None, &a),
            (Kind::End, None, END),
        ];
        let expected = [
            format!("2 {}", message("user_message", "u1", "before")),
            format!("5 {}", message("agent_message", "m1", "after")),
            format!("6 {}", message("user_message", "u2", "before")),
            format!("7 {}", message("user_message", "u2", "after")),
            format!("8 {}", message("user_message", "u3", "before")),
            format!("13 {}", message("agent_thought", "m2", "after")),
        ];
        assert_eq!(places(&records), expected);
    }

    #[test]
    fn an_anchor_is_what_began_last() {
        use Kind::{Subagent, Update, UpdateV2};
        let [one, two] = ["c1", "c2"].map(|id| call("tool_call", id));
        let done = call("tool_call_update", "c1");
        let said = chunk("agent_message", "m1", "x");
        let native = format!(r#"{{"update":{}}}"#, call("tool_call_update", "c3"));
        let turn = |updates: &[(Kind, &str)]| {
            let updates = updates.iter().map(|(kind, update)| (*kind, None, *update));
            let prompt = [(Kind::Prompt, Some("u"), PROMPT)];
            let all = prompt.into_iter().chain(updates);
            let all: Vec<_> = all.chain([(Kind::End, None, END)]).collect();
            let last = places(&all).pop().unwrap();
            last.split_once(' ').unwrap().1.to_owned()
        };
        let tool = |id| format!(r#"{{"type":"tool_call","toolCallId":"{id}","position":"after"}}"#);
        assert_eq!(
            turn(&[(Update, &one), (Update, &two), (Update, &done)]),
            tool("c2")
        );
        let last = turn(&[(Update, &one), (Update, &said), (Update, &done)]);
        assert_eq!(last, message("agent_message", "m1", "after"));
        assert_eq!(turn(&[(Update, &done)]), tool("c1"));
        assert_eq!(
            turn(&[(UpdateV2, &native), (Subagent, &native)]),
            tool("c3")
        );
    }

    #[test]
    fn turns_that_overlap_have_one_end() {
        let records = [
            (Kind::Prompt, Some("u1"), PROMPT),
            (Kind::Prompt, Some("u2"), PROMPT),
            (Kind::End, Some("u1"), END),
            (Kind::End, Some("u2"), END),
        ];
        let expected = [
            format!("1 {}", message("user_message", "u1", "before")),
            format!("2 {}", message("user_message", "u2", "before")),
            format!("4 {}", message("user_message", "u2", "after")),
        ];
        assert_eq!(places(&records), expected);
    }

    #[test]
    fn messages_among_updates_and_compactions_have_places() {
        let compaction = |status: &str| {
            format!(
                r#"{{"sessionUpdate":"compaction_update","compactionId":"k","status":"{status}"}}"#
            )
        };
        let (begun, done) = (compaction("in_progress"), compaction("completed"));
        let [hi, more] = ["hi", "more"].map(|text| chunk("user_message", "u1", text));
        let records = [
            (Kind::Update, None, &*hi),
            (Kind::Update, None, &more),
            (Kind::Update, None, &begun),
            (Kind::Update, None, &done),
        ];
        let expected = [
            format!("1 {}", message("user_message", "u1", "before")),
            r#"4 {"type":"compaction","compactionId":"k","position":"after"}"#.to_owned(),
        ];
        assert_eq!(places(&records), expected);
    }
}

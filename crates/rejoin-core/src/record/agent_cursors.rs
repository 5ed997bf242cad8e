//! The session cursors that a wrapped agent has announced: where in the log they are.

use serde::{Deserialize, Serialize};

use super::cursor::{CursorSide, LogPlace};
use super::places::{Entity, Place, Places};
use super::{AgentSessionId, Kind, Record};
use crate::json::{self, Object};
use crate::protocol::UpdateKind;

/// A place in a session of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPlace {
    /// The session, as the agent knows it.
    #[serde(flatten)]
    pub session: AgentSessionId,
    /// The agent's own cursor for it. Without one it is the end of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The agent's cursors of one log, record by record.
#[derive(Debug)]
pub struct AgentCursors {
    places: Places,
    /// The agent's session, and its cursors. Those of an earlier session are gone with it.
    session: Option<AgentSessionId>,
    known: Vec<AgentCursor>,
    /// The number of the last record of the conversation.
    last: u64,
}

#[derive(Debug)]
struct AgentCursor {
    id: String,
    /// What the agent says of where it is.
    anchor: String,
    /// The place in the log; unknown while it is behind what began last, and more of that may come.
    place: Option<LogPlace>,
    /// Whether the agent forks there.
    is_accepted: bool,
}

/// A place that a record has made known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownPlace {
    /// A place in the log.
    Log(Place),
    /// The place of the agent's own cursor with this id.
    Agent(String),
}

/// What an anchor says of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnchorPlace {
    At(LogPlace),
    /// Behind what began last, of which more may come.
    AtEnd,
    /// The anchor is at nothing that is known, or on neither side.
    Unknown,
}

impl AgentCursors {
    /// The cursors of the agent in the session with this id, from the start of its log on.
    pub fn new(session: &str) -> Self {
        Self {
            places: Places::new(session),
            session: None,
            known: Vec::new(),
            last: 0,
        }
    }

    /// Whether a record with this payload only continues the message that was met last, see
    /// [`Places::continues_message`].
    pub fn continues_message(&self, kind: Kind, payload: &str) -> bool {
        self.places.continues_message(kind, payload)
    }

    /// Whether the message that was met last is known, see [`Places::continues_message`].
    pub fn knows_message(&self) -> bool {
        self.places.knows_message()
    }

    /// Takes the next record. Returns the place that it makes known, if there is one.
    pub fn record(&mut self, record: &Record<'_>) -> Option<KnownPlace> {
        match record.kind {
            Kind::Transient | Kind::TransientV2 => {
                let update = json::text_member(record.payload, "update");
                let id = self.update(update.unwrap_or(record.payload))?;
                Some(KnownPlace::Agent(id))
            }
            Kind::AgentSessionId => {
                let session = AgentSessionId::read(record.payload);
                if session.is_some() && session != self.session {
                    self.session = session;
                    self.known.clear();
                }
                None
            }
            _ => {
                let before = self.places.begun();
                let place = self.places.record(record);
                if record.kind == Kind::End && self.places.is_between_turns() {
                    self.settle((record.seq, CursorSide::After));
                } else if self.places.begun() > before {
                    self.settle((record.seq, CursorSide::Before));
                }
                if record.kind.is_activity() {
                    self.last = record.seq;
                }
                place.map(KnownPlace::Log)
            }
        }
    }

    /// The places that were not known are here.
    fn settle(&mut self, place: LogPlace) {
        for cursor in &mut self.known {
            cursor.place.get_or_insert(place);
        }
    }

    /// Takes an update that is not part of the history. Returns the id of the cursor, if that is one at a
    /// place.
    fn update(&mut self, update: &str) -> Option<String> {
        if UpdateKind::of(update.as_bytes()) != UpdateKind::Cursor {
            return None;
        }
        let id = json::string_member(update, "cursorId")?;
        let accepted = json::text_member(update, "capabilities").map(|capabilities| {
            let fork = json::text_member(capabilities, "fork");
            fork.is_some_and(|fork| fork.starts_with('{'))
        });
        if let Some(known) = self.known.iter_mut().find(|known| known.id == id) {
            known.is_accepted = accepted.unwrap_or(known.is_accepted);
            return Some(id);
        }
        let anchor = json::text_member(update, "anchor")?;
        self.known.push(AgentCursor {
            id: id.clone(),
            anchor: anchor.to_owned(),
            place: match self.place(anchor) {
                AnchorPlace::At(place) => Some(place),
                AnchorPlace::AtEnd => None,
                AnchorPlace::Unknown => return None,
            },
            is_accepted: accepted.unwrap_or_default(),
        });
        Some(id)
    }

    /// The place of an anchor.
    fn place(&self, anchor: &str) -> AnchorPlace {
        let (Some(entity), Some(position)) = (
            Entity::anchored(anchor),
            json::string_member(anchor, "position"),
        ) else {
            return AnchorPlace::Unknown;
        };
        let begun = self.places.place_of(&entity);
        let is_in_turn = !self.places.is_between_turns();
        match (position.as_str(), begun, self.places.prompt()) {
            ("before", Some((seq, _)), _) => AnchorPlace::At((seq, CursorSide::Before)),
            // Agents have ids of their own for the prompts that they get.
            ("before", None, Some(prompt)) if is_in_turn && entity.is_user_message() => {
                AnchorPlace::At((prompt, CursorSide::Before))
            }
            ("after", Some((_, Some(next))), _) => AnchorPlace::At((next, CursorSide::Before)),
            ("after", Some((_, None)), _) if is_in_turn => AnchorPlace::AtEnd,
            ("after", Some((_, None)), _) => AnchorPlace::At((self.last, CursorSide::After)),
            _ => AnchorPlace::Unknown,
        }
    }

    /// The place of the cursor with this id, if the agent forks there.
    pub fn find(&self, id: &str) -> Option<LogPlace> {
        let found = self.accepted().find(|(known, _)| *known == id);
        found.map(|(_, place)| place)
    }

    /// The agent's own cursor at a place in the log.
    pub fn at(&self, place: LogPlace) -> Option<&str> {
        let place = Some(place);
        let mut known = self.known.iter().filter(|known| known.is_accepted);
        known
            .find(|known| known.place == place)
            .map(|known| &*known.id)
    }

    /// The ids of all cursors at which the agent forks, with their places.
    pub fn accepted(&self) -> impl Iterator<Item = (&str, LogPlace)> {
        let known = self.known.iter().filter(|known| known.is_accepted);
        let last = (self.last, CursorSide::After);
        known.map(move |known| (&*known.id, known.place.unwrap_or(last)))
    }

    /// Whether the agent has announced none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether no turn is open.
    pub fn is_between_turns(&self) -> bool {
        self.places.is_between_turns()
    }

    /// The members of a `cursor_update` that announces the agent's own cursor with this id, as the beginning
    /// of an object. `None` if the agent does not fork there.
    pub fn members(&self, id: &str, object: Object) -> Option<Object> {
        let mut known = self.known.iter().filter(|known| known.is_accepted);
        let cursor = known.find(|known| known.id == id)?;
        let object = object
            .string("cursorId", id)
            .raw("capabilities", r#"{"fork":{}}"#);
        Some(object.raw("anchor", &cursor.anchor))
    }

    /// The agent's session at the end of the log.
    pub fn session(&self) -> Option<&AgentSessionId> {
        self.session.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = r#"{"prompt":[]}"#;
    const END: &str = r#"{"stopReason":"end_turn"}"#;
    const SESSION: &str = r#"{"id":"i1","agent":{"name":"a"}}"#;

    fn cursor(id: &str, anchor: &str, rest: &str) -> String {
        format!(r#"{{"sessionUpdate":"cursor_update","cursorId":"{id}","anchor":{anchor}{rest}}}"#)
    }

    fn message(kind: &str, id: &str, position: &str) -> String {
        format!(r#"{{"type":"{kind}","messageId":"{id}","position":"{position}"}}"#)
    }

    const FORKS: &str = r#","capabilities":{"fork":{}}"#;

    fn read(records: &[(Kind, Option<&str>, &str)]) -> AgentCursors {
        let mut cursors = AgentCursors::new("s");
        for ((kind, id, payload), seq) in records.iter().zip(1..) {
            cursors.record(&Record {
                seq,
                ..Record::sample(*kind, *id, payload)
            });
        }
        cursors
    }

    #[test]
    fn an_anchor_says_where_in_the_log_a_cursor_is() {
        let said = r#"{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{}}"#;
        let call = r#"{"sessionUpdate":"tool_call","toolCallId":"c1"}"#;
        let done = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c1"}"#;
        let own = cursor("own", &message("user_message", "theirs", "before"), FORKS);
        let known = cursor("known", &message("user_message", "u1", "before"), FORKS);
        let within = cursor("within", &message("agent_message", "m1", "after"), FORKS);
        let tool = r#"{"type":"tool_call","toolCallId":"c1","position":"after"}"#;
        let last = cursor("last", tool, FORKS);
        let native = format!(
            r#"{{"update":{}}}"#,
            cursor("call", &tool.replace("after", "before"), FORKS)
        );
        let mut records = vec![
            (Kind::AgentSessionId, None, SESSION),
            (Kind::Prompt, Some("u1"), PROMPT),
            (Kind::Transient, None, &*own),
            (Kind::Transient, None, &*known),
            (Kind::Update, None, said),
            (Kind::Transient, None, &*within),
            (Kind::Update, None, call),
            (Kind::Transient, None, &*last),
            (Kind::TransientV2, None, &*native),
            (Kind::Update, None, done),
        ];
        let running = read(&records);
        let before = |seq| Some((seq, CursorSide::Before));
        let after = |seq| Some((seq, CursorSide::After));
        for (id, place) in [
            ("own", before(2)),
            ("known", before(2)),
            ("within", before(7)),
            ("call", before(7)),
            ("last", after(10)),
            ("none", None),
        ] {
            assert_eq!(running.find(id), place, "{id}");
        }
        records.push((Kind::End, None, END));
        let ended = read(&records);
        assert_eq!(ended.find("last"), after(11));
        assert_eq!(ended.at((11, CursorSide::After)), Some("last"));
        assert_eq!(ended.at((11, CursorSide::Before)), None);
        assert_eq!(ended.session().map(|session| &*session.id), Some("i1"));
        // Another session of the agent has none of them.
        let other = SESSION.replace("i1", "i2");
        records.push((Kind::AgentSessionId, None, &*other));
        assert_eq!(read(&records).find("last"), None);
    }

    #[test]
    fn a_cursor_counts_as_long_as_the_agent_forks_there() {
        let anchor = message("user_message", "u1", "before");
        let updates = |rest: &[&str]| {
            let updates: Vec<_> = rest.iter().map(|rest| cursor("k", &anchor, rest)).collect();
            let mut records = vec![(Kind::Prompt, Some("u1"), PROMPT)];
            records.extend(
                updates
                    .iter()
                    .map(|update| (Kind::Transient, None, &**update)),
            );
            read(&records).find("k").is_some()
        };
        assert!(updates(&[FORKS]));
        assert!(updates(&[FORKS, ""]));
        assert!(!updates(&[""]));
        assert!(!updates(&[FORKS, r#","capabilities":null"#]));
        assert!(!updates(&[FORKS, r#","capabilities":{}"#]));
        assert!(updates(&["", FORKS]));
    }
}

//! Rewinds: a session goes on from an earlier place. Nothing is removed from its log.

use std::io;

use crate::json::{self, Object};
use crate::protocol::meta::REJOIN;
use crate::protocol::{Role, UpdateKind};
use crate::record::cursor::{CursorSide, is_of_user};
use crate::record::rewind::WENT_BACK;
use crate::record::{
    AgentCursors, AgentPlace, AgentSessionId, Cursor, Header, Kind, OpenTurns, Record, Rewind,
    RewindTarget, RewoundHistory,
};

use super::fork::{is_of, message_of};
use super::log::Log;
use super::medium::{Image, StoreError, Sync};
use super::records::Records;
use super::recover::close_rewound;
use super::scan::Scan;

/// Why a session does not go back.
#[derive(Debug, thiserror::Error)]
pub enum RewindError {
    /// An operation on the log failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session never had such a message, or has not that many turns after which something follows.
    #[error("the session has no such place")]
    NoSuchPlace,
    /// The message that is to be replaced is not one of the user.
    #[error("the message is not one of the user")]
    NotOfUser,
    /// Nothing was undone.
    #[error("the session has not gone back to an earlier place")]
    NothingUndone,
}

impl Log {
    /// Lets the conversation go on from an earlier place, or from one that was undone. No turn may be
    /// open. `id` is that of the message which says so in the conversation, and `client` the name of who has
    /// asked for it. Returns what the log has then.
    ///
    /// A turn that was running at the place is closed there. The records are written together, and synced as
    /// the end of a turn is.
    pub fn rewind(
        &mut self,
        target: &RewindTarget,
        id: &str,
        client: Option<String>,
    ) -> Result<Scan, RewindError> {
        let file = self.file();
        let place = RewindPlace::find(file, self.id().as_str(), target)
            .map_err(StoreError::disk("read", file.path()))??;
        let message_id = match target {
            RewindTarget::Message(id) | RewindTarget::Prompt(id) => Some(id.clone()),
            _ => None,
        };
        let mark = mark(id, &place, target);
        let truncated = place.last_message(file, target);
        let truncated = truncated.map_err(StoreError::disk("read", file.path()))?;
        let rewind = Rewind {
            history: place.history,
            turns: place.turns,
            message_id,
            agent_session: place.agent,
            undo: *target == RewindTarget::Undo,
            client,
        };
        let payload = serde_json::to_string(&rewind).map_err(io::Error::from);
        let payload = payload.map_err(StoreError::disk("append to", self.file().path()))?;
        let rewind = [(Kind::Rewind, None, &*payload)];
        let truncated = truncated
            .as_deref()
            .map(|update| (Kind::Transient, None, update));
        let records = rewind.into_iter().chain(truncated);
        let records = records.chain([(Kind::Update, None, &*mark)]);
        self.append_all(records, Sync::Turn)?;
        Ok(close_rewound(self)?)
    }
}

/// A place in a log, and what led there.
#[derive(Debug)]
struct RewindPlace {
    /// The records before it that are the conversation there.
    history: Vec<(u64, u64)>,
    /// How many turns began before it.
    turns: u64,
    /// Whether a turn is open there.
    is_in_turn: bool,
    /// Whether something of that was undone.
    is_undone: bool,
    /// Where it is in a session of an agent.
    agent: Option<AgentPlace>,
}

/// A search for a place in a log.
#[derive(Debug)]
struct RewindSearch {
    /// The rewinds, and the history after each of them.
    rewinds: Vec<(u64, RewoundHistory)>,
    /// The prompts, and where turns end.
    turns: Vec<TurnRecord>,
    agents: AgentHistories,
    /// The first record after the place in each part of the log that ends with a rewind and has the place.
    found: Vec<u64>,
    /// Whether the part that is being read has it.
    is_found: bool,
}

/// A record with which a turn begins, goes on or ends.
#[derive(Debug)]
struct TurnRecord {
    seq: u64,
    kind: Kind,
    id: Option<Box<str>>,
    /// The number of the last record of the conversation before it.
    after: u64,
}

/// What the sessions of agents have of a log, record by record.
#[derive(Debug)]
struct AgentHistories {
    /// The agent's own cursors.
    cursors: AgentCursors,
    /// The session in which the agent goes on.
    current: Option<AgentSessionId>,
    /// The sessions that agents went on in, each with the number of the record that ends its last turn.
    ends: Vec<(AgentSessionId, u64)>,
    open: OpenTurns<()>,
    /// The number of the last record of the conversation.
    last: u64,
}

impl AgentHistories {
    fn new(session: &str) -> Self {
        Self {
            cursors: AgentCursors::new(session),
            current: None,
            ends: Vec::new(),
            open: OpenTurns::default(),
            last: 0,
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        self.cursors.record(record);
        match record.kind {
            Kind::Session => {
                let header = serde_json::from_str::<Header>(record.payload).ok();
                self.current = header.and_then(|header| header.agent_session());
            }
            Kind::AgentSessionId => self.current = AgentSessionId::read(record.payload),
            Kind::Rewind => self.current = Rewind::session_at_place(record.payload),
            Kind::Prompt => {
                self.open.begin(record.id, ());
            }
            Kind::Begin => self.open.resume(record.id, ()),
            Kind::End => {
                self.open.end(record.id);
                if let Some(session) = self.current.as_ref().filter(|_| self.open.is_empty()) {
                    self.ends.retain(|(known, _)| known != session);
                    self.ends.push((session.clone(), record.seq));
                }
            }
            _ => {}
        }
        if record.kind.is_activity() {
            self.last = record.seq;
        }
    }

    /// The number of the first record after the place that one of the agent's own cursors names.
    fn find(&self, target: &RewindTarget) -> Option<u64> {
        let RewindTarget::Cursor(id) = target else {
            return None;
        };
        let (seq, side) = self.cursors.find(id)?;
        Some(match side {
            CursorSide::Before => seq,
            CursorSide::After => seq + 1,
        })
    }

    /// The place in a session of an agent before the record with this number. `after` is the number of the
    /// last record of the conversation before that, and `ended` the one with which its last turn ends, if no
    /// turn is open there.
    fn place(&self, seq: u64, after: u64, ended: Option<u64>) -> Option<AgentPlace> {
        let mut ends = self.ends.iter();
        let whole = ends.find(|(_, end)| Some(*end) == ended);
        if let Some((session, _)) = whole {
            return Some(AgentPlace {
                session: session.clone(),
                cursor: None,
            });
        }
        let cursor = self.cursors.at((seq, CursorSide::Before));
        let cursor = cursor.or_else(|| self.cursors.at((after, CursorSide::After)))?;
        Some(AgentPlace {
            session: self.cursors.session()?.clone(),
            cursor: Some(cursor.to_owned()),
        })
    }
}

impl RewindPlace {
    /// Finds a place of the session with this id in its log.
    fn find(
        file: &dyn Image,
        session: &str,
        target: &RewindTarget,
    ) -> io::Result<Result<Self, RewindError>> {
        let cursor = match target {
            RewindTarget::Cursor(id) => Cursor::parse(id),
            _ => None,
        };
        let mut search = RewindSearch::new(session);
        let mut records = Records::all();
        while let Some(entry) = records.next(file)? {
            let record = &entry.record;
            let next = match (target, cursor) {
                (RewindTarget::Prompt(id), _) if is_of(record, id) && !is_of_user(record) => {
                    return Ok(Err(RewindError::NotOfUser));
                }
                (RewindTarget::Message(id) | RewindTarget::Prompt(id), _) if is_of(record, id) => {
                    Some(record.seq)
                }
                (RewindTarget::Behind(id), _) if is_of(record, id) => Some(record.seq + 1),
                (RewindTarget::Behind(_), _) if search.ends_at(record) => Some(record.seq + 1),
                (_, Some(cursor)) if cursor.is_at(session, record) => match cursor.side {
                    CursorSide::Before => Some(record.seq),
                    CursorSide::After => Some(record.seq + 1),
                },
                _ => None,
            };
            if let (RewindTarget::Behind(_), Some(next)) = (target, next) {
                search.goes_on(next);
            }
            search.record(record, next);
        }
        Ok(search.seq(target).map(|seq| search.place(seq)))
    }

    /// The update by which a client learns the last message that is left, as an event that no replay sends.
    /// `None` if something comes back that the client may have removed.
    fn last_message(&self, file: &dyn Image, target: &RewindTarget) -> io::Result<Option<String>> {
        if self.is_undone {
            return Ok(None);
        }
        let mut last = None;
        let (mut records, mut ranges) = (Records::all(), self.history.iter().peekable());
        while let Some(entry) = records.next(file)? {
            let record = &entry.record;
            while ranges.next_if(|(_, to)| *to <= record.seq).is_some() {}
            match ranges.peek() {
                Some((from, _)) if record.seq >= *from => last = message_of(record).or(last),
                Some(_) => {}
                None => break,
            }
        }
        if let RewindTarget::Behind(id) = target {
            last = Some(id.clone());
        }
        let id = last
            .as_deref()
            .map_or_else(|| "null".to_owned(), json::quoted);
        let update = UpdateKind::HistoryTruncated.object();
        Ok(Some(update.raw("lastMessageId", &id).end()))
    }
}

impl RewindSearch {
    /// A search in the log of the session with this id.
    fn new(session: &str) -> Self {
        Self {
            rewinds: Vec::new(),
            turns: Vec::new(),
            agents: AgentHistories::new(session),
            found: Vec::new(),
            is_found: false,
        }
    }

    /// Takes the next record. `next` is the number of the first record after the place, if the record is next
    /// to it.
    fn record(&mut self, record: &Record<'_>, next: Option<u64>) {
        match record.kind {
            Kind::Prompt | Kind::Begin | Kind::End => {
                self.turns.push(TurnRecord {
                    seq: record.seq,
                    kind: record.kind,
                    id: record.id.map(Into::into),
                    after: self.agents.last,
                });
            }
            Kind::Rewind => {
                if let Some(history) = RewoundHistory::of(record.seq, record.payload) {
                    self.rewinds.push((record.seq, history));
                    self.is_found = false;
                }
            }
            _ => {}
        }
        self.agents.record(record);
        if let Some(next) = next
            && !self.is_found
        {
            self.found.push(next);
            self.is_found = true;
        }
    }

    /// Whether a turn ends with this record directly behind the place that was found last.
    fn ends_at(&self, record: &Record<'_>) -> bool {
        let is_behind = self.found.last() == Some(&(self.agents.last + 1));
        record.kind == Kind::End && self.is_found && is_behind
    }

    /// The place that was found last is farther behind.
    fn goes_on(&mut self, next: u64) {
        if let Some(found) = self.found.last_mut().filter(|_| self.is_found) {
            *found = next;
        }
    }

    /// Whether the record with this number is in the conversation now.
    fn is_current(&self, seq: u64) -> bool {
        let last = self.rewinds.last();
        last.is_none_or(|(_, history)| history.contains(seq))
    }

    /// Whether the conversation has all of these records now.
    fn has_now(&self, ranges: &[(u64, u64)]) -> bool {
        let Some((_, now)) = self.rewinds.last() else {
            return true;
        };
        let now = now.before(u64::MAX);
        let has = |(from, to): &(u64, u64)| now.iter().any(|(f, t)| f <= from && to <= t);
        ranges.iter().all(has)
    }

    /// The number of the first record after the place.
    fn seq(&self, target: &RewindTarget) -> Result<u64, RewindError> {
        match target {
            RewindTarget::Message(_)
            | RewindTarget::Prompt(_)
            | RewindTarget::Behind(_)
            | RewindTarget::Cursor(_) => {
                let current = self.found.iter().find(|seq| self.is_current(**seq));
                let place = current.or(self.found.last()).copied();
                let place = place.or_else(|| self.agents.find(target));
                place.ok_or(RewindError::NoSuchPlace)
            }
            RewindTarget::Turns(turns) => {
                let prompts = self.turns.iter().filter(|it| it.kind == Kind::Prompt);
                let mut current = prompts.filter(|prompt| self.is_current(prompt.seq));
                let after = usize::try_from(*turns).ok();
                let place = after.and_then(|after| current.nth(after));
                place
                    .map(|prompt| prompt.seq)
                    .ok_or(RewindError::NoSuchPlace)
            }
            RewindTarget::Undo => {
                let last = self.rewinds.last().map(|(seq, _)| *seq);
                last.ok_or(RewindError::NothingUndone)
            }
        }
    }

    /// The place before the record with this number.
    fn place(&self, seq: u64) -> RewindPlace {
        let before = self.rewinds.iter().rfind(|(at, _)| *at < seq);
        let history = before.map_or_else(|| vec![(0, seq)], |(_, history)| history.before(seq));
        let mut ranges = history.iter().peekable();
        let (mut turns, mut open, mut ended) = (0, OpenTurns::default(), None);
        for turn in &self.turns {
            let id = turn.id.as_deref();
            while ranges.next_if(|(_, to)| *to <= turn.seq).is_some() {}
            match turn.kind {
                _ if ranges.peek().is_none_or(|(from, _)| *from > turn.seq) => {}
                Kind::Prompt => {
                    turns += 1;
                    open.begin(id, ());
                }
                Kind::Begin => open.resume(id, ()),
                _ => {
                    open.end(id);
                    ended = Some(turn.seq);
                }
            }
        }
        let is_in_turn = !open.is_empty();
        let next = self.turns.iter().find(|turn| turn.seq == seq);
        let after = next.map_or(seq.saturating_sub(1), |next| next.after);
        RewindPlace {
            turns,
            is_in_turn,
            is_undone: !self.has_now(&history),
            agent: self.agents.place(seq, after, ended.filter(|_| !is_in_turn)),
            history,
        }
    }
}

/// The message that says in the conversation that it goes on from a place.
fn mark(id: &str, place: &RewindPlace, target: &RewindTarget) -> String {
    let turns = place.turns;
    let next = turns + 1;
    let what = match target {
        RewindTarget::Undo => {
            format!("[rejoin] What was undone last is here again, up to turn {turns}")
        }
        _ if place.is_in_turn => format!("{WENT_BACK}back to a place in turn {turns}"),
        _ if place.is_undone => format!("{WENT_BACK}to before turn {next} of what was undone"),
        _ => format!("{WENT_BACK}back to before turn {next}"),
    };
    let text = format!("{what}. Files in the workspace were not changed.\n\n");
    let content = Object::new().string("type", "text").string("text", &text);
    let rewind = format!("{{\"turns\":{turns}}}");
    let note = Object::new().raw("rewind", &rewind).end();
    let meta = Object::new().raw(REJOIN, &note).end();
    UpdateKind::Chunk(Role::Agent)
        .object()
        .string("messageId", id)
        .raw("content", &content.end())
        .raw("_meta", &meta)
        .end()
}

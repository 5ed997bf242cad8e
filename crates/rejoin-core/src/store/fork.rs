//! Creates a session with the history of another one, as an independent copy.

use crate::json::{string_member, text_member};
use crate::record::cursor::CursorSide;
use crate::record::metadata::{archived, restored};
use crate::record::prompt_keys::without_key;
use crate::record::{
    AgentCursors, AgentPlace, AgentSessionId, Cursor, FORMAT_V2, Header, Kind, LogPlace, OpenCalls,
    OpenSubagents, OpenTurns, Record, snapshot_of, subagents,
};
use crate::sys::SessionId;

use super::damage::DamageReport;
use super::folder::Store;
use super::log::{Log, LogPosition};
use super::medium::{StoreError, Sync};
use super::reader::LogReader;
use super::records::Records;
use super::recover::{self, CALL_INTERRUPTED, TURN_INTERRUPTED};
use super::renaming::Renaming;
use super::scan::{self, Scan};

/// The text of a tool call that ended after the place at which the session was forked.
const CALL_LEFT_OUT: &str = "Interrupted: the session was forked before this tool call ended.";
/// The end of a turn that continued after the place at which the session was forked.
const TURN_LEFT_OUT: &str = r#"{"interrupted":"the session was forked within this turn"}"#;
/// After how many records to check for cancellation.
const STEP: u64 = 1024;

/// A place at which a session is to be forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkPoint {
    /// After the message with this id.
    Message(String),
    /// The place with this session cursor.
    Cursor(String),
}

/// A session that was forked.
#[derive(Debug)]
pub struct Forked {
    /// Its log.
    pub log: Log,
    /// Its content.
    pub scan: Scan,
    /// Damage in the original. The fork lacks what could not be read.
    pub damage: Vec<DamageReport>,
    /// The place in the agent's session up to which the agent received exactly what is in the fork, if
    /// there is one.
    pub origin: Option<AgentPlace>,
}

/// Why a session was not forked. No partial copy remains.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// An operation on one of the two logs failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No finished turn has such a message.
    #[error("the session has no such message")]
    ForkPointNotFound,
    /// The cursor is not one of the session's.
    #[error("the session has no such cursor")]
    CursorNotFound,
    /// The request was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl Store {
    /// Creates the session `id` from the finished turns of `source`, including turns that a crash
    /// interrupted. With `at`, it ends there, perhaps within a turn, which is then closed.
    ///
    /// The records keep their times and their order and get new numbers. Subagents get ids of their own,
    /// derived from the fork's. Left out are the keys of prompts, the header, which is replaced, records of
    /// the workspace, of agents' ids and of archiving, and unknown kinds. Memory is bounded by the longest
    /// record; the source is neither locked nor changed. On return there is a complete, synced copy or
    /// nothing. Its format is that of the source if that is newer.
    pub fn fork(
        &self,
        source: &mut LogReader,
        id: &SessionId,
        header: &Header,
        at: Option<&ForkPoint>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Forked, ForkError> {
        let mut theirs = None;
        let at = match at {
            None => None,
            Some(ForkPoint::Message(id)) => Some(CopyPoint::Message(id)),
            Some(ForkPoint::Cursor(id)) => {
                let (point, place) = resolve(source, id)?;
                theirs = place;
                Some(point)
            }
        };
        let header = &Header {
            // The copy has no rewinds.
            format: header.format.max(source.header().format.min(FORMAT_V2)),
            ..header.clone()
        };
        let made = self.make(id, header, |log, payload| {
            log.append(Kind::Session, None, payload, Sync::Buffered)?;
            let mut copy = ForkCopy::new(log, at, source.header(), id);
            copy.copy_all(self, source, cancelled)?;
            let whole = copy.finish()?;
            // Reads the copy once, as a check.
            let scan = scan::scan(&mut Records::new(), log.file(), id, &mut |_| {})?;
            Ok::<_, ForkError>((scan, whole))
        });
        let (log, (scan, whole)) = made?;
        let whole = whole.map(|session| AgentPlace {
            session,
            cursor: None,
        });
        Ok(Forked {
            log,
            scan,
            damage: source.damage().to_vec(),
            origin: whole.or(theirs),
        })
    }
}

/// Where the cursor with this id is in the log, and the agent's own cursor there, if it has one.
fn resolve<'a>(
    source: &mut LogReader,
    id: &str,
) -> Result<(CopyPoint<'a>, Option<AgentPlace>), ForkError> {
    let session = source.id().clone();
    let mut agents = AgentCursors::new(session.as_str());
    source.scan_with(&mut |entry| {
        agents.record(&entry.record);
    })?;
    let (point, cursor) = if let Some(cursor) = Cursor::parse(id) {
        (
            CopyPoint::Cursor(cursor, session),
            agents.at(cursor.place()),
        )
    } else {
        let place = agents.find(id).ok_or(ForkError::CursorNotFound)?;
        (CopyPoint::Place(place), Some(id))
    };
    let place = agents
        .session()
        .zip(cursor)
        .map(|(session, cursor)| AgentPlace {
            session: session.clone(),
            cursor: Some(cursor.to_owned()),
        });
    Ok((point, place))
}

/// A copy in progress.
struct ForkCopy<'a> {
    log: &'a mut Log,
    /// Where it ends.
    at: Option<CopyPoint<'a>>,
    found: Option<FoundPlace>,
    /// The turns that are open where the copy ends and have not ended yet. Known once that position
    /// was passed.
    after: Option<OpenTurns<LogPosition>>,
    /// The turns that have not ended, with their beginnings.
    open: OpenTurns<LogPosition>,
    /// The agent's id of the session: currently, at the beginning of the running turn, and at the
    /// end of the last turn.
    agent_id: Option<AgentSessionId>,
    id_at_prompt: Option<AgentSessionId>,
    id_at_end: Option<AgentSessionId>,
    /// The time of the last record of the conversation that was copied.
    last_at: String,
    /// Where reading ended.
    ended: CopyEnd,
    /// Whether updates of subagents were copied, or updates about them.
    has_subagents: bool,
    renaming: Renaming,
}

/// The place at which a copy is to end.
enum CopyPoint<'a> {
    Message(&'a str),
    /// In the session with this id.
    Cursor(Cursor, SessionId),
    /// Where a cursor of the agent is.
    Place(LogPlace),
}

/// Where a copy ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyEnd {
    /// At the end of the source. If its last turn has no end, another process is working on it.
    AtEnd,
    /// At the end of the source, whose last turn has no end because the process that was working on
    /// it died.
    AtCrash,
    /// Before the end: everything needed was found.
    Early,
}

/// The place with which the copy ends.
struct FoundPlace {
    /// Its position in the copy.
    end: LogPosition,
    /// The turns that are open there and continue after it.
    open: OpenTurns<LogPosition>,
    /// Whether more of the conversation follows it: of the turn, if the place is a message.
    goes_on: bool,
}

/// Whether more records are needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    More,
    Done,
}

impl<'a> ForkCopy<'a> {
    fn new(log: &'a mut Log, at: Option<CopyPoint<'a>>, source: &Header, id: &SessionId) -> Self {
        Self {
            log,
            at,
            found: None,
            after: None,
            open: OpenTurns::default(),
            agent_id: None,
            id_at_prompt: None,
            id_at_end: None,
            last_at: String::new(),
            ended: CopyEnd::AtEnd,
            has_subagents: false,
            renaming: Renaming::new(source, id),
        }
    }

    fn copy_all(
        &mut self,
        store: &Store,
        source: &mut LogReader,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), ForkError> {
        let next = self.copy_available(source, cancelled)?;
        let is_at_cursor = self.found.is_some() && self.side().is_some();
        if next == Next::Done || !self.is_in_turn() || is_at_cursor {
            return Ok(());
        }
        // A process that works on a turn has the lock. None can begin one while we hold it.
        let lock = match store.context.medium.claim(source.id(), false) {
            Ok(lock) => Some(lock),
            Err(StoreError::NotFound { .. }) => None,
            Err(StoreError::InUse { .. } | StoreError::ReadOnly { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let rest = self.copy_available(source, cancelled);
        drop(lock);
        if rest? == Next::More && self.is_in_turn() {
            self.ended = CopyEnd::AtCrash;
        }
        Ok(())
    }

    /// Copies the records up to the current end.
    fn copy_available(
        &mut self,
        source: &mut LogReader,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Next, ForkError> {
        let mut count = 0_u64;
        while let Some(entry) = source.next()? {
            if count.is_multiple_of(STEP) && cancelled() {
                return Err(ForkError::Cancelled);
            }
            count += 1;
            if self.record(&entry.record)? == Next::Done {
                return Ok(Next::Done);
            }
        }
        Ok(Next::More)
    }

    fn record(&mut self, record: &Record<'_>) -> Result<Next, StoreError> {
        let is_it = match &self.at {
            None => false,
            Some(CopyPoint::Message(message)) => is_of(record, message),
            Some(CopyPoint::Cursor(cursor, session)) => cursor.is_at(session.as_str(), record),
            Some(CopyPoint::Place((seq, _))) => record.seq == *seq,
        };
        let kind = match snapshot_of(record.kind, record.payload) {
            Some(_) => Kind::Info,
            None => record.kind,
        };
        let side = self.side();
        if let Some(side) = side {
            let begins_after = is_it && side == CursorSide::Before;
            if begins_after || self.found.is_some() && kind.is_activity() {
                let found = self.found.take();
                let open = found.map_or_else(|| self.open.clone(), |found| found.open);
                self.found = Some(FoundPlace {
                    end: self.log.place(),
                    open,
                    goes_on: true,
                });
                self.ended = CopyEnd::Early;
                return Ok(Next::Done);
            }
        }
        if self.after.is_some() || !is_it && self.ends_before(kind) {
            return Ok(self.skip(record));
        }
        let mut payload = self.renaming.payload(record);
        self.has_subagents |= subagents::may_be_about_one(record);
        match record.kind {
            Kind::Session | Kind::Reopen | Kind::Unknown => return Ok(Next::More),
            Kind::Rewind => {
                // The agent's session has more than what is copied.
                (self.agent_id, self.id_at_end) = (None, None);
                return Ok(Next::More);
            }
            // A fork was neither archived nor restored.
            Kind::Info if archived(&payload).is_some() || restored(&payload) => {
                return Ok(Next::More);
            }
            Kind::AgentSessionId => {
                self.agent_id = AgentSessionId::read(&payload);
                if !self.open.is_empty() {
                    // The agent opened the session for the prompt of the turn.
                    self.id_at_prompt.clone_from(&self.agent_id);
                }
                payload = AgentSessionId::without_id(&payload).into();
            }
            Kind::Prompt => {
                self.open.begin(record.id, self.log.place());
                self.id_at_prompt.clone_from(&self.agent_id);
                // Its client has not sent it to the fork.
                if let Some(keyless) = without_key(&payload) {
                    payload = keyless.into();
                }
            }
            Kind::Begin => self.open.resume(record.id, self.log.place()),
            Kind::End => {
                self.open.end(record.id);
                if self.open.is_empty() {
                    self.id_at_end = self.id_at_prompt.take();
                }
            }
            _ => {}
        }
        self.log.copy(record.at, record.kind, record.id, &payload)?;
        if kind.is_activity() {
            record.at.clone_into(&mut self.last_at);
        }
        let end = self.log.place();
        if is_it {
            self.found = Some(FoundPlace {
                end,
                open: self.open.clone(),
                goes_on: false,
            });
        } else if let Some(found) = &mut self.found {
            if side.is_some() {
                // How things are since then, such as a title.
                found.end = end;
            } else if record.kind == Kind::End {
                found.end = end;
                found.open.end(record.id);
            }
        }
        Ok(Next::More)
    }

    /// Takes a record after the end of the copy, where only the ends of open turns matter.
    fn skip(&mut self, record: &Record<'_>) -> Next {
        let found = self.found.as_ref();
        let open = || found.map(|found| found.open.clone()).unwrap_or_default();
        let after = self.after.get_or_insert_with(open);
        if record.kind == Kind::End {
            after.end(record.id);
        }
        if !after.is_empty() {
            return Next::More;
        }
        self.ended = CopyEnd::Early;
        Next::Done
    }

    /// The side of its record on which the copy ends, if that is at a cursor.
    fn side(&self) -> Option<CursorSide> {
        match &self.at {
            Some(CopyPoint::Cursor(cursor, _)) => Some(cursor.side),
            Some(CopyPoint::Place((_, side))) => Some(*side),
            Some(CopyPoint::Message(_)) | None => None,
        }
    }

    /// Whether a turn that matters to the copy has not ended.
    fn is_in_turn(&self) -> bool {
        !self.after.as_ref().unwrap_or(&self.open).is_empty()
    }

    /// Whether the message was found and the copy ends before a record of this kind.
    fn ends_before(&mut self, kind: Kind) -> bool {
        let Some(found) = &mut self.found else {
            return false;
        };
        match kind {
            Kind::Prompt => true,
            Kind::Update
            | Kind::UpdateParams
            | Kind::Subagent
            | Kind::UpdateV2
            | Kind::SubagentV2
            | Kind::Output => {
                // More of the message may follow within its turn.
                found.goes_on = true;
                self.open.is_empty()
            }
            Kind::End => found.goes_on,
            _ => false,
        }
    }

    /// Cuts off what was copied beyond the end, and closes the last turn. Returns the agent's id of a
    /// session with exactly this content.
    fn finish(self) -> Result<Option<AgentSessionId>, ForkError> {
        const CRASH: (&str, &str) = (CALL_INTERRUPTED, TURN_INTERRUPTED);
        const FORK: (&str, &str) = (CALL_LEFT_OUT, TURN_LEFT_OUT);
        let all = self.log.place();
        let is_all = match (&self.at, &self.found) {
            (None, _) => true,
            (Some(CopyPoint::Message(_)), _) | (_, None) => false,
            (_, Some(found)) => !found.goes_on,
        };
        let whole = is_all && self.open.is_empty();
        let (end, open, texts) = match (self.at, self.found, self.ended) {
            (Some(CopyPoint::Message(_)), None, _) => return Err(ForkError::ForkPointNotFound),
            (Some(CopyPoint::Cursor(..) | CopyPoint::Place(_)), None, _) => {
                return Err(ForkError::CursorNotFound);
            }
            (Some(CopyPoint::Cursor(..) | CopyPoint::Place(_)), Some(found), _) => {
                (found.end, found.open, FORK)
            }
            // The message belongs to a turn on which another process is working.
            (Some(_), Some(found), CopyEnd::AtEnd) if !found.open.is_empty() => {
                return Err(ForkError::ForkPointNotFound);
            }
            (Some(_), Some(found), CopyEnd::AtCrash) if !found.goes_on => {
                (found.end, found.open, CRASH)
            }
            (Some(_), Some(found), _) => (found.end, found.open, FORK),
            (None, _, CopyEnd::AtCrash) => (all, self.open, CRASH),
            (None, _, _) => {
                // What follows the oldest open prompt may be its answer.
                let end = self.open.first().copied().unwrap_or(all);
                (end, OpenTurns::default(), CRASH)
            }
        };
        self.log.truncate_to(end)?;
        close(self.log, &open, self.has_subagents, &self.last_at, texts)?;
        Ok(self.id_at_end.filter(|_| whole))
    }
}

/// Closes the subagents and turns that are open at the end of the log, with the time of the last
/// copied record.
fn close(
    log: &mut Log,
    open: &OpenTurns<LogPosition>,
    has_subagents: bool,
    at: &str,
    (call, end): (&str, &str),
) -> Result<(), StoreError> {
    let mut subagents = OpenSubagents::default();
    if has_subagents {
        subagents = recover::open_subagents(&mut Records::new(), log.file())
            .map_err(StoreError::disk("read", log.file().path()))?;
    }
    let mut calls = OpenCalls::default();
    if let Some(turn) = open.first() {
        calls = recover::open_calls(&mut Records::new(), turn.end, log.file())
            .map_err(StoreError::disk("read", log.file().path()))?;
    }
    if open.is_empty() && subagents.is_empty() {
        return Ok(());
    }
    let records = recover::closing_records(&mut subagents, &mut calls, call);
    let updates = records
        .iter()
        .map(|(kind, update)| (*kind, None, &**update));
    let ends = recover::ends(open);
    let ends = ends.iter().map(|id| (Kind::End, *id, end));
    log.append_at(at, updates.chain(ends), Sync::Buffered)?;
    Ok(())
}

/// Whether a record is, or belongs to, the message with this id.
pub(super) fn is_of(record: &Record<'_>, message: &str) -> bool {
    match record.kind {
        Kind::Prompt => record.id == Some(message),
        _ => message_of(record).as_deref() == Some(message),
    }
}

/// The id of the message that a record is, or belongs to.
pub(super) fn message_of(record: &Record<'_>) -> Option<String> {
    let update = match record.kind {
        Kind::Prompt => return record.id.map(str::to_owned),
        Kind::Update => record.payload,
        Kind::UpdateParams | Kind::UpdateV2 => text_member(record.payload, "update")?,
        _ => return None,
    };
    string_member(update, "messageId")
}

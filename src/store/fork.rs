//! Makes a session whose history is that of another one, as a copy that shares nothing with it.

use crate::json::{string_member, text_member};
use crate::record::metadata::{archived, restored};
use crate::record::{AgentSessionId, Header, Kind, OpenTurns, Record};
use crate::sys::SessionId;

use super::damage::DamageReport;
use super::durability::Sync;
use super::error::StoreError;
use super::folder::Store;
use super::lock::Lock;
use super::log::{Log, Place};
use super::reader::Reader;
use super::records::Records;
use super::recover::{self, CALL_INTERRUPTED, TURN_INTERRUPTED};
use super::scan::{self, Scan};

/// What a tool call says that ended behind the message at which the session was forked.
const CALL_LEFT_OUT: &str = "Interrupted: the session was forked before this tool call ended.";
/// The end of a turn that went on behind the message at which the session was forked.
const TURN_LEFT_OUT: &str = r#"{"interrupted":"the session was forked within this turn"}"#;
/// After how many records it is asked whether somebody still wants the fork.
const STEP: u64 = 1024;

/// A session that was forked.
#[derive(Debug)]
pub struct Forked {
    /// Its writer.
    pub log: Log,
    /// What is in it.
    pub scan: Scan,
    /// What is wrong with the session that it was made from. The fork lacks what could not be read.
    pub damage: Vec<DamageReport>,
    /// How an agent knows the other session, if it was told all that is in the fork, and no more.
    pub inner: Option<AgentSessionId>,
}

/// Why a session was not forked. Nothing is left of what was written.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// One of the two files refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No finished turn has such a message.
    #[error("the session has no such message")]
    ForkPointNotFound,
    /// Nobody wants it any more.
    #[error("cancelled")]
    Cancelled,
}

impl Store {
    /// Makes the session `id` out of the turns of `source` that have ended; those of a crash have,
    /// one that somebody is working on has not. With `at`, it ends with that message, and so may
    /// end within a turn, which is closed then.
    ///
    /// The records keep their times and their order and are numbered anew. Left out are the
    /// header, of which there is a new one, what says where the session worked, by which ids agents
    /// know it, that it is archived, and kinds that are unknown. Memory is bounded by the longest record; the source is
    /// neither locked nor changed. All of it is there, synced, when this returns, or nothing is.
    pub fn fork(
        &self,
        source: &mut Reader,
        id: &SessionId,
        header: &Header,
        at: Option<&str>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Forked, ForkError> {
        let made = self.make(id, header, |log, payload| {
            log.append(Kind::Session, None, payload, Sync::Buffered)?;
            let mut copy = Copy::new(log, at);
            copy.all(self, source, cancelled)?;
            let inner = copy.finish()?;
            let path = self.base().layout.log(id);
            // What is given out was read once.
            let scan = scan::scan(&mut Records::new(), log.file(), id, &path, &mut |_| {})?;
            Ok::<_, ForkError>((scan, inner))
        });
        let (log, (scan, inner)) = made?;
        Ok(Forked {
            log,
            scan,
            damage: source.damage().to_vec(),
            inner,
        })
    }
}

/// A copy in the making.
struct Copy<'a> {
    log: &'a mut Log,
    /// The message that it is to end with.
    at: Option<&'a str>,
    found: Option<Found>,
    /// Those of the turns that are open where the copy ends which have not ended so far. Known once
    /// that place has been passed.
    after: Option<OpenTurns<Place>>,
    /// The turns that have not ended, and where they begin.
    open: OpenTurns<Place>,
    /// How an agent knows the session, and how it did in the running turn and the last that ended.
    known: Option<AgentSessionId>,
    asked: Option<AgentSessionId>,
    told: Option<AgentSessionId>,
    /// The time of the last record of the conversation that was copied.
    at_last: String,
    /// How the reading ended.
    ended: Ended,
}

/// Where a copy ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Where the source ends. If its last turn has no end, somebody is at work on it.
    AtEnd,
    /// The same, but the process died that was at work on it.
    AtCrash,
    /// Before that: all was found that is wanted.
    Early,
}

/// The message that the copy is to end with.
struct Found {
    /// Behind it.
    end: Place,
    /// The turns that are open there, and go on behind it.
    open: OpenTurns<Place>,
    /// Whether its turn goes on behind it.
    goes_on: bool,
}

/// What follows a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    More,
    Done,
}

impl<'a> Copy<'a> {
    fn new(log: &'a mut Log, at: Option<&'a str>) -> Self {
        Self {
            log,
            at,
            found: None,
            after: None,
            open: OpenTurns::default(),
            known: None,
            asked: None,
            told: None,
            at_last: String::new(),
            ended: Ended::AtEnd,
        }
    }

    fn all(
        &mut self,
        store: &Store,
        source: &mut Reader,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(), ForkError> {
        if self.some(source, cancelled)? == Next::Done || !self.is_in_turn() {
            return Ok(());
        }
        // Whoever is at work on a turn has the lock. Nobody begins one while we have it.
        let lock = match Lock::take(store.base(), source.id()) {
            Ok(lock) => Some(lock),
            Err(StoreError::NotFound { .. }) => None,
            Err(StoreError::InUse { .. } | StoreError::ReadOnly { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let rest = self.some(source, cancelled);
        drop(lock);
        if rest? == Next::More && self.is_in_turn() {
            self.ended = Ended::AtCrash;
        }
        Ok(())
    }

    /// Copies what there is now.
    fn some(
        &mut self,
        source: &mut Reader,
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
        let is_it = self.at.is_some_and(|at| is_of(record, at));
        if self.after.is_some() || !is_it && self.is_behind(record.kind) {
            return Ok(self.pass_over(record));
        }
        let without_id;
        let mut payload = record.payload;
        match record.kind {
            Kind::Session | Kind::Reopen | Kind::Unknown => return Ok(Next::More),
            // A fork was neither put away nor brought back.
            Kind::Info if archived(payload).is_some() || restored(payload) => {
                return Ok(Next::More);
            }
            Kind::AgentSessionId => {
                self.known = AgentSessionId::read(payload);
                without_id = AgentSessionId::without_id(payload);
                payload = &without_id;
            }
            Kind::Prompt => {
                self.open.begin(record.id, self.log.place());
                self.asked.clone_from(&self.known);
            }
            Kind::End => {
                self.open.end(record.id);
                if self.open.is_empty() {
                    self.told = self.asked.take();
                }
            }
            _ => {}
        }
        self.log.copy(record.at, record.kind, record.id, payload)?;
        if record.kind.is_activity() {
            record.at.clone_into(&mut self.at_last);
        }
        let end = self.log.place();
        if is_it {
            self.found = Some(Found {
                end,
                open: self.open.clone(),
                goes_on: false,
            });
        } else if let (Kind::End, Some(found)) = (record.kind, &mut self.found) {
            found.end = end;
            found.open.end(record.id);
        }
        Ok(Next::More)
    }

    /// Takes a record behind the place where the copy ends: all it can tell is that a turn has ended
    /// that is open there.
    fn pass_over(&mut self, record: &Record<'_>) -> Next {
        let found = self.found.as_ref();
        let open = || found.map(|found| found.open.clone()).unwrap_or_default();
        let after = self.after.get_or_insert_with(open);
        if record.kind == Kind::End {
            after.end(record.id);
        }
        if !after.is_empty() {
            return Next::More;
        }
        self.ended = Ended::Early;
        Next::Done
    }

    /// Whether a turn has not ended, of those that matter to the copy.
    fn is_in_turn(&self) -> bool {
        !self.after.as_ref().unwrap_or(&self.open).is_empty()
    }

    /// Whether the message was found, and a record of this kind is what the copy is to end before.
    fn is_behind(&mut self, kind: Kind) -> bool {
        let Some(found) = &mut self.found else {
            return false;
        };
        match kind {
            Kind::Prompt => true,
            Kind::Update | Kind::UpdateParams | Kind::Output => {
                // More of the message may follow within its turn.
                found.goes_on = true;
                self.open.is_empty()
            }
            Kind::End => found.goes_on,
            _ => false,
        }
    }

    /// Cuts off what was copied in vain, and closes the last turn. Answers with how the agent knows
    /// exactly this much.
    fn finish(self) -> Result<Option<AgentSessionId>, ForkError> {
        const CRASH: (&str, &str) = (CALL_INTERRUPTED, TURN_INTERRUPTED);
        const FORK: (&str, &str) = (CALL_LEFT_OUT, TURN_LEFT_OUT);
        let all = self.log.place();
        let whole = self.at.is_none() && self.open.is_empty();
        let (end, open, texts) = match (self.at, self.found, self.ended) {
            (Some(_), None, _) => return Err(ForkError::ForkPointNotFound),
            // It belongs to a turn that somebody is at work on.
            (Some(_), Some(found), Ended::AtEnd) if !found.open.is_empty() => {
                return Err(ForkError::ForkPointNotFound);
            }
            (Some(_), Some(found), Ended::AtCrash) if !found.goes_on => {
                (found.end, found.open, CRASH)
            }
            (Some(_), Some(found), _) => (found.end, found.open, FORK),
            (None, _, Ended::AtCrash) => (all, self.open, CRASH),
            (None, _, _) => {
                // What stands behind the oldest prompt that is being answered may be its answer.
                let end = self.open.first().copied().unwrap_or(all);
                (end, OpenTurns::default(), CRASH)
            }
        };
        self.log.back_to(end)?;
        close(self.log, &open, &self.at_last, texts)?;
        Ok(self.told.filter(|_| whole))
    }
}

/// Closes the open turns at the end of the log. The records have the time of the last one that was
/// copied, since nothing has happened in the session since.
fn close(
    log: &mut Log,
    open: &OpenTurns<Place>,
    at: &str,
    (call, end): (&str, &str),
) -> Result<(), StoreError> {
    let Some(turn) = open.first() else {
        return Ok(());
    };
    let calls = recover::open_calls(&mut Records::new(), turn.end, log.file());
    let mut calls = calls.map_err(|cause| StoreError::Disk {
        operation: "read",
        path: log.path().to_owned(),
        cause,
    })?;
    let calls = calls.close_all(call);
    let updates = calls.iter().map(|update| (Kind::Update, None, &**update));
    let ends = recover::ends(open);
    let ends = ends.iter().map(|id| (Kind::End, *id, end));
    log.append_at(at, updates.chain(ends), Sync::Buffered)?;
    Ok(())
}

/// Whether a record is a message of this id, or a part of it.
fn is_of(record: &Record<'_>, message: &str) -> bool {
    let update = match record.kind {
        Kind::Prompt => return record.id == Some(message),
        Kind::Update => record.payload,
        Kind::UpdateParams => text_member(record.payload, "update").unwrap_or_default(),
        _ => return false,
    };
    string_member(update, "messageId").as_deref() == Some(message)
}

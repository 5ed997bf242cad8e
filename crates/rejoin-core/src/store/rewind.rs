//! Rewinds: a session goes on from an earlier place. Nothing is removed from its log.

use std::io;

use crate::json::Object;
use crate::protocol::meta::REJOIN;
use crate::protocol::{Role, UpdateKind};
use crate::record::cursor::CursorSide;
use crate::record::rewind::WENT_BACK;
use crate::record::{Cursor, Kind, OpenTurns, Record, Rewind, RewindTarget, RewoundHistory};

use super::fork::is_of;
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
            RewindTarget::Message(id) => Some(id.clone()),
            _ => None,
        };
        let mark = mark(id, &place, target);
        let rewind = Rewind {
            history: place.history,
            turns: place.turns,
            message_id,
            undo: *target == RewindTarget::Undo,
            client,
        };
        let payload = serde_json::to_string(&rewind).map_err(io::Error::from);
        let payload = payload.map_err(StoreError::disk("append to", self.file().path()))?;
        let records = [
            (Kind::Rewind, None, &*payload),
            (Kind::Update, None, &*mark),
        ];
        self.append_all(records.into_iter(), Sync::Turn)?;
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
    /// Whether it was undone.
    is_undone: bool,
}

/// A search for a place in a log.
#[derive(Debug, Default)]
struct RewindSearch {
    /// The rewinds, and the history after each of them.
    rewinds: Vec<(u64, RewoundHistory)>,
    /// The prompts, and where turns end: with the ids of the records.
    turns: Vec<(u64, Kind, Option<Box<str>>)>,
    /// The first record after the place in each part of the log that ends with a rewind and has the place.
    found: Vec<u64>,
    /// Whether the part that is being read has it.
    is_found: bool,
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
        let mut search = RewindSearch::default();
        let mut records = Records::all();
        while let Some(entry) = records.next(file)? {
            let record = &entry.record;
            let next = match (target, cursor) {
                (RewindTarget::Message(id), _) if is_of(record, id) => Some(record.seq),
                (_, Some(cursor)) if cursor.is_at(session, record) => match cursor.side {
                    CursorSide::Before => Some(record.seq),
                    CursorSide::After => Some(record.seq + 1),
                },
                _ => None,
            };
            search.record(record, next);
        }
        Ok(search.seq(target).map(|seq| search.place(seq)))
    }
}

impl RewindSearch {
    /// Takes the next record. `next` is the number of the first record after the place, if the record is next
    /// to it.
    fn record(&mut self, record: &Record<'_>, next: Option<u64>) {
        match record.kind {
            Kind::Prompt | Kind::Begin | Kind::End => {
                let turn = (record.seq, record.kind, record.id.map(Into::into));
                self.turns.push(turn);
            }
            Kind::Rewind => {
                if let Some(history) = RewoundHistory::of(record.seq, record.payload) {
                    self.rewinds.push((record.seq, history));
                    self.is_found = false;
                }
            }
            _ => {}
        }
        if let Some(next) = next
            && !self.is_found
        {
            self.found.push(next);
            self.is_found = true;
        }
    }

    /// Whether the record with this number is in the conversation now.
    fn is_current(&self, seq: u64) -> bool {
        let last = self.rewinds.last();
        last.is_none_or(|(_, history)| history.contains(seq))
    }

    /// The number of the first record after the place.
    fn seq(&self, target: &RewindTarget) -> Result<u64, RewindError> {
        match target {
            RewindTarget::Message(_) | RewindTarget::Cursor(_) => {
                let current = self.found.iter().find(|seq| self.is_current(**seq));
                let place = current.or(self.found.last()).copied();
                place.ok_or(RewindError::NoSuchPlace)
            }
            RewindTarget::Turns(turns) => {
                let prompts = self
                    .turns
                    .iter()
                    .filter(|(_, kind, _)| *kind == Kind::Prompt);
                let mut current = prompts.filter(|(seq, ..)| self.is_current(*seq));
                let after = usize::try_from(*turns).ok();
                let place = after.and_then(|after| current.nth(after));
                place.map(|(seq, ..)| *seq).ok_or(RewindError::NoSuchPlace)
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
        let (mut turns, mut open) = (0, OpenTurns::default());
        for (seq, kind, id) in &self.turns {
            while ranges.next_if(|(_, to)| to <= seq).is_some() {}
            match kind {
                _ if ranges.peek().is_none_or(|(from, _)| from > seq) => {}
                Kind::Prompt => {
                    turns += 1;
                    open.begin(id.as_deref(), ());
                }
                Kind::Begin => open.resume(id.as_deref(), ()),
                _ => {
                    open.end(id.as_deref());
                }
            }
        }
        RewindPlace {
            turns,
            is_in_turn: !open.is_empty(),
            is_undone: !self.is_current(seq),
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

//! Reads a page of a session's turns from its log.
//!
//! Memory holds only the page, which is bounded, and one record.

use std::ops::ControlFlow;

use serde_json::Value;

use crate::conversation::{
    PermissionRequest, Permissions, TurnContent, TurnFold, TurnPosition, TurnSink, TurnSplitter,
    TurnStart, end_members,
};
use crate::protocol::Role;
use crate::record::{Kind, Record};
use crate::store::{DamageReport, LogReader, PositionedRecord, StoreError};

/// The maximum length of a page in bytes, unless it is a single turn that is longer.
const PAGE: usize = 8 * 1024 * 1024;

/// How many records are read between two checks for cancellation.
const CHECK_INTERVAL: u64 = 1024;

/// A page of turns.
#[derive(Debug)]
pub struct TurnsPage {
    /// The turns, as a JSON array behind the text that was given.
    pub text: String,
    /// The number of the first turn that was requested.
    pub first: u64,
    /// Where the next page begins; none if this is the last one.
    pub next: Option<TurnPosition>,
    /// Damage that was found in the log while this page was read.
    pub damage: Vec<DamageReport>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum TurnsError {
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// The log cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many turns a session has. `cancelled` is called now and then.
pub fn count(reader: &mut LogReader, cancelled: &dyn Fn() -> bool) -> Result<u64, TurnsError> {
    let mut splitter = TurnSplitter::new(TurnPosition::START);
    // The limit is never reached, since no turn is returned.
    let mut page = TurnsPageBuilder::new(u64::MAX, 1, 0, String::new());
    _ = read(reader, cancelled, |entry| {
        splitter.record(&entry.record, entry.offset, &mut page)
    })?;
    _ = splitter.finish(&mut page);
    Ok(splitter.count())
}

/// Reads a page of at most `limit` turns, as [`TurnSplitter`] defines them. The first one is `skip`
/// turns after the one at `place`. At most `longest` bytes of a single turn are read. They are written
/// behind `text`, so that nobody copies them. `cancelled` is called now and then.
pub fn page(
    reader: &mut LogReader,
    (place, skip): (TurnPosition, u64),
    limit: usize,
    longest: usize,
    text: String,
    cancelled: &dyn Fn() -> bool,
) -> Result<TurnsPage, TurnsError> {
    let first = (place.turn)
        .saturating_add(u64::from(place.next))
        .saturating_add(skip);
    let mut splitter = TurnSplitter::new(place);
    let mut page = TurnsPageBuilder::new(first, limit, longest, text);
    page.requests.all = Permissions::new(reader.header(), 0);
    if limit > 0 {
        reader.seek(place.offset);
        let full = read(reader, cancelled, |entry| {
            page.requests.record(&entry.record, page.number);
            splitter.record(&entry.record, entry.offset, &mut page)
        })?;
        if full.is_continue() && splitter.finish(&mut page).is_continue() {
            let open = splitter.is_open(page.number);
            _ = page.add_current(open);
        }
    }
    // Turns may overlap, so the end of a turn in this page may be further on in the log.
    if !page.all_ended(&splitter) {
        _ = read(reader, cancelled, |entry| {
            let record = &entry.record;
            page.requests.record(record, page.number);
            if record.kind == Kind::End
                && let Some(number) = splitter.ended(record)
                && record.id.is_some()
            {
                page.end(number, record.payload);
            }
            if page.all_ended(&splitter) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    page.add_permissions();
    Ok(TurnsPage {
        text: page.out + "]",
        first,
        next: page.next,
        damage: reader.damage().to_vec(),
    })
}

/// Visits records until `visit` breaks, or to the end of the log.
pub(super) fn read(
    reader: &mut LogReader,
    cancelled: &dyn Fn() -> bool,
    mut visit: impl FnMut(&PositionedRecord<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, TurnsError> {
    let mut records = 0_u64;
    while let Some(entry) = reader.next()? {
        records += 1;
        if records.is_multiple_of(CHECK_INTERVAL) && cancelled() {
            return Err(TurnsError::Cancelled);
        }
        if visit(&entry).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Collects the turns of a page.
#[derive(Debug)]
struct TurnsPageBuilder {
    /// The first turn to return.
    first: u64,
    limit: usize,
    /// How many bytes of a turn are read.
    longest: usize,
    /// The number and the position of the current turn.
    number: u64,
    place: TurnPosition,
    /// The current turn, if it is to be returned.
    current: Option<TurnFold>,
    /// Turns of the agent that are in the page and have not ended: the number, and where to insert
    /// the members that say how it ended.
    unended: Vec<(u64, usize)>,
    requests: PageRequests,
    out: String,
    /// Where the turns begin in it.
    begin: usize,
    count: usize,
    next: Option<TurnPosition>,
}

impl TurnsPageBuilder {
    fn new(first: u64, limit: usize, longest: usize, text: String) -> Self {
        let out = text + "[";
        Self {
            first,
            limit,
            longest,
            number: 0,
            place: TurnPosition::START,
            current: None,
            unended: Vec::new(),
            requests: PageRequests::default(),
            begin: out.len(),
            out,
            count: 0,
            next: None,
        }
    }

    /// Adds the current turn to the page. Breaks if it does not fit: then it begins the next page.
    fn add_current(&mut self, open: bool) -> ControlFlow<()> {
        if let Some(turn) = self.current.take() {
            let before = self.out.len();
            let comma = usize::from(self.count > 0);
            self.out.push_str(&","[..comma]);
            self.out = turn.write(std::mem::take(&mut self.out));
            if self.count > 0 && self.len() - comma > PAGE {
                self.out.truncate(before);
                self.next = Some(self.place);
                return ControlFlow::Break(());
            }
            self.count += 1;
            if turn.role() == Role::Agent {
                self.requests
                    .answers
                    .push((self.number, self.out.len() - 1));
            }
            if open {
                self.unended.push((self.number, self.out.len() - 1));
            }
        }
        ControlFlow::Continue(())
    }

    /// Adds the requests for permission to their turns.
    fn add_permissions(&mut self) {
        for (number, at) in std::mem::take(&mut self.requests.answers).into_iter().rev() {
            let own: Vec<Value> = self.requests.of(number).map(in_its_turn).collect();
            if !own.is_empty() {
                let own = Value::Array(own);
                self.out.insert_str(at, &format!(",\"permissions\":{own}"));
            }
        }
    }

    /// The length of the turns so far, in bytes.
    fn len(&self) -> usize {
        self.out.len() - self.begin
    }

    fn all_ended(&self, splitter: &TurnSplitter) -> bool {
        !(self.unended.iter()).any(|(number, _)| splitter.is_open(*number))
    }
}

/// The requests for permission of the turns in a page.
#[derive(Debug, Default)]
struct PageRequests {
    /// All since the first record that was read.
    all: Permissions,
    /// The number of the turn of each of them.
    turns: Vec<u64>,
    /// The speaker of the current turn, if one has begun.
    role: Option<Role>,
    /// Turns of the agent that are in the page: the number, and where to insert their requests.
    answers: Vec<(u64, usize)>,
}

impl PageRequests {
    /// Takes the next record, behind the beginning of the turn with this number.
    fn record(&mut self, record: &Record<'_>, turn: u64) {
        self.all.record(record);
        if self.all.count() > self.turns.len() {
            // A request may be all that there is of an answer so far.
            let is_user = self.role == Some(Role::User);
            self.turns.push(turn + u64::from(is_user));
        }
    }

    /// The requests of a turn.
    fn of(&self, turn: u64) -> impl Iterator<Item = &PermissionRequest> {
        let all = self.all.all().iter().zip(&self.turns);
        all.filter(move |(_, of)| **of == turn)
            .map(|(asked, _)| asked)
    }
}

/// A request for permission as a part of its turn, which is not counted in a page.
fn in_its_turn(asked: &PermissionRequest) -> Value {
    let mut object = asked.as_json();
    if let Some(object) = object.as_object_mut() {
        object.remove("turn");
    }
    object
}

impl TurnSink for TurnsPageBuilder {
    fn begin(&mut self, turn: TurnStart<'_>) -> ControlFlow<()> {
        self.add_current(turn.previous_open)?;
        if self.count >= self.limit || self.len() >= PAGE {
            self.next = Some(turn.place);
            return ControlFlow::Break(());
        }
        self.number = turn.number;
        self.requests.role = Some(turn.role);
        self.place = turn.place;
        let wanted = turn.number >= self.first;
        self.current = wanted.then(|| TurnFold::new(turn.role, turn.at, self.longest));
        ControlFlow::Continue(())
    }

    fn current(&mut self) -> Option<&mut dyn TurnContent> {
        let turn = self.current.as_mut()?;
        Some(turn)
    }

    fn end(&mut self, number: u64, payload: &str) {
        if let Some(turn) = &mut self.current
            && number == self.number
            && turn.role() == Role::Agent
        {
            turn.end(payload);
        } else if let Some(place) = (self.unended.iter()).position(|(open, _)| *open == number) {
            let (_, at) = self.unended.remove(place);
            let mut members = String::new();
            for (name, value) in end_members(payload) {
                members.extend([",\"", name, "\":", value]);
            }
            self.out.insert_str(at, &members);
            for (_, other) in self.unended.iter_mut().chain(&mut self.requests.answers) {
                if *other > at {
                    *other += members.len();
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;

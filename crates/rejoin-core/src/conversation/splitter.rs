//! Splits the records of a log into turns: who speaks, and which turn a record belongs to.

use std::ops::ControlFlow;

use memchr::memmem;

use crate::protocol::update::name;
use crate::protocol::{Role, UpdateClass, UpdateKind};
use crate::record::{InVersion1, Kind, OpenTurns, Record};

use super::entry::{Entry, update_in};
use super::position::TurnPosition;

/// The beginning of a turn.
#[derive(Clone, Copy, Debug)]
pub struct TurnStart<'a> {
    /// Its number among all turns of the session, from 0.
    pub number: u64,
    /// The speaker: the user or the agent.
    pub role: Role,
    /// The time of its first record.
    pub at: &'a str,
    /// The position of its first record.
    pub place: TurnPosition,
    /// Whether the turn before it has not ended.
    pub previous_open: bool,
}

/// Receives the content of a turn.
pub trait TurnContent {
    /// The prompt that the turn consists of, and the id of its message.
    fn prompt(&mut self, id: Option<&str>, payload: &str);

    /// What an update adds to the turn.
    fn entry(&mut self, entry: &Entry<'_>);
}

/// Receives the turns of a log.
pub trait TurnSink {
    /// A turn begins. If this breaks, nothing of the turn is read.
    fn begin(&mut self, turn: TurnStart<'_>) -> ControlFlow<()>;

    /// The current turn, if its content is needed.
    fn current(&mut self) -> Option<&mut dyn TurnContent>;

    /// An update adds this to the current turn.
    fn entry(&mut self, entry: &Entry<'_>) {
        if let Some(turn) = self.current() {
            turn.entry(entry);
        }
    }

    /// The turn of this number has ended, with the payload of this `end` record.
    fn end(&mut self, number: u64, payload: &str);
}

/// Splits the records of a log into turns.
///
/// A turn of the user is a prompt. The agent's turn is all that follows it up to the next one;
/// there is always one, even if it is empty. A log may also have messages of the user among its
/// updates, if the conversation was not held here: those are turns, too.
#[derive(Debug)]
pub struct TurnSplitter {
    /// The number of the next turn.
    next: u64,
    /// A prompt was read and nothing of its answer.
    due: bool,
    /// The speaker of the current turn, if one has begun.
    role: Option<Role>,
    /// The offset of the record with which the current turn begins.
    begun: u64,
    /// The id of the user's message that came as updates, if that is the current turn.
    message: Option<String>,
    /// The time of the last record.
    at: String,
    /// The prompts whose turns have not ended, with the number of the agent's turn that answers.
    open: OpenTurns<u64>,
    converted: InVersion1,
}

impl TurnSplitter {
    /// A splitter for the records from this position on.
    pub fn new(place: TurnPosition) -> Self {
        Self {
            next: place.turn,
            due: false,
            role: None,
            begun: place.offset,
            message: None,
            at: String::new(),
            open: OpenTurns::default(),
            converted: InVersion1::new(),
        }
    }

    /// Adds the next record, which is at `offset`. Breaks if the sink takes no more turns.
    pub fn record(
        &mut self,
        record: &Record<'_>,
        offset: u64,
        sink: &mut dyn TurnSink,
    ) -> ControlFlow<()> {
        if self.converted.passes(record.kind) {
            return self.take(record, offset, sink);
        }
        let mut converted = std::mem::take(&mut self.converted);
        let mut flow = ControlFlow::Continue(());
        converted.record(record, &mut |record| {
            if flow.is_continue() {
                flow = self.take(record, offset, sink);
            }
        });
        self.converted = converted;
        flow
    }

    fn take(
        &mut self,
        record: &Record<'_>,
        offset: u64,
        sink: &mut dyn TurnSink,
    ) -> ControlFlow<()> {
        record.at.clone_into(&mut self.at);
        let payload = record.payload;
        match record.kind {
            Kind::Prompt => {
                if self.due {
                    // The prompt before this one has no answer in the log.
                    self.begin(Role::Agent, offset, sink)?;
                }
                self.begin(Role::User, offset, sink)?;
                self.due = true;
                self.open.begin(record.id, self.next);
                if let Some(turn) = sink.current() {
                    turn.prompt(record.id, payload);
                }
            }
            // A turn that has ended begins again, in the turn of the last prompt.
            Kind::Begin if self.role.is_some() => {
                let turn = if self.due { self.next } else { self.current() };
                self.open.resume(record.id, turn);
            }
            Kind::Update | Kind::Output | Kind::UpdateParams => {
                if let Some((_, update)) = update_in(record) {
                    self.update(update, offset, sink)?;
                }
            }
            Kind::End => {
                if let Some(number) = self.ended(record) {
                    if number == self.next {
                        // Nothing of the answer is in the log.
                        self.begin(Role::Agent, offset, sink)?;
                    }
                    sink.end(number, payload);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// The number of the turn that an `end` ends. `None` for a turn that began before the first
    /// record that was read.
    pub fn ended(&mut self, record: &Record<'_>) -> Option<u64> {
        let ended = self.open.end(record.id);
        match record.id {
            Some(_) => ended.first().copied(),
            None if self.role == Some(Role::Agent) => Some(self.current()),
            None => Some(self.next),
        }
    }

    /// Begins the answer to the last prompt, if nothing of it is in the log.
    pub fn finish(&mut self, sink: &mut dyn TurnSink) -> ControlFlow<()> {
        let mut converted = std::mem::take(&mut self.converted);
        let (mut flow, begun) = (ControlFlow::Continue(()), self.begun);
        converted.finish(&mut |record| {
            if flow.is_continue() {
                flow = self.take(record, begun, sink);
            }
        });
        flow?;
        if self.due {
            self.begin(Role::Agent, self.begun, sink)?;
        }
        ControlFlow::Continue(())
    }

    /// How many turns have begun, with those before the first record.
    pub fn count(&self) -> u64 {
        self.next
    }

    /// Whether the turn of this number has not ended.
    pub fn is_open(&self, number: u64) -> bool {
        self.open.iter().any(|(_, open)| *open == number)
    }

    /// The number of the current turn.
    fn current(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    fn update(&mut self, update: &str, offset: u64, sink: &mut dyn TurnSink) -> ControlFlow<()> {
        let bytes = update.as_bytes();
        let passed_over = self.role == Some(Role::Agent) && sink.current().is_none();
        if passed_over && memmem::find(bytes, b"\"user_message_chunk\"").is_none() {
            return ControlFlow::Continue(());
        }
        let kind = match name(bytes) {
            Some(name) if !name.is_empty() => UpdateKind::of_name(&name),
            _ => return ControlFlow::Continue(()),
        };
        if kind.class() != UpdateClass::History {
            return ControlFlow::Continue(());
        }
        let entry = Entry::of(kind, update);
        let user = match &entry {
            Entry::Chunk(chunk) if chunk.role == Role::User => Some(chunk.message),
            _ => None,
        };
        let goes_on = match (user, self.message.as_deref()) {
            (Some(id), Some(of)) => of.is_empty() || id.is_empty() || of == id,
            (Some(_), None) => false,
            (None, _) => self.role == Some(Role::Agent),
        };
        if !goes_on {
            let role = user.map_or(Role::Agent, |_| Role::User);
            self.begin(role, offset, sink)?;
            self.message = user.map(str::to_owned);
        }
        sink.entry(&entry);
        ControlFlow::Continue(())
    }

    /// Begins a turn whose first record is at `offset`.
    fn begin(&mut self, role: Role, offset: u64, sink: &mut dyn TurnSink) -> ControlFlow<()> {
        let answers = role == Role::Agent && self.role == Some(Role::User);
        let place = if answers {
            // An answer may have no record, so it is found by its prompt.
            TurnPosition {
                turn: self.current(),
                offset: self.begun,
                next: true,
            }
        } else {
            TurnPosition {
                turn: self.next,
                offset,
                next: false,
            }
        };
        sink.begin(TurnStart {
            number: self.next,
            role,
            at: &self.at,
            place,
            previous_open: self.is_open(self.current()),
        })?;
        self.role = Some(role);
        self.next += 1;
        self.begun = offset;
        self.message = None;
        self.due = false;
        ControlFlow::Continue(())
    }
}

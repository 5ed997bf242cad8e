//! Reads a page of a session's turns from its log.
//!
//! Memory holds only the page, which is bounded, and one record.

use memchr::memmem;

use crate::json;
use crate::protocol::UpdateKind;
use crate::record::{Kind, OpenTurns, Record};
use crate::store::{DamageReport, Reader, StoreError};

use super::place::Place;
use super::turn::{Role, Turn, end_members, message_id};

/// The maximum length of a page in bytes, unless it is a single turn that is longer.
const PAGE: usize = 8 * 1024 * 1024;

/// How many records are read between two checks for cancellation.
const LOOK: u64 = 1024;

/// A page of turns.
#[derive(Debug)]
pub struct Page {
    /// The turns, as a JSON array.
    pub turns: String,
    /// The number of the first turn that was requested.
    pub first: u64,
    /// Where the next page begins; none if this is the last one.
    pub next: Option<Place>,
    /// Damage that was found in the log while this page was read.
    pub damage: Vec<DamageReport>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// The log cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many turns a session has. `cancelled` is called now and then.
pub fn count(reader: &mut Reader, cancelled: &dyn Fn() -> bool) -> Result<u64, Stopped> {
    // No turn is returned.
    let mut fold = Fold::new(Place::START, u64::MAX, usize::MAX, 0);
    fold.read(reader, cancelled)?;
    Ok(fold.turn + u64::from(fold.due))
}

/// Reads a page of at most `limit` turns. The first one is `skip` turns after the one at `place`.
/// At most `longest` bytes of a single turn are read. `cancelled` is called now and then.
///
/// A turn of the user is a prompt. The agent's turn is all that follows it up to the next one;
/// there is always one, even if it is empty. A log may also have messages of the user among its
/// updates, if the conversation was not held here: those are turns, too.
pub fn page(
    reader: &mut Reader,
    (place, skip): (Place, u64),
    limit: usize,
    longest: usize,
    cancelled: &dyn Fn() -> bool,
) -> Result<Page, Stopped> {
    let mut fold = Fold::new(place, skip, limit, longest);
    if limit > 0 {
        reader.seek(place.offset);
        fold.read(reader, cancelled)?;
        if fold.next.is_none() {
            fold.finish();
        }
    }
    // Turns may overlap, so the end of a turn in this page may be further on in the log.
    let mut records = 0_u64;
    while !fold.unended.is_empty()
        && let Some(entry) = reader.next()?
    {
        records += 1;
        if records.is_multiple_of(LOOK) && cancelled() {
            return Err(Stopped::Cancelled);
        }
        if entry.record.kind == Kind::End {
            fold.ended_earlier(&entry.record);
        }
    }
    Ok(Page {
        turns: format!("[{}]", fold.out),
        first: fold.from,
        next: fold.next,
        damage: reader.damage().to_vec(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Yes,
    NotYet,
}

/// Folds records into turns.
#[derive(Debug)]
struct Fold {
    limit: usize,
    /// The first turn to return.
    from: u64,
    /// The number of the next turn.
    turn: u64,
    /// A prompt was read and nothing of its answer.
    due: bool,
    /// Who speaks in the current turn, if one has begun.
    role: Option<Role>,
    /// Where the current turn begins in the log.
    begun: u64,
    /// The position of the current turn.
    here: Place,
    /// How many bytes of a turn are read.
    longest: usize,
    /// The id of the user's message that came as updates, if that is the current turn.
    message: Option<String>,
    /// The current turn, if it is to be returned.
    current: Option<Turn>,
    /// The time of the last record.
    at: String,
    /// The prompts whose turns have not ended, with the number of the agent's turn that answers.
    open: OpenTurns<u64>,
    /// Turns of the agent that are in the page and have not ended: the number, and where to insert
    /// the members that say how it ended.
    unended: Vec<(u64, usize)>,
    out: String,
    count: usize,
    next: Option<Place>,
}

impl Fold {
    fn new(place: Place, skip: u64, limit: usize, longest: usize) -> Self {
        Self {
            limit,
            from: (place.turn)
                .saturating_add(u64::from(place.next))
                .saturating_add(skip),
            turn: place.turn,
            due: false,
            role: None,
            begun: place.offset,
            here: place,
            longest,
            message: None,
            current: None,
            at: String::new(),
            open: OpenTurns::default(),
            unended: Vec::new(),
            out: String::new(),
            count: 0,
            next: None,
        }
    }

    /// Reads until the page is full, or to the end of the log.
    fn read(&mut self, reader: &mut Reader, cancelled: &dyn Fn() -> bool) -> Result<(), Stopped> {
        let mut records = 0_u64;
        while let Some(entry) = reader.next()? {
            records += 1;
            if records.is_multiple_of(LOOK) && cancelled() {
                return Err(Stopped::Cancelled);
            }
            if self.record(&entry.record, entry.offset) == Full::Yes {
                break;
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, offset: u64) -> Full {
        record.at.clone_into(&mut self.at);
        let payload = record.payload;
        match record.kind {
            Kind::Prompt => {
                // The prompt before this one has no answer in the log.
                if self.due && self.begin(Role::Assistant, offset) == Full::Yes {
                    return Full::Yes;
                }
                if self.begin(Role::User, offset) == Full::Yes {
                    return Full::Yes;
                }
                self.due = true;
                self.open.begin(record.id, self.turn);
                if let Some(turn) = &mut self.current {
                    turn.prompt(record.id, payload);
                }
                Full::NotYet
            }
            Kind::Update | Kind::Output => self.update(payload, offset),
            Kind::UpdateParams => match json::member(payload.as_bytes(), 0, "update") {
                Some(update) => self.update(&payload[update], offset),
                None => Full::NotYet,
            },
            Kind::End if self.ended_earlier(record) => Full::NotYet,
            Kind::End => {
                if self.role != Some(Role::Assistant)
                    && self.begin(Role::Assistant, offset) == Full::Yes
                {
                    return Full::Yes;
                }
                if let Some(turn) = &mut self.current {
                    turn.end(payload);
                }
                Full::NotYet
            }
            _ => Full::NotYet,
        }
    }

    /// Handles an `end`, if it ends a turn after which others have begun.
    fn ended_earlier(&mut self, record: &Record<'_>) -> bool {
        let ended = self.open.end(record.id);
        if record.id.is_none() {
            self.unended.clear();
            return false;
        }
        let Some(turn) = ended.first().copied() else {
            // The turn is on an earlier page.
            return true;
        };
        let place = self.unended.iter().position(|(open, _)| *open == turn);
        if let Some(place) = place {
            let (_, at) = self.unended.remove(place);
            let members = end_members(record.payload);
            self.out.insert_str(at, &members);
            for (_, other) in &mut self.unended {
                if *other > at {
                    *other += members.len();
                }
            }
        }
        let is_current = turn + 1 == self.turn && self.role == Some(Role::Assistant);
        let is_due = turn == self.turn && self.due;
        !is_current && !is_due
    }

    fn update(&mut self, update: &str, offset: u64) -> Full {
        let bytes = update.as_bytes();
        let passed_over = self.role == Some(Role::Assistant) && self.current.is_none();
        if passed_over && memmem::find(bytes, b"\"user_message_chunk\"").is_none() {
            return Full::NotYet;
        }
        let name = json::member(bytes, 0, "sessionUpdate");
        let name = name.and_then(|name| json::string_body(bytes, &name));
        let name = name.map_or("", |name| &update[name]);
        if name.is_empty() || {
            let kind = UpdateKind::of_name(name.as_bytes());
            kind == UpdateKind::Notice || kind.snapshot().is_some()
        } {
            return Full::NotYet;
        }
        let user = name == "user_message_chunk";
        let goes_on = if user {
            let id = message_id(update);
            let of = self.message.as_deref();
            of.is_some_and(|of| of.is_empty() || id.is_empty() || of == id)
        } else {
            self.role == Some(Role::Assistant)
        };
        let role = if user { Role::User } else { Role::Assistant };
        if !goes_on {
            if self.begin(role, offset) == Full::Yes {
                return Full::Yes;
            }
            self.message = user.then(|| message_id(update).to_owned());
        }
        if let Some(turn) = &mut self.current {
            turn.update(name, update);
        }
        Full::NotYet
    }

    /// Begins a turn, whose first record is at `offset`, unless the page is full.
    fn begin(&mut self, role: Role, offset: u64) -> Full {
        if self.put() == Full::Yes {
            return Full::Yes;
        }
        let behind_user = role == Role::Assistant && self.role == Some(Role::User);
        let here = if behind_user {
            self.after_current()
        } else {
            Place {
                turn: self.turn,
                offset,
                next: false,
            }
        };
        if self.count >= self.limit || self.out.len() >= PAGE {
            self.next = Some(here);
            return Full::Yes;
        }
        self.role = Some(role);
        self.current = (self.turn >= self.from).then(|| Turn::new(role, &self.at, self.longest));
        self.turn += 1;
        self.begun = offset;
        self.here = here;
        self.message = None;
        self.due = false;
        Full::NotYet
    }

    fn after_current(&self) -> Place {
        Place {
            turn: self.turn.saturating_sub(1),
            offset: self.begun,
            next: true,
        }
    }

    /// Adds the current turn to the page. If it does not fit, it begins the next page.
    fn put(&mut self) -> Full {
        if let Some(turn) = self.current.take() {
            let turn = turn.object();
            if self.count > 0 {
                if self.out.len() + turn.len() > PAGE {
                    self.next = Some(self.here);
                    return Full::Yes;
                }
                self.out.push(',');
            }
            self.out.push_str(&turn);
            self.count += 1;
            let number = self.turn.saturating_sub(1);
            if self.open.iter().any(|(_, open)| *open == number) {
                self.unended.push((number, self.out.len() - 1));
            }
        }
        Full::NotYet
    }

    /// Finishes at the end of the log.
    fn finish(&mut self) {
        if self.due {
            // The agent has not answered yet.
            if self.put() == Full::Yes {
                return;
            }
            self.here = self.after_current();
            if self.count >= self.limit {
                self.next = Some(self.here);
            } else if self.turn >= self.from {
                self.current = Some(Turn::new(Role::Assistant, &self.at, self.longest));
            }
        }
        self.put();
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;

//! A page of a session's turns, read from its log.
//!
//! No more is in memory than the page, which is bounded, and one record.

use memchr::memmem;

use crate::record::transcript::SNAPSHOTS;
use crate::record::{Kind, Record, json};
use crate::store::{DamageReport, Reader, StoreError};

use super::place::Place;
use super::query::TurnsQuery;
use super::turn::{Role, Turn, message_id};

/// A page is full when it holds so many bytes; the last turn may go beyond.
const PAGE: usize = 8 * 1024 * 1024;

/// How many records are read between two looks at whether anybody still wants them.
const LOOK: u64 = 1024;

/// A page of turns.
#[derive(Debug)]
pub struct Page {
    /// The turns, as a JSON array.
    pub turns: String,
    /// Where the next page begins; none if this is the last one.
    pub next: Option<Place>,
    /// What was found to be wrong with the log while this page was read.
    pub damage: Vec<DamageReport>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// Nobody wants it any more.
    #[error("the request was cancelled")]
    Cancelled,
    /// The log cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads a page. `cancelled` is asked now and then.
///
/// A turn of the user is a prompt; the agent's turn is all that follows it up to the next one, and
/// there is always one, be it empty. A log may also have words of the user among its updates, if
/// the conversation was not held here: those are turns, too.
pub fn page(
    reader: &mut Reader,
    query: &TurnsQuery,
    cancelled: &dyn Fn() -> bool,
) -> Result<Page, Stopped> {
    let mut fold = Fold::new(query);
    reader.seek(query.place.offset);
    let mut records = 0_u64;
    while let Some(entry) = reader.next()? {
        records += 1;
        if records.is_multiple_of(LOOK) && cancelled() {
            return Err(Stopped::Cancelled);
        }
        if fold.record(&entry.record, entry.offset) == Full::Yes {
            break;
        }
    }
    if fold.next.is_none() {
        fold.finish();
    }
    Ok(Page {
        turns: format!("[{}]", fold.out),
        next: fold.next,
        damage: reader.damage().to_vec(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Yes,
    NotYet,
}

/// Records in, turns out.
#[derive(Debug)]
struct Fold {
    limit: usize,
    /// The first turn that is wanted.
    from: u64,
    /// The number of the next turn.
    turn: u64,
    /// A prompt was read and nothing of its answer.
    due: bool,
    /// Who speaks in the current turn, if one has begun.
    role: Option<Role>,
    /// Where the current turn begins.
    begun: u64,
    /// The id of the user's words that came as updates, if that is the current turn.
    message: Option<String>,
    /// The current turn, if it is wanted.
    current: Option<Turn>,
    /// The time of the last record.
    at: String,
    out: String,
    count: usize,
    next: Option<Place>,
}

impl Fold {
    fn new(query: &TurnsQuery) -> Self {
        Self {
            limit: query.limit,
            from: (query.place.turn)
                .saturating_add(u64::from(query.place.next))
                .saturating_add(query.skip),
            turn: query.place.turn,
            due: false,
            role: None,
            begun: query.place.offset,
            message: None,
            current: None,
            at: String::new(),
            out: String::new(),
            count: 0,
            next: None,
        }
    }

    fn record(&mut self, record: &Record<'_>, offset: u64) -> Full {
        record.at.clone_into(&mut self.at);
        let payload = record.payload;
        match record.kind {
            Kind::Prompt => {
                // Whatever was answered before is lost.
                if self.due && self.begin(Role::Assistant, offset) == Full::Yes {
                    return Full::Yes;
                }
                if self.begin(Role::User, offset) == Full::Yes {
                    return Full::Yes;
                }
                self.due = true;
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

    fn update(&mut self, update: &str, offset: u64) -> Full {
        let bytes = update.as_bytes();
        let passed_over = self.role == Some(Role::Assistant) && self.current.is_none();
        if passed_over && memmem::find(bytes, b"\"user_message_chunk\"").is_none() {
            return Full::NotYet;
        }
        let name = json::member(bytes, 0, "sessionUpdate");
        let name = name.and_then(|name| json::string_body(bytes, &name));
        let name = name.map_or("", |name| &update[name]);
        if name.is_empty() || name == "notice" || SNAPSHOTS.contains(&name) {
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
        self.put();
        if self.count >= self.limit || self.out.len() >= PAGE {
            let behind_user = role == Role::Assistant && self.role == Some(Role::User);
            self.next = Some(if behind_user {
                self.after_current()
            } else {
                Place {
                    turn: self.turn,
                    offset,
                    next: false,
                }
            });
            return Full::Yes;
        }
        self.role = Some(role);
        self.current = (self.turn >= self.from).then(|| Turn::new(role, &self.at));
        self.turn += 1;
        self.begun = offset;
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

    /// Puts the current turn into the page.
    fn put(&mut self) {
        if let Some(turn) = self.current.take() {
            if self.count > 0 {
                self.out.push(',');
            }
            self.out.push_str(&turn.object());
            self.count += 1;
        }
    }

    /// Ends with the log.
    fn finish(&mut self) {
        if self.due {
            // The answer that is still being thought about.
            self.put();
            if self.count >= self.limit {
                self.next = Some(self.after_current());
            } else if self.turn >= self.from {
                self.current = Some(Turn::new(Role::Assistant, &self.at));
            }
        }
        self.put();
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;

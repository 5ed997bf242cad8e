//! The session cursors that a client is sent: live, and after a replay those of the last turns.

use std::collections::VecDeque;
use std::ops::Range;

use crate::engine::Block;
use crate::engine::outlet::BlockEntry;
use crate::protocol::UpdateKind;
use crate::record::{AgentCursors, Cursor, Kind, KnownPlace, Record, RewoundHistory};
use crate::replay::live_line;
use crate::store::Appended;
use crate::sys::SessionId;

use super::{Client, Deps};

/// How many cursors a client is sent at most at once: after a replay, those of the last eight turns if
/// there was no compaction.
const ANNOUNCED: usize = 16;

/// The places of a session for one client.
#[derive(Debug)]
pub(super) struct Cursors {
    session: SessionId,
    places: AgentCursors,
    /// Whether the client is sent the agent's own cursors, too. Live the agent has sent them.
    shows_own: bool,
    /// What the client was not sent yet, each with where its record ends in the log, in bytes.
    due: VecDeque<(u64, Due)>,
    /// The log's cursors that the client has of the last turn.
    sent: Vec<Cursor>,
}

/// What a client is due to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Due {
    /// The cursor of a place.
    Place(KnownPlace),
    /// A cursor of the log no longer counts: the agent has announced its own at the place.
    Withdrawal(Cursor),
}

impl Cursors {
    /// The places from a record outside of turns on. `None` if the client is sent none: it has not
    /// declared that it shows them, or it cannot fork.
    pub(super) fn of(session: &SessionId, deps: &Deps, client: &Client) -> Option<Self> {
        let is_sent = !client.hidden.contains(&UpdateKind::Cursor) && deps.offers("fork");
        is_sent.then(|| Self {
            session: session.clone(),
            places: AgentCursors::new(session.as_str()),
            shows_own: false,
            due: VecDeque::new(),
            sent: Vec::new(),
        })
    }

    /// The places of a log that is read for a client, which is sent those of the agent's own cursors, too.
    pub(super) fn of_log(session: &SessionId, deps: &Deps, client: &Client) -> Option<Self> {
        let cursors = Self::of(session, deps, client)?;
        Some(Self {
            shows_own: true,
            ..cursors
        })
    }

    /// The log was read again: what comes next is outside of turns.
    pub(super) fn restart(&mut self) {
        self.places = AgentCursors::new(self.session.as_str());
        self.due.clear();
        self.sent.clear();
    }

    /// Takes the next record, which ends there in the log.
    pub(super) fn record(&mut self, record: &Record<'_>, end: u64) {
        match record.kind {
            Kind::Rewind => self.forget_undone(record),
            Kind::Prompt if self.places.is_between_turns() => self.sent.clear(),
            _ => {}
        }
        let Some(found) = self.places.record(record) else {
            return;
        };
        if let KnownPlace::Agent(id) = &found {
            let is_there = |cursor: &Cursor| self.places.at(cursor.place()) == Some(id);
            if let Some(at) = self.sent.iter().position(is_there) {
                let withdrawn = self.sent.swap_remove(at);
                self.push(end, Due::Withdrawal(withdrawn));
            }
            let mut known = self.due.iter().map(|(_, due)| self.own(due));
            if !self.shows_own || known.any(|own| own == Some(id)) {
                return;
            }
        } else if let Some(own) = self.own(&Due::Place(found.clone())) {
            let own = Due::Place(KnownPlace::Agent(own.to_owned()));
            self.due.retain(|(_, due)| *due != own);
        }
        self.push(end, Due::Place(found));
    }

    fn push(&mut self, end: u64, due: Due) {
        if self.due.len() == ANNOUNCED {
            self.due.pop_front();
        }
        self.due.push_back((end, due));
    }

    /// The places that a rewind has undone are no longer sent.
    fn forget_undone(&mut self, rewind: &Record<'_>) {
        let history = RewoundHistory::of(rewind.seq, rewind.payload);
        let places = &self.places;
        self.due.retain(|(_, due)| {
            let seq = match due {
                Due::Place(KnownPlace::Log(place)) => Some(place.cursor.seq),
                Due::Place(KnownPlace::Agent(id)) => places.find(id).map(|(seq, _)| seq),
                Due::Withdrawal(cursor) => Some(cursor.seq),
            };
            let history = history.as_ref();
            history
                .zip(seq)
                .is_some_and(|(history, seq)| history.contains(seq))
        });
    }

    /// The agent's own cursor at a place.
    fn own<'a>(&'a self, due: &'a Due) -> Option<&'a str> {
        match due {
            Due::Place(KnownPlace::Log(place)) => self.places.at(place.cursor.place()),
            Due::Place(KnownPlace::Agent(id)) => Some(id),
            Due::Withdrawal(_) => None,
        }
    }

    /// Whether there is nothing in a block but more of a message that is known.
    pub(super) fn know(&self, block: &Block) -> bool {
        self.places.knows_message() && block.continues()
    }

    /// Takes records that were appended together. Nearly all of them only continue a message.
    pub(super) fn appended<'a>(
        &mut self,
        records: impl Iterator<Item = BlockEntry<'a>>,
        appended: &Appended,
    ) {
        let mut at = None;
        for (seq, entry) in (appended.first..).zip(records) {
            if entry.continues && self.places.knows_message() {
                continue;
            }
            let (kind, id, payload) = entry.parts();
            if self.places.continues_message(kind, payload) {
                continue;
            }
            let record = Record {
                seq,
                at: at.get_or_insert_with(|| appended.at.to_string()),
                kind,
                id,
                payload,
                parts: None,
            };
            self.record(&record, appended.end);
        }
    }

    /// Whether the client is due to be sent something of what is before `until` in the log.
    pub(super) fn is_due(&self, until: u64) -> bool {
        self.due.front().is_some_and(|(end, _)| *end <= until)
    }

    /// The client knows the places so far.
    pub(super) fn skip(&mut self) {
        let known = std::mem::take(&mut self.due);
        for (_, due) in known {
            self.note_sent(&due);
        }
    }

    /// The client has what it was due to be sent.
    fn note_sent(&mut self, due: &Due) {
        if let Due::Place(KnownPlace::Log(place)) = due
            && self.own(due).is_none()
        {
            self.sent.push(place.cursor);
        }
    }

    /// Appends the updates for the client, which knows the session by this name and the places up to
    /// `known.start` in the log, of what is before `known.end`.
    pub(super) fn lines(&mut self, name: &str, known: Range<u64>, out: &mut Vec<u8>) {
        while self.is_due(known.end)
            && let Some((end, due)) = self.due.pop_front()
        {
            let object = UpdateKind::Cursor.object();
            let update = match (self.own(&due), &due) {
                (_, Due::Withdrawal(cursor)) => Some(cursor.withdrawal(object)),
                (Some(own), _) if self.shows_own => self.places.members(own, object),
                (None, Due::Place(KnownPlace::Log(place))) => Some(place.members(object)),
                // The client has the agent's own.
                _ => None,
            };
            if let Some(update) = update.filter(|_| end > known.start) {
                live_line(name, &update.end(), out);
            }
            self.note_sent(&due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Ids;
    use crate::sys::ids::RandomIds;

    #[test]
    fn a_client_is_sent_the_places_of_the_last_turns_once() {
        let session = RandomIds.session();
        let mut cursors = Cursors {
            places: AgentCursors::new(session.as_str()),
            shows_own: false,
            session,
            due: VecDeque::new(),
            sent: Vec::new(),
        };
        let turn = |cursors: &mut Cursors, number: u64| {
            let (prompt, end) = (r#"{"prompt":[]}"#, "{}");
            let id = number.to_string();
            for (place, (kind, payload)) in [(Kind::Prompt, prompt), (Kind::End, end)]
                .into_iter()
                .enumerate()
            {
                let id = (kind == Kind::Prompt).then_some(&*id);
                let seq = number * 2 + place as u64;
                let record = Record {
                    seq,
                    ..Record::sample(kind, id, payload)
                };
                cursors.record(&record, seq + 1);
            }
        };
        let sent = |cursors: &mut Cursors, sent: u64| {
            let mut lines = Vec::new();
            cursors.lines("s", sent..u64::MAX, &mut lines);
            let lines = String::from_utf8(lines).unwrap();
            let ids = lines.lines().map(|line| {
                let id = line.split(r#""cursorId":""#).nth(1).unwrap();
                id.split('-').next().unwrap().to_owned()
            });
            ids.collect::<Vec<_>>()
        };
        (0..20).for_each(|number| turn(&mut cursors, number));
        let expected: Vec<_> = (12..20)
            .flat_map(|number| [format!("b{}", number * 2), format!("a{}", number * 2 + 1)])
            .collect();
        assert_eq!(sent(&mut cursors, 0), expected);
        assert!(sent(&mut cursors, 0).is_empty());
        turn(&mut cursors, 20);
        assert_eq!(
            sent(&mut cursors, 41),
            ["a41"],
            "a replay has sent the other"
        );
        turn(&mut cursors, 21);
        cursors.skip();
        assert!(sent(&mut cursors, 0).is_empty());
    }
}

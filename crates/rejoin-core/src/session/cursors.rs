//! The session cursors that a client is sent: live, and after a replay those of the last turns.

use std::collections::VecDeque;

use crate::protocol::UpdateKind;
use crate::record::{AgentCursors, Kind, KnownPlace, Record, RewoundHistory};
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
    /// Places that the client was not sent, each with where its record ends in the log, in bytes.
    due: VecDeque<(u64, KnownPlace)>,
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
    }

    /// Takes the next record, which ends there in the log.
    pub(super) fn record(&mut self, record: &Record<'_>, end: u64) {
        if record.kind == Kind::Rewind {
            let history = RewoundHistory::of(record.seq, record.payload);
            let places = &self.places;
            self.due.retain(|(_, due)| {
                let seq = match due {
                    KnownPlace::Log(place) => Some(place.cursor.seq),
                    KnownPlace::Agent(id) => places.find(id).map(|(seq, _)| seq),
                };
                let history = history.as_ref();
                history
                    .zip(seq)
                    .is_some_and(|(history, seq)| history.contains(seq))
            });
        }
        let Some(found) = self.places.record(record) else {
            return;
        };
        if let KnownPlace::Agent(id) = &found {
            let mut known = self.due.iter().map(|(_, due)| self.own(due));
            if !self.shows_own || known.any(|own| own == Some(id)) {
                return;
            }
        } else if let Some(own) = self.own(&found) {
            let own = KnownPlace::Agent(own.to_owned());
            self.due.retain(|(_, due)| *due != own);
        }
        if self.due.len() == ANNOUNCED {
            self.due.pop_front();
        }
        self.due.push_back((end, found));
    }

    /// The agent's own cursor at a place.
    fn own<'a>(&'a self, place: &'a KnownPlace) -> Option<&'a str> {
        match place {
            KnownPlace::Log(place) => self.places.at(place.cursor),
            KnownPlace::Agent(id) => Some(id),
        }
    }

    /// Takes records that were appended together.
    pub(super) fn appended<'a>(
        &mut self,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)> + Clone,
        appended: &Appended,
    ) {
        let continues = |(kind, _, payload)| self.places.continues_message(kind, payload);
        if records.clone().all(continues) {
            return;
        }
        let at = appended.at.to_string();
        let first = appended.seq + 1 - records.clone().count() as u64;
        for (seq, (kind, id, payload)) in (first..).zip(records) {
            let record = Record {
                seq,
                at: &at,
                kind,
                id,
                payload,
                parts: None,
            };
            self.record(&record, appended.end);
        }
    }

    /// Whether the client is due to be sent places.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The client knows the places so far.
    pub(super) fn skip(&mut self) {
        self.due.clear();
    }

    /// Appends the updates for the client, which knows the session by this name and the places up to `sent`
    /// in the log.
    pub(super) fn lines(&mut self, name: &str, sent: u64, out: &mut Vec<u8>) {
        for (end, place) in std::mem::take(&mut self.due) {
            let object = UpdateKind::Cursor.object();
            let update = match (self.own(&place), &place) {
                (Some(own), _) if self.shows_own => self.places.members(own, object),
                (None, KnownPlace::Log(place)) => Some(place.members(object)),
                // The client has the agent's own.
                _ => None,
            };
            if let Some(update) = update.filter(|_| end > sent) {
                live_line(name, &update.end(), out);
            }
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
            cursors.lines("s", sent, &mut lines);
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

//! The session cursors that a client is sent: live, and after a replay those of the last turns.

use std::collections::VecDeque;

use crate::protocol::UpdateKind;
use crate::record::{Kind, Place, Places, Record};
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
    places: Places,
    /// Places that the client was not sent, each with where its record ends in the log, in bytes.
    due: VecDeque<(u64, Place)>,
}

impl Cursors {
    /// The places from a record outside of turns on. `None` if the client is sent none: it has not
    /// declared that it shows them, or it cannot fork.
    pub(super) fn of(session: &SessionId, deps: &Deps, client: &Client) -> Option<Self> {
        let is_sent = !client.hidden.contains(&UpdateKind::Cursor) && deps.offers("fork");
        is_sent.then(|| Self {
            session: session.clone(),
            places: Places::new(session.as_str()),
            due: VecDeque::new(),
        })
    }

    /// The log was read again: what comes next is outside of turns.
    pub(super) fn restart(&mut self) {
        self.places = Places::new(self.session.as_str());
        self.due.clear();
    }

    /// Takes the next record, which ends there in the log.
    pub(super) fn record(&mut self, record: &Record<'_>, end: u64) {
        if record.kind == Kind::Rewind {
            // The places before it may be undone.
            self.due.clear();
        }
        if let Some(place) = self.places.record(record) {
            if self.due.len() == ANNOUNCED {
                self.due.pop_front();
            }
            self.due.push_back((end, place));
        }
    }

    /// Takes records that were appended together.
    pub(super) fn appended<'a>(
        &mut self,
        records: impl Iterator<Item = (Kind, Option<&'a str>, &'a str)> + Clone,
        appended: &Appended,
    ) {
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

    /// The client knows the places so far.
    pub(super) fn skip(&mut self) {
        self.due.clear();
    }

    /// Appends the updates for the client, which knows the session by this name and the places up to `sent`
    /// in the log.
    pub(super) fn lines(&mut self, name: &str, sent: u64, out: &mut Vec<u8>) {
        for (_, place) in self.due.drain(..).filter(|(end, _)| *end > sent) {
            live_line(name, &place.members(UpdateKind::Cursor.object()).end(), out);
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
            places: Places::new(session.as_str()),
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

//! Lists the places at which a session can be forked, a page at a time.

use std::ops::ControlFlow;

use crate::json::Object;
use crate::protocol::cursor;
use crate::record::cursor::CursorSide;
use crate::record::{AgentCursors, Kind, KnownPlace, LogPlace, Place};
use crate::store::LogReader;
use crate::sys::SessionId;

use super::TurnsError;
use super::query::MAX_RESULTS;
use super::turns::read;

/// A page of session cursors.
#[derive(Debug, Default)]
pub struct CursorsPage {
    /// The cursors, each as the members of the `cursor_update` that announces it.
    pub cursors: Vec<String>,
    /// Where the next page begins; none if this is the last one.
    pub next: Option<CursorsPosition>,
}

/// Where a page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorsPosition {
    /// Where the turn of its first place begins in the log, in bytes.
    offset: u64,
    /// The place itself.
    place: LogPlace,
}

impl CursorsPosition {
    /// The position as a cursor of this list.
    pub fn cursor(self, id: &SessionId) -> String {
        let (seq, side) = self.place;
        cursor::seal(&format!("{}-{side}{seq}", self.offset), &scope(id))
    }

    /// Parses a cursor of this list.
    pub fn parse(cursor: &str, id: &SessionId) -> Option<Self> {
        let text = cursor::open(cursor, &scope(id))?;
        let (offset, place) = text.split_once('-')?;
        let (side, seq) = place.split_at_checked(1)?;
        Some(Self {
            offset: offset.parse().ok()?,
            place: (seq.parse().ok()?, CursorSide::parse(side)?),
        })
    }
}

fn scope(id: &SessionId) -> String {
    format!("Session cursors {id}")
}

/// Reads the page of at most 1000 cursors that begins at this position. `cancelled` is called now and
/// then.
///
/// Where the agent has announced cursors of its own, the log is read to its end, which says whether they
/// still count.
pub fn cursors(
    reader: &mut LogReader,
    from: CursorsPosition,
    cancelled: &dyn Fn() -> bool,
) -> Result<CursorsPage, TurnsError> {
    let mut known = AgentCursors::new(reader.id().as_str());
    let mut found = FoundPlaces {
        from,
        places: Vec::new(),
        turns: Vec::new(),
    };
    reader.seek(from.offset);
    _ = read(reader, cancelled, |entry| {
        if found.is_full() {
            if known.is_empty() {
                return ControlFlow::Break(());
            }
        } else if entry.record.kind == Kind::Prompt && known.is_between_turns() {
            found.turns.push((entry.record.seq, entry.offset));
        }
        if let Some(KnownPlace::Log(place)) = known.record(&entry.record) {
            found.add(place);
        }
        ControlFlow::Continue(())
    })?;
    Ok(found.page(&known))
}

/// The places of the log of a page, and one more if there are more.
struct FoundPlaces {
    from: CursorsPosition,
    places: Vec<Place>,
    /// The turns, each with the number of its first record and where that is, in bytes.
    turns: Vec<(u64, u64)>,
}

impl FoundPlaces {
    fn is_full(&self) -> bool {
        self.places.len() > MAX_RESULTS
    }

    fn add(&mut self, place: Place) {
        if !self.is_full() && place.cursor.place() >= self.from.place {
            self.places.push(place);
        }
    }

    /// The page: the agent's own cursors are in the places of the log's.
    fn page(self, known: &AgentCursors) -> CursorsPage {
        let more = self.places.get(MAX_RESULTS);
        let more = more.map(|place| place.cursor.place());
        let log = self.places.iter().take(MAX_RESULTS);
        let log = log.filter(|place| known.at(place.cursor.place()).is_none());
        let log = log.map(|place| (place.cursor.place(), place.members(Object::new()).end()));
        let own = known.accepted().filter(|(_, place)| {
            *place >= self.from.place && more.is_none_or(|more| *place < more)
        });
        let own = own.filter_map(|(id, place)| {
            let members = known.members(id, Object::new())?;
            Some((place, members.end()))
        });
        let mut all: Vec<(LogPlace, String)> = log.chain(own).collect();
        all.sort_by_key(|(place, _)| *place);
        // The cursors of one place are on one page.
        let last = all.get(MAX_RESULTS - 1).map(|(place, _)| *place);
        let end = last.map_or(all.len(), |last| {
            all.partition_point(|(place, _)| *place <= last)
        });
        let next = all.get(end).map(|(place, _)| *place).or(more);
        all.truncate(end);
        CursorsPage {
            cursors: all.into_iter().map(|(_, members)| members).collect(),
            next: next.map(|place| self.position(place)),
        }
    }

    fn position(&self, place: LogPlace) -> CursorsPosition {
        let turn = self.turns.iter().rfind(|(seq, _)| *seq <= place.0);
        CursorsPosition {
            offset: turn.map_or(self.from.offset, |(_, offset)| *offset),
            place,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::record::{Header, Places};
    use crate::store::{Durability, Store, Sync};
    use crate::sys::Sys;
    use crate::sys::sim::SimDisk;

    fn log(turns: &[&[(Kind, Option<&str>, &str)]]) -> (Store, SessionId) {
        let sys = Sys {
            disk: Arc::new(SimDisk::new()),
            ..Sys::real()
        };
        let id = sys.ids.session();
        let store = Store::open(Path::new("/store"), sys, Durability::Os).unwrap();
        let mut log = store.create(&id, &Header::new(&id, "/w")).unwrap();
        let records = turns.iter().copied().flatten().copied();
        log.append_all(records, Sync::Buffered).unwrap();
        (store, id)
    }

    /// All pages, as the ids of the cursors in each.
    fn pages(store: &Store, id: &SessionId) -> Vec<Vec<String>> {
        let (mut pages, mut from) = (Vec::new(), CursorsPosition::default());
        loop {
            let page = cursors(&mut store.read(id).unwrap(), from, &|| false).unwrap();
            let ids = page
                .cursors
                .iter()
                .map(|members| crate::json::string_member(members, "cursorId").unwrap());
            pages.push(ids.collect());
            let Some(next) = page.next else { return pages };
            from = next;
        }
    }

    #[test]
    fn the_agents_own_cursors_are_in_their_places_as_long_as_they_count() {
        let inner = |id: &str| format!(r#"{{"id":"{id}","agent":{{"name":"a"}}}}"#);
        let own = |id: &str, anchor: &str| {
            format!(
                r#"{{"sessionUpdate":"cursor_update","cursorId":"{id}","capabilities":{{"fork":{{}}}},"anchor":{anchor}}}"#
            )
        };
        let prompt = own(
            "p",
            r#"{"type":"user_message","messageId":"theirs","position":"before"}"#,
        );
        let after = |id: &str| {
            own(
                id,
                r#"{"type":"tool_call","toolCallId":"c","position":"after"}"#,
            )
        };
        let (call, end) = (after("call"), after("end"));
        let tool = r#"{"sessionUpdate":"tool_call","toolCallId":"c"}"#;
        let said = r#"{"sessionUpdate":"agent_message_chunk","messageId":"a","content":{}}"#;
        let revoked = r#"{"sessionUpdate":"cursor_update","cursorId":"p","capabilities":null}"#;
        let (one, two) = (inner("i1"), inner("i2"));
        let session = [(Kind::AgentSessionId, None, one.as_str())];
        let plain = [
            (Kind::Prompt, Some("u"), r#"{"prompt":[]}"#),
            (Kind::Update, None, said),
            (Kind::End, None, "{}"),
        ];
        let with_own = [
            (Kind::Prompt, Some("u"), r#"{"prompt":[]}"#),
            (Kind::Transient, None, prompt.as_str()),
            (Kind::Update, None, tool),
            (Kind::Transient, None, call.as_str()),
            (Kind::Update, None, said),
            (Kind::End, None, "{}"),
        ];
        let ends_own = [
            (Kind::Prompt, Some("u"), r#"{"prompt":[]}"#),
            (Kind::Update, None, tool),
            (Kind::Transient, None, end.as_str()),
            (Kind::End, None, "{}"),
        ];
        let own_ids = |pages: &[Vec<String>]| {
            let all = pages.iter().flatten().filter(|id| !id.contains('-'));
            all.cloned().collect::<Vec<_>>()
        };
        let mut turns = vec![&session[..], &with_own];
        turns.extend(std::iter::repeat_n(&plain[..], 498));
        turns.push(&ends_own);
        // The own cursor within a turn is the thousandth and first.
        let (store, id) = log(&turns);
        let found = pages(&store, &id);
        assert_eq!(own_ids(&found), ["p", "call", "end"]);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1]);
        assert_eq!(found[0][..2], ["p", "call"]);
        assert_eq!(found[1], ["end"]);
        let revoke = [(Kind::Transient, None, revoked)];
        turns.push(&revoke);
        let (store, id) = log(&turns);
        let found = pages(&store, &id);
        assert_eq!(own_ids(&found), ["call", "end"]);
        assert!(found[0][0].starts_with('b'));
        // The agent has left the session that has them.
        let left = [(Kind::AgentSessionId, None, two.as_str())];
        turns.push(&left);
        let (store, id) = log(&turns);
        let found = pages(&store, &id);
        assert_eq!(own_ids(&found), [""; 0]);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1000]);
    }

    #[test]
    fn the_pages_together_have_each_place_once() {
        let sys = Sys {
            disk: Arc::new(SimDisk::new()),
            ..Sys::real()
        };
        let (id, other) = (sys.ids.session(), sys.ids.session());
        let store = Store::open(Path::new("/store"), sys, Durability::Os).unwrap();
        let mut log = store.create(&id, &Header::new(&id, "/w")).unwrap();
        let said = r#"{"sessionUpdate":"agent_message_chunk","messageId":"a","content":{}}"#;
        let turn = [
            (Kind::Prompt, Some("u"), r#"{"prompt":[]}"#),
            (Kind::Update, None, said),
            (Kind::End, None, "{}"),
        ];
        let turns = std::iter::repeat_n(turn, 1100).flatten();
        log.append_all(turns, Sync::Buffered).unwrap();
        let read = |from| cursors(&mut store.read(&id).unwrap(), from, &|| false).unwrap();
        let (mut all, mut from, mut pages) = (Vec::new(), CursorsPosition::default(), 0);
        loop {
            let page = read(from);
            all.extend(page.cursors);
            pages += 1;
            let Some(next) = page.next else { break };
            let text = next.cursor(&id);
            assert_eq!(CursorsPosition::parse(&text, &id), Some(next));
            assert_eq!(CursorsPosition::parse(&text, &other), None);
            from = next;
        }
        assert_eq!((pages, all.len()), (3, 2200));
        let mut places = Places::new(id.as_str());
        let mut expected = Vec::new();
        let mut reader = store.read(&id).unwrap();
        while let Some(entry) = reader.next().unwrap() {
            let place = places.record(&entry.record);
            expected.extend(place.map(|place| place.members(Object::new()).end()));
        }
        assert_eq!(all, expected);
        let start = CursorsPosition::default();
        let cancelled = cursors(&mut store.read(&id).unwrap(), start, &|| true);
        assert!(matches!(cancelled, Err(TurnsError::Cancelled)));
    }
}

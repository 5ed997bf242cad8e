//! Lists the places at which a session can be forked, a page at a time.

use std::ops::ControlFlow;

use crate::json::Object;
use crate::protocol::cursor;
use crate::record::{Kind, Places};
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
    /// The number of the record next to that place.
    seq: u64,
}

impl CursorsPosition {
    /// The position as a cursor of this list.
    pub fn cursor(self, id: &SessionId) -> String {
        cursor::seal(&format!("{}-{}", self.offset, self.seq), &scope(id))
    }

    /// Parses a cursor of this list.
    pub fn parse(cursor: &str, id: &SessionId) -> Option<Self> {
        let text = cursor::open(cursor, &scope(id))?;
        let (offset, seq) = text.split_once('-')?;
        Some(Self {
            offset: offset.parse().ok()?,
            seq: seq.parse().ok()?,
        })
    }
}

fn scope(id: &SessionId) -> String {
    format!("Session cursors {id}")
}

/// Reads the page of at most 1000 cursors that begins at this position. `cancelled` is called now and
/// then.
pub fn cursors(
    reader: &mut LogReader,
    from: CursorsPosition,
    cancelled: &dyn Fn() -> bool,
) -> Result<CursorsPage, TurnsError> {
    let mut places = Places::new(reader.id().as_str());
    let mut page = CursorsPage::default();
    let mut turn = from.offset;
    reader.seek(from.offset);
    _ = read(reader, cancelled, |entry| {
        let record = &entry.record;
        if record.kind == Kind::Prompt && places.is_between_turns() {
            turn = entry.offset;
        }
        let place = places.record(record).filter(|_| record.seq >= from.seq);
        let Some(place) = place else {
            return ControlFlow::Continue(());
        };
        if page.cursors.len() == MAX_RESULTS {
            page.next = Some(CursorsPosition {
                offset: turn,
                seq: record.seq,
            });
            return ControlFlow::Break(());
        }
        page.cursors.push(place.members(Object::new()).end());
        ControlFlow::Continue(())
    })?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::record::Header;
    use crate::store::{Durability, Store, Sync};
    use crate::sys::Sys;
    use crate::sys::sim::SimDisk;

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

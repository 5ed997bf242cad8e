//! The position in a list where the next page begins, as text for the client.
//!
//! A cursor holds the last entry of the page before it, so it stays valid while sessions are added,
//! removed or reordered, and when the catalog is rebuilt. It belongs to its filter, and is rejected
//! with another one.

use crate::protocol::cursor;
use crate::sys::SessionId;

use super::filter::{Filter, Order};
use super::search::Search;
use super::summary::Summary;

/// The longest text that can be sealed, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// The content of a cursor, so that one form is not accepted as the other.
#[derive(Clone, Copy, Debug)]
enum CursorForm {
    Position,
    Sealed,
}

/// The last entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CursorPosition {
    /// The entry's time, by which the list is sorted.
    pub(super) at: String,
    /// The entry's session, which orders entries with the same time.
    pub(super) id: SessionId,
}

impl CursorPosition {
    /// The position of a session in a list with this order.
    pub(super) fn of(id: &SessionId, summary: &Summary, order: Order) -> Self {
        Self {
            at: order.time(summary).unwrap_or_default().to_owned(),
            id: id.clone(),
        }
    }
}

/// The cursor for the entries after this session, in the list with this filter.
pub fn cursor_after(id: &SessionId, summary: &Summary, filter: &Filter) -> String {
    encode(&CursorPosition::of(id, summary, filter.order), filter)
}

/// A cursor that holds any text, for lists that combine ours with others. It is valid for this
/// filter only. None if the text is too long.
pub fn seal(text: &str, filter: &Filter) -> Option<String> {
    (text.len() <= MAX_TEXT).then(|| cursor::seal(text, &scope(CursorForm::Sealed, filter)))
}

/// The text of a cursor that [`seal`] made for this filter.
pub fn unseal(cursor: &str, filter: &Filter) -> Option<String> {
    cursor::open(cursor, &scope(CursorForm::Sealed, filter))
}

/// The cursor for the entries after `position`, in the list with this filter.
pub(super) fn encode(position: &CursorPosition, filter: &Filter) -> String {
    let text = format!("{} {}", position.id, position.at);
    cursor::seal(&text, &scope(CursorForm::Position, filter))
}

/// Reads a cursor that [`encode`] made for this filter.
pub(super) fn decode(cursor: &str, filter: &Filter) -> Option<CursorPosition> {
    let text = cursor::open(cursor, &scope(CursorForm::Position, filter))?;
    let (id, at) = text.split_once(' ')?;
    Some(CursorPosition {
        at: at.to_owned(),
        id: SessionId::parse(id)?,
    })
}

/// The list that a cursor belongs to, as text. `since` moves with the clock from page to page, so
/// it is left out.
fn scope(form: CursorForm, filter: &Filter) -> String {
    let terms = filter.search.as_ref().map(Search::terms);
    let mut scope = format!("{form:?} {:?} {:?} {terms:?}", filter.cwd, filter.archived);
    if filter.order == Order::Prompted {
        scope.push_str(" prompted");
    }
    for agent in &filter.agents {
        scope.extend([" of ", agent]);
    }
    // Worktrees come and go from page to page.
    if filter.worktrees.is_some() {
        scope.push_str(" worktrees");
    }
    scope
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Archived;
    use crate::sys::Ids;
    use crate::sys::ids::RandomIds;

    #[test]
    fn reads_back_for_its_own_filter_only() {
        let position = CursorPosition {
            at: "2026-11-21T08:30:00.123Z".into(),
            id: RandomIds.session(),
        };
        let cwds = [None, Some(""), Some("/a"), Some("/a/b")];
        let searches = [None, Some("?"), Some("a"), Some("a b"), Some("ab")];
        let filters: Vec<_> = cwds
            .into_iter()
            .flat_map(|cwd| searches.map(|search| (cwd, search)))
            .flat_map(|(cwd, search)| {
                [Archived::Exclude, Archived::Include, Archived::Only].map(|archived| Filter {
                    cwd: cwd.map(str::to_owned),
                    archived,
                    search: search.and_then(Search::parse),
                    ..Filter::default()
                })
            })
            .collect();
        for made in &filters {
            let cursor = encode(&position, made);
            for used in &filters {
                let expected = (made == used).then(|| position.clone());
                assert_eq!(decode(&cursor, used), expected, "{made:?} {used:?}");
            }
        }
    }

    #[test]
    fn what_is_sealed_is_no_position_and_the_reverse() {
        let filter = Filter::default();
        let other = Filter {
            cwd: Some("/a".to_owned()),
            ..Filter::default()
        };
        let text = "[\"é\"]".repeat(100);
        let sealed = seal(&text, &filter).unwrap();
        assert_eq!(unseal(&sealed, &filter), Some(text));
        assert_eq!(unseal(&sealed, &other), None);
        assert_eq!(decode(&sealed, &filter), None);
        let position = CursorPosition {
            at: String::new(),
            id: RandomIds.session(),
        };
        assert_eq!(unseal(&encode(&position, &filter), &filter), None);
        let long = seal(&"x".repeat(MAX_TEXT), &filter).unwrap();
        assert!(unseal(&long, &filter).is_some());
        assert_eq!(seal(&"x".repeat(MAX_TEXT + 1), &filter), None);
    }
}

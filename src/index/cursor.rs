//! The position in a list where the next page begins, as text for the client.
//!
//! A cursor holds the last entry of the page before it, so it stays valid while sessions are added,
//! removed or reordered, and when the catalog is rebuilt. Its checksum covers the filter, so it is
//! rejected with another filter.

use crate::sys::SessionId;

use super::filter::{Archived, Filter};
use super::summary::Summary;

/// Longer than any cursor: anything longer is rejected without decoding it.
const MAX_LEN: usize = 512;

/// The longest text that can be sealed, in bytes.
const MAX_TEXT: usize = 16 * 1024;

/// What a checksum covers, so that a cursor of one form is not accepted as one of the other.
#[derive(Clone, Copy, Debug)]
enum Form {
    Position = 1,
    Sealed = 2,
}

/// The last entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The entry's time.
    pub(super) updated_at: String,
    /// The entry's session, which orders entries with the same time.
    pub(super) id: SessionId,
}

/// The cursor for the entries after this session, in the list with this filter.
pub fn cursor_after(id: &SessionId, summary: &Summary, filter: &Filter) -> String {
    let position = Position {
        updated_at: summary.updated_at.clone().unwrap_or_default(),
        id: id.clone(),
    };
    encode(&position, filter)
}

/// A cursor that holds any text, for lists that combine ours with others. It is valid for this
/// filter only. None if the text is too long.
pub fn seal(text: &str, filter: &Filter) -> Option<String> {
    let sum = checksum(Form::Sealed, text, filter);
    (text.len() <= MAX_TEXT).then(|| hex(format!("{sum:08x}{text}").as_bytes()))
}

/// The text of a cursor that [`seal`] made for this filter.
pub fn unseal(cursor: &str, filter: &Filter) -> Option<String> {
    let fits = cursor.len() <= 2 * (MAX_TEXT + 8);
    fits.then(|| open(Form::Sealed, cursor, filter)).flatten()
}

/// The cursor for the entries after `position`, in the list with this filter.
pub(super) fn encode(position: &Position, filter: &Filter) -> String {
    let text = format!("{} {}", position.id, position.updated_at);
    let sum = checksum(Form::Position, &text, filter);
    hex(format!("{sum:08x}{text}").as_bytes())
}

/// Reads a cursor that [`encode`] made for this filter.
pub(super) fn decode(cursor: &str, filter: &Filter) -> Option<Position> {
    if cursor.len() > MAX_LEN {
        return None;
    }
    let text = open(Form::Position, cursor, filter)?;
    let (id, updated_at) = text.split_once(' ')?;
    Some(Position {
        updated_at: updated_at.to_owned(),
        id: SessionId::parse(id)?,
    })
}

/// The text of a cursor, if its checksum is right.
fn open(form: Form, cursor: &str, filter: &Filter) -> Option<String> {
    let text = String::from_utf8(unhex(cursor)?).ok()?;
    let (sum, text) = text.split_at_checked(8)?;
    let good = sum == format!("{:08x}", checksum(form, text, filter));
    good.then(|| text.to_owned())
}

fn checksum(form: Form, text: &str, filter: &Filter) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    // The first byte is the form, the second distinguishes no filter from an empty one.
    hasher.update(&[form as u8, u8::from(filter.cwd.is_some())]);
    hasher.update(text.as_bytes());
    // No cursor holds a NUL, so the parts cannot run into one another.
    hasher.update(&[0]);
    hasher.update(filter.cwd.as_deref().unwrap_or_default().as_bytes());
    if filter.archived != Archived::Exclude {
        hasher.update(&[1, filter.archived as u8]);
    }
    // `since` moves with the clock from page to page, so the checksum leaves it out.
    if let Some(search) = &filter.search {
        hasher.update(&[0]);
        for term in search.terms() {
            hasher.update(term.as_bytes());
            hasher.update(&[0]);
        }
    }
    hasher.finalize()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        out
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        // One spelling only: two different cursors are never the same position.
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Search;
    use crate::sys::Ids;
    use crate::sys::ids::RandomIds;

    #[test]
    fn reads_back_for_its_own_filter_only() {
        let position = Position {
            updated_at: "2026-11-21T08:30:00.123Z".into(),
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
                    since: None,
                })
            })
            .collect();
        for made in &filters {
            let cursor = encode(&position, made);
            assert!(cursor.len() <= MAX_LEN);
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
        let position = Position {
            updated_at: String::new(),
            id: RandomIds.session(),
        };
        assert_eq!(unseal(&encode(&position, &filter), &filter), None);
        let long = seal(&"x".repeat(MAX_TEXT), &filter).unwrap();
        assert!(unseal(&long, &filter).is_some());
        assert_eq!(seal(&"x".repeat(MAX_TEXT + 1), &filter), None);
    }

    #[test]
    fn anything_else_is_refused() {
        let position = Position {
            updated_at: "2026-11-21T08:30:00.123Z".into(),
            id: RandomIds.session(),
        };
        let good = encode(&position, &Filter::default());
        for at in 0..good.len() {
            let mut bad = good.clone().into_bytes();
            bad[at] = if bad[at] == b'7' { b'8' } else { b'7' };
            assert_eq!(
                decode(&String::from_utf8(bad).unwrap(), &Filter::default()),
                None
            );
            assert_eq!(decode(&good[..at], &Filter::default()), None, "cut at {at}");
        }
        let long = "0".repeat(10_000);
        for bad in [
            "",
            " ",
            "0",
            "00",
            "zz",
            "é",
            "\0",
            &long,
            &good.to_uppercase(),
            &format!("{good}00"),
            &hex(&[0xff; 40]),
        ] {
            assert_eq!(decode(bad, &Filter::default()), None, "{bad:?}");
        }
    }
}

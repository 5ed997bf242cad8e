//! What may be asked of the history, and within which bounds.

use crate::index::Search;
use crate::sys::SessionId;

use super::place::Place;

/// The most sessions, or turns, that one answer holds.
pub const MAX_RESULTS: usize = 1000;

/// How many turns an answer holds if nobody says.
const TURNS: usize = 100;

/// The largest offset.
const MAX_OFFSET: i64 = 1_000_000_000;

/// The longest text to search for, in bytes.
const MAX_SEARCH: usize = 1000;

/// The parameters of `session/list` that the protocol does not have. Each may be absent or `null`.
#[derive(Clone, Debug, Default)]
pub struct ListParams {
    /// At most so many sessions.
    pub limit: Option<i64>,
    /// How many to pass over.
    pub offset: Option<i64>,
    /// What to look for.
    pub search: Option<String>,
}

/// The same, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// At most so many sessions.
    pub limit: usize,
    /// How many to pass over; none if the list goes by cursors.
    pub offset: Option<u64>,
    /// What to look for.
    pub search: Option<Search>,
    /// Whether any of these was given, so that the history's answer is wanted and not only the
    /// protocol's.
    pub counted: bool,
}

impl ListParams {
    /// Checks the parameters. `cursor` says whether there is a cursor, too. What is wrong is said
    /// with the name of the field.
    pub fn check(self, cursor: bool) -> Result<ListQuery, String> {
        let counted = self.limit.is_some() || self.offset.is_some() || self.search.is_some();
        let search = self.search.unwrap_or_default();
        if search.len() > MAX_SEARCH {
            return Err(format!("`search` is longer than {MAX_SEARCH} bytes"));
        }
        Ok(ListQuery {
            limit: limit(self.limit, MAX_RESULTS)?,
            offset: offset(self.offset, cursor)?,
            search: Search::parse(&search),
            counted,
        })
    }
}

/// The parameters of `session/get` beside the session's id. Each may be absent or `null`.
#[derive(Clone, Debug, Default)]
pub struct TurnsParams {
    /// At most so many turns.
    pub limit: Option<i64>,
    /// How many to pass over.
    pub offset: Option<i64>,
    /// Where a page before this one ended.
    pub cursor: Option<String>,
}

/// The same, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnsQuery {
    /// At most so many turns.
    pub limit: usize,
    /// Where to begin reading.
    pub place: Place,
    /// How many turns to pass over from there.
    pub skip: u64,
}

impl TurnsParams {
    /// Checks the parameters for this session. What is wrong is said with the name of the field.
    pub fn check(self, id: &SessionId) -> Result<TurnsQuery, String> {
        let limit = limit(self.limit, TURNS)?;
        let skip = offset(self.offset, self.cursor.is_some())?.unwrap_or(0);
        let place = match self.cursor {
            None => Place::START,
            Some(cursor) => Place::parse(&cursor, id)
                .ok_or("`cursor` is not one that this session has given out")?,
        };
        Ok(TurnsQuery { limit, place, skip })
    }
}

fn limit(limit: Option<i64>, default: usize) -> Result<usize, String> {
    let Some(limit) = limit else {
        return Ok(default);
    };
    usize::try_from(limit)
        .ok()
        .filter(|limit| (1..=MAX_RESULTS).contains(limit))
        .ok_or_else(|| format!("`limit` must be from 1 to {MAX_RESULTS}"))
}

fn offset(offset: Option<i64>, cursor: bool) -> Result<Option<u64>, String> {
    match offset {
        None => Ok(None),
        Some(_) if cursor => Err("`offset` and `cursor` cannot both be given".to_owned()),
        Some(offset @ 0..=MAX_OFFSET) => Ok(Some(offset.unsigned_abs())),
        Some(_) => Err(format!("`offset` must be from 0 to {MAX_OFFSET}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let check = |limit, offset, cursor| {
            let params = ListParams {
                limit,
                offset,
                search: None,
            };
            let query = params.check(cursor);
            query.map(|query| (query.limit, query.offset))
        };
        let limit = "`limit` must be from 1 to 1000";
        let offset = "`offset` must be from 0 to 1000000000";
        let both = "`offset` and `cursor` cannot both be given";
        for (asked, expected) in [
            ((None, None, false), Ok((1000, None))),
            ((Some(7), None, true), Ok((7, None))),
            ((Some(1), Some(0), false), Ok((1, Some(0)))),
            (
                (Some(1000), Some(1_000_000_000), false),
                Ok((1000, Some(1_000_000_000))),
            ),
            ((Some(0), None, false), Err(limit)),
            ((Some(-1), None, false), Err(limit)),
            ((Some(1001), None, false), Err(limit)),
            ((Some(i64::MIN), None, false), Err(limit)),
            ((None, Some(-1), false), Err(offset)),
            ((None, Some(1_000_000_001), false), Err(offset)),
            ((None, Some(0), true), Err(both)),
        ] {
            let got = check(asked.0, asked.1, asked.2);
            assert_eq!(got, expected.map_err(str::to_owned), "{asked:?}");
        }
        let long = ListParams {
            search: Some("x".repeat(1001)),
            ..ListParams::default()
        };
        assert_eq!(
            long.check(false).unwrap_err(),
            "`search` is longer than 1000 bytes"
        );
    }
}

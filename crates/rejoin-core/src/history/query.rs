//! The parameters of requests to the history, and their limits.

use crate::conversation::TurnPosition;
use crate::index::Search;
use crate::sys::SessionId;

/// The maximum number of sessions, or turns, in one answer.
pub const MAX_RESULTS: usize = 1000;

/// The largest offset.
const MAX_OFFSET: i64 = 1_000_000_000;

/// The longest text to search for, in bytes.
const MAX_SEARCH: usize = 1000;

/// The parameters of `session/list` that the protocol does not have. Each may be absent or `null`.
#[derive(Clone, Debug, Default)]
pub struct ListParams {
    /// The maximum number of sessions.
    pub limit: Option<i64>,
    /// How many to skip.
    pub offset: Option<i64>,
    /// The text to search for.
    pub search: Option<String>,
}

/// The checked parameters of `session/list` that the protocol does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The maximum number of sessions.
    pub limit: usize,
    /// How many to skip; none if the list uses cursors.
    pub offset: Option<u64>,
    /// The search, if the text has a word.
    pub search: Option<Search>,
    /// Whether any of these was given, so that the client expects the history's answer and not only
    /// the protocol's.
    pub counted: bool,
}

impl ListParams {
    /// Checks the parameters. `cursor` is whether there is a cursor, too. An error names the field.
    pub fn check(self, cursor: bool) -> Result<ListQuery, String> {
        let counted = self.limit.is_some() || self.offset.is_some() || self.search.is_some();
        let search = self.search.unwrap_or_default();
        if search.len() > MAX_SEARCH {
            return Err(format!("`search` is longer than {MAX_SEARCH} bytes"));
        }
        Ok(ListQuery {
            limit: self.limit.map_or(MAX_RESULTS, limit),
            offset: offset(self.offset, cursor, 0)?.map(i64::unsigned_abs),
            search: Search::parse(&search),
            counted,
        })
    }
}

/// The parameters of `session/get` beside the session's id. Each may be absent or `null`.
#[derive(Clone, Debug, Default)]
pub struct TurnsParams {
    /// The maximum number of turns.
    pub limit: Option<i64>,
    /// How many to skip; if negative, how many turns from the end to begin.
    pub offset: Option<i64>,
    /// Where an earlier page ended.
    pub cursor: Option<String>,
}

/// The checked parameters of `session/get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnsQuery {
    /// The maximum number of turns; none if only the size of a page limits them.
    pub limit: Option<usize>,
    /// Where to begin.
    pub begin: Begin,
}

/// The turn that a page begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The one with this number.
    Number(u64),
    /// The one that is this many turns from the end: 1 is the last one.
    End(u64),
    /// The one where an earlier page ended.
    Place(TurnPosition),
}

impl TurnsParams {
    /// Checks the parameters for this session. An error names the field.
    pub fn check(self, id: &SessionId) -> Result<TurnsQuery, String> {
        let offset = offset(self.offset, self.cursor.is_some(), -MAX_OFFSET)?;
        let begin = match (self.cursor, offset) {
            (Some(cursor), _) => Begin::Place(
                TurnPosition::parse(&cursor, id)
                    .ok_or("`cursor` is not one that this session has given out")?,
            ),
            (None, Some(offset @ ..0)) => Begin::End(offset.unsigned_abs()),
            (None, offset) => Begin::Number(offset.unwrap_or(0).unsigned_abs()),
        };
        Ok(TurnsQuery {
            limit: self.limit.map(limit),
            begin,
        })
    }
}

/// A number out of bounds is clamped. 0 asks only for what is known of the whole.
fn limit(limit: i64) -> usize {
    usize::try_from(limit).map_or(0, |limit| limit.min(MAX_RESULTS))
}

fn offset(offset: Option<i64>, cursor: bool, least: i64) -> Result<Option<i64>, String> {
    match offset {
        None => Ok(None),
        Some(_) if cursor => Err("`offset` and `cursor` cannot both be given".to_owned()),
        Some(offset) if (least..=MAX_OFFSET).contains(&offset) => Ok(Some(offset)),
        Some(_) => Err(format!("`offset` must be from {least} to {MAX_OFFSET}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_out_of_bounds_is_the_bound_and_an_offset_is_refused() {
        let check = |limit, offset, cursor| {
            let params = ListParams {
                limit,
                offset,
                search: None,
            };
            let query = params.check(cursor);
            query.map(|query| (query.limit, query.offset))
        };
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
            ((Some(0), None, false), Ok((0, None))),
            ((Some(-1), None, false), Ok((0, None))),
            ((Some(1001), None, false), Ok((1000, None))),
            ((Some(i64::MAX), None, false), Ok((1000, None))),
            ((Some(i64::MIN), None, false), Ok((0, None))),
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

    #[test]
    fn turns_may_be_counted_from_the_end() {
        let id = SessionId::parse("sess_01902f3c-7b1e-7c3a-8f00-000000000001").unwrap();
        let check = |limit, offset| {
            let params = TurnsParams {
                limit,
                offset,
                cursor: None,
            };
            params.check(&id).map(|query| (query.limit, query.begin))
        };
        assert_eq!(check(None, None), Ok((None, Begin::Number(0))));
        assert_eq!(
            check(Some(5000), Some(3)),
            Ok((Some(1000), Begin::Number(3)))
        );
        assert_eq!(check(Some(2), Some(-2)), Ok((Some(2), Begin::End(2))));
        let wrong = "`offset` must be from -1000000000 to 1000000000";
        assert_eq!(check(None, Some(-1_000_000_001)), Err(wrong.to_owned()));
    }
}

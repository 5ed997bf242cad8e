//! SQL statements about the rows of the catalog.

use rusqlite::types::Type;
use rusqlite::{
    OptionalExtension, Result, Row as Columns, ToSql, Transaction, params, params_from_iter,
};

use crate::record::title::{MAX_CHARS, MAX_WORDS, MadeTitle, kept_words, plain};
use crate::record::{Activity, OpenTurns};
use crate::sys::SessionId;

use super::agent_ids;
use crate::index::apart::{MOST_NAMESAKES, Namesake};
use crate::index::backend::{Listed, RowWindow};
use crate::index::filter::{Archived, Filter};
use crate::index::summary::Summary;

/// How long changes of our own may be recorded without comparing names, in milliseconds.
const ABSORB_FOR: i64 = 10 * 60 * 1000;

/// How old a folder's time must be for a later change to be sure to get another time, in
/// milliseconds. The coarsest file system in use counts in steps of two seconds.
const SETTLED_AFTER: i64 = 2000;

/// If a search finds more rows than this, the query follows the order of the list.
const MANY: usize = 1000;

/// The catalog's row of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CatalogRow {
    /// The session.
    pub(super) id: SessionId,
    /// The result of reading its log; empty if it is unreadable or was not read.
    pub(super) summary: Summary,
    /// The log's length before it was read; -1 if it was not read.
    pub(super) len: i64,
    /// When a process last reported that it may write to the log, in milliseconds; otherwise 0.
    pub(super) dirty: i64,
    /// Why the log cannot be read.
    pub(super) unreadable: Option<String>,
}

impl From<CatalogRow> for Listed {
    fn from(row: CatalogRow) -> Self {
        Self {
            id: row.id,
            summary: row.summary,
            snippet: None,
            tool_branch: None,
            is_pinned: false,
        }
    }
}

/// Whether the rows have every name of the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderSnapshot {
    /// Identifies these tables; it changes when they are recreated.
    pub(super) epoch: String,
    /// The folder's time up to which the rows have every name; none if names were never compared.
    pub(super) stamp: Option<i64>,
    /// Whether the names were read so long after `stamp` that no change at the same time was
    /// missed.
    settled: bool,
    /// When `stamp` was first moved for a change of our own without comparing names.
    absorbed_at: Option<i64>,
}

impl FolderSnapshot {
    /// Whether the rows still have every name, as far as the folder's time shows.
    pub(super) fn fresh(&self, stamp: i64, now: i64) -> bool {
        let recent = self
            .absorbed_at
            .is_none_or(|at| (at..at + ABSORB_FOR).contains(&now));
        self.stamp == Some(stamp) && self.settled && recent
    }
}

/// The longest title and the longest words, in bytes. All that we write are shorter.
const MAX_TITLE: usize = 4 * MAX_CHARS;
const MAX_BYTES_OF_WORDS: usize = 4 * MAX_WORDS;

/// The columns that are written, in the order of [`row`].
const COLUMNS: &str = "id, cwd, dirs, title, created_at, updated_at, prompts, scanned, len, dirty, \
                       unreadable, source, known_as, archived, restored_at, last_prompt_at, \
                       last_turn_ended_at, model, cost, open_turns, open_requests, forked_from, \
                       tool, branch, made, words, is_title_set";

/// The columns that [`row`] reads, in its order. A text that is too long is never fetched; a
/// number takes its place, so that decoding the row fails.
pub(super) fn columns() -> String {
    let texts = [
        ("title", MAX_TITLE),
        ("made", MAX_TITLE),
        ("words", MAX_BYTES_OF_WORDS),
    ];
    let bounded = |columns: String, (name, most): (&str, usize)| {
        let value = format!(" iif(octet_length({name}) > {most}, 0, {name}),");
        columns.replace(&format!(" {name},"), &value)
    };
    texts.into_iter().fold(COLUMNS.to_owned(), bounded)
}

/// The state in which the folder's names were read last.
pub(super) fn names(tx: &Transaction<'_>) -> Result<FolderSnapshot> {
    let mut statement =
        tx.prepare_cached("SELECT epoch, stamp, settled, absorbed_at FROM names")?;
    statement.query_row([], |columns| {
        Ok(FolderSnapshot {
            epoch: columns.get(0)?,
            stamp: columns.get(1)?,
            settled: columns.get(2)?,
            absorbed_at: columns.get(3)?,
        })
    })
}

/// Records that the rows have every name that the folder had at `stamp`, compared at `now`.
pub(super) fn set_compared(tx: &Transaction<'_>, stamp: i64, now: i64) -> Result<()> {
    let settled = now.saturating_sub(stamp) >= SETTLED_AFTER;
    tx.prepare_cached("UPDATE names SET stamp = ?, settled = ?, absorbed_at = NULL")?
        .execute(params![stamp, settled])?;
    Ok(())
}

/// Records that a change of our own moved the folder's time from `before` to `after`, if the rows
/// had every name before.
pub(super) fn absorb(tx: &Transaction<'_>, before: i64, after: i64, now: i64) -> Result<()> {
    if names(tx)?.fresh(before, now) {
        tx.prepare_cached("UPDATE names SET stamp = ?, absorbed_at = coalesce(absorbed_at, ?)")?
            .execute([after, now])?;
    }
    Ok(())
}

/// The ids of all rows of logs, sorted.
pub(super) fn ids(tx: &Transaction<'_>) -> Result<Vec<SessionId>> {
    let mut statement =
        tx.prepare_cached("SELECT id FROM sessions WHERE tool IS NULL ORDER BY id")?;
    statement.query_map([], id)?.collect()
}

/// The entries of a list within `window`.
pub(super) fn page(
    tx: &Transaction<'_>,
    filter: &Filter,
    tools: &[String],
    found: Option<&FoundRows>,
    window: RowWindow<'_>,
) -> Result<Vec<CatalogRow>> {
    let time = filter.order.column();
    let (mut conditions, mut values) = conditions(filter, tools, found);
    let after_id = window.after.map(|after| after.id.as_str());
    if let (Some(after), Some(after_id)) = (window.after, &after_id) {
        conditions.extend([" AND (", time, ", id) < (?, ?)"]);
        values.extend([&after.at as &dyn ToSql, after_id]);
    }
    let limit = i64::try_from(window.limit).unwrap_or(i64::MAX);
    let offset = int(window.offset);
    values.extend([&limit as &dyn ToSql, &offset]);
    let sql = format!(
        "SELECT {} FROM sessions WHERE {conditions}
         ORDER BY {time} DESC, id DESC LIMIT ? OFFSET ?",
        columns()
    );
    let mut statement = tx.prepare_cached(&sql)?;
    statement.query_map(&*values, row)?.collect()
}

/// How many entries a list has.
pub(super) fn count_listed(
    tx: &Transaction<'_>,
    filter: &Filter,
    tools: &[String],
    found: Option<&FoundRows>,
) -> Result<u64> {
    // What indexes tell alone.
    let ours = match filter.archived {
        Archived::Exclude => Some("SELECT listed FROM names"),
        Archived::Include => Some(
            "SELECT (SELECT count(*) FROM sessions WHERE updated_at IS NOT NULL)
                 - (SELECT count(*) FROM sessions WHERE tool IS NOT NULL AND updated_at IS NOT NULL)",
        ),
        Archived::Only => None,
    };
    if let Some(ours) = ours.filter(|_| filter.is_of_all()) {
        let with_archived = filter.archived == Archived::Include;
        let mut statement = tx.prepare_cached(ours)?;
        let listed: i64 = statement.query_row([], |columns| columns.get(0))?;
        let shown = listed.saturating_sub(agent_ids::count_hidden(tx, with_archived)?);
        let shown = shown.saturating_add(count_of_tools(tx, tools, with_archived)?);
        return Ok(u64::try_from(shown).unwrap_or_default());
    }
    let (conditions, values) = conditions(filter, tools, found);
    let sql = format!("SELECT count(*) FROM sessions WHERE {conditions}");
    let mut statement = tx.prepare_cached(&sql)?;
    statement.query_row(&*values, |columns| count(columns, 0))
}

/// The conditions for a row to be in a list, and the values for them. Of the conversations of other
/// tools, only those of `tools` are listed.
fn conditions<'a>(
    filter: &'a Filter,
    tools: &'a [String],
    found: Option<&'a FoundRows>,
) -> (String, Vec<&'a dyn ToSql>) {
    let mut conditions = format!("updated_at IS NOT NULL AND NOT {}", agent_ids::IS_INNER);
    let mut values: Vec<&dyn ToSql> = Vec::new();
    let is_shown = is_shown(tools);
    conditions.extend([" AND ", is_shown.as_str()]);
    values.extend(tools.iter().map(|tool| tool as &dyn ToSql));
    if !filter.agents.is_empty() {
        let names = vec!["?"; filter.agents.len()].join(", ");
        conditions.extend([" AND source IN (", &names, ")"]);
        values.extend(filter.agents.iter().map(|agent| agent as &dyn ToSql));
    }
    match (&filter.cwd, &filter.worktrees) {
        (None, _) => {}
        (Some(cwd), None) => {
            conditions += " AND cwd = ?";
            values.push(cwd);
        }
        (Some(cwd), Some(others)) => {
            conditions.extend([" AND cwd IN (?", &", ?".repeat(others.len()), ")"]);
            values.push(cwd);
            values.extend(others.iter().map(|cwd| cwd as &dyn ToSql));
        }
    }
    match filter.archived {
        Archived::Exclude => conditions += " AND NOT archived",
        Archived::Include => {}
        Archived::Only => conditions += " AND archived",
    }
    if let Some(since) = &filter.since {
        // A session that was restored or imported was used then.
        conditions += " AND (updated_at >= ? OR restored_at >= ?)";
        values.extend([since as &dyn ToSql, since]);
    }
    if let Some(found) = found {
        // Many rows are met soon in the order of the list, so that they need not all be fetched and
        // sorted first: the plus makes the database follow that order.
        let plus = if found.count > MANY { "+" } else { "" };
        conditions.extend([" AND ", plus, "number IN (SELECT value FROM json_each(?))"]);
        values.push(&found.rows);
    }
    (conditions, values)
}

/// The condition for a row not to belong to a tool other than these, whose names are its values.
pub(super) fn is_shown(tools: &[String]) -> String {
    if tools.is_empty() {
        return "tool IS NULL".to_owned();
    }
    let names = vec!["?"; tools.len()].join(", ");
    format!("(tool IS NULL OR tool IN ({names}))")
}

/// How many conversations of these tools are listed, with those that are archived or without.
fn count_of_tools(tx: &Transaction<'_>, tools: &[String], with_archived: bool) -> Result<i64> {
    let mut statement = tx.prepare_cached(
        "SELECT count(*) FROM sessions
         WHERE tool = ? AND updated_at IS NOT NULL AND (? OR NOT archived)",
    )?;
    let counts = tools.iter().map(|tool| {
        statement.query_row(params![tool, with_archived], |columns| {
            columns.get::<_, i64>(0)
        })
    });
    counts.sum()
}

/// The rows that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRows {
    /// How many.
    pub(super) count: usize,
    /// Their numbers, as a JSON array.
    pub(super) rows: String,
}

/// The listed sessions with this folder and title, the oldest first, without those that were used last before
/// `since`.
pub(super) fn namesakes(
    tx: &Transaction<'_>,
    (cwd, title): &(String, String),
    since: Option<&str>,
    tools: &[String],
) -> Result<Vec<Namesake>> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT id, iif(octet_length(words) > {MAX_BYTES_OF_WORDS}, '', coalesce(words, '')),
             is_title_set
         FROM sessions WHERE title = ? AND cwd = ? AND updated_at IS NOT NULL
             AND (updated_at >= ? OR restored_at >= ?)
             AND NOT {} AND {} ORDER BY created_at, id LIMIT {MOST_NAMESAKES}",
        agent_ids::IS_INNER,
        is_shown(tools)
    ))?;
    let since = since.unwrap_or_default();
    let values = [title, cwd, since, since].into_iter();
    let values = values.chain(tools.iter().map(String::as_str));
    let found = statement.query_map(params_from_iter(values), |columns| {
        Ok(Namesake {
            id: id(columns)?,
            words: columns.get(1)?,
            is_title_set: columns.get(2)?,
        })
    })?;
    found.collect()
}

/// The row of one session.
pub(super) fn one(tx: &Transaction<'_>, id: &SessionId) -> Result<Option<CatalogRow>> {
    Ok(select(tx, "WHERE id = ?", &[&id.as_str()])?.pop())
}

/// The row of one session, if a list shows it.
pub(super) fn listed(
    tx: &Transaction<'_>,
    id: &SessionId,
    filter: &Filter,
    tools: &[String],
) -> Result<Option<CatalogRow>> {
    let (conditions, mut values) = conditions(filter, tools, None);
    let id = id.as_str();
    values.push(&id);
    Ok(select(tx, &format!("WHERE {conditions} AND id = ?"), &values)?.pop())
}

/// The row with this number, if a list shows it.
pub(super) fn by_number(
    tx: &Transaction<'_>,
    number: i64,
    filter: &Filter,
    tools: &[String],
) -> Result<Option<CatalogRow>> {
    let (conditions, mut values) = conditions(filter, tools, None);
    values.push(&number);
    Ok(select(tx, &format!("WHERE {conditions} AND number = ?"), &values)?.pop())
}

/// The rows whose logs may be ahead of them.
pub(super) fn dirty(tx: &Transaction<'_>) -> Result<Vec<CatalogRow>> {
    select(tx, "WHERE dirty > 0", &[])
}

/// The rows of logs that could not be read.
pub(super) fn unreadable(tx: &Transaction<'_>) -> Result<Vec<CatalogRow>> {
    select(tx, "WHERE unreadable IS NOT NULL", &[])
}

/// The rows of logs that follow `after` in the order of ids, at most `limit`.
pub(super) fn by_id(
    tx: &Transaction<'_>,
    after: Option<&SessionId>,
    limit: i64,
) -> Result<Vec<CatalogRow>> {
    let after = after.map_or("", SessionId::as_str);
    select(
        tx,
        "WHERE id > ? AND tool IS NULL ORDER BY id LIMIT ?",
        &[&after, &limit],
    )
}

/// Which rows of logs to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// Every row.
    All,
    /// Rows that no list shows: never prompted, or unreadable.
    Unlisted,
}

/// The ids of these rows that follow `after`, at most `limit`, with the lengths of the logs when they
/// were read.
pub(super) fn lengths(
    tx: &Transaction<'_>,
    which: Compared,
    after: Option<&SessionId>,
    limit: i64,
) -> Result<Vec<(SessionId, i64)>> {
    let mut statement = tx.prepare_cached(match which {
        Compared::All => {
            "SELECT id, len FROM sessions WHERE id > ? AND tool IS NULL ORDER BY id LIMIT ?"
        }
        Compared::Unlisted => {
            "SELECT id, len FROM sessions
             WHERE id > ? AND updated_at IS NULL AND tool IS NULL ORDER BY id LIMIT ?"
        }
    })?;
    let after = after.map_or("", SessionId::as_str);
    let found = statement.query_map(params![after, limit], |row| Ok((id(row)?, row.get(1)?)))?;
    found.collect()
}

fn select(tx: &Transaction<'_>, rest: &str, values: &[&dyn ToSql]) -> Result<Vec<CatalogRow>> {
    let mut statement = tx.prepare_cached(&format!("SELECT {} FROM sessions {rest}", columns()))?;
    statement.query_map(values, row)?.collect()
}

/// The clause that replaces all columns of a row but those about the words of its log.
const REPLACE: &str = "DO UPDATE SET cwd = excluded.cwd, dirs = excluded.dirs,
    title = excluded.title, created_at = excluded.created_at, updated_at = excluded.updated_at,
    prompts = excluded.prompts, scanned = excluded.scanned, len = excluded.len,
    dirty = excluded.dirty, unreadable = excluded.unreadable, source = excluded.source,
    known_as = excluded.known_as, archived = excluded.archived, restored_at = excluded.restored_at,
    last_prompt_at = excluded.last_prompt_at, last_turn_ended_at = excluded.last_turn_ended_at,
    model = excluded.model, cost = excluded.cost, open_turns = excluded.open_turns,
    open_requests = excluded.open_requests, forked_from = excluded.forked_from,
    tool = excluded.tool, branch = coalesce(excluded.branch, branch), made = excluded.made,
    words = excluded.words, is_title_set = excluded.is_title_set";

/// Writes a row and replaces any other: the caller is the log's writer.
pub(super) fn put(tx: &Transaction<'_>, row: &CatalogRow) -> Result<()> {
    write(tx, row, row.dirty, REPLACE)
}

/// Writes a row unless there is one of a log: a process that knew more has written that.
pub(super) fn add(tx: &Transaction<'_>, row: &CatalogRow) -> Result<()> {
    let conflict = format!("{REPLACE} WHERE sessions.tool IS NOT NULL");
    write(tx, row, row.dirty, &conflict)
}

fn write(tx: &Transaction<'_>, row: &CatalogRow, dirty: i64, conflict: &str) -> Result<()> {
    let summary = &row.summary;
    tx.prepare_cached(&format!(
        "INSERT INTO sessions ({COLUMNS})
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) {conflict}"
    ))?
    .execute(params![
        row.id.as_str(),
        summary.cwd,
        list_to_json(summary.additional_directories.iter().map(String::as_str)),
        summary.title,
        summary.created_at,
        listed_at(summary),
        int(summary.prompts),
        int(summary.scanned),
        row.len,
        dirty,
        row.unreadable,
        summary.source,
        summary.known_as,
        summary.archived,
        summary.restored_at,
        summary.activity.last_prompt_at,
        summary.activity.last_turn_ended_at,
        summary.activity.model,
        summary.activity.cost,
        open_to_json(&summary.activity.open_turns),
        open_to_json(&summary.activity.open_requests),
        summary.forked_from,
        summary.tool,
        summary.branch,
        summary.made.as_ref().map(|made| &made.title),
        summary.made.as_ref().map(|made| &made.words),
        summary.is_title_set,
    ])?;
    agent_ids::add(tx, &row.id, &summary.agent_ids)
}

/// Replaces a row, if it still is the one that was found to be behind its log.
pub(super) fn refresh(tx: &Transaction<'_>, old: &CatalogRow, new: &CatalogRow) -> Result<()> {
    let mut same =
        tx.prepare_cached("SELECT dirty FROM sessions WHERE id = ? AND len = ? AND scanned = ?")?;
    let values = params![old.id.as_str(), old.len, int(old.summary.scanned)];
    let dirty = same
        .query_row(values, |columns| columns.get(0))
        .optional()?;
    match dirty {
        // A session may have renewed its mark while the log was read.
        Some(dirty) => write(tx, new, dirty, REPLACE),
        None => agent_ids::add(tx, &new.id, &new.summary.agent_ids),
    }
}

/// Records that a log may get ahead of its row. The row need not exist yet.
pub(super) fn mark_dirty(tx: &Transaction<'_>, id: &SessionId, now: i64) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO sessions (id, cwd, dirs, created_at, prompts, scanned, len, dirty)
         VALUES (?, '', '[]', '', 0, 0, -1, ?)
         ON CONFLICT (id) DO UPDATE SET dirty = excluded.dirty, tool = NULL",
    )?
    .execute(params![id.as_str(), now])?;
    Ok(())
}

/// Removes the mark, unless it was renewed.
pub(super) fn mark_clean(tx: &Transaction<'_>, row: &CatalogRow) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET dirty = 0 WHERE id = ? AND dirty = ?")?
        .execute(params![row.id.as_str(), row.dirty])?;
    Ok(())
}

/// Removes a row, if it exists, but not the words of its log.
pub(super) fn delete(tx: &Transaction<'_>, id: &SessionId) -> Result<()> {
    tx.prepare_cached("DELETE FROM sessions WHERE id = ?")?
        .execute([id.as_str()])?;
    Ok(())
}

/// A session without prompts is not listed, so its time is not stored. Those of other tools have some.
fn listed_at(summary: &Summary) -> Option<&str> {
    summary
        .updated_at
        .as_deref()
        .filter(|_| summary.prompts > 0 || summary.tool.is_some())
}

/// A title that is safe to show: other programs can write to the file, too.
fn clean(title: Option<String>) -> Option<String> {
    match title {
        Some(title) if !title.bytes().all(|byte| (b' '..=b'~').contains(&byte)) => plain(&title),
        title => title,
    }
}

/// Reads a row of [`columns`].
pub(super) fn row(columns: &Columns<'_>) -> Result<CatalogRow> {
    Ok(CatalogRow {
        id: id(columns)?,
        summary: Summary {
            cwd: columns.get(1)?,
            additional_directories: list_from_json(columns, 2)?,
            title: clean(columns.get(3)?),
            created_at: columns.get(4)?,
            updated_at: columns.get(5)?,
            prompts: count(columns, 6)?,
            scanned: count(columns, 7)?,
            source: columns.get(11)?,
            known_as: columns.get(12)?,
            archived: columns.get(13)?,
            restored_at: columns.get(14)?,
            activity: Activity {
                last_prompt_at: columns.get(15)?,
                last_turn_ended_at: columns.get(16)?,
                model: columns.get(17)?,
                cost: columns.get(18)?,
                open_turns: OpenTurns::of(list_from_json(columns, 19)?),
                open_requests: OpenTurns::of(list_from_json(columns, 20)?),
            },
            forked_from: columns.get(21)?,
            tool: columns.get(22)?,
            branch: columns.get(23)?,
            made: made(columns)?,
            is_title_set: columns.get(26)?,
            agent_ids: Vec::new(),
        },
        len: columns.get(8)?,
        dirty: columns.get(9)?,
        unreadable: columns.get(10)?,
    })
}

fn made(columns: &Columns<'_>) -> Result<Option<MadeTitle>> {
    let words: Option<String> = columns.get(25)?;
    let words = kept_words(words.unwrap_or_default());
    Ok(clean(columns.get(24)?).map(|title| MadeTitle { title, words }))
}

/// Reads a session's id from the first column.
pub(super) fn id(columns: &Columns<'_>) -> Result<SessionId> {
    let text = columns.get_ref(0)?.as_str()?;
    let unlike = || rusqlite::Error::InvalidColumnType(0, text.to_owned(), Type::Text);
    SessionId::parse(text).ok_or_else(unlike)
}

fn list_to_json<'a>(list: impl IntoIterator<Item = &'a str>) -> String {
    serde_json::Value::from_iter(list).to_string()
}

fn list_from_json(columns: &Columns<'_>, index: usize) -> Result<Vec<String>> {
    let text: String = columns.get(index)?;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into()))
}

fn open_to_json(open: &OpenTurns<()>) -> String {
    list_to_json(open.iter().map(|(id, ())| id))
}

fn count(columns: &Columns<'_>, index: usize) -> Result<u64> {
    let value: i64 = columns.get(index)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(index, value))
}

/// SQLite's integers are signed; a value that does not fit becomes the maximum.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

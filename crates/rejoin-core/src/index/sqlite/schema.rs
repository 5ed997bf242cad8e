//! The tables of the catalog, and how they are created.

use std::collections::BTreeSet;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Result, Transaction, TransactionBehavior};

use crate::record::FORMAT_REWOUND;
use crate::sys::Sys;

use super::ownership::APPLICATION_ID;

/// The version of the tables below and of the log format that they describe. A program with a newer
/// log format rebuilds the catalog, and so reads logs that an older program could not.
pub(super) const VERSION: i64 = 24_000 + FORMAT_REWOUND as i64;

/// How many bytes of words are gathered before they are written: more than one transaction has, which
/// writes them anyway.
const WORDS_IN_MEMORY: i64 = 4 << 20;

/// The versions of catalogs from before catalogs had a mark.
const UNMARKED: [i64; 5] = [1001, 2001, 3001, 4001, 5001];

/// `updated_at` is null in the rows that are not listed: never prompted, or unreadable. `len` is
/// the log's length when it was read; -1 if it never was. `dirty` is when a process last reported
/// that it may write to the log, in milliseconds; otherwise 0.
///
/// The `text_` columns record how far the words of a log were read, see `word_rows::LogWords`. The number
/// of a row of `words` contains the `number` of its session, see `texts`; the text itself is stored
/// for conversations of other tools only, in `pieces`, see `kept_text.rs`. `number` is a declared column,
/// since `VACUUM` may change row numbers that are not.
///
/// `made` and `words` are the title that is made of the first prompt, and its first words.
///
/// `inners` has the agents' session ids, those of a session in their order, see `agent_ids.rs`.
///
/// `tool` is the source of a conversation that another tool keeps and that has no log here; such a
/// row has no length and is never dirty. `files` has the files of other tools as they were when they
/// were last read, the numbers of their turns for statistics, the times of what was said last, how many turns tools
/// have written since their conversations were continued here, and how far those were read whose words are in
/// the index, see `tool_files.rs`; a conversation
/// that is a session of ours in the first place, or was, is not listed a second time: `updated_at` is
/// null then.
///
/// `names` has one row. `epoch` changes each time the tables are created. `listed` is how many
/// sessions of ours are listed that are not archived; triggers maintain it. `generation` is incremented
/// with each mark, see `generation.rs`. `erasing` records how far words of deleted sessions are
/// erased, see `erase_words.rs`. For the rest see `session_rows::FolderSnapshot`.
///
/// SQLite stores each of these statements verbatim. A database that has anything else is not
/// trusted: it could make the list show anything.
const STATEMENTS: [&str; 25] = [
    "CREATE TABLE sessions (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        cwd TEXT NOT NULL,
        dirs TEXT NOT NULL,
        title TEXT,
        created_at TEXT NOT NULL,
        updated_at TEXT,
        prompts INTEGER NOT NULL,
        scanned INTEGER NOT NULL,
        len INTEGER NOT NULL,
        dirty INTEGER NOT NULL,
        unreadable TEXT,
        source TEXT NOT NULL DEFAULT '',
        known_as TEXT,
        archived INTEGER NOT NULL DEFAULT 0,
        restored_at TEXT,
        last_prompt_at TEXT,
        last_turn_ended_at TEXT,
        model TEXT,
        cost TEXT,
        open_turns TEXT NOT NULL DEFAULT '[]',
        open_requests TEXT NOT NULL DEFAULT '[]',
        forked_from TEXT,
        tool TEXT,
        branch TEXT,
        made TEXT,
        words TEXT,
        is_title_set INTEGER NOT NULL DEFAULT 0,
        text_len INTEGER NOT NULL DEFAULT -1,
        text_from INTEGER NOT NULL DEFAULT 0,
        text_pieces INTEGER NOT NULL DEFAULT 0
    ) STRICT",
    "CREATE INDEX listed ON sessions (updated_at DESC, id DESC) WHERE updated_at IS NOT NULL",
    "CREATE INDEX listed_by_cwd ON sessions (cwd, updated_at DESC, id DESC)
        WHERE updated_at IS NOT NULL",
    "CREATE INDEX prompted ON sessions (last_prompt_at DESC, id DESC) WHERE updated_at IS NOT NULL",
    "CREATE INDEX prompted_by_cwd ON sessions (cwd, last_prompt_at DESC, id DESC)
        WHERE updated_at IS NOT NULL",
    "CREATE INDEX titled ON sessions (title, cwd, created_at, id) WHERE updated_at IS NOT NULL",
    "CREATE INDEX dirty ON sessions (dirty) WHERE dirty > 0",
    "CREATE INDEX known_as ON sessions (known_as) WHERE known_as IS NOT NULL",
    "CREATE INDEX unreadable ON sessions (id) WHERE unreadable IS NOT NULL",
    "CREATE INDEX unlisted ON sessions (id) WHERE updated_at IS NULL AND tool IS NULL",
    "CREATE INDEX unread ON sessions (updated_at DESC, id DESC)
        WHERE updated_at IS NOT NULL AND text_len <> len",
    "CREATE TABLE inners (
        number INTEGER PRIMARY KEY,
        agent TEXT NOT NULL,
        id TEXT NOT NULL,
        session TEXT NOT NULL,
        UNIQUE (agent, id, session)
    ) STRICT",
    "CREATE INDEX inners_of ON inners (session)",
    "CREATE INDEX inners_like_ours ON inners (id, session) WHERE id GLOB 'sess_*'",
    "CREATE TABLE files (
        number INTEGER PRIMARY KEY,
        tool TEXT NOT NULL,
        path TEXT NOT NULL,
        part TEXT NOT NULL,
        size INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        session TEXT,
        counted INTEGER NOT NULL,
        turns BLOB,
        ends TEXT,
        since INTEGER,
        since_at TEXT,
        so_far TEXT,
        UNIQUE (tool, path, part)
    ) STRICT",
    "CREATE INDEX files_of ON files (session) WHERE session IS NOT NULL",
    "CREATE INDEX uncounted ON files (changed DESC) WHERE session IS NOT NULL AND NOT counted",
    "CREATE INDEX of_tools ON sessions (tool, updated_at, archived)
        WHERE tool IS NOT NULL AND updated_at IS NOT NULL",
    "CREATE TABLE names (
        epoch TEXT NOT NULL,
        stamp INTEGER,
        settled INTEGER NOT NULL,
        absorbed_at INTEGER,
        listed INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        erasing INTEGER NOT NULL
    ) STRICT",
    "CREATE TABLE pieces (piece INTEGER PRIMARY KEY, start INTEGER NOT NULL, text BLOB) STRICT",
    "CREATE TRIGGER one_more AFTER INSERT ON sessions
        WHEN new.updated_at IS NOT NULL AND NOT new.archived AND new.tool IS NULL
        BEGIN UPDATE names SET listed = listed + 1; END",
    "CREATE TRIGGER one_less AFTER DELETE ON sessions
        WHEN old.updated_at IS NOT NULL AND NOT old.archived AND old.tool IS NULL
        BEGIN UPDATE names SET listed = listed - 1; END",
    "CREATE TRIGGER one_changed AFTER UPDATE OF updated_at, archived, tool ON sessions
        WHEN (old.updated_at IS NULL OR old.archived OR old.tool IS NOT NULL)
            <> (new.updated_at IS NULL OR new.archived OR new.tool IS NOT NULL)
        BEGIN UPDATE names SET listed = listed
            + iif(new.updated_at IS NULL OR new.archived OR new.tool IS NOT NULL, -1, 1); END",
    "CREATE TRIGGER one_ours AFTER INSERT ON inners
        BEGIN UPDATE sessions SET updated_at = NULL
            WHERE known_as = new.id AND source = new.agent AND tool IS NOT NULL; END",
    "CREATE VIRTUAL TABLE words USING fts5(prompt, answer, thought, title, tool, tool_input,
        tool_output, parts, content='', contentless_delete=1,
        tokenize='unicode61 remove_diacritics 2')",
];

/// The tables that the full-text index creates for itself.
const OF_WORDS: [&str; 4] = [
    "CREATE TABLE 'words_config'(k PRIMARY KEY, v) WITHOUT ROWID",
    "CREATE TABLE 'words_data'(id INTEGER PRIMARY KEY, block BLOB)",
    "CREATE TABLE 'words_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER)",
    "CREATE TABLE 'words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID",
];

/// The names of all tables that a catalog of any version has or had.
const TABLES: [&str; 11] = [
    "files",
    "inners",
    "names",
    "pieces",
    "sessions",
    "words",
    "words_config",
    "words_content",
    "words_data",
    "words_docsize",
    "words_idx",
];

/// The state of a database, by its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaState {
    /// The database has exactly our tables, of this version.
    Current,
    /// The database has no tables.
    Empty,
    /// The database has tables of another version, and nothing that no version has.
    Outdated,
    /// The database has something that is not ours.
    Strange,
}

/// The version that is recorded in a database; 0 for an empty one.
pub(super) fn version(connection: &Connection) -> Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Whether a database without a mark is empty, or a catalog from before marks existed.
pub(super) fn is_unmarked_catalog(connection: &Connection) -> Result<bool> {
    Ok(match state(connection)? {
        SchemaState::Empty => version(connection)? == 0,
        SchemaState::Outdated => UNMARKED.contains(&version(connection)?),
        SchemaState::Current | SchemaState::Strange => false,
    })
}

/// Creates the tables, unless they exist. Drops tables of another version. Returns false and does
/// nothing if the database has something that is not ours.
///
/// Everything is one transaction, so if several processes open an old or new file at once, one
/// creates the tables and the others find them.
pub(super) fn ensure(connection: &mut Connection, sys: &Sys) -> Result<bool> {
    if state(connection)? == SchemaState::Current {
        return Ok(true);
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match state(&tx)? {
        SchemaState::Current => return Ok(true),
        SchemaState::Strange => return Ok(false),
        SchemaState::Empty | SchemaState::Outdated => {}
    }
    while let Some(table) = any_table(&tx)? {
        tx.execute_batch(&format!("DROP TABLE \"{}\"", table.replace('"', "\"\"")))?;
    }
    for statement in STATEMENTS {
        tx.execute_batch(statement)?;
    }
    tx.execute(
        "INSERT INTO words (words, rank) VALUES ('hashsize', ?)",
        [WORDS_IN_MEMORY],
    )?;
    tx.execute(
        "INSERT INTO names VALUES (?, NULL, 0, NULL, 0, ?, 0)",
        (sys.ids.uuid().to_string(), first_generation(sys)),
    )?;
    tx.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}"
    ))?;
    tx.commit()?;
    Ok(true)
}

/// A generation that no earlier file had.
fn first_generation(sys: &Sys) -> i64 {
    let (high, _) = sys.ids.uuid().as_u64_pair();
    i64::from_ne_bytes(high.to_ne_bytes())
}

fn state(connection: &Connection) -> Result<SchemaState> {
    let is_current = version(connection)? == VERSION;
    let mut statement = connection.prepare("SELECT type, tbl_name, sql FROM sqlite_schema")?;
    let mut rows = statement.query([])?;
    let mut expected: BTreeSet<&str> = STATEMENTS.iter().chain(&OF_WORDS).copied().collect();
    let (mut is_empty, mut as_expected) = (true, true);
    let mut missing = BTreeSet::from(["sessions", "names"]);
    while let Some(row) = rows.next()? {
        is_empty = false;
        let table: String = row.get(1)?;
        let sql: Option<String> = row.get(2)?;
        if !TABLES.contains(&table.as_str()) {
            return Ok(SchemaState::Strange);
        }
        missing.remove(table.as_str());
        as_expected &= match (row.get::<_, String>(0)?.as_str(), sql) {
            (_, Some(sql)) => expected.remove(sql.as_str()),
            // The index that a table creates for its primary key.
            (kind, None) => kind == "index",
        };
    }
    Ok(match (is_current, as_expected && expected.is_empty()) {
        (_, _) if is_empty => SchemaState::Empty,
        (true, true) => SchemaState::Current,
        (false, _) if missing.is_empty() => SchemaState::Outdated,
        _ => SchemaState::Strange,
    })
}

/// A table to drop; virtual tables first, since other tables belong to them.
fn any_table(tx: &Transaction<'_>) -> Result<Option<String>> {
    let mut statement = tx.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC LIMIT 1",
    )?;
    let mut rows = statement.query([])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}

/// Rewrites the whole database from the contents of its tables; returns false if a reader keeps the
/// write-ahead log from being truncated.
///
/// Each step is needed. Words of deleted documents stay in the full-text index until it is merged.
/// Cells that were moved stay in unused parts of pages until the pages are rebuilt. Old pages stay
/// in the write-ahead log until it is truncated.
pub(super) fn compact(connection: &Connection) -> Result<bool> {
    connection.execute_batch("INSERT INTO words (words) VALUES ('optimize'); VACUUM")?;
    empty_wal(connection)
}

/// Moves the write-ahead log into the database and truncates it; returns false if a reader prevents
/// it.
pub(super) fn empty_wal(connection: &Connection) -> Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        Ok(row.get::<_, i64>(0)? == 0)
    })
}

/// Empties a damaged database in place.
///
/// SQLite does it under its own locks, so that another process that has the file open finds an
/// empty database. Deleting or renaming the file would leave that process with the old one, and
/// could remove the write-ahead log of a new one.
pub(super) fn reset(connection: &mut Connection, sys: &Sys) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    let emptied = connection.execute_batch("VACUUM");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    emptied?;
    ensure(connection, sys)?;
    Ok(())
}

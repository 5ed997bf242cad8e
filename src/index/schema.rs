//! The tables of the catalog, and how a database gets them.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Result, Transaction, TransactionBehavior};

use crate::record::FORMAT;
use crate::sys::Sys;

/// The version of the tables below and of the format whose logs they describe. A program that
/// reads a newer format of logs reads those again that an older program could not.
pub(super) const VERSION: i64 = 5000 + FORMAT as i64;

/// `updated_at` is null in the rows that are not listed: never prompted, or unreadable.
/// `len` is the log's length when it was read; -1 if it never was. `dirty` is when a process last
/// said that it may write to the log, in milliseconds; 0 if none does.
///
/// The `text_` columns say how far the words of a log were read, see `texts::State`. A row of
/// `words` is about the session whose row has the number that `texts` finds in its own; the text
/// itself is not kept.
///
/// `inners` says by which ids agents know sessions, see `inners`.
///
/// `names` has one row. `epoch` differs each time that the tables are made, `listed` is how many
/// sessions are listed that are not archived, which triggers keep count of. For the rest see `rows::Names`.
const TABLES: &str = "
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY NOT NULL,
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
        text_len INTEGER NOT NULL DEFAULT -1,
        text_from INTEGER NOT NULL DEFAULT 0,
        text_pieces INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX listed ON sessions (updated_at DESC, id DESC) WHERE updated_at IS NOT NULL;
    CREATE INDEX listed_by_cwd ON sessions (cwd, updated_at DESC, id DESC)
        WHERE updated_at IS NOT NULL;
    CREATE INDEX dirty ON sessions (dirty) WHERE dirty > 0;
    CREATE INDEX known_as ON sessions (known_as) WHERE known_as IS NOT NULL;
    CREATE INDEX unreadable ON sessions (id) WHERE unreadable IS NOT NULL;
    CREATE INDEX unread ON sessions (updated_at DESC, id DESC)
        WHERE updated_at IS NOT NULL AND text_len <> len;
    CREATE TABLE inners (
        agent TEXT NOT NULL,
        id TEXT NOT NULL,
        session TEXT NOT NULL,
        PRIMARY KEY (agent, id, session)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE names (
        epoch TEXT NOT NULL,
        stamp INTEGER,
        settled INTEGER NOT NULL,
        absorbed_at INTEGER,
        listed INTEGER NOT NULL
    ) STRICT;
    CREATE TRIGGER one_more AFTER INSERT ON sessions
        WHEN new.updated_at IS NOT NULL AND NOT new.archived
        BEGIN UPDATE names SET listed = listed + 1; END;
    CREATE TRIGGER one_less AFTER DELETE ON sessions
        WHEN old.updated_at IS NOT NULL AND NOT old.archived
        BEGIN UPDATE names SET listed = listed - 1; END;
    CREATE TRIGGER one_changed AFTER UPDATE OF updated_at, archived ON sessions
        WHEN (old.updated_at IS NULL OR old.archived) <> (new.updated_at IS NULL OR new.archived)
        BEGIN UPDATE names
            SET listed = listed + iif(new.updated_at IS NULL OR new.archived, -1, 1); END;
    CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1,
        tokenize='unicode61 remove_diacritics 2');
";

/// The version that a database says it has; 0 for an empty one.
pub(super) fn version(connection: &Connection) -> Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Makes the tables, unless they are there. Tables of another version are dropped.
///
/// It is one transaction, so of several processes that open an old or new file at once, one makes
/// the tables and the others find them.
pub(super) fn ensure(connection: &mut Connection, sys: &Sys) -> Result<()> {
    if is_current(connection)? {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if is_current(&tx)? {
        return Ok(());
    }
    while let Some(table) = any_table(&tx)? {
        tx.execute_batch(&format!("DROP TABLE \"{}\"", table.replace('"', "\"\"")))?;
    }
    tx.execute_batch(TABLES)?;
    tx.execute(
        "INSERT INTO names VALUES (?, NULL, 0, NULL, 0)",
        [sys.ids.uuid().to_string()],
    )?;
    tx.execute_batch(&format!("PRAGMA user_version = {VERSION}"))?;
    tx.commit()
}

fn is_current(connection: &Connection) -> Result<bool> {
    let complete = connection.query_row(
        "SELECT count(*) = 4 FROM sqlite_schema
         WHERE type = 'table' AND name IN ('sessions', 'names', 'words', 'inners')",
        [],
        |row| row.get::<_, bool>(0),
    )?;
    Ok(complete && version(connection)? == VERSION)
}

/// A table to drop; virtual tables first, since others belong to them.
fn any_table(tx: &Transaction<'_>) -> Result<Option<String>> {
    let mut statement = tx.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC LIMIT 1",
    )?;
    let mut rows = statement.query([])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}

/// Empties a damaged database in place.
///
/// SQLite does it under its own locks, so that another process that has the file open finds an
/// empty database. To delete the file would leave that process with the deleted one, and could
/// take the log from under a new one.
pub(super) fn reset(connection: &mut Connection, sys: &Sys) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    let emptied = connection.execute_batch("VACUUM");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    emptied?;
    ensure(connection, sys)
}

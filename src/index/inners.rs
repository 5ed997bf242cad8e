//! The statements about the ids by which agents know sessions.
//!
//! They stay when a session goes: an agent that cannot delete still has what is in our trash, and
//! what was deleted must not come back as a session of the agent's own.

use std::collections::BTreeSet;

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Params, Result, Statement, Transaction, params};

use crate::record::Inner;
use crate::sys::SessionId;

/// Notes how agents know a session.
pub(super) fn add(tx: &Transaction<'_>, session: &SessionId, known: &[Inner]) -> Result<()> {
    if known.is_empty() {
        return Ok(());
    }
    let mut add = tx.prepare_cached("INSERT OR IGNORE INTO inners VALUES (?, ?, ?)")?;
    for inner in known {
        add.execute(params![inner.agent, inner.id, session.as_str()])?;
    }
    Ok(())
}

/// Those of an agent's ids that are of sessions of ours, there or deleted; but for those which our
/// list does not show and that the agent had first.
pub(super) fn ours(tx: &Transaction<'_>, agent: &str, ids: &[String]) -> Result<BTreeSet<String>> {
    let mut known = tx.prepare_cached(
        "SELECT 1 FROM inners LEFT JOIN sessions ON sessions.id = inners.session
         WHERE inners.agent = ?1 AND inners.id = ?2
             AND NOT coalesce(sessions.updated_at IS NULL AND sessions.known_as = ?2, 0)",
    )?;
    let mut ours = BTreeSet::new();
    for id in ids {
        if known.exists(params![agent, id])? {
            ours.insert(id.clone());
        }
    }
    Ok(ours)
}

/// The session, not deleted, that an agent knows by this id.
pub(super) fn session(tx: &Transaction<'_>, agent: &str, id: &str) -> Result<Option<SessionId>> {
    let mut statement = tx.prepare_cached(
        "SELECT sessions.id FROM inners JOIN sessions ON sessions.id = inners.session
         WHERE inners.agent = ? AND inners.id = ?
         ORDER BY sessions.updated_at DESC, sessions.id DESC LIMIT 1",
    )?;
    found(&mut statement, params![agent, id])
}

/// The session that clients know by this id; the one prompted last, if there are several.
pub(super) fn known_as(tx: &Transaction<'_>, name: &str) -> Result<Option<SessionId>> {
    let mut statement = tx.prepare_cached(
        "SELECT id FROM sessions WHERE known_as = ? ORDER BY updated_at DESC, id DESC LIMIT 1",
    )?;
    found(&mut statement, params![name])
}

fn found(statement: &mut Statement<'_>, values: impl Params) -> Result<Option<SessionId>> {
    let found: Option<String> = statement.query_row(values, |row| row.get(0)).optional()?;
    let found = found.map(|text| {
        let unlike = || rusqlite::Error::InvalidColumnType(0, text.clone(), Type::Text);
        SessionId::parse(&text).ok_or_else(unlike)
    });
    found.transpose()
}

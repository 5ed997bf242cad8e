//! SQL statements about agents' session ids.
//!
//! Rows stay when a session is deleted: an agent that cannot delete sessions still has those in our
//! trash, and a deleted session must not come back as one of the agent's own.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Result, Transaction, params_from_iter};

use crate::record::AgentSessionId;
use crate::sys::SessionId;

use super::session_rows;

/// The condition for a row of `sessions` to be left out of lists, since another listed session has
/// it as its agent's: a wrapped agent that is this program and uses the same store keeps each
/// session a second time. A session with more prompts than the other one went on by itself, and is
/// listed.
///
/// Any log may name any session, so the other one must have its id from that one's, as its header
/// proves, or must have passed it the prompts: then its last prompt is not from before the other
/// one existed (a fork has copies of older ones), nor from after the end of the other one's turn.
pub(super) const IS_INNER: &str = "(sessions.tool IS NULL AND EXISTS (
    SELECT 1 FROM inners CROSS JOIN sessions AS outer ON outer.id = inners.session
    WHERE inners.id = sessions.id AND inners.id GLOB 'sess_*' AND outer.id <> sessions.id
        AND outer.tool IS NULL AND outer.updated_at IS NOT NULL
        AND outer.prompts >= sessions.prompts
        AND (outer.known_as = sessions.id
            OR (sessions.last_prompt_at >= outer.created_at OR sessions.forked_from IS NOT NULL)
                AND (sessions.last_prompt_at <= outer.updated_at OR outer.open_turns <> '[]'))))";

/// How many sessions [`IS_INNER`] leaves out of a list, with those that are archived or without. Visits
/// only ids of this program's form, which other agents do not give.
pub(super) fn count_hidden(tx: &Transaction<'_>, with_archived: bool) -> Result<i64> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT count(*)
         FROM (SELECT DISTINCT id FROM inners WHERE id GLOB 'sess_*') AS nested
             CROSS JOIN sessions ON sessions.id = nested.id
         WHERE sessions.updated_at IS NOT NULL AND (? OR NOT sessions.archived) AND {IS_INNER}"
    ))?;
    statement.query_row([with_archived], |row| row.get(0))
}

/// Records the agents' ids of a session.
pub(super) fn add(
    tx: &Transaction<'_>,
    session: &SessionId,
    known: &[AgentSessionId],
) -> Result<()> {
    let mut add =
        tx.prepare_cached("INSERT OR IGNORE INTO inners (agent, id, session) VALUES (?, ?, ?)")?;
    for inner in known {
        add.execute([&*inner.agent, &inner.id, session.as_str()])?;
    }
    Ok(())
}

/// The agents' ids of a session, the oldest first.
pub(super) fn of(tx: &Transaction<'_>, session: &SessionId) -> Result<Vec<AgentSessionId>> {
    let mut statement =
        tx.prepare_cached("SELECT agent, id FROM inners WHERE session = ? ORDER BY number")?;
    let ids = statement.query_map([session.as_str()], |columns| {
        Ok(AgentSessionId {
            agent: columns.get(0)?,
            id: columns.get(1)?,
        })
    });
    ids?.collect()
}

/// The ids among an agent's `ids` that belong to sessions of ours, deleted or not, or to listed
/// conversations of `tools`. Leaves out sessions that our list does not show and that the agent had
/// first. An agent with the same store lists our sessions by our own ids.
pub(super) fn ours(
    tx: &Transaction<'_>,
    agent: &str,
    tools: &[String],
    ids: &[String],
) -> Result<BTreeSet<String>> {
    let is_shown = session_rows::is_shown(tools);
    let mut known = tx.prepare_cached(&format!(
        "SELECT 1 FROM inners LEFT JOIN sessions ON sessions.id = inners.session
         WHERE inners.agent = ?1 AND inners.id = ?2
             AND NOT coalesce(sessions.updated_at IS NULL AND sessions.known_as = ?2, 0)
         UNION ALL SELECT 1 FROM sessions
         WHERE (id = ?2 OR known_as = ?2 AND source = ?1 AND tool IS NOT NULL)
             AND updated_at IS NOT NULL AND {is_shown}"
    ))?;
    let mut ours = BTreeSet::new();
    for id in ids {
        let named = [agent, id].into_iter();
        let values = named.chain(tools.iter().map(String::as_str));
        if known.exists(params_from_iter(values))? {
            ours.insert(id.clone());
        }
    }
    Ok(ours)
}

/// The session, not deleted, that an agent knows by this id.
pub(super) fn session(tx: &Transaction<'_>, agent: &str, id: &str) -> Result<Option<SessionId>> {
    let mut statement = tx.prepare_cached(
        "SELECT sessions.id FROM inners JOIN sessions ON sessions.id = inners.session
         WHERE inners.agent = ? AND inners.id = ? AND sessions.tool IS NULL
         ORDER BY sessions.updated_at DESC, sessions.id DESC LIMIT 1",
    )?;
    statement
        .query_row([agent, id], session_rows::id)
        .optional()
}

/// The session that clients know by this id; the one prompted last, if there are several.
pub(super) fn known_as(tx: &Transaction<'_>, name: &str) -> Result<Option<SessionId>> {
    let mut statement = tx.prepare_cached(
        "SELECT id FROM sessions WHERE known_as = ? AND tool IS NULL
         ORDER BY updated_at DESC, id DESC LIMIT 1",
    )?;
    statement.query_row([name], session_rows::id).optional()
}

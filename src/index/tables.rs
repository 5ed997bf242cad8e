//! Lists from the tables of a store in PostgreSQL.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::record::{AgentSessionId, Field};
use crate::store::database::{Database, Param, Row, flag, int, text, texts, uuid, uuids};
use crate::sys::SessionId;

use super::catalog::{ListError, Listed};
use super::filter::{Archived, Filter, Order};
use super::lexemes::Lexemes;
use super::logs::Logs;
use super::refresh::read_all;
use super::remote::{RankedPlaces, Remote};
use super::search::{Search, Term};
use super::session_rows::Window;
use super::summary::Summary;
use super::word_rows::Place;

/// The most entries that are counted.
const MOST_COUNTED: i64 = 10_000;
/// In how many pieces of logs a word may be that is looked up before anything else.
const RARE: i64 = 10_000;
/// How many logs without a summary are read at once.
const BATCH: i64 = 256;

const COLUMNS: &str = "s.id, s.summary, s.scanned, f.end_off, f.writer IS NULL";
const ROWS: &str = "@.session s JOIN @.fence f USING (no)";
/// As in the catalog: sessions that a wrapped agent of this program keeps a second time.
const IS_INNER: &str = "EXISTS (
    SELECT FROM @.agent_id a JOIN @.session o ON o.id = a.session
    WHERE a.id = 'sess_' || s.id AND a.id LIKE 'sess\\_%' AND o.id <> s.id
        AND o.state = 'l' AND o.updated_at IS NOT NULL AND o.prompts >= s.prompts)";

/// The tables.
pub(super) struct Tables {
    pub(super) database: Database,
    pub(super) logs: Logs,
    /// Splits texts into words.
    pub(super) lexemes: Mutex<Option<Lexemes>>,
}

/// A word or phrase to look for.
struct Sought {
    query: String,
    /// Whether few pieces of logs have it, which the database cannot know.
    is_rare: bool,
}

/// The conditions of a statement, with the values for them.
#[derive(Default)]
struct Conditions {
    sql: String,
    params: Vec<Param>,
}

impl Conditions {
    /// What a row must be to be in a list.
    fn of(filter: &Filter) -> Self {
        let mut all = Self {
            sql: format!("s.state = 'l' AND s.updated_at IS NOT NULL AND NOT {IS_INNER}"),
            params: Vec::new(),
        };
        if let Some(agent) = &filter.agent {
            all.and("s.source = ?", [text(agent.clone())]);
        }
        match (&filter.cwd, &filter.worktrees) {
            (None, _) => {}
            (Some(cwd), None) => all.and("s.cwd = ?", [text(cwd.clone())]),
            (Some(cwd), Some(others)) => {
                let folders = std::iter::once(cwd).chain(others).cloned().collect();
                all.and("s.cwd = ANY (?)", [texts(folders)]);
            }
        }
        match filter.archived {
            Archived::Exclude => all.and("NOT s.archived", []),
            Archived::Include => {}
            Archived::Only => all.and("s.archived", []),
        }
        if let Some(since) = &filter.since {
            // A session that was restored or imported was used then.
            let since = || text(since.clone());
            all.and(
                "(s.updated_at >= ? OR s.restored_at >= ?)",
                [since(), since()],
            );
        }
        all
    }

    /// The same for a list of what a search finds.
    fn of_found(filter: &Filter, sought: Option<&[Sought]>) -> Self {
        let mut all = Self::of(filter);
        if sought.is_some_and(<[Sought]>::is_empty) {
            all.and("false", []);
        }
        for Sought { query, is_rare } in sought.unwrap_or_default() {
            let found = "SELECT w.no FROM @.words w WHERE w.vec @@ ?::tsquery";
            let has = if *is_rare {
                format!("s.no = ANY (ARRAY({found}))")
            } else {
                format!("s.no IN ({found})")
            };
            all.and(&has, [text(query.clone())]);
        }
        all
    }

    fn and<const N: usize>(&mut self, condition: &str, values: [Param; N]) {
        self.sql.push_str(" AND ");
        self.push(condition, values);
    }

    /// Adds SQL in which each question mark is the next value.
    fn push<const N: usize>(&mut self, sql: &str, values: [Param; N]) {
        let mut values = values.into_iter();
        for part in sql.split_inclusive('?') {
            match (part.strip_suffix('?'), values.next()) {
                (Some(part), Some(value)) => {
                    self.params.push(value);
                    let number = self.params.len().to_string();
                    self.sql.extend([part, "$", &number]);
                }
                _ => self.sql.push_str(part),
            }
        }
    }
}

fn time(order: Order) -> &'static str {
    match order {
        Order::Active => "s.updated_at",
        Order::Prompted => "s.prompted_at",
    }
}

impl Tables {
    pub(super) fn new(database: Database, logs: Logs) -> Self {
        Self {
            database,
            logs,
            lexemes: Mutex::default(),
        }
    }

    /// What a list looks for.
    fn sought(&self, filter: &Filter) -> Result<Option<Vec<Sought>>, ListError> {
        let Some(search) = &filter.search else {
            return Ok(None);
        };
        let sought = self.queries(search)?.into_iter().map(|query| {
            let is_rare = self.is_rare(&query)?;
            Ok(Sought { query, is_rare })
        });
        sought.collect::<Result<_, _>>().map(Some)
    }

    /// How many entries a list has, if they are not too many to count.
    fn count(&self, filter: &Filter, sought: Option<&[Sought]>) -> Result<Option<u64>, ListError> {
        let counted = Conditions::of_found(filter, sought);
        let sql = format!(
            "SELECT count(*) FROM (SELECT FROM @.session s WHERE {} LIMIT {}) AS all_of_it",
            counted.sql,
            MOST_COUNTED + 1
        );
        let rows = self.ask(&sql, counted.params)?;
        let count = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok((count <= MOST_COUNTED).then(|| count.unsigned_abs()))
    }

    /// The entries of a list within a window.
    fn within(
        &self,
        filter: &Filter,
        sought: Option<&[Sought]>,
        window: Window<'_>,
    ) -> Result<Vec<Listed>, ListError> {
        let time = time(filter.order);
        let mut listed = Conditions::of_found(filter, sought);
        if let Some(after) = window.after {
            let values = [text(after.at.clone()), uuid(after.id.to_uuid())];
            listed.and(&format!("({time}, s.id) < (?, ?)"), values);
        }
        let limit = int(i64::try_from(window.limit).unwrap_or(i64::MAX));
        let offset = int(i64::try_from(window.offset).unwrap_or(i64::MAX));
        listed.push(
            &format!(" ORDER BY {time} DESC, s.id DESC LIMIT ? OFFSET ?"),
            [limit, offset],
        );
        let sql = format!("SELECT {COLUMNS} FROM {ROWS} WHERE {}", listed.sql);
        self.sessions(&self.ask(&sql, listed.params)?)
    }

    /// Whether few pieces of logs have what a query looks for.
    fn is_rare(&self, query: &str) -> Result<bool, ListError> {
        let sql = "SELECT count(*) FROM
            (SELECT FROM @.words w WHERE w.vec @@ $1::tsquery LIMIT $2) AS found";
        let params = vec![text(query.to_owned()), int(RARE + 1)];
        let rows = self.ask(sql, params)?;
        Ok(rows.first().is_none_or(|row| row.get::<_, i64>(0) <= RARE))
    }

    pub(super) fn ask(&self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, ListError> {
        Ok(self.database.ask(sql, params)?)
    }

    /// Reads logs that have no summary yet, such as copies of other stores.
    fn read_new(&self) -> Result<(), ListError> {
        loop {
            let sql = "SELECT s.id FROM @.session s
                       WHERE s.state = 'l' AND s.summary IS NULL LIMIT $1";
            let rows = self.ask(sql, vec![int(BATCH)])?;
            let ids: Vec<_> = rows.iter().map(id).collect();
            if ids.is_empty() {
                return Ok(());
            }
            let read = read_all(&ids, |id| self.logs.summarize(id, None));
            for (id, summary) in ids.iter().zip(read) {
                let summary = summary.unwrap_or_else(|error| {
                    tracing::warn!(session = %id, %error, "a session's log cannot be read");
                    Summary::default()
                });
                self.put(id, &summary)?;
            }
        }
    }

    /// The session of a row. If its summary is behind the log, the rest of the log is read.
    fn session(&self, row: &Row) -> Result<Option<Listed>, ListError> {
        let id = id(row);
        let known = row.get::<_, Option<String>>(1);
        let known = known.and_then(|json| serde_json::from_str::<Summary>(&json).ok());
        let (scanned, end): (i64, i64) = (row.get(2), row.get(3));
        let mut summary = match known {
            Some(summary) if scanned == end => summary,
            known => {
                let known = known.filter(|known| (1..=end.unsigned_abs()).contains(&known.scanned));
                let Ok(summary) = self.logs.summarize(&id, known.as_ref()) else {
                    return Ok(None);
                };
                if row.get(4) {
                    self.put(&id, &summary)?;
                }
                summary
            }
        };
        // As in the catalog, they are apart from the rest.
        summary.agent_ids = Vec::new();
        Ok(Some(Listed {
            id,
            summary,
            snippet: None,
        }))
    }

    fn sessions(&self, rows: &[Row]) -> Result<Vec<Listed>, ListError> {
        let read = read_all(rows, |row| self.session(row));
        let mut sessions = Vec::new();
        for session in read {
            sessions.extend(session?);
        }
        Ok(sessions)
    }
}

impl Remote for Tables {
    fn read_words(&self, budget: usize) -> Result<bool, ListError> {
        self.read_new()?;
        self.read_unread(budget)
    }

    fn places(&self, ids: &[&SessionId], term: &Term) -> Result<Vec<Option<Place>>, ListError> {
        self.places_of(ids, term)
    }

    fn ranked(&self, search: &Search, fields: &[Field]) -> Result<Vec<RankedPlaces>, ListError> {
        self.ranked_by_words(search, fields)
    }

    fn page(
        &self,
        filter: &Filter,
        window: Window<'_>,
    ) -> Result<(Vec<Listed>, Option<u64>), ListError> {
        self.read_new()?;
        let sought = self.sought(filter)?;
        let total = self.count(filter, sought.as_deref())?;
        Ok((self.within(filter, sought.as_deref(), window)?, total))
    }

    fn entries(&self, filter: &Filter, window: Window<'_>) -> Result<Vec<Listed>, ListError> {
        self.read_new()?;
        let sought = self.sought(filter)?;
        self.within(filter, sought.as_deref(), window)
    }

    fn listed(&self, id: &SessionId, filter: &Filter) -> Result<Option<Listed>, ListError> {
        let mut one = Conditions::of(filter);
        one.and("s.id = ?", [uuid(id.to_uuid())]);
        let sql = format!("SELECT {COLUMNS} FROM {ROWS} WHERE {}", one.sql);
        Ok(self.sessions(&self.ask(&sql, one.params)?)?.pop())
    }

    fn find(&self, id: &SessionId) -> Result<Option<Summary>, ListError> {
        let sql = format!("SELECT {COLUMNS} FROM {ROWS} WHERE s.state = 'l' AND s.id = $1");
        let found = self.sessions(&self.ask(&sql, vec![uuid(id.to_uuid())])?)?;
        Ok(found.into_iter().next().map(|listed| listed.summary))
    }

    fn every(&self, after: Option<&SessionId>, limit: i64) -> Result<Vec<Listed>, ListError> {
        if after.is_none() {
            self.read_new()?;
        }
        let after = after.map(SessionId::to_uuid).unwrap_or_default();
        let sql = format!(
            "SELECT {COLUMNS} FROM {ROWS} WHERE s.state = 'l' AND s.id > $1
             ORDER BY s.id LIMIT $2"
        );
        self.sessions(&self.ask(&sql, vec![uuid(after), int(limit)])?)
    }

    fn behind(&self) -> Result<Vec<SessionId>, ListError> {
        let sql = format!(
            "SELECT s.id FROM {ROWS}
             WHERE f.writer IS NOT NULL AND s.state = 'l' AND s.scanned <> f.end_off"
        );
        Ok(self.ask(&sql, Vec::new())?.iter().map(id).collect())
    }

    fn ours(&self, agent: &str, ids: &[String]) -> Result<BTreeSet<String>, ListError> {
        let sql = "
            SELECT a.id FROM @.agent_id a LEFT JOIN @.session s ON s.id = a.session AND s.state = 'l'
            WHERE a.agent = $1 AND a.id = ANY ($2)
                AND NOT coalesce(s.updated_at IS NULL AND s.known_as = a.id, false)
            UNION SELECT 'sess_' || s.id FROM @.session s
            WHERE s.state = 'l' AND s.updated_at IS NOT NULL AND s.id = ANY ($3)";
        let own = ids.iter().filter_map(|id| SessionId::parse(id));
        let own = own.map(|id| id.to_uuid()).collect();
        let params = vec![text(agent.to_owned()), texts(ids.to_vec()), uuids(own)];
        Ok(self
            .ask(sql, params)?
            .iter()
            .map(|row| row.get(0))
            .collect())
    }

    fn agent_ids(&self, sessions: &[&SessionId]) -> Result<Vec<Vec<AgentSessionId>>, ListError> {
        let sql = "SELECT a.session, a.agent, a.id FROM @.agent_id a WHERE a.session = ANY ($1)
                   ORDER BY a.number";
        let ids = sessions.iter().map(|id| id.to_uuid()).collect();
        let mut known = BTreeMap::<SessionId, Vec<AgentSessionId>>::new();
        for row in self.ask(sql, vec![uuids(ids)])? {
            let (agent, inner) = (row.get(1), row.get(2));
            let of = known.entry(id(&row)).or_default();
            of.push(AgentSessionId { agent, id: inner });
        }
        let of = |id: &&SessionId| known.get(*id).cloned().unwrap_or_default();
        Ok(sessions.iter().map(of).collect())
    }

    fn of_inner(&self, agent: &str, inner: &str) -> Result<Option<SessionId>, ListError> {
        let sql = "SELECT s.id FROM @.agent_id a JOIN @.session s ON s.id = a.session
                   WHERE a.agent = $1 AND a.id = $2 AND s.state = 'l'
                   ORDER BY s.updated_at DESC NULLS LAST, s.id DESC LIMIT 1";
        let params = vec![text(agent.to_owned()), text(inner.to_owned())];
        Ok(self.ask(sql, params)?.first().map(id))
    }

    fn known_as(&self, name: &str) -> Result<Option<SessionId>, ListError> {
        let sql = "SELECT s.id FROM @.session s WHERE s.known_as = $1 AND s.state = 'l'
                   ORDER BY s.updated_at DESC NULLS LAST, s.id DESC LIMIT 1";
        Ok(self.ask(sql, vec![text(name.to_owned())])?.first().map(id))
    }

    fn put(&self, id: &SessionId, summary: &Summary) -> Result<(), ListError> {
        let json = serde_json::to_string(summary).unwrap_or_default();
        let sql = "
            UPDATE @.session SET summary = $2, scanned = $3, cwd = $4, source = $5, known_as = $6,
                updated_at = $7, prompted_at = $8, restored_at = $9, archived = $10, prompts = $11
            WHERE id = $1 AND state = 'l' AND (summary IS NULL OR scanned <= $3)";
        let params = vec![
            uuid(id.to_uuid()),
            text(json),
            int(i64::try_from(summary.scanned).unwrap_or(i64::MAX)),
            text(summary.cwd.clone()),
            text(summary.source.clone()),
            text(summary.known_as.clone()),
            text(summary.updated_at.clone()),
            text(summary.activity.last_prompt_at.clone()),
            text(summary.restored_at.clone()),
            flag(summary.archived),
            int(i64::try_from(summary.prompts).unwrap_or(i64::MAX)),
        ];
        self.ask(sql, params)?;
        self.knows(id, &summary.agent_ids)
    }

    fn knows(&self, id: &SessionId, known: &[AgentSessionId]) -> Result<(), ListError> {
        if known.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO @.agent_id (agent, id, session)
                   SELECT agent, id, $1 FROM unnest($2, $3) AS known (agent, id)
                   ON CONFLICT DO NOTHING";
        let agents = known.iter().map(|known| known.agent.clone()).collect();
        let ids = known.iter().map(|known| known.id.clone()).collect();
        self.ask(sql, vec![uuid(id.to_uuid()), texts(agents), texts(ids)])?;
        Ok(())
    }
}

pub(super) fn id(row: &Row) -> SessionId {
    SessionId::from_uuid(row.get(0))
}

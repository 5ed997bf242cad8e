//! Lists from the tables of a store in PostgreSQL.

mod conditions;
mod lexemes;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::conversation::Field;
use crate::record::AgentSessionId;
use crate::store::database::{Database, Param, Row, flags, int, ints, text, texts, uuid, uuids};
use crate::sys::{SessionId, lock};

use super::apart::{MOST_NAMESAKES, Namesake};
use super::backend::{
    BeforeChange, CatalogBackend, FoundPage, ListError, Listed, LocatedSession, PIECES_OF_SESSION,
    READ_AT_ONCE, Ranking, RowWindow, TextLocation,
};
use super::filter::{Archived, Filter, Order};
use super::logs::{Logs, read_all};
use super::search::{Search, Term};
use super::summary::Summary;
use conditions::{Conditions, Sought};
use lexemes::Lexemes;

/// The most entries that are counted.
const MOST_COUNTED: i64 = 10_000;
/// In how many pieces of logs a word may be that is looked up before anything else.
const RARE: i64 = 10_000;
/// How many logs without a summary are read at once.
const BATCH: i64 = 256;
/// For how long nothing is kept after the database has refused it: a role may get rights, and a server
/// may accept writes again.
const REFUSED: Duration = Duration::from_mins(1);

const COLUMNS: &str = "s.id, s.summary, s.scanned, f.end_off, f.writer IS NULL";
const ROWS: &str = "@.session s JOIN @.fence f USING (no)";

/// The catalog in the tables of a store.
pub(super) struct PostgresCatalog {
    database: Database,
    logs: Logs,
    /// Splits texts into words.
    lexemes: Mutex<Option<Lexemes>>,
    /// When the database has last refused to keep what was read, which is left to other processes.
    refused: Mutex<Option<Instant>>,
}

fn time(order: Order) -> &'static str {
    match order {
        Order::Active => "s.updated_at",
        Order::Prompted => "s.prompted_at",
    }
}

impl PostgresCatalog {
    pub(super) fn new(database: Database, logs: Logs) -> Self {
        Self {
            database,
            logs,
            lexemes: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Whether the database has just refused to keep something.
    fn only_reads(&self) -> bool {
        lock(&self.refused).is_some_and(|at| at.elapsed() < REFUSED)
    }

    /// Runs a statement that keeps what was read, if this role may do that.
    fn keep(&self, sql: &str, params: Vec<Param>) -> Result<(), ListError> {
        let changed = || {
            self.database
                .change(sql, params)
                .map_err(ListError::Database)
        };
        if !self.only_reads() && !changed()? {
            *lock(&self.refused) = Some(Instant::now());
        }
        Ok(())
    }

    /// The words and phrases that a list looks for.
    fn sought(&self, filter: &Filter) -> Result<Option<Vec<Sought>>, ListError> {
        let search = filter.search.as_ref();
        search
            .map(|search| self.sought_in(search, None))
            .transpose()
    }

    /// The words and phrases that a search looks for in these columns of the words, or in any.
    fn sought_in(
        &self,
        search: &Search,
        columns: Option<&[i64]>,
    ) -> Result<Vec<Sought>, ListError> {
        let sought = self.queries(search)?.into_iter().map(|query| {
            let is_rare = self.is_rare(&query, columns)?;
            Ok(Sought { query, is_rare })
        });
        sought.collect()
    }

    /// How many entries a list has, if they are not too many to count.
    fn count(&self, filter: &Filter, sought: Option<&[Sought]>) -> Result<Option<u64>, ListError> {
        // Sessions with a frequent word are counted only if they must have a rare one, too.
        if let Some(sought @ [_, ..]) = sought
            && !sought.iter().any(|sought| sought.is_rare)
        {
            return Ok(None);
        }
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
        window: RowWindow<'_>,
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
    fn is_rare(&self, query: &str, columns: Option<&[i64]>) -> Result<bool, ListError> {
        let sql = "SELECT count(*) FROM (SELECT FROM @.words w
            WHERE w.vec @@ $1::tsquery AND ($2 IS NULL OR w.field = ANY ($2)) LIMIT $3) AS found";
        let params = vec![
            text(query.to_owned()),
            ints(columns.map(<[i64]>::to_vec)),
            int(RARE + 1),
        ];
        let rows = self.ask(sql, params)?;
        Ok(rows.first().is_none_or(|row| row.get::<_, i64>(0) <= RARE))
    }

    fn ask(&self, sql: &str, params: Vec<Param>) -> Result<Vec<Row>, ListError> {
        self.database.ask(sql, params).map_err(ListError::Database)
    }

    /// Reads logs that have no summary yet, such as copies of other stores.
    fn read_new(&self) -> Result<(), ListError> {
        while !self.only_reads() {
            let sql = "SELECT s.id FROM @.session s
                       WHERE s.state = 'l' AND s.summary IS NULL LIMIT $1";
            let rows = self.ask(sql, vec![int(BATCH)])?;
            let ids: Vec<_> = rows.iter().map(id).collect();
            if ids.is_empty() {
                break;
            }
            let read = read_all(&ids, |id| self.logs.summarize(id, None));
            let read = ids.into_iter().zip(read).map(|(id, summary)| {
                let summary = summary.unwrap_or_else(|error| {
                    tracing::warn!(session = %id, %error, "a session's log cannot be read");
                    Summary::default()
                });
                (id, summary)
            });
            self.put_all(&read.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// The session of a row, and whether its summary is to be kept. If the summary is behind the log,
    /// the rest of the log is read; none if that cannot be done.
    fn session(&self, row: &Row) -> Option<(SessionId, Summary, bool)> {
        let id = id(row);
        let known = row.get::<_, Option<String>>(1);
        let known = known.and_then(|json| serde_json::from_str::<Summary>(&json).ok());
        let (scanned, end): (i64, i64) = (row.get(2), row.get(3));
        match known {
            Some(summary) if scanned == end => Some((id, summary, false)),
            known => {
                let known = known.filter(|known| (1..=end.unsigned_abs()).contains(&known.scanned));
                let summary = self.logs.summarize(&id, known.as_ref()).ok()?;
                Some((id, summary, row.get(4)))
            }
        }
    }

    fn sessions(&self, rows: &[Row]) -> Result<Vec<Listed>, ListError> {
        let read = read_all(rows, |row| self.session(row));
        let read: Vec<_> = read.into_iter().flatten().collect();
        let new = read.iter().filter(|(_, _, is_new)| *is_new);
        let new: Vec<_> = new
            .map(|(id, summary, _)| (id.clone(), summary.clone()))
            .collect();
        self.put_all(&new)?;
        let listed = read.into_iter().map(|(id, mut summary, _)| {
            // As in SQLite, they are apart from the rest.
            summary.agent_ids = Vec::new();
            Listed {
                id,
                summary,
                snippet: None,
                tool_branch: None,
                is_pinned: false,
            }
        });
        Ok(listed.collect())
    }

    /// A session, if the list shows it.
    fn listed(&self, id: &SessionId, filter: &Filter) -> Result<Option<Listed>, ListError> {
        let mut one = Conditions::of(filter);
        one.and("s.id = ?", [uuid(id.to_uuid())]);
        let sql = format!("SELECT {COLUMNS} FROM {ROWS} WHERE {}", one.sql);
        Ok(self.sessions(&self.ask(&sql, one.params)?)?.pop())
    }

    /// Keeps summaries, all with one statement, which locks the sessions in the order of their numbers:
    /// another process may do the same.
    fn put_all(&self, read: &[(SessionId, Summary)]) -> Result<(), ListError> {
        if read.is_empty() {
            return Ok(());
        }
        let column = |of: fn(&Summary) -> Option<String>| {
            texts(read.iter().map(|(_, summary)| of(summary)).collect())
        };
        let number = |of: fn(&Summary) -> u64| {
            let numbers = read.iter().map(|(_, summary)| of(summary));
            let numbers = numbers.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
            ints(numbers.collect::<Vec<_>>())
        };
        let sql = "
            WITH known AS MATERIALIZED (SELECT no FROM @.session
                WHERE id = ANY ($1) AND state = 'l' ORDER BY no FOR NO KEY UPDATE)
            UPDATE @.session s SET summary = row.summary, scanned = row.scanned, cwd = row.cwd,
                source = row.source, known_as = row.known_as, updated_at = row.updated_at,
                prompted_at = row.prompted_at, restored_at = row.restored_at,
                archived = row.archived, prompts = row.prompts, title = row.title,
                noted_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
            FROM known, (SELECT set_config('synchronous_commit', 'off', true)) AS mode, 
                unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS row (id, summary, scanned,
                cwd, source, known_as, updated_at, prompted_at, restored_at, archived, prompts, title)
            WHERE s.no = known.no AND s.id = row.id
                AND (s.summary IS NULL OR s.scanned <= row.scanned)";
        let params = vec![
            uuids(read.iter().map(|(id, _)| id.to_uuid()).collect()),
            column(|summary| Some(serde_json::to_string(summary).unwrap_or_default())),
            number(|summary| summary.scanned),
            column(|summary| Some(summary.cwd.clone())),
            column(|summary| Some(summary.source.clone())),
            column(|summary| summary.known_as.clone()),
            column(|summary| summary.updated_at.clone()),
            column(|summary| summary.activity.last_prompt_at.clone()),
            column(|summary| summary.restored_at.clone()),
            flags(read.iter().map(|(_, summary)| summary.archived).collect()),
            number(|summary| summary.prompts),
            column(|summary| summary.title.clone()),
        ];
        self.keep(sql, params)?;
        let known = read.iter().flat_map(|(id, summary)| {
            let ids = summary.agent_ids.iter();
            ids.map(move |known| (id, known))
        });
        self.knows_all(known)
    }

    /// Keeps agents' ids of sessions.
    fn knows_all<'a>(
        &self,
        known: impl Iterator<Item = (&'a SessionId, &'a AgentSessionId)>,
    ) -> Result<(), ListError> {
        let (mut sessions, mut agents, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (session, known) in known {
            sessions.push(session.to_uuid());
            agents.push(known.agent.clone());
            ids.push(known.id.clone());
        }
        if ids.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO @.agent_id (session, agent, id)
                   SELECT row.* FROM (SELECT set_config('synchronous_commit', 'off', true)) AS mode,
                       unnest($1, $2, $3) AS row
                   ON CONFLICT DO NOTHING";
        self.keep(sql, vec![uuids(sessions), texts(agents), texts(ids)])
    }

    /// The given sessions of a search, each with the best of its pieces.
    fn located(
        &self,
        sessions: &[RankedPlaces],
        filter: &Filter,
        admits: &dyn Fn(&Listed) -> bool,
    ) -> Result<Vec<Option<LocatedSession>>, ListError> {
        let located = sessions.iter().map(|ranked| {
            let listed = self.listed(&ranked.id, filter)?;
            let listed = listed.filter(|listed| admits(listed));
            let places = ranked.places.iter().take(PIECES_OF_SESSION);
            Ok(listed.map(|listed| (listed, places.cloned().collect())))
        });
        located.collect()
    }
}

impl CatalogBackend for PostgresCatalog {
    fn page(&self, filter: &Filter, window: RowWindow<'_>) -> Result<FoundPage, ListError> {
        let complete = match &filter.search {
            Some(_) => self.read_words(READ_AT_ONCE)?,
            None => self.read_new().map(|()| true)?,
        };
        let sought = self.sought(filter)?;
        Ok(FoundPage {
            total: self.count(filter, sought.as_deref())?,
            sessions: self.within(filter, sought.as_deref(), window)?,
            complete,
        })
    }

    fn bring_up_to_date(&self) -> Result<(), ListError> {
        self.read_new()
    }

    fn entries(&self, filter: &Filter, window: RowWindow<'_>) -> Result<Vec<Listed>, ListError> {
        self.within(filter, None, window)
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

    fn find(&self, id: &SessionId) -> Result<Option<Summary>, ListError> {
        let sql = format!("SELECT {COLUMNS} FROM {ROWS} WHERE s.state = 'l' AND s.id = $1");
        let found = self.sessions(&self.ask(&sql, vec![uuid(id.to_uuid())])?)?;
        Ok(found.into_iter().next().map(|listed| listed.summary))
    }

    fn look(&self, ids: &[SessionId], filter: &Filter) -> Result<Vec<Option<Listed>>, ListError> {
        ids.iter().map(|id| self.listed(id, filter)).collect()
    }

    fn behind(&self) -> Result<Vec<SessionId>, ListError> {
        let sql = format!(
            "SELECT s.id FROM {ROWS}
             WHERE f.writer IS NOT NULL AND s.state = 'l' AND s.scanned <> f.end_off"
        );
        Ok(self.ask(&sql, Vec::new())?.iter().map(id).collect())
    }

    fn audit(&self, _after: Option<&SessionId>) -> Result<Option<SessionId>, ListError> {
        Ok(None)
    }

    fn read_words(&self, budget: usize) -> Result<bool, ListError> {
        self.read_new()?;
        self.read_unread(budget)
    }

    fn ranked<'a>(
        &'a self,
        search: &'a Search,
        fields: &'a [Field],
        most: usize,
    ) -> Result<Ranking<'a>, ListError> {
        let complete = self.read_words(READ_AT_ONCE)?;
        let sessions = self.ranked_by_words(search, fields, most)?;
        Ok(Ranking {
            count: sessions.len(),
            complete,
            locate: Box::new(move |part, filter, admits| {
                self.located(&sessions[part], filter, admits)
            }),
        })
    }

    fn places(
        &self,
        ids: &[&SessionId],
        term: &Term,
    ) -> Result<Vec<Option<TextLocation>>, ListError> {
        self.places_of(ids, term)
    }

    fn namesakes(
        &self,
        titles: &[&(String, String)],
        since: Option<&str>,
    ) -> Result<Vec<Vec<Namesake>>, ListError> {
        let filter = Filter {
            archived: Archived::Include,
            since: since.map(str::to_owned),
            ..Filter::default()
        };
        let mut same = Conditions::of(&filter);
        let listed = std::mem::take(&mut same.sql);
        let cwds = titles.iter().map(|(cwd, _)| cwd.clone()).collect();
        let names = titles.iter().map(|(_, title)| title.clone()).collect();
        // Most titles are those of one session, which is not read for that.
        let sql = format!(
            "SELECT same.id, key.number, same.summary
             FROM unnest(?, ?) WITH ORDINALITY AS key (cwd, title, number) CROSS JOIN LATERAL
                (SELECT s.id, s.summary, count(*) OVER () AS count FROM @.session s
                 WHERE s.title = key.title AND s.cwd = key.cwd AND {listed}
                 ORDER BY s.id LIMIT {MOST_NAMESAKES}) AS same
             WHERE same.count > 1"
        );
        same.push(&sql, [texts(cwds), texts(names)]);
        let mut found = vec![Vec::new(); titles.len()];
        for row in self.ask(&same.sql, same.params)? {
            let number: i64 = row.get(1);
            let of_title = usize::try_from(number - 1).ok();
            let of_title = of_title.and_then(|number| found.get_mut(number));
            let summary = serde_json::from_str::<Summary>(row.get(2));
            if let (Some(of_title), Ok(summary)) = (of_title, summary) {
                let words = summary.made.unwrap_or_default().words;
                let namesake = Namesake {
                    id: id(&row),
                    words,
                    is_title_set: summary.is_title_set,
                };
                of_title.push((summary.created_at, namesake));
            }
        }
        let oldest_first = found.into_iter().map(|mut of_title| {
            of_title
                .sort_by(|(at, one), (other_at, other)| (at, &one.id).cmp(&(other_at, &other.id)));
            of_title.into_iter().map(|(_, namesake)| namesake).collect()
        });
        Ok(oldest_first.collect())
    }

    fn erase_deleted(&self) -> Result<(), ListError> {
        Ok(())
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

    fn before_change(&self) -> BeforeChange {
        BeforeChange(None)
    }

    fn created(&self, id: &SessionId, summary: &Summary, _before: BeforeChange) {
        self.put(id, summary);
    }

    /// The log's row is gone with the log.
    fn removed(&self, _id: &SessionId, _before: BeforeChange) {}

    /// The length of the log shows what its summary lacks.
    fn mark_dirty(&self, _id: &SessionId) {}

    fn put(&self, id: &SessionId, summary: &Summary) {
        let done = self.put_all(&[(id.clone(), summary.clone())]);
        log_failure(id, done);
    }

    fn closed(&self, id: &SessionId, summary: &Summary) {
        self.put(id, summary);
    }

    fn knows(&self, id: &SessionId, inner: &AgentSessionId) {
        log_failure(id, self.knows_all(std::iter::once((id, inner))));
    }
}

/// Logs why a report was not kept. A list finds in the log what is missing.
fn log_failure(id: &SessionId, done: Result<(), ListError>) {
    if let Err(error) = done {
        tracing::warn!(session = %id, error = &error as &dyn std::error::Error, "cannot keep a summary");
    }
}

/// A session that has all words of a search, and where, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RankedPlaces {
    id: SessionId,
    places: Vec<TextLocation>,
}

fn id(row: &Row) -> SessionId {
    SessionId::from_uuid(row.get(0))
}

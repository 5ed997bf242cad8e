//! The conditions of statements that look for sessions in the tables of a store in PostgreSQL.

use crate::store::database::{Param, ints, text, texts};

use crate::index::filter::{Archived, Filter};

/// As in SQLite: sessions that a wrapped agent of this program keeps a second time.
const IS_INNER: &str = "EXISTS (
    SELECT FROM @.agent_id a JOIN @.session o ON o.id = a.session
    WHERE a.id = 'sess_' || s.id AND a.id LIKE 'sess\\_%' AND o.id <> s.id
        AND o.state = 'l' AND o.updated_at IS NOT NULL AND o.prompts >= s.prompts
        AND (o.known_as = 'sess_' || s.id
            OR (s.prompted_at >= o.summary::json->>'created_at'
                    OR s.summary::json->>'forked_from' IS NOT NULL)
                AND (s.prompted_at <= o.updated_at
                    OR o.summary::json#>>'{activity,open_turns}' <> '[]')))";

/// A word or phrase to look for.
pub(super) struct Sought {
    pub(super) query: String,
    /// Whether few pieces of logs have it, which the database cannot know.
    pub(super) is_rare: bool,
}

/// The conditions of a statement, with the values for them.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) sql: String,
    pub(super) params: Vec<Param>,
}

impl Conditions {
    /// The conditions for a row to be in a list.
    pub(super) fn of(filter: &Filter) -> Self {
        let mut all = Self {
            sql: format!("s.state = 'l' AND s.updated_at IS NOT NULL AND NOT {IS_INNER}"),
            params: Vec::new(),
        };
        if !filter.agents.is_empty() {
            all.and("s.source = ANY (?)", [texts(filter.agents.clone())]);
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

    /// The conditions for a row to be in the list of what a search finds.
    pub(super) fn of_found(filter: &Filter, sought: Option<&[Sought]>) -> Self {
        let mut all = Self::of(filter);
        if let Some(sought) = sought {
            all.and_words(sought, None);
        }
        all
    }

    /// Adds that a session must have all of these words, in these columns of the words or in any.
    pub(super) fn and_words(&mut self, sought: &[Sought], columns: Option<&[i64]>) {
        if sought.is_empty() {
            self.and("false", []);
        }
        for Sought { query, is_rare } in sought {
            let (before, behind) = if *is_rare {
                ("s.no = ANY (ARRAY(", "))")
            } else {
                ("s.no IN (", ")")
            };
            let found = format!("{before}SELECT w.no FROM @.words w WHERE w.vec @@ ?::tsquery");
            self.and(&found, [text(query.clone())]);
            if let Some(columns) = columns {
                self.and("w.field = ANY (?)", [ints(columns.to_vec())]);
            }
            self.sql.push_str(behind);
        }
    }

    pub(super) fn and<const N: usize>(&mut self, condition: &str, values: [Param; N]) {
        self.sql.push_str(" AND ");
        self.push(condition, values);
    }

    /// Adds SQL in which each question mark is the next value.
    pub(super) fn push<const N: usize>(&mut self, sql: &str, values: [Param; N]) {
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

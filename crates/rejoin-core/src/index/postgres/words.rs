//! Words of logs in the tables of a store in PostgreSQL: reads them from the logs, and finds them.

use std::collections::BTreeMap;

use crate::conversation::{Field, Passage};
use crate::store::database::{int, ints, text, texts, uuids};
use crate::sys::{SessionId, lock};

use super::conditions::Conditions;
use super::lexemes::Lexemes;
use super::{PostgresCatalog, RankedPlaces, id};
use crate::index::backend::{ListError, RANKED, TextLocation, WEIGHTS};
use crate::index::logs::Texts;
use crate::index::search::{Search, Term};
use crate::index::sqlite::database::DatabaseError;
use crate::index::tokens::columns;

/// How many unread logs are looked for at once.
const LOGS: i64 = 16;
/// How much of one log is read at once, in bytes.
const OF_A_LOG: usize = 256 * 1024;
/// The least that reading a log costs, in bytes that could be read instead.
const LEAST: usize = 1024;
/// The most pieces in which words are found.
const PIECES: i64 = 10_000;

/// How far the words of a log were read: see `text_len` and so on in the table.
struct LogWordsRow {
    no: i64,
    id: SessionId,
    len: i64,
    from: i64,
    pieces: i64,
    /// How much of the log its summary has.
    scanned: i64,
}

/// Rows of the table of words.
#[derive(Default)]
struct Rows {
    pieces: Vec<i64>,
    fields: Vec<i64>,
    parts: Vec<i64>,
    starts: Vec<i64>,
    vectors: Vec<String>,
}

impl Rows {
    fn add(
        &mut self,
        lexemes: &Lexemes,
        piece: i64,
        start: i64,
        passages: &[Passage],
    ) -> rusqlite::Result<()> {
        for (field, words) in (0..).zip(columns(passages)) {
            let vectors = lexemes.vectors(&words)?;
            for (part, vector) in (0..).zip(vectors) {
                self.pieces.push(piece);
                self.fields.push(field);
                self.parts.push(part);
                self.starts.push(start);
                self.vectors.push(vector);
            }
        }
        Ok(())
    }
}

impl PostgresCatalog {
    fn with_lexemes<T>(
        &self,
        work: impl FnOnce(&Lexemes) -> rusqlite::Result<T>,
    ) -> Result<T, ListError> {
        let mut lexemes = lock(&self.lexemes);
        let known = match lexemes.take() {
            Some(known) => known,
            None => Lexemes::new().map_err(DatabaseError::from)?,
        };
        let done = work(lexemes.insert(known));
        Ok(done.map_err(DatabaseError::from)?)
    }

    /// A query for each term of a search.
    pub(super) fn queries(&self, search: &Search) -> Result<Vec<String>, ListError> {
        self.with_lexemes(|lexemes| lexemes.queries(search))
    }

    /// Reads words that were not read yet, the newest sessions first, from about `budget` bytes of
    /// logs; whether all are read now. Several processes may do it at once.
    pub(super) fn read_unread(&self, budget: usize) -> Result<bool, ListError> {
        let sql = "
            SELECT s.id, s.no, s.text_len, s.text_from, s.text_pieces, s.scanned
            FROM @.session s
            WHERE s.state = 'l' AND s.updated_at IS NOT NULL AND s.text_len <> s.scanned
            ORDER BY s.updated_at DESC, s.id DESC LIMIT $1";
        let mut left = budget;
        loop {
            let rows = self.ask(sql, vec![int(LOGS)])?;
            if rows.is_empty() {
                return Ok(true);
            }
            for row in &rows {
                if left == 0 || self.only_reads() {
                    return Ok(false);
                }
                let state = LogWordsRow {
                    id: id(row),
                    no: row.get(1),
                    len: row.get(2),
                    from: row.get(3),
                    pieces: row.get(4),
                    scanned: row.get(5),
                };
                let read = self.read_some(&state)?;
                left = left.saturating_sub(read.max(LEAST));
            }
        }
    }

    /// Reads more words of a log. Returns how many bytes were read.
    fn read_some(&self, state: &LogWordsRow) -> Result<usize, ListError> {
        let from = state.from.unsigned_abs();
        let texts = match self.logs.texts(&state.id, from, state.len, OF_A_LOG) {
            Ok(texts) => texts,
            Err(error) => {
                tracing::debug!(session = %state.id, %error, "cannot read the words of a log");
                // Until it grows.
                self.write(
                    state,
                    state.scanned,
                    &Texts {
                        from,
                        ..Texts::default()
                    },
                )?;
                return Ok(0);
            }
        };
        let len = if texts.open.is_some() {
            state.scanned
        } else {
            -1
        };
        self.write(state, len, &texts)?;
        let to = state.scanned.unsigned_abs().min(texts.from.max(from + 1));
        Ok(usize::try_from(to.saturating_sub(from)).unwrap_or_default())
    }

    /// Writes words, if no other process has done it meanwhile.
    fn write(&self, old: &LogWordsRow, len: i64, read: &Texts) -> Result<(), ListError> {
        let (from, pieces) = if read.anew {
            (0, 0)
        } else {
            (old.from, old.pieces)
        };
        if old.len >= 0 || read.anew {
            // The last piece was read when it could still grow.
            let sql = "
                WITH mine AS (UPDATE @.session
                    SET text_len = -1, text_from = $5, text_pieces = $6
                    WHERE no = $1 AND text_len = $2 AND text_from = $3 AND text_pieces = $4
                    RETURNING no)
                DELETE FROM @.words w
                USING mine, (SELECT set_config('synchronous_commit', 'off', true)) AS mode
                WHERE w.no = mine.no AND w.piece >= $6";
            let known = vec![
                int(old.no),
                int(old.len),
                int(old.from),
                int(old.pieces),
                int(from),
                int(pieces),
            ];
            self.keep(sql, known)?;
        }
        let mut rows = Rows::default();
        let (mut piece, mut start) = (pieces, from);
        self.with_lexemes(|lexemes| {
            for done in &read.done {
                rows.add(lexemes, piece, start, &done.passages)?;
                piece += 1;
                start = i64::try_from(done.end).unwrap_or(i64::MAX);
            }
            let open = read.open.as_deref().unwrap_or_default();
            rows.add(lexemes, piece, start, open)
        })?;
        let sql = "
            WITH mine AS (UPDATE @.session SET text_len = $4, text_from = $5, text_pieces = $6
                WHERE no = $1 AND text_len = -1 AND text_from = $2 AND text_pieces = $3
                RETURNING no)
            INSERT INTO @.words (no, piece, field, part, start, vec)
            SELECT mine.no, row.piece, row.field, row.part, row.start, row.vec::tsvector
            FROM (SELECT set_config('synchronous_commit', 'off', true)) AS mode, mine,
                unnest($7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[])
                AS row (piece, field, part, start, vec)
            ON CONFLICT DO NOTHING";
        let params = vec![
            int(old.no),
            int(from),
            int(pieces),
            int(len),
            int(start),
            int(piece),
            ints(rows.pieces),
            ints(rows.fields),
            ints(rows.parts),
            ints(rows.starts),
            texts(rows.vectors),
        ];
        self.keep(sql, params)
    }

    /// Where in the logs of these sessions the first piece with a term begins.
    pub(super) fn places_of(
        &self,
        ids: &[&SessionId],
        term: &Term,
    ) -> Result<Vec<Option<TextLocation>>, ListError> {
        let query = self.with_lexemes(|lexemes| lexemes.query(term))?;
        let sql = "
            SELECT s.id, min(w.start) FROM @.session s JOIN @.words w USING (no)
            WHERE s.id = ANY ($1) AND s.state = 'l' AND w.vec @@ $2::text::tsquery GROUP BY s.id";
        let wanted = ids.iter().map(|id| id.to_uuid()).collect();
        let rows = self.ask(sql, vec![uuids(wanted), text(query)])?;
        let place = |wanted: &&SessionId| {
            let row = rows.iter().find(|row| id(row) == **wanted)?;
            Some(TextLocation::Log(row.get::<_, i64>(1).unsigned_abs(), None))
        };
        Ok(ids.iter().map(place).collect())
    }

    /// The sessions that have all words of a search in these fields, or in any if there are none. As in
    /// SQLite, only the newest are ranked.
    pub(super) fn ranked_by_words(
        &self,
        search: &Search,
        fields: &[Field],
        most: usize,
    ) -> Result<Vec<RankedPlaces>, ListError> {
        // The parts of names are those of all fields.
        let parts = Field::ALL.len();
        let columns = fields.iter().map(|field| *field as usize).chain([parts]);
        let columns: Vec<_> = columns
            .map(|column| i64::try_from(column).unwrap_or_default())
            .collect();
        let columns = (!fields.is_empty()).then_some(&columns[..]);
        let sought = self.sought_in(search, columns)?;
        // A word that no vector can have has no query.
        if sought.is_empty() || sought.iter().any(|sought| sought.query.is_empty()) {
            return Ok(Vec::new());
        }
        let any = sought.iter().map(|sought| format!("({})", sought.query));
        let any = any.collect::<Vec<_>>().join(" | ");
        let mut newest = Conditions {
            sql: "s.state = 'l' AND s.updated_at IS NOT NULL".to_owned(),
            params: vec![
                text(any),
                ints(columns.map(<[i64]>::to_vec)),
                int(i64::try_from(most).unwrap_or(i64::MAX)),
                int(PIECES),
            ],
        };
        newest.and_words(&sought, columns);
        let sql = format!(
            "WITH newest AS MATERIALIZED (SELECT s.no, s.id, s.updated_at FROM @.session s
                 WHERE {} ORDER BY s.updated_at DESC, s.id DESC LIMIT $3),
             aged AS (SELECT no, id, row_number() OVER (ORDER BY updated_at DESC, id DESC) AS age
                 FROM newest)
             SELECT s.id, w.start, (SELECT min(n.start) FROM @.words n
                 WHERE n.no = w.no AND n.piece = w.piece + 1)
             FROM aged s JOIN @.words w USING (no)
             WHERE w.vec @@ $1::tsquery AND ($2 IS NULL OR w.field = ANY ($2))
             GROUP BY s.id, s.age, w.no, w.piece, w.start
             ORDER BY greatest(s.age, {RANKED}),
                 max(ts_rank(w.vec, $1::tsquery) * (ARRAY[{WEIGHTS}])[w.field + 1]) DESC,
                 w.no DESC, w.piece DESC
             LIMIT $4",
            newest.sql
        );
        let mut at = BTreeMap::new();
        let mut ranked: Vec<RankedPlaces> = Vec::new();
        for row in self.ask(&sql, newest.params)? {
            let id = id(&row);
            let end = row.get::<_, Option<i64>>(2).map(i64::unsigned_abs);
            let place = TextLocation::Log(row.get::<_, i64>(1).unsigned_abs(), end);
            let at = *at.entry(id.clone()).or_insert(ranked.len());
            match ranked.get_mut(at) {
                Some(session) => session.places.push(place),
                None => ranked.push(RankedPlaces {
                    id,
                    places: vec![place],
                }),
            }
        }
        Ok(ranked)
    }
}

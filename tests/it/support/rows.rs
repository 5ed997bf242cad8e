//! A store in PostgreSQL, seen from outside of the program.

use std::path::Path;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row};

use super::place::Place;
use super::wrapped::until;
use crate::postgres::cluster;

/// What a statement takes.
type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The rows of a store, through a connection of their own.
pub(crate) struct Rows {
    runtime: Runtime,
    client: Client,
    schema: String,
}

impl Rows {
    /// Connects to the database of a store with this address.
    pub(crate) fn at(store: &Path) -> Self {
        Self::connect(store).expect("the server answers")
    }

    /// Connects to that database, if the server accepts one more connection.
    pub(crate) fn connect(store: &Path) -> Result<Self, String> {
        let store = cluster::direct(store);
        let store = store.to_str().expect("an address is text");
        let (address, options) = store.split_once('?').unwrap_or((store, ""));
        let mut options = options.split('&');
        let schema = options.find_map(|option| option.strip_prefix("schema="));
        let config: Config = address.parse().expect("an address");
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("runtimes can be made");
        let client = runtime.block_on(async {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        });
        Ok(Self {
            runtime,
            client: client.map_err(|error| format!("{error:?}"))?,
            schema: schema.unwrap_or("rejoin").to_owned(),
        })
    }

    /// Runs a statement in which `@` is the schema.
    pub(crate) fn ask(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, String> {
        let sql = sql.replace('@', &self.schema);
        let rows = self.runtime.block_on(self.client.query(&sql, params));
        rows.map_err(|error| format!("{error:?}"))
    }

    /// Runs several statements.
    pub(crate) fn run(&self, sql: &str) -> Result<(), String> {
        let sql = sql.replace('@', &self.schema);
        let done = self.runtime.block_on(self.client.batch_execute(&sql));
        done.map_err(|error| format!("{error:?}"))
    }
}

/// The id of a session without what all have.
fn id(session: &str) -> &str {
    session.strip_prefix("sess_").unwrap_or(session)
}

impl Place for Rows {
    fn read(&self, session: &str) -> Result<Vec<u8>, String> {
        let sql = "
            SELECT coalesce((SELECT string_agg(bytes, ''::bytea ORDER BY off)
                FROM @.block b WHERE b.no = s.no), '')
            FROM @.session s WHERE id::text = $1 AND state = 'l'";
        let rows = self.ask(sql, &[&id(session)])?;
        let row = rows.first();
        Ok(row.ok_or(format!("{session} is not there"))?.get(0))
    }

    fn write(&self, session: &str, bytes: &[u8]) -> Result<(), String> {
        if self.read(session).is_err() {
            let sql = "
                WITH made AS (INSERT INTO @.session (id, state, since) VALUES ($1::text::uuid, 'l', 0)
                    RETURNING no)
                INSERT INTO @.fence SELECT no, 1, 0, NULL, 0 FROM made";
            self.ask(sql, &[&id(session)])?;
        }
        let no = "(SELECT no FROM @.session WHERE id::text = $1 AND state = 'l')";
        let end = i64::try_from(bytes.len()).expect("a log of a fixture is short");
        self.ask(
            &format!("DELETE FROM @.block WHERE no = {no}"),
            &[&id(session)],
        )?;
        if end > 0 {
            let sql = format!("INSERT INTO @.block SELECT {no}, 0, 0, $2");
            self.ask(&sql, &[&id(session), &bytes])?;
        }
        let sql = format!(
            "UPDATE @.fence SET end_off = $2,
                 changed = (extract(epoch from clock_timestamp()) * 1000)::bigint
             WHERE no = {no}"
        );
        self.ask(&sql, &[&id(session), &end]).map(drop)
    }

    fn rename(&self, session: &str, name: &str) -> Result<(), String> {
        let sql = "UPDATE @.session SET id = $2::text::uuid, summary = NULL, updated_at = NULL
                   WHERE id::text = $1 AND state = 'l'";
        self.ask(sql, &[&id(session), &id(name)]).map(drop)
    }

    /// Another process takes the session over.
    fn swap(&self, session: &str, bytes: &[u8]) -> Result<(), String> {
        let sql = "UPDATE @.fence SET epoch = epoch + 1, writer = NULL, token = NULL
                   WHERE no = (SELECT no FROM @.session WHERE id::text = $1 AND state = 'l')";
        self.ask(sql, &[&id(session)])?;
        self.write(session, bytes)
    }

    fn remove(&self, session: &str) -> Result<(), String> {
        let sql = "WITH gone AS (DELETE FROM @.session WHERE id::text = $1 RETURNING no)
                   DELETE FROM @.block b USING gone WHERE b.no = gone.no";
        self.ask(sql, &[&id(session)]).map(drop)
    }

    fn unindex(&self) -> Result<(), String> {
        let sql =
            "UPDATE @.session SET summary = NULL, scanned = 0, updated_at = NULL, prompts = 0";
        self.ask(sql, &[]).map(drop)
    }

    /// There are none.
    fn prevent_sockets(&self) -> Result<(), String> {
        Ok(())
    }

    fn await_ending(&self, session: &str) -> Result<(), String> {
        let sql =
            "SELECT 1 FROM @.session s JOIN @.fence f USING (no) JOIN @.writer w ON w.id = f.writer
                   WHERE s.id::text = $1 AND s.state = 'l' AND NOT w.ending";
        until(|| {
            let is_at_work = !self.ask(sql, &[&id(session)])?.is_empty();
            let ending = (!is_at_work).then_some(());
            ending.ok_or_else(|| "it is not ending".to_owned())
        })
    }

    fn await_idle(&self) -> Result<(), String> {
        let sql = "SELECT query FROM pg_stat_activity
                   WHERE pid <> pg_backend_pid() AND strpos(query, $1) > 0";
        until(|| match self.ask(sql, &[&self.schema])?.first() {
            Some(row) => Err(format!("a connection is left: {}", row.get::<_, String>(0))),
            None => Ok(()),
        })
    }

    fn count(&self, kind: &str) -> usize {
        let sql = match kind {
            "trash" => "SELECT FROM @.session WHERE state = 't' UNION ALL SELECT FROM @.torn",
            _ => "SELECT FROM @.session WHERE state <> 't'",
        };
        self.ask(sql, &[]).map_or(0, |rows| rows.len())
    }

    /// The roles of a database are for its operator.
    fn is_private(&self) -> Result<(), String> {
        Ok(())
    }

    fn is_nowhere(&self, text: &str) -> Result<(), String> {
        let log = "string_agg(bytes, ''::bytea ORDER BY off)";
        let mut everything = vec![format!(
            "SELECT 'block' FROM @.block GROUP BY no
             HAVING position(convert_to($1, 'UTF8') in {log}) > 0"
        )];
        for table in ["session", "writer", "agent_id", "note"] {
            everything.push(format!(
                "SELECT '{table}' FROM @.{table} row WHERE position($1 in row::text) > 0"
            ));
        }
        match self.ask(&everything.join(" UNION ALL "), &[&text])?.first() {
            None => Ok(()),
            Some(row) => Err(format!("it is in the table {}", row.get::<_, String>(0))),
        }
    }
}

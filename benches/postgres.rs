//! What a store in PostgreSQL costs, against bare SQL on the same server, which is started for this.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use futures_core::Stream;
use rejoin::record::{Kind, line};
use rejoin::store::{Durability, Log, Store, Sync};
use rejoin::sys::{SessionId, Sys};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client as Connection, NoTls};

use crate::client::{Client, timed};
use crate::fill::{Filled, chunk};
use crate::list::{first_list, further_list};
use crate::report::{Pairs, Report, ms};
use crate::wrap;
use crate::{Result, Settings};

#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "it belongs to the tests, which need more of it"
)]
#[path = "../tests/it/postgres/cluster.rs"]
mod cluster;

use cluster::Cluster;

/// How many bytes of text an update has.
const TEXT: usize = 155;
/// How many updates are appended, if a commit waits for the disk and if it does not.
const SAFE: usize = 300;
const FAST: usize = 3000;
/// How many updates a stream has, and how long the agent rests between them, so that there are more
/// than a thousand a second: a rest takes about 0.1 ms longer.
const STREAM: usize = 3000;
const REST_MICROS: usize = 750;
/// How long a byte is on its way through the network of the stream: half a round trip of 5 ms.
const WAY: Duration = Duration::from_micros(2500);
/// How many updates the log has that is replayed.
const CHUNKS: usize = 200_000;
/// How many sessions are on a page of a list.
const PAGE: usize = 1000;
/// What is searched, and how often it is there.
const SEARCHES: [(&str, &str); 4] = [
    (
        "search, a word of one session",
        r#""search":"unmistakable""#,
    ),
    (
        "search, a word of a thousand sessions",
        r#""search":"thousandth""#,
    ),
    ("search, a word of all sessions", r#""search":"question""#),
    (
        "the same in one folder",
        r#""search":"question","cwd":"/w""#,
    ),
];

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let Some(cluster) = Cluster::start(true) else {
        report.note("skipped: there is no PostgreSQL here");
        return Ok(());
    };
    let sql = Sql::connect(cluster.port)?;
    append(&cluster, &sql, settings, report)?;
    stream(&cluster, settings, report)?;
    replay(&cluster, &sql, settings, report)?;
    list(&cluster, &sql, settings, report)
}

/// A connection that sends what it is given, on this thread.
struct Sql {
    runtime: Runtime,
    connection: Connection,
}

impl Sql {
    fn connect(port: u16) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let address = format!("postgres://rejoin@localhost:{port}/postgres");
        let connection = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&address, NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        })?;
        Ok(Self {
            runtime,
            connection,
        })
    }

    fn run(&self, sql: &str) -> Result<()> {
        Ok(self.runtime.block_on(self.connection.batch_execute(sql))?)
    }

    /// Copies what a query returns to nowhere.
    fn copy(&self, query: &str) -> Result<()> {
        let sql = format!("COPY ({query}) TO STDOUT (FORMAT binary)");
        self.runtime.block_on(async {
            let mut rows = Box::pin(self.connection.copy_out(&sql).await?);
            while let Some(row) = std::future::poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
                row?;
            }
            Ok(())
        })
    }
}

/// A new store with its tables.
fn store(place: &Path, durability: Durability) -> Result<Store> {
    Store::migrate(place, &Sys::real())?;
    Ok(Store::open(place, Sys::real(), durability)?)
}

/// The schema that an address names.
fn schema(place: &Path) -> Result<&str> {
    let schema = place.to_str().and_then(|text| text.split_once("schema="));
    Ok(schema.ok_or("no schema")?.1)
}

/// One update after the other, each with a commit of its own.
fn append(cluster: &Cluster, sql: &Sql, settings: &Settings, report: &mut Report) -> Result<()> {
    report.note(&format!(
        "chunks of {TEXT} bytes of text, each with a commit, through TCP on this machine"
    ));
    sql.run(
        "CREATE TABLE bare (no bigint, off bigint, epoch bigint, bytes bytea, PRIMARY KEY (no, off))",
    )?;
    for (durability, commit, count) in [
        (Durability::Os, "off", FAST),
        (Durability::Each, "on", SAFE),
    ] {
        let payloads: Vec<String> = (0..count).map(|n| chunk(n, TEXT)).collect();
        let at = Sys::real().clock.now();
        let lines = payloads.iter().zip(0..).map(|(payload, seq)| {
            let mut bytes = Vec::new();
            line::encode(&mut bytes, seq, at, Kind::Update, None, payload);
            bytes
        });
        let lines: Vec<Vec<u8>> = lines.collect();
        let place = cluster.place("");
        let tables = store(&place, durability)?;
        let files = Filled::new(durability)?;
        sql.run(&format!("SET synchronous_commit = {commit}"))?;
        let ours = || appended(session(&tables)?, &payloads);
        let alike = Pairs::measure(settings.rounds, ours, || inserted(sql, &lines, false))?;
        let detail = format!(
            "{} an update; bare {}",
            each(alike.ours(), count),
            each(alike.theirs(), count)
        );
        let name = format!("append, commit {commit}, times INSERT");
        report.at_most(&name, alike.ratio(), 2.0, "x", &detail);
        let prepared = Pairs::measure(settings.rounds, ours, || inserted(sql, &lines, true))?;
        let detail = format!("bare {}", each(prepared.theirs(), count));
        let value = format!("{:.2}x", prepared.ratio());
        report.figure("the same, a prepared INSERT", &value, &detail);
        let file = Pairs::measure(settings.rounds, ours, || {
            appended(files.session()?, &payloads)
        })?;
        let detail = format!("{} an update", each(file.theirs(), count));
        let name = "the same, a store in a folder";
        report.figure(name, &format!("{:.1}x", file.ratio()), &detail);
    }
    sql.run("RESET synchronous_commit")
}

fn each(seconds: f64, count: usize) -> String {
    ms(seconds / count as f64)
}

fn session(store: &Store) -> Result<Log> {
    let id = Sys::real().ids.session();
    let header = rejoin::record::Header::new(&id, "/w");
    Ok(store.create(&id, &header)?)
}

fn appended(mut log: Log, payloads: &[String]) -> Result<Duration> {
    timed(|| {
        for payload in payloads {
            log.append(Kind::Update, None, payload, Sync::Buffered)?;
        }
        Ok(())
    })
}

/// Inserts the same bytes, as a statement that is sent whole each time, or one that is prepared,
/// which no pooler allows that gives a connection to each transaction only.
fn inserted(sql: &Sql, lines: &[Vec<u8>], prepared: bool) -> Result<Duration> {
    let insert = "INSERT INTO bare VALUES ($1, $2, 1, $3)";
    sql.run("TRUNCATE bare")?;
    sql.runtime.block_on(async {
        let statement = sql.connection.prepare(insert).await?;
        let start = Instant::now();
        for (line, off) in lines.iter().zip(0_i64..) {
            let values: [(&(dyn ToSql + std::marker::Sync), Type); 3] = [
                (&1_i64, Type::INT8),
                (&off, Type::INT8),
                (line, Type::BYTEA),
            ];
            if prepared {
                let values = values.map(|(value, _)| value);
                sql.connection.execute(&statement, &values).await?;
            } else {
                sql.connection.execute_typed(insert, &values).await?;
            }
        }
        Ok(start.elapsed())
    })
}

/// An agent's updates, one a millisecond, through `rejoin wrap` with a network in front of the server.
fn stream(cluster: &Cluster, settings: &Settings, report: &mut Report) -> Result<()> {
    let agent = wrap::agent()?;
    let (place, behind) = cluster.through(delayed(cluster.port)?);
    store(&place, Durability::Turn)?;
    let wrapped = || {
        let mut command = Command::new(crate::machine::program());
        command.arg("wrap").arg("--store").arg(&behind);
        command.arg("--").arg(&agent);
        wrap::initialized(command)
    };
    let paces = Pairs::measure(
        settings.rounds.min(3),
        || streamed(wrapped()?),
        || streamed(wrap::bare(&agent)?),
    )?;
    let rate = |seconds: f64| STREAM as f64 / seconds;
    let detail = format!(
        "{:.0} updates/s at a round trip of 5 ms; cat {:.0}",
        rate(paces.ours()),
        rate(paces.theirs())
    );
    report.at_most("stream, times cat", paces.ratio(), 1.1, "x", &detail);
    let late = wrap::latency(wrapped()?)?;
    let detail = "from agent to client, with half the rest";
    report.figure("the same, median", &ms(late.as_secs_f64()), detail);
    Ok(())
}

fn streamed(mut client: Client) -> Result<Duration> {
    timed(|| {
        let asked = wrap::prompt(&mut client, &format!("ticks {STREAM} {REST_MICROS}"))?;
        client.output.until_answer(asked).map(drop)
    })
}

/// Passes bytes on to a server some time later, until this process ends. Returns its port.
fn delayed(server: u16) -> Result<u16> {
    let listener = TcpListener::bind("localhost:0")?;
    let port = listener.local_addr()?.port();
    spawn(move || -> std::io::Result<()> {
        loop {
            let (client, _) = listener.accept()?;
            let server = TcpStream::connect(("localhost", server))?;
            for (from, to) in [(&client, &server), (&server, &client)] {
                from.set_nodelay(true)?;
                pass(from.try_clone()?, to.try_clone()?);
            }
        }
    });
    Ok(port)
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let (send, sent) = channel::<(Instant, Vec<u8>)>();
    spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            if send
                .send((Instant::now() + WAY, buffer[..len].to_vec()))
                .is_err()
            {
                break;
            }
        }
    });
    spawn(move || {
        for (due, bytes) in sent {
            sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // Either end may have closed it.
        to.shutdown(Shutdown::Both).ok();
    });
}

/// A load from the request to the answer, against the same rows by `COPY`.
fn replay(cluster: &Cluster, sql: &Sql, settings: &Settings, report: &mut Report) -> Result<()> {
    let place = cluster.place("");
    let tables = store(&place, Durability::Os)?;
    let files = Filled::new(Durability::Os)?;
    let id = files.long_answer(CHUNKS, TEXT)?;
    files.store.copy_to(&id, &tables, false)?;
    let log = std::fs::read(files.log_path(&id))?;
    let schema = schema(&place)?;
    let rows = format!("SELECT bytes FROM {schema}.block ORDER BY off");
    let mut client = Client::initialized(&place, &[])?;
    let mut beside = Client::initialized(files.path(), &[])?;
    for blocks in ["blocks as copied", "a row for each update"] {
        let pairs = Pairs::measure(
            settings.rounds,
            || timed(|| load(&mut client, &id)),
            || timed(|| sql.copy(&rows)),
        )?;
        let folder = timed(|| load(&mut beside, &id))?;
        let detail = format!(
            "{} for {:.1} MB; COPY {}, a folder {}",
            ms(pairs.ours()),
            log.len() as f64 / 1e6,
            ms(pairs.theirs()),
            ms(folder.as_secs_f64())
        );
        let name = format!("replay, {blocks}");
        report.at_most(&name, pairs.ratio(), 2.0, "x", &detail);
        split(sql, schema, &log)?;
    }
    Ok(())
}

fn load(client: &mut Client, id: &SessionId) -> Result<()> {
    let asked = client.ask_load(id)?;
    client.output.until_answer(asked)?;
    let close = format!(r#"{{"sessionId":"{id}"}}"#);
    client.call("session/close", &close).map(drop)
}

/// Replaces the blocks of the only session by one for each line.
fn split(sql: &Sql, schema: &str, log: &[u8]) -> Result<()> {
    sql.run(&format!("TRUNCATE {schema}.block"))?;
    let insert = format!(
        "INSERT INTO {schema}.block SELECT no, off, 1, bytes
         FROM {schema}.session, unnest($1, $2) AS line (off, bytes)"
    );
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let mut end = 0;
    for lines in lines.chunks(1000) {
        let mut starts = Vec::new();
        for line in lines {
            starts.push(end);
            end += i64::try_from(line.len())?;
        }
        let values: [(&(dyn ToSql + std::marker::Sync), Type); 2] =
            [(&starts, Type::INT8_ARRAY), (&lines, Type::BYTEA_ARRAY)];
        let done = sql.connection.execute_typed(&insert, &values);
        sql.runtime.block_on(done)?;
    }
    sql.run(&format!("VACUUM ANALYZE {schema}.block"))
}

/// The first page of very many sessions against that of one page of them, and of what a search finds.
fn list(cluster: &Cluster, sql: &Sql, settings: &Settings, report: &mut Report) -> Result<()> {
    let count = settings.sessions * 10;
    let [few, many] = [PAGE, count].map(|count| -> Result<_> {
        let place = cluster.place("");
        store(&place, Durability::Os)?;
        sql.run(&sessions(schema(&place)?, count))?;
        sql.run(&words(schema(&place)?, count))?;
        for table in ["session", "fence", "words"] {
            sql.run(&format!("VACUUM ANALYZE {}.{table}", schema(&place)?))?;
        }
        Ok(place)
    });
    let (few, many) = (few?, many?);
    for (name, measure) in [
        ("first list of a process", first_list as fn(&Path) -> _),
        ("a further list", further_list),
    ] {
        let pairs = Pairs::measure(settings.rounds, || measure(&many), || measure(&few))?;
        let detail = format!(
            "{count} sessions {}; {PAGE} {}",
            ms(pairs.ours()),
            ms(pairs.theirs())
        );
        report.at_most(name, pairs.ratio(), 3.0, "x", &detail);
    }
    let (mut of_many, mut of_few) = (
        Client::initialized(&many, &[])?,
        Client::initialized(&few, &[])?,
    );
    for (name, params) in SEARCHES {
        let pairs = Pairs::measure(
            settings.rounds,
            || searched(&mut of_many, params),
            || searched(&mut of_few, params),
        )?;
        let detail = format!("{}; {PAGE} {}", ms(pairs.ours()), ms(pairs.theirs()));
        report.at_most(name, pairs.ratio(), 3.0, "x", &detail);
    }
    Ok(())
}

fn searched(client: &mut Client, params: &str) -> Result<Duration> {
    let params = format!("{{\"limit\":20,{params}}}");
    timed(|| client.call("session/list", &params).map(drop))
}

/// Makes the words of so many sessions: one is in one of them, one in a thousand, one in all.
fn words(schema: &str, count: usize) -> String {
    format!(
        "INSERT INTO {schema}.words
         SELECT no, 0, 0, 0, 0, ('question:1 number:2 n' || no || ':3'
             || CASE WHEN no = {PAGE} THEN ' unmistakable:4' ELSE '' END
             || CASE WHEN no % {} = 0 THEN ' thousandth:5' ELSE '' END)::tsvector
         FROM {schema}.session",
        count / PAGE
    )
}

/// Makes so many sessions that have summaries, and no logs.
fn sessions(schema: &str, count: usize) -> String {
    format!(
        r#"INSERT INTO {schema}.session
               (id, state, since, scanned, text_len, summary, cwd, source, updated_at, prompted_at,
                prompts)
           SELECT ('01902f3c-7b1e-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'l', 0, 1000, 1000,
               json_build_object('cwd', '/w', 'source', 'rejoin', 'title', 'Session ' || n,
                   'created_at', at, 'updated_at', at, 'prompts', 1, 'scanned', 1000),
               '/w', 'rejoin', at, at, 1
           FROM (SELECT n, to_char(timestamp '2024-01-01' + n * interval '1 minute',
               'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at FROM generate_series(1, {count}) AS n) AS made;
           INSERT INTO {schema}.fence SELECT no, 1, 1000, NULL, 0 FROM {schema}.session"#
    )
}

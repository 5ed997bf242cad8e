//! Runs statements, on a thread of their own.
//!
//! Each statement is a transaction of its own and needs nothing that belongs to a connection, so it
//! may go through a pool. Each has one limit of time, from its beginning to its answer: for a
//! connection, for encryption and login, and for the database. One that is given up is cancelled
//! there. While the database cannot be reached, statements that may be repeated are repeated until
//! their time is up.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::Row;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::sys::waiter::{HURRIED, Waiter};
use crate::sys::{blocking, lock, with_causes};

use super::address::Address;
use super::connect::connect;
use super::failure::{DatabaseFailure, has_not_run, is_ending};
use super::pool::{Pool, UsedConnection};

/// The pause before another attempt, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How many statements run at once. Signs of life are not among them.
const AT_ONCE: usize = 4;
/// The least time for a statement, however little patience the address asks for.
const LEAST: Duration = Duration::from_secs(1);
/// How long one may take for which no client waits.
pub(super) const LONG: Duration = Duration::from_mins(1);
/// How long statements fail at once after one has waited for the database in vain, and how long the
/// next one may take.
const SILENT: Duration = Duration::from_secs(1);
const TRY: Duration = Duration::from_secs(3);
/// How often, within its limit, it is looked whether a statement goes on.
const LOOKS: u32 = 8;
/// How many bytes must have been sent or received for a statement to count as one that goes on: those
/// of a short one say nothing.
const GOES_ON: u64 = 32 * 1024;

/// A parameter of a statement.
pub(crate) type Param = (Box<dyn ToSql + Sync + Send>, Type);

/// The rows of a statement that is under way.
pub(super) type Pending = Receiver<Result<Vec<Row>, DatabaseFailure>>;

/// A number as a parameter.
pub(crate) fn int(value: i64) -> Param {
    (Box::new(value), Type::INT8)
}

/// Several numbers as a parameter, or null.
pub(crate) fn ints(values: impl Into<Option<Vec<i64>>>) -> Param {
    (Box::new(values.into()), Type::INT8_ARRAY)
}

/// A parameter that is true or false.
pub(crate) fn flag(value: bool) -> Param {
    (Box::new(value), Type::BOOL)
}

/// Text as a parameter, or null.
pub(crate) fn text(value: impl Into<Option<String>>) -> Param {
    (Box::new(value.into()), Type::TEXT)
}

/// A UUID as a parameter, or null.
pub(crate) fn uuid(value: impl Into<Option<Uuid>>) -> Param {
    (Box::new(value.into()), Type::UUID)
}

/// Several parameters that are true or false.
pub(crate) fn flags(values: Vec<bool>) -> Param {
    (Box::new(values), Type::BOOL_ARRAY)
}

/// Several texts as a parameter, some of which may be null.
pub(crate) fn texts<T: ToSql + Sync + Send + 'static>(values: Vec<T>) -> Param {
    (Box::new(values), Type::TEXT_ARRAY)
}

/// Several UUIDs as a parameter.
pub(crate) fn uuids(values: Vec<Uuid>) -> Param {
    (Box::new(values), Type::UUID_ARRAY)
}

/// Whether a statement may be sent again if its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Running it twice does the same as running it once.
    Yes,
    /// Running it twice does the same, and a server that accepts no writes is not waited for.
    YesIfWritable,
    No,
}

/// A statement, and for whom it runs.
struct Statement {
    sql: String,
    params: Vec<Param>,
    repeat: Repeat,
    /// How long it may take; as long as the address says if `None`.
    limit: Option<Duration>,
    waiter: Option<Waiter>,
}

/// Runs statements, on a thread of its own.
pub(super) struct Driver {
    shared: Arc<DriverInner>,
    thread: OnceLock<Result<Thread, String>>,
}

struct Thread {
    handle: Handle,
    /// The thread ends when this is dropped.
    _end: oneshot::Sender<()>,
}

struct DriverInner {
    address: Address,
    pool: Arc<Pool>,
    permits: Semaphore,
    /// Set while the database is known not to answer.
    silence: Mutex<Option<Silence>>,
    /// Hurries all statements when the process is about to end.
    everyone: Waiter,
    is_ending: AtomicBool,
}

/// The state of a database that does not answer.
struct Silence {
    /// When this was seen last.
    seen: Instant,
    why: String,
    /// Whether it says nothing, and does not refuse either: to ask it takes its time.
    hangs: bool,
}

impl Driver {
    /// Connects when the first statement is run.
    pub(super) fn new(address: Address) -> Self {
        let shared = DriverInner {
            address,
            pool: Arc::default(),
            permits: Semaphore::new(AT_ONCE),
            silence: Mutex::default(),
            everyone: Waiter::new(),
            is_ending: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            thread: OnceLock::new(),
        }
    }

    /// The address without its password.
    pub(super) fn shown(&self) -> &str {
        &self.shared.address.shown
    }

    /// The schema of the tables.
    pub(super) fn schema(&self) -> &str {
        &self.shared.address.schema
    }

    /// Runs a statement in which `@` is the schema, and waits for its rows: as long as the
    /// [`Waiter`] of this task does, and the address says.
    pub(super) fn query(
        &self,
        sql: &str,
        params: Vec<Param>,
        repeat: Repeat,
    ) -> Result<Vec<Row>, DatabaseFailure> {
        let rows = self.begin(sql, params, repeat)?;
        blocking(|| rows.recv()).unwrap_or_else(|_| Err(ended()))
    }

    /// Runs a statement which may take that long.
    pub(super) fn query_within(
        &self,
        limit: Duration,
        sql: &str,
        params: Vec<Param>,
        repeat: Repeat,
    ) -> Result<Vec<Row>, DatabaseFailure> {
        let rows = self.send(Statement {
            limit: Some(limit),
            ..self.shared.statement(sql, params, repeat)
        })?;
        blocking(|| rows.recv()).unwrap_or_else(|_| Err(ended()))
    }

    /// How long a statement may take for which a client waits.
    pub(super) fn patience(&self) -> Duration {
        self.shared.address.patience
    }

    /// Begins a statement, and does not wait for its rows.
    pub(super) fn begin(
        &self,
        sql: &str,
        params: Vec<Param>,
        repeat: Repeat,
    ) -> Result<Pending, DatabaseFailure> {
        self.send(self.shared.statement(sql, params, repeat))
    }

    fn send(&self, statement: Statement) -> Result<Pending, DatabaseFailure> {
        let (done, rows) = sync_channel(1);
        let shared = self.shared.clone();
        self.handle()?.spawn(async move {
            done.send(shared.query(&statement).await).ok();
        });
        Ok(rows)
    }

    /// Runs several statements as one transaction, however long that takes.
    pub(super) fn batch(&self, sql: &str) -> Result<(), DatabaseFailure> {
        let (sql, shared) = (sql.to_owned(), self.shared.clone());
        let (done, result) = sync_channel(1);
        self.handle()?.spawn(async move {
            done.send(shared.batch(&sql).await).ok();
        });
        blocking(|| result.recv()).unwrap_or_else(|_| Err(ended()))
    }

    /// The process is about to end: nothing is waited for as long as before.
    pub(super) fn ending(&self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.shared.everyone.hurry();
    }

    /// The runtime of the connections, which is started when it is first needed.
    pub(super) fn handle(&self) -> Result<&Handle, DatabaseFailure> {
        let thread = self
            .thread
            .get_or_init(|| start().map_err(|error| error.to_string()));
        match thread {
            Ok(thread) => Ok(&thread.handle),
            Err(error) => Err(DatabaseFailure::Other(error.clone())),
        }
    }

    /// Runs statements from a task of [`handle`](Self::handle).
    pub(super) fn remote(&self) -> StatementRunner {
        StatementRunner(self.shared.clone())
    }
}

/// Runs statements from tasks of the driver's own runtime.
#[derive(Clone)]
pub(super) struct StatementRunner(Arc<DriverInner>);

impl StatementRunner {
    /// The server has few connections left, or has enough again.
    pub(super) fn set_crowded(&self, is_crowded: bool) {
        let crowded = &self.0.pool.is_crowded;
        crowded.store(is_crowded, Ordering::Relaxed);
    }

    /// Runs a statement, and tries once if the database cannot be reached. Others do not hold it up: it
    /// has a connection beside theirs, if they use all of them.
    pub(super) async fn query(
        &self,
        sql: &str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, DatabaseFailure> {
        let statement = self.0.statement(sql, params, Repeat::No);
        let (begun, mut time) = (Instant::now(), self.0.time_of(&statement));
        let done = self.0.attempt(&statement, &mut time).await;
        self.0.note(&done, begun);
        done
    }
}

fn ended() -> DatabaseFailure {
    DatabaseFailure::Other("the thread of the connections has ended".to_owned())
}

fn start() -> std::io::Result<Thread> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    let (end, ended) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("postgres".to_owned());
    thread.spawn(move || {
        // An error says that the sender was dropped.
        runtime.block_on(ended).ok();
        runtime.shutdown_background();
    })?;
    Ok(Thread { handle, _end: end })
}

/// The time that a statement has.
struct Time<'a> {
    /// How long it may take without a sign that it goes on.
    limit: Duration,
    end: Instant,
    waiter: Option<&'a Waiter>,
    everyone: &'a Waiter,
    /// Resolves when one of these is in a hurry.
    hurries: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<'a> Time<'a> {
    fn new(limit: Duration, waiter: Option<&'a Waiter>, everyone: &'a Waiter) -> Self {
        Self {
            limit,
            end: Instant::now() + limit,
            waiter,
            everyone,
            hurries: hurries(waiter, everyone),
        }
    }

    fn hurry(&mut self) {
        self.limit = self.limit.min(HURRIED);
        self.end = self.end.min(Instant::now() + HURRIED);
        self.hurries = hurries(self.waiter, self.everyone);
    }

    /// Resolves when it is up.
    async fn is_up(&mut self) {
        loop {
            tokio::select! {
                () = sleep_until(self.end) => return,
                () = &mut self.hurries => self.hurry(),
            }
        }
    }

    /// Resolves when it is up for a statement that is under way. As long as it goes on, there is more
    /// time: `moved` counts what is sent and received for it.
    async fn is_up_unless(&mut self, moved: &AtomicU64) {
        let mut seen = moved.load(Ordering::Relaxed);
        loop {
            let look = Instant::now() + self.limit / LOOKS;
            tokio::select! {
                () = sleep_until(look.min(self.end)) => {}
                () = &mut self.hurries => self.hurry(),
            }
            let (now, count) = (Instant::now(), moved.load(Ordering::Relaxed));
            if count - seen >= GOES_ON {
                seen = count;
                self.end = self.end.max(now + self.limit);
            } else if now >= self.end {
                return;
            }
        }
    }
}

/// Resolves when one of these is in a hurry.
fn hurries(waiter: Option<&Waiter>, everyone: &Waiter) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let (waiter, everyone) = (waiter.map(Waiter::hurries), everyone.hurries());
    Box::pin(async move {
        match waiter {
            None => everyone.await,
            Some(waiter) => tokio::select! {
                () = waiter => {}
                () = everyone => {}
            },
        }
    })
}

impl DriverInner {
    /// A statement for the waiter of this task. Its SQL has `@.` before the names of tables; there are
    /// operators with an `@`.
    fn statement(&self, sql: &str, params: Vec<Param>, repeat: Repeat) -> Statement {
        Statement {
            sql: sql.replace("@.", &format!("{}.", self.address.schema)),
            params,
            repeat,
            limit: None,
            waiter: Waiter::current(),
        }
    }

    fn time_of<'a>(&'a self, statement: &'a Statement) -> Time<'a> {
        let limit = statement.limit.unwrap_or(self.address.patience).max(LEAST);
        let limit = if lock(&self.silence).is_some() {
            limit.min(TRY)
        } else {
            limit
        };
        let waiter = statement.waiter.as_ref();
        let limit = waiter.map_or(limit, |waiter| waiter.limit(limit));
        let limit = if self.is_ending.load(Ordering::Relaxed) {
            limit.min(HURRIED)
        } else {
            limit
        };
        Time::new(limit, waiter, &self.everyone)
    }

    /// Runs a statement.
    async fn query(self: &Arc<Self>, statement: &Statement) -> Result<Vec<Row>, DatabaseFailure> {
        let tries_once = match &*lock(&self.silence) {
            Some(silence) if silence.hangs && silence.seen.elapsed() < SILENT => {
                return Err(DatabaseFailure::Unreachable(silence.why.clone()));
            }
            silence => silence.is_some(),
        };
        let mut time = self.time_of(statement);
        let patience = statement.limit.unwrap_or(self.address.patience);
        let retries_end = Instant::now() + patience.min(time.limit);
        let permit = tokio::select! {
            permit = self.permits.acquire() => permit,
            () = time.is_up() => {
                return Err(DatabaseFailure::Unreachable("all connections are in use".to_owned()));
            }
        };
        let mut pause = PAUSES.0;
        let (done, begun) = loop {
            let begun = Instant::now();
            let done = self.attempt(statement, &mut time).await;
            let is_retried = match &done {
                Err(DatabaseFailure::Unreachable(_)) => true,
                Err(DatabaseFailure::Unknown(_)) => statement.repeat != Repeat::No,
                _ => false,
            };
            if !is_retried || tries_once || Instant::now() >= retries_end.min(time.end) {
                break (done, begun);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = time.is_up() => break (done, begun),
            }
            pause = (2 * pause).min(PAUSES.1);
        };
        drop(permit);
        if let Some(waiter) = &statement.waiter {
            waiter.has_waited(is_in_vain(&done));
        }
        self.note(&done, begun);
        done
    }

    /// Notes whether the database can be reached, after an attempt that began then.
    fn note(&self, done: &Result<Vec<Row>, DatabaseFailure>, begun: Instant) {
        match done {
            Err(DatabaseFailure::Unreachable(why)) => {
                self.does_not_answer(why, begun.elapsed() >= LEAST);
            }
            Ok(_) | Err(DatabaseFailure::Refused(_)) => {
                if lock(&self.silence).take().is_some() {
                    tracing::info!(store = self.address.shown, "the database is there again");
                }
            }
            // What is known of one that was given up comes later.
            Err(_) => {}
        }
    }

    fn does_not_answer(&self, why: &str, hangs: bool) {
        let silence = Silence {
            seen: Instant::now(),
            why: why.to_owned(),
            hangs,
        };
        if lock(&self.silence).replace(silence).is_none() {
            tracing::warn!(store = self.address.shown, why, "the database is gone");
        }
    }

    /// Runs a statement once.
    async fn attempt(
        self: &Arc<Self>,
        statement: &Statement,
        time: &mut Time<'_>,
    ) -> Result<Vec<Row>, DatabaseFailure> {
        let until = time.end;
        let used = tokio::select! {
            biased;
            used = self.pool.take(&self.address, until) => used?,
            () = time.is_up() => {
                return Err(DatabaseFailure::Unreachable("it does not answer".to_owned()));
            }
        };
        self.run_on(used, statement, time).await
    }

    async fn run_on(
        self: &Arc<Self>,
        used: UsedConnection,
        statement: &Statement,
        time: &mut Time<'_>,
    ) -> Result<Vec<Row>, DatabaseFailure> {
        let params = statement.params.iter();
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = params
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect();
        let connection = &used.connection;
        let answered = tokio::select! {
            biased;
            answered = connection.client.query_typed(&statement.sql, &typed) => Some(answered),
            () = time.is_up_unless(&connection.moved) => None,
        };
        let Some(answered) = answered else {
            self.give_up(used);
            let limit = time.limit.as_secs_f64();
            let why = format!("the database does not answer within {limit:.0} s");
            return Err(DatabaseFailure::GivenUp(why));
        };
        let is_unsafe = connection.was_unsafe();
        let failure = match answered {
            Ok(_) if is_unsafe => {
                used.keep();
                let why = "the database no longer waits for a standby".to_owned();
                return Err(DatabaseFailure::Unknown(why));
            }
            Ok(rows) => {
                used.keep();
                return Ok(rows);
            }
            Err(error) => match error.as_db_error() {
                Some(refused) if has_not_run(refused) && !self.is_final(refused, statement) => {
                    DatabaseFailure::Unreachable(refused.message().to_owned())
                }
                Some(refused) if is_ending(refused) => {
                    DatabaseFailure::Unknown(refused.message().to_owned())
                }
                Some(refused) => {
                    let refused = DatabaseFailure::Refused(Box::new(refused.clone()));
                    used.keep();
                    return Err(refused);
                }
                None if error.is_closed() || is_broken(&error) => {
                    DatabaseFailure::Unknown(with_causes(&error))
                }
                None => DatabaseFailure::Other(with_causes(&error)),
            },
        };
        // The others lead to the same server.
        self.pool.clear();
        Err(failure)
    }

    /// Whether a server that accepts no writes is an answer.
    fn is_final(&self, refused: &DbError, statement: &Statement) -> bool {
        statement.repeat == Repeat::YesIfWritable
            && *refused.code() == SqlState::READ_ONLY_SQL_TRANSACTION
            && self.address.servers.len() == 1
    }

    /// Cancels what runs on a connection, and ends it, on a task of its own.
    fn give_up(self: &Arc<Self>, used: UsedConnection) {
        let shared = self.clone();
        tokio::spawn(async move {
            let UsedConnection {
                connection,
                counted,
            } = used;
            let has_answered = connection.give_up().end(&shared.address).await;
            drop(counted);
            if !has_answered {
                shared.pool.clear();
                shared.does_not_answer("it does not answer", true);
            }
        });
    }

    async fn batch(&self, sql: &str) -> Result<(), DatabaseFailure> {
        let until = Instant::now() + self.address.patience.max(LEAST);
        let connection = connect(&self.address, 0, until, true).await?;
        let done = connection.client.batch_execute(sql).await;
        done.map_err(|error| match error.as_db_error() {
            Some(error) => DatabaseFailure::Refused(Box::new(error.clone())),
            None => DatabaseFailure::Unknown(with_causes(&error)),
        })
    }
}

/// Whether a statement has waited for a database that has given no answer.
fn is_in_vain(done: &Result<Vec<Row>, DatabaseFailure>) -> bool {
    matches!(
        done,
        Err(DatabaseFailure::Unreachable(_) | DatabaseFailure::GivenUp(_))
    )
}

/// Whether an error is one of the connection.
fn is_broken(error: &tokio_postgres::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if inner.is::<std::io::Error>() {
            return true;
        }
        cause = inner.source();
    }
    false
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.address.fmt(f)
    }
}

impl fmt::Debug for StatementRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.address.fmt(f)
    }
}

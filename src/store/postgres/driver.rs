//! The connections to the database, on a thread of their own.
//!
//! Each statement is a transaction of its own and needs nothing that belongs to a connection, so it
//! may go through a pool. While the database cannot be reached, statements that may be repeated wait
//! for it for some time.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Connection, NoTls, Row, Socket};
use uuid::Uuid;

use crate::sys::{blocking, lock, with_causes};

use super::address::Address;

/// How long a statement may take before its connection counts as broken.
const ANSWER: Duration = Duration::from_secs(30);
/// The pause before another attempt, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How many statements run at once.
const AT_ONCE: usize = 4;

/// A parameter of a statement.
pub(crate) type Param = (Box<dyn ToSql + Sync + Send>, Type);

/// The rows of a statement that is under way.
pub(super) type Pending = Receiver<Result<Vec<Row>, Failure>>;

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

/// Why a statement has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The database cannot be reached. The statement has not run.
    Unreachable(String),
    /// The connection broke, so that it is unknown whether the statement has run.
    Unknown(String),
    /// The database refuses it.
    Refused(Box<DbError>),
    /// Anything else.
    Other(String),
}

impl Failure {
    /// Whether a unique index has refused a row.
    pub(super) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the role may not do this.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(error) if *error.code() == SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Whether the tables are not there.
    pub(super) fn is_without_tables(&self) -> bool {
        let codes = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
        matches!(self, Self::Refused(error) if codes.contains(error.code()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Unknown(why) | Self::Other(why) => f.write_str(why),
            Self::Refused(error) => f.write_str(error.message()),
        }
    }
}

/// Whether a statement may be sent again if its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Running it twice does the same as running it once.
    Yes,
    No,
}

/// The connections.
pub(super) struct Driver {
    shared: Arc<Shared>,
    thread: OnceLock<Result<Thread, String>>,
}

struct Thread {
    handle: Handle,
    /// The thread ends when this is dropped.
    _end: oneshot::Sender<()>,
}

struct Shared {
    address: Address,
    idle: Mutex<Vec<Client>>,
    permits: Semaphore,
    /// Whether the last statement has waited for the database in vain: the next ones try once.
    is_down: AtomicBool,
}

impl Driver {
    /// Connects when the first statement is run.
    pub(super) fn new(address: Address) -> Self {
        let shared = Shared {
            address,
            idle: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
            is_down: AtomicBool::new(false),
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

    /// Runs a statement in which `@` is the schema, and waits for its rows.
    pub(super) fn query(
        &self,
        sql: &str,
        params: Vec<Param>,
        repeat: Repeat,
    ) -> Result<Vec<Row>, Failure> {
        let rows = self.begin(sql, params, repeat)?;
        blocking(|| rows.recv()).unwrap_or_else(|_| Err(ended()))
    }

    /// The same without waiting.
    pub(super) fn begin(
        &self,
        sql: &str,
        params: Vec<Param>,
        repeat: Repeat,
    ) -> Result<Pending, Failure> {
        let (done, rows) = sync_channel(1);
        let sql = self.shared.named(sql);
        let shared = self.shared.clone();
        self.handle()?.spawn(async move {
            done.send(shared.query(&sql, &params, repeat).await).ok();
        });
        Ok(rows)
    }

    /// Runs several statements as one transaction.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Failure> {
        let sql = sql.replace('@', self.schema());
        let shared = self.shared.clone();
        self.run(async move {
            let client = shared.client().await?;
            let done = client.batch_execute(&sql).await;
            done.map_err(|error| match error.as_db_error() {
                Some(error) => Failure::Refused(Box::new(error.clone())),
                None => Failure::Unknown(with_causes(&error)),
            })
        })?
    }

    /// Runs a task until its end, and waits for it.
    fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        let (done, result) = sync_channel(1);
        self.handle()?.spawn(async move {
            done.send(task.await).ok();
        });
        blocking(|| result.recv()).map_err(|_| ended())
    }

    /// The runtime of the connections, which is started when it is first needed.
    pub(super) fn handle(&self) -> Result<&Handle, Failure> {
        let thread = self
            .thread
            .get_or_init(|| start().map_err(|error| error.to_string()));
        match thread {
            Ok(thread) => Ok(&thread.handle),
            Err(error) => Err(Failure::Other(error.clone())),
        }
    }

    /// Runs statements from a task of [`handle`](Self::handle).
    pub(super) fn remote(&self) -> Remote {
        Remote(self.shared.clone())
    }
}

/// Runs statements from tasks of the driver's own runtime.
#[derive(Clone)]
pub(super) struct Remote(Arc<Shared>);

impl Remote {
    /// Runs a statement, and tries once if the database cannot be reached.
    pub(super) async fn query(&self, sql: &str, params: &[Param]) -> Result<Vec<Row>, Failure> {
        let sql = self.0.named(sql);
        self.0.query(&sql, params, Repeat::No).await
    }
}

fn ended() -> Failure {
    Failure::Other("the thread of the connections has ended".to_owned())
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

impl Shared {
    /// A statement with the schema before the names of tables. There are operators with an `@`.
    fn named(&self, sql: &str) -> String {
        sql.replace("@.", &format!("{}.", self.address.schema))
    }

    /// Runs a statement.
    async fn query(
        &self,
        sql: &str,
        params: &[Param],
        repeat: Repeat,
    ) -> Result<Vec<Row>, Failure> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let patience = if self.is_down.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            self.address.patience
        };
        let deadline = Instant::now() + patience;
        let mut pause = PAUSES.0;
        loop {
            let (why, has_run) = match self.client().await {
                Ok(client) => match self.query_on(client, sql, params).await {
                    Ok(rows) => {
                        self.is_down.store(false, Ordering::Relaxed);
                        return Ok(rows);
                    }
                    Err(Failure::Unknown(why)) => (why, true),
                    Err(Failure::Unreachable(why)) => (why, false),
                    Err(failure) => return Err(failure),
                },
                Err(Failure::Unreachable(why)) => (why, false),
                Err(failure) => return Err(failure),
            };
            if has_run && repeat == Repeat::No {
                return Err(Failure::Unknown(why));
            }
            if Instant::now() >= deadline {
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    tracing::warn!(store = self.address.shown, why, "the database is gone");
                }
                return Err(Failure::Unreachable(why));
            }
            sleep(pause).await;
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    async fn query_on(
        &self,
        client: Client,
        sql: &str,
        params: &[Param],
    ) -> Result<Vec<Row>, Failure> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = params
            .iter()
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect();
        let failure = match timeout(ANSWER, client.query_typed(sql, &typed)).await {
            Ok(Ok(rows)) => {
                self.keep(client);
                return Ok(rows);
            }
            Err(_) => Failure::Unknown("the database does not answer".to_owned()),
            Ok(Err(error)) => match error.as_db_error() {
                Some(refused) if has_not_run(refused) => {
                    Failure::Unreachable(refused.message().to_owned())
                }
                Some(refused) if is_ending(refused) => {
                    Failure::Unknown(refused.message().to_owned())
                }
                Some(refused) => {
                    let refused = Failure::Refused(Box::new(refused.clone()));
                    self.keep(client);
                    return Err(refused);
                }
                None if error.is_closed() || is_broken(&error) => {
                    Failure::Unknown(with_causes(&error))
                }
                None => Failure::Other(with_causes(&error)),
            },
        };
        // The others lead to the same server.
        lock(&self.idle).clear();
        Err(failure)
    }

    /// A connection that nobody uses, or a new one.
    async fn client(&self) -> Result<Client, Failure> {
        loop {
            let idle = lock(&self.idle).pop();
            match idle {
                Some(client) if client.is_closed() => {}
                Some(client) => return Ok(client),
                None => break,
            }
        }
        let mut config = self.address.config.clone();
        if let Some(command) = &self.address.password_command {
            config.password(command.run().await.map_err(Failure::Other)?);
        }
        let connected = match &self.address.tls {
            Some(tls) => config.connect(tls.clone()).await.map(drive),
            None => config.connect(NoTls).await.map(drive),
        };
        connected.map_err(|error| match error.as_db_error() {
            Some(refused) if !has_not_run(refused) && !is_ending(refused) => {
                Failure::Refused(Box::new(refused.clone()))
            }
            _ => Failure::Unreachable(with_causes(&error)),
        })
    }

    fn keep(&self, client: Client) {
        let mut idle = lock(&self.idle);
        if idle.len() < AT_ONCE {
            idle.push(client);
        }
    }
}

/// Runs a connection until its end.
fn drive<S>((client, connection): (Client, Connection<Socket, S>)) -> Client
where
    S: TlsStream + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database has ended");
        }
    });
    client
}

/// Whether the server has refused a statement in a way that passes: it is full, only follows another
/// server, or has chosen this transaction to fail.
fn has_not_run(error: &DbError) -> bool {
    [
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::CANNOT_CONNECT_NOW,
    ]
    .contains(error.code())
}

/// Whether the server ends.
fn is_ending(error: &DbError) -> bool {
    let code = error.code().code();
    code.starts_with("57P0") || code.starts_with("08")
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

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.address.fmt(f)
    }
}

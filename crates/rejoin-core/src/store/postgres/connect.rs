//! Opens a connection to a server of an address: finds it, encrypts, logs in.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::config::Host;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::{MakeTlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, NoTls, SimpleQueryMessage};
use tokio_util::either::Either;

use crate::sys::with_causes;

use super::address::{Address, DatabaseServer};
use super::failure::{DatabaseFailure, has_not_run, is_ending};
use super::tls::Tls;

/// When a silent connection is probed, and how often.
const PROBE: Duration = Duration::from_secs(5);
/// How much the system takes of what it cannot send yet, in bytes. What it has taken counts as sent: with
/// more, a statement that is still being sent would look like one that is not answered.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 128 * 1024;
/// How long one of several servers may take to let us in.
const OF_SEVERAL: Duration = Duration::from_secs(5);
/// How long it may take to send the request to cancel a statement, and then the statement to end.
const CANCEL: Duration = Duration::from_secs(3);
/// For how long the server runs a statement whose client has died without a word. Longer than we wait
/// for one that sends or receives nothing.
const ORPHANED: Duration = Duration::from_mins(2);

/// The error if the server asks for a password and none is known.
const NO_PASSWORD: &str = "the server asks for a password, and none is known: set PGPASSWORD, add a \
    line to ~/.pgpass or to the file that PGPASSFILE names, or name a command with \
    --store-password-command";

#[cfg(unix)]
type Local = tokio::net::UnixStream;
#[cfg(not(unix))]
type Local = TcpStream;

/// A stream to a server.
struct Wire {
    stream: Either<TcpStream, Local>,
    /// How many bytes were sent and received.
    moved: Arc<AtomicU64>,
}

/// An open connection. Dropping it ends it once its statement has been answered.
pub(super) struct OpenConnection {
    pub(super) client: Client,
    /// The place of its server in the address.
    pub(super) server: usize,
    /// How many bytes were sent and received.
    pub(super) moved: Arc<AtomicU64>,
    /// Whether a commit has not waited for a standby.
    is_unsafe: Arc<AtomicBool>,
    task: ConnectionTask,
}

/// A connection that was given up while a statement ran on it.
pub(super) struct GivenUp {
    cancel: CancelToken,
    server: usize,
    task: ConnectionTask,
}

/// The task that runs a connection. It ends soon after this was dropped, whatever the server does.
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        let task = self.0.abort_handle();
        match Handle::try_current() {
            Ok(runtime) if !task.is_finished() => {
                runtime.spawn(async move {
                    sleep(CANCEL).await;
                    task.abort();
                });
            }
            _ => task.abort(),
        }
    }
}

impl DatabaseServer {
    /// A stream to it.
    async fn reach(&self, moved: Arc<AtomicU64>) -> io::Result<Wire> {
        let stream = match (&self.host, self.at) {
            (_, Some(at)) => Either::Left(reach_at((at, self.port).into()).await?),
            (Host::Tcp(name), None) => Either::Left(reach_name(name.clone(), self.port).await?),
            #[cfg(unix)]
            (Host::Unix(folder), None) => Either::Right(Local::connect(self.socket(folder)).await?),
        };
        Ok(Wire { stream, moved })
    }
}

/// A stream to the first server with this name that accepts it.
async fn reach_name(name: String, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    let found: Vec<_> = tokio::net::lookup_host((name, port)).await?.collect();
    for at in found {
        match reach_at(at).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn reach_at(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(at).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let probes = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(2 * PROBE))?;
        socket.set_tcp_notsent_lowat(UNSENT)?;
    }
    Ok(stream)
}

/// Connects to a server that accepts writes, if there are several; `first` is tried first. Fails if
/// `until` has passed. An `endless` connection has no limit for its statements.
pub(super) async fn connect(
    address: &Address,
    first: usize,
    until: Instant,
    endless: bool,
) -> Result<OpenConnection, DatabaseFailure> {
    let mut config = address.config.clone();
    if let Some(command) = &address.password_command {
        let password = timeout_at(until, command.run()).await;
        let password = password.unwrap_or_else(|_| {
            Err("the command for the password takes too long: it was ended".to_owned())
        });
        config.password(password.map_err(DatabaseFailure::Other)?);
    }
    let several = address.servers.len() > 1;
    let mut failed = Vec::new();
    for turn in 0..address.servers.len() {
        let number = (first + turn) % address.servers.len();
        let server = &address.servers[number];
        let until = if several {
            until.min(Instant::now() + OF_SEVERAL)
        } else {
            until
        };
        let entered = timeout_at(until, enter(address, &config, number, several, endless)).await;
        let why = match entered {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(DatabaseFailure::Unreachable(why))) => why,
            Ok(Err(failure)) => return Err(failure),
            Err(_) => "it does not answer".to_owned(),
        };
        failed.push(format!("{}: {why}", server.name()));
    }
    Err(DatabaseFailure::Unreachable(failed.join("; ")))
}

/// Connects to one server.
async fn enter(
    address: &Address,
    config: &Config,
    number: usize,
    several: bool,
    endless: bool,
) -> Result<OpenConnection, DatabaseFailure> {
    let limit = format!("-c statement_timeout={}", ORPHANED.as_millis());
    let mut limited = config.clone();
    let given = config.get_options().unwrap_or_default();
    limited.options(format!("{limit} {given}"));
    let is_limited = !endless && !address.is_plain.load(Ordering::Relaxed);
    let used = if is_limited { &limited } else { config };
    let server = &address.servers[number];
    let connection = match log_in(address, server, number, used).await {
        // A pooler: it would leave the limit with a connection that others use next.
        Err(error) if is_limited && error.refuses_options() => {
            address.is_plain.store(true, Ordering::Relaxed);
            log_in(address, server, number, config).await
        }
        connected => connected,
    };
    let connection = connection.map_err(LoginError::into_failure)?;
    if several {
        let shown = connection
            .client
            .simple_query("SHOW transaction_read_only")
            .await;
        let shown = shown.map_err(|error| LoginError::from(error).into_failure())?;
        let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
        if shown.iter().any(is_on) {
            let why = "it only follows another server".to_owned();
            return Err(DatabaseFailure::Unreachable(why));
        }
    }
    Ok(connection)
}

async fn log_in(
    address: &Address,
    server: &DatabaseServer,
    number: usize,
    config: &Config,
) -> Result<OpenConnection, LoginError> {
    let moved = Arc::new(AtomicU64::new(0));
    let wire = server.reach(moved.clone()).await?;
    let is_unsafe = Arc::new(AtomicBool::new(false));
    let (client, task) = if let Some(tls) = &address.tls {
        let handshake = handshake(tls, server)?;
        let (client, connection) = config.connect_raw(wire, handshake).await?;
        (client, tokio::spawn(drive(connection, is_unsafe.clone())))
    } else {
        let (client, connection) = config.connect_raw(wire, NoTls).await?;
        (client, tokio::spawn(drive(connection, is_unsafe.clone())))
    };
    Ok(OpenConnection {
        client,
        server: number,
        moved,
        is_unsafe,
        task: ConnectionTask(task),
    })
}

fn handshake(
    tls: &Tls,
    server: &DatabaseServer,
) -> io::Result<<Tls as MakeTlsConnect<Wire>>::TlsConnect> {
    let handshake = MakeTlsConnect::<Wire>::make_tls_connect(&mut tls.clone(), server.certified());
    handshake.map_err(io::Error::other)
}

/// Why a server has not let us in.
enum LoginError {
    Stream(io::Error),
    Protocol(tokio_postgres::Error),
}

impl LoginError {
    /// Whether a pooler refuses settings of a connection.
    fn refuses_options(&self) -> bool {
        let Self::Protocol(error) = self else {
            return false;
        };
        error.as_db_error().is_some_and(|error| {
            *error.code() == SqlState::PROTOCOL_VIOLATION && error.message().contains("startup")
        })
    }

    fn into_failure(self) -> DatabaseFailure {
        let error = match self {
            Self::Stream(error) => return DatabaseFailure::Unreachable(with_causes(&error)),
            Self::Protocol(error) => error,
        };
        match error.as_db_error() {
            Some(refused) if passes(refused) => {
                DatabaseFailure::Unreachable(refused.message().to_owned())
            }
            Some(refused) => DatabaseFailure::Refused(Box::new(refused.clone())),
            None => {
                let why = with_causes(&error);
                if why.contains("password missing") {
                    return DatabaseFailure::Other(NO_PASSWORD.to_owned());
                }
                DatabaseFailure::Unreachable(why)
            }
        }
    }
}

impl From<io::Error> for LoginError {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

impl From<tokio_postgres::Error> for LoginError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Protocol(error)
    }
}

/// Whether a server may let us in later: it is full, starts or ends.
fn passes(error: &DbError) -> bool {
    has_not_run(error) || is_ending(error)
}

/// Runs a connection until its end.
async fn drive<S>(mut connection: tokio_postgres::Connection<Wire, S>, is_unsafe: Arc<AtomicBool>)
where
    S: TlsStream + Unpin + Send + 'static,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            // The text may be in any language.
            Some(Ok(AsyncMessage::Notice(notice))) => {
                if notice.routine() == Some("SyncRepWaitForLSN") {
                    is_unsafe.store(true, Ordering::Release);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                return tracing::debug!(%error, "a connection to the database has ended");
            }
            None => return,
        }
    }
}

impl OpenConnection {
    /// Whether a commit since this was last asked has not waited for the standby for which it should
    /// have waited: the server's operator, or its limit of time, has ended that.
    pub(super) fn was_unsafe(&self) -> bool {
        self.is_unsafe.swap(false, Ordering::AcqRel)
    }

    /// Gives it up although a statement runs on it.
    pub(super) fn give_up(self) -> GivenUp {
        GivenUp {
            cancel: self.client.cancel_token(),
            server: self.server,
            task: self.task,
        }
    }
}

impl GivenUp {
    /// Cancels the statement and ends the connection. Returns whether the server has answered: it is
    /// alive, and only the statement takes too long.
    pub(super) async fn end(mut self, address: &Address) -> bool {
        let cancelled = timeout(CANCEL, self.cancel(address)).await;
        if let Ok(Err(error)) = cancelled {
            tracing::debug!(%error, "cannot cancel a statement");
        }
        // The connection ends by itself behind the answer.
        let has_answered = timeout(CANCEL, &mut self.task.0).await.is_ok();
        self.task.0.abort();
        has_answered
    }

    async fn cancel(&self, address: &Address) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let server = &address.servers[self.server];
        let wire = server.reach(Arc::default()).await.map_err(failed)?;
        let sent = match &address.tls {
            Some(tls) => {
                let handshake = handshake(tls, server).map_err(failed)?;
                self.cancel.cancel_query_raw(wire, handshake).await
            }
            None => self.cancel.cancel_query_raw(wire, NoTls).await,
        };
        sent.map_err(|error| with_causes(&error))
    }
}

impl Wire {
    fn count(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.count(buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.count(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

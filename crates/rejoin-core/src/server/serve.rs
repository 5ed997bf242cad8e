//! Serves the client that has started the process, from its first line to its last.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::upstream::Patience;
use crate::session::{ConnectionRole, NotifyOptions, ReplayPolicy};
use crate::sources::LiveSources;
use crate::store::Durability;
use crate::sys::Sys;
use crate::sys::output::LineOutput;
use crate::transport::{LINE_LIMIT, Writer};

use super::connection::serve_messages;
use super::listen::listen;
use super::maintenance::{clean_up_at_the_end, run_maintenance};
use super::process::{Process, ProcessKind};
use super::shutdown::{GRACE, end_at_end_of_input, end_on_signal};

/// How long a client may read nothing, after its own end of input, before it counts as gone: it may
/// be a pager, or stopped by a debugger. One that has closed its end of the pipe is gone at once.
const STALLED: Duration = Duration::from_mins(10);

/// How long the client may take to answer a request of an engine, unless another time is set. Some
/// clients ask their user first.
pub const CLIENT_TIMEOUT: Duration = Duration::from_mins(2);

/// How long the process may go on after a signal to end.
const STOPPING: Duration = Duration::from_millis(800);

/// How long releasing the sessions may take. The system releases the rest.
pub(super) const RELEASING: Duration = Duration::from_millis(100);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where sessions are kept; `None` keeps them in memory.
    pub store: Option<PathBuf>,
    /// The tools whose conversations are listed beside the sessions of the store, if there is one.
    pub sources: Option<Arc<LiveSources>>,
    /// The records that survive a power failure.
    pub durability: Durability,
    /// Whether sessions are taken over from processes that have them open.
    pub take_over: bool,
    /// How histories are replayed.
    pub replay: ReplayPolicy,
    /// After how long without a prompt sessions expire; `None` if never.
    pub expire_after: Option<Duration>,
    /// The longest line that is accepted, in bytes.
    pub line_limit: usize,
    /// How long the client may take to answer a request of an engine, such as reading a file; without
    /// a limit if `None`.
    pub client_timeout: Option<Duration>,
    /// Whether to serve methods that the protocol calls unstable.
    pub unstable: bool,
    /// When and how the user is notified of what sessions do while no client is active; `None` if not.
    pub notify: Option<NotifyOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            store: None,
            sources: None,
            durability: Durability::Turn,
            take_over: false,
            replay: ReplayPolicy::default(),
            expire_after: None,
            line_limit: LINE_LIMIT,
            client_timeout: Some(CLIENT_TIMEOUT),
            unstable: false,
            notify: None,
        }
    }
}

/// A connection could not be served to its end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Serving could not begin.
    #[error("cannot start the transport: {0}")]
    Start(#[from] io::Error),
    /// The client has stopped reading before everything was written.
    #[error(
        "the client has read nothing for {} minutes; what was left to answer is lost",
        STALLED.as_secs() / 60
    )]
    Unread,
}

/// Serves the client at the other end of `input` and `output` until it is gone or `stop` resolves.
///
/// At the end of input, all requests are answered, as long as the client reads now and then:
/// replays go on, turns that do not end on their own are cancelled.
pub async fn serve(
    options: Options,
    sys: Sys,
    engine: Arc<dyn Engine>,
    input: impl Read + Send + 'static,
    output: impl Into<LineOutput> + Send,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let process = Process::new(options, sys, engine, ProcessKind::OfClient);
    let (wire, incoming) = process.connect(input, output)?;
    let registry = process.begin(wire.clone(), ConnectionRole::Owner, None);
    let connection = async {
        serve_messages(&process, &registry, incoming).await;
        end_at_end_of_input(&registry).await;
        wire.writer.written().await.ok();
    };
    let stopped = async {
        stop.await;
        // A replay may be far from its end, so not longer than this.
        tokio::time::timeout(STOPPING, end_on_signal(&registry))
            .await
            .ok();
    };
    let mut unread_output = false;
    let patience = tokio::select! {
        () = connection => Patience::EndOfInput,
        () = stopped => {
            tracing::info!("stopped by a signal");
            Patience::Hurry
        }
        () = wire.writer.gone() => {
            tracing::info!("the client no longer reads");
            registry.end();
            registry.client_leaves();
            tokio::time::timeout(GRACE, registry.turns().idle()).await.ok();
            Patience::EndOfInput
        }
        () = async { registry.ended().await; stalled(&wire.writer).await } => {
            unread_output = true;
            Patience::Hurry
        }
        () = run_maintenance(&process) => Patience::EndOfInput,
        never = listen(&process) => match never {},
    };
    process.end(patience).await;
    if patience != Patience::Hurry {
        clean_up_at_the_end(&process).await;
    }
    if unread_output {
        Err(ServeError::Unread)
    } else {
        Ok(())
    }
}

/// Resolves when the client has read nothing for a while although there is something to read.
pub(super) async fn stalled(writer: &Writer) {
    let mut last = writer.progress();
    let mut idle = Duration::ZERO;
    let step = Duration::from_millis(50);
    while idle < STALLED {
        tokio::time::sleep(step).await;
        let now = writer.progress();
        idle = if now.1 && now.0 == last.0 {
            idle + step
        } else {
            Duration::ZERO
        };
        last = now;
    }
}

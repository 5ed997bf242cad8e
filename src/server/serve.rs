//! Serves one client from its first line to its last.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{Agent, Client, ConnectTo, Lines, UntypedMessage};

use crate::engine::Engine;
use crate::engine::relay::Patience;
use crate::index::Catalog;
use crate::session::{Deps, Registry, ReplayPolicy};
use crate::store::{Durability, Store};
use crate::sys::Sys;
use crate::transport::{Form, LINE_LIMIT, Writer, connect};

use super::maintenance::{clean_up_at_the_end, run_maintenance};
use super::responds::Responds;
use super::wind_down::{
    self, AT_LEISURE, AT_LEISURE_WRAPPED, IN_A_HURRY, LAST_WORDS, UnderWay, wind_down,
};
use super::{methods, v2};

/// How long a client may read nothing, after its own end of input, before it counts as gone: it may
/// be a pager, or be held by a debugger. One that has closed its end of the pipe is gone at once.
const STALLED: Duration = Duration::from_mins(10);

/// How long the client may take for what it does for an engine, unless another time is set. Some
/// clients ask their user before they do it.
pub const CLIENT_TIMEOUT: Duration = Duration::from_mins(2);

/// How long the process may go on after a signal to end.
const STOPPING: Duration = Duration::from_millis(800);

/// How long letting go of sessions may take. The system lets go of what is left.
const RELEASING: Duration = Duration::from_millis(100);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where sessions are kept; `None` keeps them in memory.
    pub store: Option<PathBuf>,
    /// What survives a power cut.
    pub durability: Durability,
    /// How histories are replayed.
    pub replay: ReplayPolicy,
    /// After how long without a prompt sessions expire; `None` if they never do.
    pub expire_after: Option<Duration>,
    /// The longest line that is accepted, in bytes.
    pub line_limit: usize,
    /// How long the client may take for what it does for an engine, such as reading a file; for ever
    /// if there is none.
    pub client_timeout: Option<Duration>,
    /// Whether to serve methods that the protocol calls unstable.
    pub unstable: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            store: None,
            durability: Durability::Turn,
            replay: ReplayPolicy::default(),
            expire_after: None,
            line_limit: LINE_LIMIT,
            client_timeout: Some(CLIENT_TIMEOUT),
            unstable: false,
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

/// Serves the client at the other end of `input` and `output` until it leaves or `stop` resolves.
///
/// At the end of input, everything that was asked for is answered, for as long as the client reads
/// now and then: replays go on, turns that do not end by themselves are cancelled.
pub async fn serve(
    options: Options,
    sys: Sys,
    engine: Arc<dyn Engine>,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let version = env!("CARGO_PKG_VERSION");
    let root = options
        .store
        .as_ref()
        .map(|root| root.display().to_string());
    tracing::info!(version, store = root, "serving");
    let store = options.store.as_ref().map(|root| {
        let store = Store::at(root, sys.clone(), options.durability);
        if let Err(error) = store.prepare() {
            // The client is told when it asks for something; the disk may be back by then.
            tracing::error!(%error, "sessions cannot be kept");
        }
        store
    });
    let catalog = store.clone().map(|store| Arc::new(Catalog::open(store)));
    // An agent behind us speaks version 1, and what goes through us is not rewritten.
    let (latest, form) = match engine.relay() {
        Some(_) => (1, Form::JsonRpc),
        None => (2, Form::Acp),
    };
    let (wire, outgoing, incoming) = connect(input, output, options.line_limit, latest, form)?;
    let registry = Registry::new(Arc::new(Deps {
        sys,
        store,
        catalog,
        engine,
        wire: wire.clone(),
        replay: options.replay,
        expire_after: options.expire_after,
        line_limit: options.line_limit,
        client_timeout: options.client_timeout,
        unstable: options.unstable,
        client: std::sync::OnceLock::new(),
        version: std::sync::OnceLock::new(),
        abilities: std::sync::OnceLock::new(),
        closed: std::sync::Mutex::default(),
    }));
    if let Some(relay) = registry.deps().engine.relay() {
        relay.connect(wire.clone());
    }
    let lines = Lines::new(outgoing, incoming);
    let connection = async {
        let first = version_1(&registry);
        if latest == 1 {
            return first.connect_to(lines).await;
        }
        let second = version_2(&registry);
        let both = Agent.protocol_router().with_v1(first).with_v2(second);
        both.connect_to(lines).await
    };
    let stopped = async {
        stop.await;
        // A replay may be far from its end, so no more than this.
        tokio::time::timeout(STOPPING, last_words(&registry))
            .await
            .ok();
    };
    let mut unsaid = false;
    let patience = tokio::select! {
        result = connection => {
            if let Err(error) = result {
                tracing::debug!(code = ?error.code, "the connection ended");
            }
            Patience::EndOfInput
        }
        () = stopped => {
            tracing::info!("stopped by a signal");
            Patience::Hurry
        }
        () = wire.writer.gone() => {
            tracing::info!("the client no longer reads");
            registry.end();
            registry.cancel_all();
            tokio::time::timeout(LAST_WORDS, registry.turns().idle()).await.ok();
            Patience::EndOfInput
        }
        () = unread(&wire.writer, &registry) => {
            unsaid = true;
            Patience::Hurry
        }
        () = run_maintenance(&registry) => Patience::EndOfInput,
    };
    tokio::time::timeout(RELEASING, registry.release())
        .await
        .ok();
    let engine = &registry.deps().engine;
    engine.leave(patience).await;
    if let Some(relay) = engine.relay() {
        relay.leave(patience).await;
    }
    if patience != Patience::Hurry {
        clean_up_at_the_end(&registry).await;
    }
    if unsaid {
        Err(ServeError::Unread)
    } else {
        Ok(())
    }
}

/// The agent of version 1.
fn version_1(registry: &Registry) -> impl ConnectTo<Client> + use<> {
    let context = methods::Context::new(registry.clone(), methods::encode);
    let notified = context.clone();
    let closing = registry.clone();
    Agent
        .v1()
        .name("rejoin")
        .on_receive_request(
            async move |message: UntypedMessage, responder, _| {
                methods::request(&context, &message, Responds::V1(responder));
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |message: UntypedMessage, _| {
                methods::notification(&notified, &message);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_close(async move |_| {
            close(&closing).await;
            Ok(())
        })
}

/// The agent of version 2.
fn version_2(registry: &Registry) -> impl ConnectTo<Client> + use<> {
    let context = methods::Context::new(registry.clone(), v2::encode);
    let notified = context.clone();
    let closing = registry.clone();
    Agent
        .v2()
        .name("rejoin")
        .on_receive_request(
            async move |message: UntypedMessage, responder, _| {
                v2::request(&context, &message, Responds::V2(responder));
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |message: UntypedMessage, _| {
                v2::notification(&notified, &message);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_close(async move |_| {
            close(&closing).await;
            Ok(())
        })
}

/// The client has said all it will say.
async fn close(registry: &Registry) {
    let wraps = registry.deps().engine.relay().is_some();
    let patience = if wraps {
        AT_LEISURE_WRAPPED
    } else {
        AT_LEISURE
    };
    end(registry, patience).await;
}

/// Ends the turns, and sees to it that what was answered leaves.
async fn last_words(registry: &Registry) {
    registry.cancel_all();
    end(registry, IN_A_HURRY).await;
    let wire = &registry.deps().wire;
    // What was answered last is still on its way through the SDK.
    wire.answers.all_passed().await;
    std::future::poll_fn(|cx| wire.writer.poll_written(cx))
        .await
        .ok();
}

/// Ends what is under way.
async fn end(registry: &Registry, patience: wind_down::Patience) {
    registry.end();
    let (requests, turns) = (registry.requests(), registry.turns());
    let under_way = UnderWay {
        requests,
        turns,
        replays: registry.replays(),
        written: &|| registry.deps().wire.writer.progress(),
    };
    wind_down(&under_way, || registry.cancel_all(), patience).await;
    if let Some(relay) = registry.deps().engine.relay()
        && !(requests.is_idle() && turns.is_idle())
    {
        // An agent that does not answer ends first, so that whoever waits for it can be told.
        relay.leave(Patience::Hurry).await;
        tokio::time::timeout(LAST_WORDS, async {
            requests.idle().await;
            turns.idle().await;
        })
        .await
        .ok();
    }
}

/// Resolves when the client, whose input has ended, has read nothing for a while although there
/// is something to read.
async fn unread(writer: &Writer, registry: &Registry) {
    registry.ended().await;
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

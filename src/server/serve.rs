//! Serves one client from its first line to its last.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::relay::Patience;
use crate::index::Catalog;
use crate::protocol::ProtocolVersion;
use crate::protocol::method::INITIALIZE;
use crate::session::{Deps, Growth, Registry, ReplayPolicy};
use crate::sources::LiveSources;
use crate::store::{Durability, Store};
use crate::sys::Sys;
use crate::transport::{Form, Incoming, LINE_LIMIT, Received, Request, Writer, connect};

use super::error::{self, Error};
use super::maintenance::{clean_up_at_the_end, run_maintenance};
use super::methods::{self, Context, check_repeated, choose_version, client};
use super::shutdown::{
    END_OF_INPUT, END_OF_INPUT_WRAPPED, GRACE, Limits, SIGNAL, UnderWay, shutdown,
};

/// How long a client may read nothing, after its own end of input, before it counts as gone: it may
/// be a pager, or stopped by a debugger. One that has closed its end of the pipe is gone at once.
const STALLED: Duration = Duration::from_mins(10);

/// How long the client may take to answer a request of an engine, unless another time is set. Some
/// clients ask their user first.
pub const CLIENT_TIMEOUT: Duration = Duration::from_mins(2);

/// How long the process may go on after a signal to end.
const STOPPING: Duration = Duration::from_millis(800);

/// How long releasing the sessions may take. The system releases the rest.
const RELEASING: Duration = Duration::from_millis(100);

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where sessions are kept; `None` keeps them in memory.
    pub store: Option<PathBuf>,
    /// The tools whose conversations are listed beside the sessions of the store, if there is one.
    pub sources: Option<Arc<LiveSources>>,
    /// What survives a power failure.
    pub durability: Durability,
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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            store: None,
            sources: None,
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

/// Serves the client at the other end of `input` and `output` until it is gone or `stop` resolves.
///
/// At the end of input, all requests are answered, as long as the client reads now and then:
/// replays go on, turns that do not end on their own are cancelled.
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
            // Requests report it to the client; the disk may be back by then.
            tracing::error!(%error, "sessions cannot be kept");
        }
        store
    });
    let sources = options.sources.filter(|_| store.is_some());
    let catalog = store.clone().map(Catalog::open);
    let catalog = catalog.map(|catalog| match &sources {
        Some(sources) => catalog.with_tools(sources.clone()),
        None => catalog,
    });
    let catalog = catalog.map(Arc::new);
    let form = if engine.wraps_agent() {
        Form::JsonRpc
    } else {
        Form::Acp
    };
    let (wire, incoming) = connect(input, output, options.line_limit, form)?;
    let registry = Registry::new(Arc::new(Deps {
        sys,
        store,
        catalog,
        sources,
        engine,
        wire: wire.clone(),
        replay: options.replay,
        expire_after: options.expire_after,
        line_limit: options.line_limit,
        client_timeout: options.client_timeout,
        unstable: options.unstable,
        growth: Growth::default(),
        closed: std::sync::Mutex::default(),
    }));
    registry.deps().engine.connect(wire.clone());
    let connection = async {
        serve_messages(&registry, incoming).await;
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
            registry.cancel_all();
            tokio::time::timeout(GRACE, registry.turns().idle()).await.ok();
            Patience::EndOfInput
        }
        () = unread(&wire.writer, &registry) => {
            unread_output = true;
            Patience::Hurry
        }
        () = run_maintenance(&registry) => Patience::EndOfInput,
    };
    wire.requests.close();
    tokio::time::timeout(RELEASING, registry.release())
        .await
        .ok();
    registry.deps().engine.leave(patience).await;
    if patience != Patience::Hurry {
        clean_up_at_the_end(&registry).await;
    }
    if unread_output {
        Err(ServeError::Unread)
    } else {
        Ok(())
    }
}

/// Serves messages until the end of input.
async fn serve_messages(registry: &Registry, mut incoming: Incoming) {
    let mut connection = Connection {
        registry,
        context: None,
        has_requests: false,
    };
    while let Some(message) = incoming.next().await {
        match message {
            Received::Request(request) => connection.request(request).await,
            // Before `initialize`, there is nothing that a notification could be about.
            Received::Notification { method, params } => {
                if let Some(context) = &connection.context {
                    methods::notification(context, &method, &params);
                }
            }
        }
    }
}

/// A connection and how far its handshake is.
struct Connection<'a> {
    registry: &'a Registry,
    /// `None` before `initialize` has been answered with a result.
    context: Option<Context>,
    /// Whether requests other than `initialize` have been served.
    has_requests: bool,
}

impl Connection<'_> {
    async fn request(&mut self, request: Request) {
        let is_initialize = request.method == INITIALIZE;
        let context = match self.check(&request, is_initialize) {
            Ok(context) => context,
            Err(error) => {
                let form = self.context.as_ref().map(Context::error_form);
                let error = error.json(form.unwrap_or_default());
                return request.responder.answer(&Err(error));
            }
        };
        if !is_initialize {
            self.has_requests = true;
            return methods::request(&context, request);
        }
        if self.context.is_some() {
            // Nothing waits for a repeated one: a wrapped agent that signs in again may need a
            // response of the client first.
            tokio::spawn(async move {
                methods::initialize(&context, request.params, request.responder).await;
            });
            return;
        }
        // What follows waits for the response, so that a file of requests can be piped in.
        if methods::initialize(&context, request.params, request.responder).await {
            self.has_requests = false;
            self.context = Some(context);
        }
    }

    /// The context in which a request is served, if it is allowed at this time.
    fn check(&self, request: &Request, is_initialize: bool) -> Result<Context, Error> {
        let context = match &self.context {
            None if !is_initialize => {
                return Err(error::invalid_request(
                    "the connection is not initialized: send `initialize` first",
                ));
            }
            None => {
                let version = choose_version(&request.params)?;
                let client = client(&request.params, version);
                Context::new(self.registry.for_client(client), version)
            }
            Some(context) => {
                if is_initialize {
                    choose_version(&request.params)?;
                    check_repeated(&request.params, context.version(), self.has_requests)?;
                }
                context.clone()
            }
        };
        if context.version() == ProtocolVersion::V2 && request.responder.id() == "null" {
            return Err(error::invalid_request(
                "Invalid request: ACP protocol v2 request ids must be a string or an integer, \
                 not null",
            ));
        }
        Ok(context)
    }
}

/// Ends what is under way after the end of input.
async fn end_at_end_of_input(registry: &Registry) {
    let wraps = registry.deps().engine.wraps_agent();
    let limits = if wraps {
        END_OF_INPUT_WRAPPED
    } else {
        END_OF_INPUT
    };
    end_within(limits, registry).await;
}

/// Cancels the turns after a signal, and waits until their responses are written.
async fn end_on_signal(registry: &Registry) {
    registry.cancel_all();
    end_within(SIGNAL, registry).await;
    registry.deps().wire.writer.written().await.ok();
}

/// Ends what is under way, within these limits of time.
async fn end_within(limits: Limits, registry: &Registry) {
    registry.end();
    let (requests, turns) = (registry.requests(), registry.turns());
    let under_way = UnderWay {
        requests,
        turns,
        replays: registry.replays(),
        written: &|| registry.deps().wire.writer.progress(),
    };
    shutdown(&under_way, || registry.cancel_all(), limits).await;
    let engine = &registry.deps().engine;
    if engine.wraps_agent() && !(requests.is_idle() && turns.is_idle()) {
        // Ending an agent that does not answer first lets the requests that wait for it fail.
        engine.leave(Patience::Hurry).await;
        tokio::time::timeout(GRACE, async {
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

//! `rejoin serve`: an ACP agent on stdin and stdout.

pub(super) mod agent;
pub(super) mod guard;
mod keep;
mod lend;
pub(super) mod mcp;
mod notify;
mod options;
pub(super) mod proxy;
pub(super) mod wrap;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args as _, FromArgMatches};

use rejoin::engine::Engine;
use rejoin::engine::demo::LocalEngine;
use rejoin::record::line::{AROUND, LONGEST};
use rejoin::server::{self, Options, ServeError};
use rejoin::session::ReplayPolicy;
use rejoin::store::{Durability, place};
use rejoin::sys::Sys;
use rejoin::sys::descriptors::raise_limit;
use rejoin::sys::output::LineOutput;
use rejoin::transport::stdio;

use super::exit::{self, Failure};
use super::global::{Global, Stage};
use super::sources;
use super::store_path;
use super::term::{note, stdin_is_terminal};
use super::values::{EnvValue, Size, Timeout, bytes, expiry};

/// The smallest limit: any request of the protocol without large content fits.
const LEAST_LINE: usize = 4096;
/// The largest limit: a longer line would not fit into a record.
const MOST_LINE: usize = LONGEST - AROUND;

/// How to serve.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(super) struct Args {
    /// Keep sessions in memory only: nothing is stored, so sessions cannot be loaded later.
    #[arg(long)]
    no_persist: bool,
    /// Take sessions over from other processes that have them open, where the store is a database.
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    sources: sources::Args,
    /// What survives a power failure: finished turns (`turn`), every record (`each`), or whatever
    /// the system has written to disk (`os`). A crash of rejoin alone loses nothing in any mode.
    #[arg(long, value_name = "MODE", default_value_t = Durability::Turn)]
    durability: Durability,
    /// How to replay a session: `merged` joins the chunks of each message, `exact` sends each chunk
    /// as it was first sent.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ReplayMode::Merged)]
    replay: ReplayMode,
    /// Replay only the last N turns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    replay_tail: Option<u64>,
    /// Replay at most N updates per second, for clients that cannot keep up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    replay_rate: Option<u64>,
    /// In conversations of other tools, replay at most this many bytes of what a tool call was given
    /// and returned, such as `64K` or `1M`, or `none` for all of it.
    #[arg(
        long,
        env = "REJOIN_CLIP_TOOLS",
        value_name = "SIZE",
        default_value = "64K"
    )]
    clip_tools: EnvValue<Size>,
    /// Expire sessions without activity for this long, such as `90d`: they become unavailable and are
    /// moved to the trash in the background. A number without a unit is one of days. Off by default.
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    expire_after: Option<Duration>,
    /// Time limit for the client to read or write a file or to create a terminal, such as `30s` or
    /// `2m`, or `none`. Questions to the user have no limit.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    client_timeout: Timeout,
    /// Enable methods that the protocol calls unstable: it may still change or remove them.
    #[arg(long, env = "REJOIN_UNSTABLE", value_parser = clap::builder::FalseyValueParser::new())]
    unstable: bool,
    /// Let sessions live on when the client goes: a process that outlives it keeps them and their agent,
    /// for the next client with the same command line. It ends by itself when nothing was done for this
    /// long, or never with `none`.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "8h")]
    keep: Option<Timeout>,
    #[command(flatten)]
    notify: notify::Args,
    /// Maximum length of a line of input.
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = line_limit)]
    max_line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReplayMode {
    Merged,
    Exact,
}

impl Args {
    /// Whether the command line has any of them; the environment may have them for all commands.
    pub(super) fn are_given(&self) -> bool {
        let none = Self::augment_args(clap::Command::new("serve")).get_matches_from(["serve"]);
        Self::from_arg_matches(&none).is_ok_and(|none| *self != none)
    }

    /// Whether sessions are stored.
    pub(super) fn persists(&self) -> bool {
        !self.no_persist
    }

    /// Which other tools' conversations are listed.
    pub(super) fn sources(&self) -> &sources::Args {
        &self.sources
    }

    /// Whether sessions live on without the client.
    pub(super) fn keeps(&self) -> bool {
        self.keep.is_some()
    }

    /// The longest line that is accepted, in bytes.
    pub(super) fn line_limit(&self) -> usize {
        self.max_line
    }
}

/// Parses the limit of a line.
fn line_limit(text: &str) -> Result<usize, String> {
    let limit = bytes(text)?;
    if (LEAST_LINE..=MOST_LINE).contains(&limit) {
        Ok(limit)
    } else {
        Err(format!("{limit} is not in {LEAST_LINE}..={MOST_LINE}"))
    }
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), Failure> {
    let engine = LocalEngine::launching(store_path::launch(global)?);
    let input = stdio::input().map_err(Failure::cannot_start)?;
    on(global, args, true, Arc::new(engine), input)
}

/// Serves the client at the other end of `input` and stdout with this engine. `lists_tools` says
/// whether conversations of other tools are usually listed in the default store.
pub(super) fn on(
    global: &Global,
    args: &Args,
    lists_tools: bool,
    engine: Arc<dyn Engine>,
    input: impl Read + Send + 'static,
) -> Result<(), Failure> {
    if let (Some(_), Some(Stage::Detach(number))) = (args.keep, global.host()) {
        return keep::detach(global, number);
    }
    if stdin_is_terminal() {
        let text = "waiting for an ACP client on stdin; press Ctrl-D to end";
        note(global, text, None);
    }
    if args.keep.is_some() && args.no_persist {
        let why = "sessions that are not stored cannot be kept";
        return Err(Failure::usage(why).hint("leave out `--keep` or `--no-persist`"));
    }
    if args.keep.is_some() && place::is_address(&store_path::root(global)?) {
        let why = "sessions are kept for their clients only in a store that is a folder";
        return Err(Failure::usage(why).hint("leave out `--keep`, or name a folder with --store"));
    }
    if args.keep.is_some() && !cfg!(unix) {
        let text = "sessions are not kept without their client on this system";
        note(global, text, None);
    } else if args.keep.is_some() && global.host().is_none() {
        return keep::pipe(global, input);
    }
    let options = Options {
        store: if args.no_persist {
            None
        } else {
            Some(store_path::named(global)?)
        },
        sources: args.sources.live(global, lists_tools)?,
        durability: args.durability,
        take_over: args.take_over,
        replay: ReplayPolicy {
            exact: args.replay == ReplayMode::Exact,
            tail: args.replay_tail,
            rate: args.replay_rate,
            clip: args.clip_tools.get("--clip-tools or REJOIN_CLIP_TOOLS")?.0,
        },
        line_limit: args.line_limit(),
        client_timeout: args.client_timeout.0,
        unstable: args.unstable,
        notify: args.notify.options(global)?,
        expire_after: args.expire_after,
    };
    raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .enable_io()
        .build()
        .map_err(Failure::cannot_start)?;
    let result = runtime.block_on(async {
        let stop = stop_signal().map_err(Failure::cannot_start)?;
        if let (Some(unused), Some(root), Some(stage)) = (args.keep, &options.store, global.host())
        {
            let keep = keep::keep(root, unused, stage);
            let hosted = server::host(options, keep, Sys::real(), engine, keep::ready, stop);
            return hosted.await.map_err(Failure::new);
        }
        let output = stdio::output().map(LineOutput::of);
        let output = output.map_err(Failure::cannot_start)?;
        server::serve(options, Sys::real(), engine, input, output, stop)
            .await
            .map_err(|error| match error {
                ServeError::Start(_) => Failure::new(format!("cannot serve: {error}")),
                ServeError::Unread => Failure::with_code(exit::UNREAD, error),
            })
    });
    // Do not wait for tasks that still block on the client's input or output.
    runtime.shutdown_timeout(Duration::ZERO);
    result
}

/// How long the process may take to end after a signal, whatever it waits for.
#[cfg(unix)]
const STOPS: Duration = Duration::from_secs(8);

/// Resolves when the system asks the process to end. If it does so again, or the process has not ended
/// after a while, the process ends at once, by the signal's exit code.
#[cfg(unix)]
pub(super) fn stop_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
    use crate::cli::exit::SIGNALLED;
    use tokio::signal::unix::{SignalKind, signal};
    // A write beyond the size that the system allows for a file then fails, as on a full disk. Without
    // a handler, which stays, the signal would end the process.
    let file_size = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    drop(signal(file_size)?);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => SignalKind::terminate(),
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = hang_up.recv() => SignalKind::hangup(),
        }
    };
    let (stop, stopped) = tokio::sync::oneshot::channel();
    // On its own, since what is to end may be waiting for something.
    #[expect(
        clippy::disallowed_methods,
        clippy::exit,
        reason = "what the process waits for may never come"
    )]
    tokio::spawn(async move {
        let first = next().await;
        stop.send(()).ok();
        let signal = tokio::time::timeout(STOPS, next()).await;
        if signal.is_err() {
            tracing::warn!("not everything has ended in time after a signal");
        }
        let signal = signal.unwrap_or(first);
        std::process::exit(i32::from(SIGNALLED) + signal.as_raw_value());
    });
    Ok(async move {
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Resolves when the system asks the process to end.
#[cfg(not(unix))]
pub(super) fn stop_signal() -> std::io::Result<impl Future<Output = ()> + Send> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

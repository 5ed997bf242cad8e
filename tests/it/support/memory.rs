//! The agent in this process: `serve` over two pipes, on a runtime of its own.

use std::io::{self, PipeWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rejoin::engine::demo::LocalEngine;
use rejoin::server::{Options, serve};
use rejoin::sys::clock::SystemClock;
use rejoin::sys::{Clock, Sys, Timestamp};
use tokio::sync::oneshot;

use super::agent::{Agent, GUARD};

/// The real time, but never the same twice in this process: so that a fixture that is being
/// written gives each record's time a name of its own.
#[derive(Debug)]
struct Ticking;

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        static LAST: AtomicI64 = AtomicI64::new(0);
        let real = SystemClock.now().as_millis();
        let next = |last: i64| real.max(last + 1);
        let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            Some(next(last))
        });
        Timestamp::from_millis(next(last.unwrap_or_else(|last| last)))
    }
}

struct Memory {
    input: Option<PipeWriter>,
    stop: Option<oneshot::Sender<()>>,
    kill: Option<oneshot::Sender<()>>,
    ended: Receiver<Result<(), String>>,
}

/// Starts an agent on a store.
pub(crate) fn start(store: &Path, args: &[String]) -> (Box<dyn Agent>, Box<dyn Read + Send>) {
    let options = options(store, args);
    let (input, sent) = io::pipe().expect("pipes can be made");
    let (output, received) = io::pipe()
        .map(|(read, write)| (write, read))
        .expect("as before");
    let (stop, stopped) = oneshot::channel::<()>();
    let (kill, killed) = oneshot::channel::<()>();
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("runtimes can be made");
        let stopped = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let engine = Arc::new(LocalEngine::new());
        let sys = Sys {
            clock: Arc::new(Ticking),
            ..Sys::real()
        };
        let serving = serve(options, sys, engine, input, output, stopped);
        let result = runtime.block_on(async {
            tokio::select! {
                biased;
                Ok(()) = killed => Ok(()),
                result = serving => result.map_err(|error| error.to_string()),
            }
        });
        // A process would take its locks along. Here they are gone when all tasks are.
        runtime.shutdown_timeout(GUARD);
        tell.send(result).ok();
    });
    let memory = Memory {
        input: Some(sent),
        stop: Some(stop),
        kill: Some(kill),
        ended,
    };
    (Box::new(memory), Box::new(received))
}

/// What `rejoin serve` makes of these arguments.
fn options(store: &Path, args: &[String]) -> Options {
    let mut options = Options {
        store: Some(store.to_owned()),
        ..Options::default()
    };
    let mut args = args.iter();
    let mut next = || args.next().map(String::as_str);
    while let Some(name) = next() {
        let value = if matches!(name, "--no-persist" | "--unstable") {
            ""
        } else {
            next().unwrap_or_default()
        };
        let number = || value.parse().expect("a number");
        match (name, value) {
            ("--no-persist", _) => options.store = None,
            ("--unstable", _) => options.unstable = true,
            ("--replay", "exact") => options.replay.exact = true,
            ("--replay", "merged") => options.replay.exact = false,
            ("--replay-tail", _) => options.replay.tail = Some(number()),
            ("--expire-after", _) => {
                options.expire_after = Some(Duration::from_hours(24 * number()));
            }
            ("--client-timeout", _) => {
                options.client_timeout = Some(humantime::parse_duration(value).expect("a time"));
            }
            ("--max-line", _) => options.line_limit = value.parse().expect("a number"),
            ("--durability", _) => options.durability = value.parse().expect("a durability"),
            _ => panic!("{name} {value} is no argument that is known here"),
        }
    }
    options
}

impl Agent for Memory {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.input {
            Some(input) => input.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn end_input(&mut self) {
        self.input = None;
    }

    fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
    }

    fn kill(&mut self) {
        if let Some(kill) = self.kill.take() {
            kill.send(()).ok();
        }
        self.input = None;
        let ended = self.ended.recv_timeout(2 * GUARD);
        ended
            .expect("nothing outlives its runtime")
            .expect("serving began");
    }

    fn wait(&mut self) -> Result<(), String> {
        let ended = self.ended.recv_timeout(GUARD);
        ended.map_err(|_| format!("it did not end within {GUARD:?}"))?
    }

    fn process(&self) -> u32 {
        std::process::id()
    }

    fn said(&self) -> String {
        String::new()
    }
}

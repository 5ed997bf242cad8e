//! The agent of a fixture in this process, with the options of `rejoin serve`.

use std::io::{self, PipeWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rejoin::engine::demo::LocalEngine;
use rejoin::server::Options;
use rejoin::sys::clock::SystemClock;
use rejoin::sys::{Clock, Sys, Timestamp};

use super::agent::{Agent, GUARD};
use super::server::{self, Server};

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
    server: Server,
}

/// Starts an agent on a store.
pub(crate) fn start(store: &Path, args: &[String]) -> (Box<dyn Agent>, Box<dyn Read + Send>) {
    let sys = Sys {
        clock: Arc::new(Ticking),
        ..Sys::real()
    };
    let engine = Arc::new(LocalEngine::new());
    let (server, input, output) = server::start(options(store, args), sys, engine, 2);
    let input = Some(input);
    (Box::new(Memory { input, server }), Box::new(output))
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
        self.server.stop();
    }

    fn kill(&mut self) {
        self.server.kill();
        self.input = None;
        let served = self.server.wait(2 * GUARD);
        served
            .expect("nothing outlives its runtime")
            .expect("serving began");
    }

    fn wait(&mut self) -> Result<(), String> {
        self.server.wait(GUARD)?
    }

    fn process(&self) -> u32 {
        std::process::id()
    }

    fn said(&self) -> String {
        String::new()
    }
}

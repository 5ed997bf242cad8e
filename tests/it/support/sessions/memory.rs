//! A server and its client in one process, with pipes in memory between them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rejoin::engine::Engine;
use rejoin::engine::demo::LocalEngine;
use rejoin::server::{self, Options};
use rejoin::session::ReplayPolicy;
use rejoin::store::Durability;
use rejoin::sys::Sys;
use tokio::runtime::Builder;

use super::client::{Client, lines};

/// How a server in memory is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) durability: Durability,
    pub(crate) exact: bool,
    /// How many threads the runtime has; 0 for one that only runs where it is waited for.
    pub(crate) threads: usize,
    pub(crate) engine: Arc<dyn Engine>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            durability: Durability::Turn,
            exact: false,
            threads: 0,
            engine: Arc::new(LocalEngine::new()),
        }
    }
}

/// A running server. It ends with its client's connection, and with it everything that it has
/// open.
pub(crate) struct Memory {
    pub(crate) client: Client,
    server: JoinHandle<Result<(), String>>,
}

impl Memory {
    /// Starts a server on a store at `root` and says hello.
    pub(crate) fn start(root: &Path, sys: &Sys, setup: &Setup) -> Self {
        let (input, to_server) = io::pipe().expect("there are pipes");
        let (from_server, output) = io::pipe().expect("there are pipes");
        let options = Options {
            store: Some(root.to_owned()),
            durability: setup.durability,
            replay: ReplayPolicy {
                exact: setup.exact,
                ..ReplayPolicy::default()
            },
            unstable: true,
            ..Options::default()
        };
        let (sys, setup) = (sys.clone(), setup.clone());
        let server = std::thread::spawn(move || {
            let mut builder = match setup.threads {
                0 => Builder::new_current_thread(),
                _ => Builder::new_multi_thread(),
            };
            let builder = builder.worker_threads(setup.threads.max(1)).enable_time();
            let runtime = builder.build().expect("there are threads");
            let stop = std::future::pending();
            let serving = server::serve(options, sys, setup.engine, input, output, stop);
            runtime.block_on(serving).map_err(|error| error.to_string())
        });
        let mut client = Client::new(to_server, lines(from_server, 64 * 1024, |_| ()));
        if let Some(answer) = client.initialize() {
            answer.expect("a greeting is answered");
        }
        Self { client, server }
    }

    /// Ends the connection, and waits for the server to end. Everything asked must be answered.
    pub(crate) fn end(mut self) -> Client {
        self.client.leave();
        let served = self.server.join().expect("the server does not panic");
        served.expect("the server could serve");
        self.client
    }

    /// Ends the connection, whatever is under way or could not be begun.
    pub(crate) fn abandon(mut self) -> (Client, Result<(), String>) {
        self.client.drain();
        let served = self.server.join().expect("the server does not panic");
        (self.client, served)
    }
}

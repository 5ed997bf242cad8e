//! A server and its client in one process, with pipes in memory between them.

use std::path::Path;
use std::sync::Arc;

use rejoin::engine::Engine;
use rejoin::engine::demo::LocalEngine;
use rejoin::server::Options;
use rejoin::session::ReplayPolicy;
use rejoin::store::Durability;
use rejoin::sys::Sys;

use super::client::{Client, lines};
use crate::support::agent::GUARD;
use crate::support::server::{self, Server};

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
    server: Server,
}

impl Memory {
    /// Starts a server on a store at `root` and says hello.
    pub(crate) fn start(root: &Path, sys: &Sys, setup: &Setup) -> Self {
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
        let (server, to_server, from_server) =
            server::start(options, sys.clone(), setup.engine.clone(), setup.threads);
        let mut client = Client::new(to_server, lines(from_server, 64 * 1024, |_| ()));
        if let Some(answer) = client.initialize() {
            answer.expect("a greeting is answered");
        }
        Self { client, server }
    }

    /// Ends the connection, and waits for the server to end. Everything asked must be answered.
    pub(crate) fn end(mut self) -> Client {
        self.client.leave();
        let served = self.server.wait(GUARD).expect("the server ends");
        served.expect("the server could serve");
        self.client
    }

    /// Ends the connection, whatever is under way or could not be begun.
    pub(crate) fn abandon(mut self) -> (Client, Result<(), String>) {
        self.client.drain();
        let served = self.server.wait(GUARD).expect("the server ends");
        (self.client, served)
    }
}

//! The server in this process: a thread with a runtime of its own, and pipes instead of stdin and
//! stdout.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rejoin::engine::Engine;
use rejoin::server::{Options, serve};
use rejoin::sys::Sys;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::agent::GUARD;

/// A running server. It ends when its input does.
pub(crate) struct Server {
    stop: Option<oneshot::Sender<()>>,
    kill: Option<oneshot::Sender<()>>,
    ended: Receiver<Result<(), String>>,
}

/// Starts a server, on a runtime with so many threads; 0 for one that only runs what it waits for.
/// Returns the pipe that it reads and the pipe that it writes.
pub(crate) fn start(
    options: Options,
    sys: Sys,
    engine: Arc<dyn Engine>,
    threads: usize,
) -> (Server, PipeWriter, PipeReader) {
    let (input, to_server) = io::pipe().expect("pipes can be made");
    let (from_server, output) = io::pipe().expect("pipes can be made");
    let (stop, stopped) = oneshot::channel::<()>();
    let (kill, killed) = oneshot::channel::<()>();
    let (result, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut builder = match threads {
            0 => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(threads.max(1)).enable_all().build();
        let runtime = runtime.expect("runtimes can be made");
        let stopped = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let serving = serve(options, sys, engine, input, output, stopped);
        let served = runtime.block_on(async {
            tokio::select! {
                biased;
                Ok(()) = killed => Ok(()),
                served = serving => served.map_err(|error| error.to_string()),
            }
        });
        // The end of a process would release its locks. Here they are released with the last task.
        runtime.shutdown_timeout(GUARD);
        result.send(served).ok();
    });
    let server = Server {
        stop: Some(stop),
        kill: Some(kill),
        ended,
    };
    (server, to_server, from_server)
}

impl Server {
    /// Asks it to end, as a signal would.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
    }

    /// Ends it, whatever it is doing.
    pub(crate) fn kill(&mut self) {
        if let Some(kill) = self.kill.take() {
            kill.send(()).ok();
        }
    }

    /// Waits for its end. An error of its own is inside.
    pub(crate) fn wait(&self, within: Duration) -> Result<Result<(), String>, String> {
        let ended = self.ended.recv_timeout(within);
        ended.map_err(|_| format!("it panicked, or did not end within {within:?}"))
    }
}

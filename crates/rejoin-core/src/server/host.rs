//! A host: a process without a client of its own, which keeps sessions and their engine for clients
//! that come and go over its socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::upstream::Patience;
use crate::store::{Host, Hosting, Store, StoreError};
use crate::sys::processes::own_start;
use crate::sys::{Sys, blocking};

use super::listen::accept;
use super::maintenance::{clean_up_at_the_end, run_maintenance};
use super::process::{Process, ProcessKind};
use super::serve::Options;

/// The name and the command line of a host, and how long it waits for clients.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The name by which it is found.
    pub name: String,
    /// The names of further hosts of the command line. A host takes one of them if another process has
    /// become the host by its own, which happens when the file was removed.
    pub further: Vec<String>,
    /// The command line that it serves, without keys: it is written and shown.
    pub command: Vec<String>,
    /// How long it waits for a client while nothing is done; for ever if `None`.
    pub unused: Option<Duration>,
}

/// A host could not begin.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The host has no store, so it cannot keep sessions.
    #[error("sessions that are not stored cannot be kept")]
    NoStore,
    /// The host cannot be reached.
    #[error("cannot make a socket: {0}")]
    Socket(std::io::Error),
    /// The host cannot be found: its file in the store cannot be made or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Serves clients until `stop` resolves, it is asked to end, or nothing was done and no client was
/// there for a while. Calls `ready` when clients can come; not at all if there is such a host.
pub async fn host(
    options: Options,
    keep: Keep,
    sys: Sys,
    engine: Arc<dyn Engine>,
    ready: impl FnOnce() + Send,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), HostError> {
    let process = Process::new(options, sys, engine, ProcessKind::Host);
    let store = process.store().ok_or(HostError::NoStore)?;
    let mut listener = store.listen().map_err(HostError::Socket)?;
    let this = Host {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        socket: store.socket().unwrap_or_default().to_owned(),
        command: keep.command,
        since: process.since().to_owned(),
        started: own_start(),
    };
    let Some(mut hosting) = store.become_host(&keep.name, &this)? else {
        return Ok(());
    };
    ready();
    let patience = tokio::select! {
        never = accept(&process, &mut listener) => match never {},
        never = keep_found(store, &keep.further, &this, &mut hosting) => match never {},
        () = process.unused(keep.unused) => Patience::EndOfInput,
        () = process.asked_to_end() => Patience::EndOfInput,
        () = run_maintenance(&process) => Patience::EndOfInput,
        () = stop => Patience::Hurry,
    };
    tracing::info!("ending");
    // The next client starts another host.
    drop(hosting);
    drop(listener);
    process.end(patience).await;
    if patience != Patience::Hurry {
        clean_up_at_the_end(&process).await;
    }
    Ok(())
}

/// How often a host looks whether others can find it.
const LOOK: Duration = Duration::from_secs(3);

/// Writes what others find the host by, if it was removed or changed, under a further name if its own
/// cannot be used. Never ends.
async fn keep_found(
    store: &Store,
    further: &[String],
    this: &Host,
    hosting: &mut Hosting,
) -> Infallible {
    let mut fails = false;
    loop {
        tokio::time::sleep(LOOK).await;
        let renewed: Result<(), StoreError> = blocking(|| {
            hosting.renew().or_else(|error| {
                let free = further.iter().find_map(|name| {
                    // The next name may be free if this one fails.
                    store.become_host(name, this).ok().flatten()
                });
                *hosting = free.ok_or(error)?;
                tracing::warn!(
                    "another process has the name of this host, which takes a further one"
                );
                Ok(())
            })
        });
        match renewed {
            Ok(()) => fails = false,
            Err(error) if !std::mem::replace(&mut fails, true) => {
                tracing::warn!(%error, "new clients do not find this process");
            }
            Err(_) => {}
        }
    }
}

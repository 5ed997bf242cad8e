//! Lends the conversations of a store to processes of `rejoin mcp` that agents start: they reach it
//! through a socket of this process, and know no password.
//!
//! A key says which conversations are lent: those of one working directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use rejoin::engine::agent::{Lend, Lent};
use rejoin::mcp::{Scope, serve};
use rejoin::sources::LiveSources;
use rejoin::store::{Durability, Store};
use rejoin::sys::socket::{self, Listener, Local};
use rejoin::sys::{Sys, lock};

/// How long a process may take to send its key.
const KEY: Duration = Duration::from_secs(5);
/// The longest key that is read, in bytes.
const LONGEST_KEY: u64 = 128;
/// How many processes are served at the same time. Each agent of a session starts one.
const MOST: usize = 64;

/// Lends the conversations of one store.
#[derive(Debug)]
pub(super) struct Lender {
    store: PathBuf,
    sources: Option<Arc<LiveSources>>,
    /// The path of the socket, which is made when it is first needed; `None` if it cannot be made.
    socket: OnceLock<Option<PathBuf>>,
    folders: Folders,
}

/// The working directory of each key.
type Folders = Arc<Mutex<BTreeMap<String, String>>>;

impl Lender {
    pub(super) fn new(store: PathBuf, sources: Option<Arc<LiveSources>>) -> Self {
        Self {
            store,
            sources,
            socket: OnceLock::new(),
            folders: Folders::default(),
        }
    }

    /// Makes the socket, and serves those that connect to it for as long as the process runs.
    fn listen(&self) -> Option<PathBuf> {
        let sys = Sys::real();
        let folder = socket::folder()?;
        let name = format!(
            "mcp-{}-{}.sock",
            std::process::id(),
            sys.ids.uuid().simple()
        );
        let listener = sys.sockets.listen(&folder, &name);
        let failed = |error| tracing::warn!(%error, "agents are not offered earlier conversations");
        let listener = listener.map_err(failed).ok()?;
        let shared = LentConversations {
            store: Store::at(&self.store, sys, Durability::Turn),
            sources: self.sources.clone(),
            folders: self.folders.clone(),
        };
        tokio::spawn(accept(listener, shared));
        Some(folder.join(name))
    }
}

impl Lend for Lender {
    fn lend(&self, cwd: &str) -> Option<Lent> {
        let socket = self.socket.get_or_init(|| self.listen()).clone()?;
        let mut folders = lock(&self.folders);
        if let Some((key, _)) = folders.iter().find(|(_, folder)| *folder == cwd) {
            let key = key.clone();
            return Some(Lent { socket, key });
        }
        let ids = Sys::real().ids;
        let key = format!("{}{}", ids.uuid().simple(), ids.uuid().simple());
        folders.insert(key.clone(), cwd.to_owned());
        Some(Lent { socket, key })
    }
}

/// The store and the sources, which all connections share.
#[derive(Clone)]
struct LentConversations {
    store: Store,
    sources: Option<Arc<LiveSources>>,
    folders: Folders,
}

async fn accept(mut listener: Listener, shared: LentConversations) {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let stream = listener.accept_local(b"").await;
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(most = MOST, "more processes are not served");
            continue;
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_one(stream, shared).await {
                tracing::debug!(%error, "a process that looks up conversations has failed");
            }
            drop(place);
        });
    }
}

async fn serve_one(stream: Local, shared: LentConversations) -> std::io::Result<()> {
    let (input, mut output) = tokio::io::split(stream);
    let mut input = BufReader::new(input);
    let mut key = String::new();
    let mut first = (&mut input).take(LONGEST_KEY);
    timeout(KEY, first.read_line(&mut key)).await??;
    let folder = lock(&shared.folders).get(key.trim_end()).cloned();
    let Some(folder) = folder else {
        return output.shutdown().await;
    };
    let scope = Scope::folder(&folder);
    serve(shared.store, shared.sources, scope, input, output).await
}

//! Clients that send and do not read: what is held for them is bounded, and nothing is lost.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use rejoin::engine::demo::LocalEngine;
use rejoin::server::{Options, ServeError, serve};
use rejoin::sys::Sys;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::agent::GUARD;
use crate::support::systems::FOLDER;

/// How many requests may be read and not be answered, wherever they are between the two pipes: what
/// may be under way, and what the writer's lane and the reader's buffers hold.
const UNANSWERED: usize = 1024 + 3000;

/// How many threads a runtime may start. At most 32 read or replay at a time, but a thread that is
/// done is not used again before it was scheduled, so a busy machine starts more: up to 100 were
/// seen. Without a bound there would be 512.
const THREADS: usize = 384;

/// A client: what it has sent and what it has read so far.
#[derive(Debug, Default)]
struct Client {
    state: Mutex<State>,
    changed: Condvar,
    /// Notified when its input has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    sent: usize,
    reads: bool,
    read: Vec<u8>,
    answers: usize,
    /// The most requests that were without an answer at a time.
    unanswered: usize,
}

impl Client {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with it")
    }

    /// Waits until it has sent so many lines.
    fn has_sent(&self, count: usize) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), GUARD, |state| state.sent < count);
        let waited = waited.expect("no thread panics with it").1;
        assert!(!waited.timed_out(), "input is not read");
    }

    /// Has it read everything from now on.
    fn reads(&self) {
        self.lock().reads = true;
        self.changed.notify_all();
    }

    /// What it has read.
    fn messages(&self) -> Vec<Value> {
        let read = String::from_utf8(self.lock().read.clone()).expect("it is text");
        assert!(read.ends_with('\n'), "half a line");
        let lines = read.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect()
    }
}

/// Its requests, one line at a time.
struct Input<I>(I, Arc<Client>);

impl<I: Iterator<Item = Value>> Read for Input<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(message) = self.0.next() else {
            self.1.ended.notify_one();
            return Ok(0);
        };
        let line = format!("{message}\n");
        buffer[..line.len()].copy_from_slice(line.as_bytes());
        let mut state = self.1.lock();
        state.sent += 1;
        state.unanswered = state.unanswered.max(state.sent - state.answers);
        self.1.changed.notify_all();
        Ok(line.len())
    }
}

/// What it reads, when it does.
struct Output(Arc<Client>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let state = self.0.lock();
        let waited = self.0.changed.wait_while(state, |state| !state.reads);
        let mut state = waited.expect("no thread panics with it");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let answers = lines.filter(|line| memchr::memmem::find(line, b"\"method\"").is_none());
        state.answers += answers.count();
        state.read.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn request(id: usize, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn initialize() -> Value {
    request(0, "initialize", &json!({ "protocolVersion": 1 }))
}

async fn serves(
    store: &Path,
    client: &Arc<Client>,
    requests: impl Iterator<Item = Value> + Send + 'static,
) -> Result<(), ServeError> {
    let options = Options {
        store: Some(store.to_owned()),
        ..Options::default()
    };
    let input = Input([initialize()].into_iter().chain(requests), client.clone());
    let engine = Arc::new(LocalEngine::new());
    let never = std::future::pending();
    serve(
        options,
        Sys::real(),
        engine,
        input,
        Output(client.clone()),
        never,
    )
    .await
}

/// Has a client send all of these before it reads anything, as far as it can; answers with what it
/// read after that.
fn floods(store: &Path, requests: impl Iterator<Item = Value> + Send + 'static) -> Vec<Value> {
    let client = Arc::new(Client::default());
    let (threads, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, ended, seen) = (threads.clone(), threads, most.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || {
            let threads = begun.fetch_add(1, Ordering::Relaxed) + 1;
            seen.fetch_max(threads, Ordering::Relaxed);
        })
        .on_thread_stop(move || {
            ended.fetch_sub(1, Ordering::Relaxed);
        })
        .build()
        .expect("runtimes can be made");
    let (sender, reader) = (client.clone(), client.clone());
    let store = store.to_owned();
    runtime.block_on(async move {
        let opens = tokio::task::spawn_blocking(move || {
            sender.has_sent(1000);
            sender.reads();
        });
        serves(&store, &reader, requests)
            .await
            .expect("it ends well");
        opens.await.expect("it does not panic");
    });
    let unanswered = client.lock().unanswered;
    assert!(unanswered <= UNANSWERED, "{unanswered} were not answered");
    let threads = most.load(Ordering::Relaxed);
    assert!(threads <= THREADS, "{threads} threads");
    client.messages()
}

/// The ids of what was answered, in order.
fn ids(messages: &[Value]) -> Vec<u64> {
    let answers = messages.iter().filter(|message| message["id"].is_u64());
    answers
        .filter_map(|message| message["id"].as_u64())
        .collect()
}

/// A store with a session of some prompts, and its id.
fn store() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("folders can be made");
    let client = Arc::new(Client::default());
    client.reads();
    let runtime = tokio::runtime::Runtime::new().expect("runtimes can be made");
    let new = request(
        1,
        "session/new",
        &json!({ "cwd": FOLDER, "mcpServers": [] }),
    );
    let made = runtime.block_on(serves(folder.path(), &client, [new].into_iter()));
    made.expect("it ends well");
    let messages = client.messages();
    let id = messages
        .iter()
        .find_map(|m| m["result"]["sessionId"].as_str());
    let id = id.expect("it has an id").to_owned();
    let client = Arc::new(Client::default());
    client.reads();
    let place = json!({ "sessionId": id, "cwd": FOLDER, "mcpServers": [] });
    let text = "what is asked ".repeat(100);
    let prompt = json!({ "sessionId": id, "prompt": [{ "type": "text", "text": text }] });
    let requests = [
        request(1, "session/resume", &place),
        request(2, "session/prompt", &prompt),
    ];
    let prompted = runtime.block_on(serves(folder.path(), &client, requests.into_iter()));
    prompted.expect("it ends well");
    (folder, id)
}

#[test]
fn unread_errors() {
    let count = 20_000;
    let folder = tempfile::tempdir().expect("folders can be made");
    let requests = (1..=count).map(|id| request(id, "no/such", &json!({})));
    let messages = floods(folder.path(), requests);
    assert_eq!(ids(&messages), (0..=count as u64).collect::<Vec<_>>());
}

#[test]
fn unread_lists() {
    let count = 4_000;
    let (folder, session) = store();
    let requests = (1..=count).map(|id| request(id, "session/list", &json!({})));
    let messages = floods(folder.path(), requests);
    let mut ids = ids(&messages);
    ids.sort_unstable();
    assert_eq!(ids, (0..=count as u64).collect::<Vec<_>>());
    let lists = &messages[1..];
    assert!(
        lists
            .iter()
            .all(|list| list["result"]["sessions"][0]["sessionId"] == *session)
    );
}

#[test]
fn unread_history_pages() {
    let count = 4_000;
    let (folder, session) = store();
    let params = json!({ "sessionId": session });
    let requests = (1..=count).map(move |id| request(id, "session/get", &params));
    let messages = floods(folder.path(), requests);
    let mut ids = ids(&messages);
    ids.sort_unstable();
    assert_eq!(ids, (0..=count as u64).collect::<Vec<_>>());
    let pages = &messages[1..];
    assert!(
        pages
            .iter()
            .all(|page| page["result"]["turns"][1]["stopReason"] == "end_turn")
    );
}

#[test]
fn unread_loads() {
    let count = 1_500;
    let (folder, session) = store();
    let params = json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] });
    let requests = (1..=count).map(move |id| request(id, "session/load", &params));
    let messages = floods(folder.path(), requests);
    assert_eq!(ids(&messages), (0..=count as u64).collect::<Vec<_>>());
}

/// More answers than fit anywhere but into memory, and fewer than input waits for.
const WAITING: usize = 1500;

fn waiting() -> impl Iterator<Item = Value> + Send + 'static {
    (1..=WAITING).map(|id| request(id, "no/such", &json!({})))
}

#[tokio::test(start_paused = true)]
async fn paused_reader_after_end_of_input_gets_everything() {
    let folder = tempfile::tempdir().expect("folders can be made");
    let client = Arc::new(Client::default());
    let reading = async {
        client.ended.notified().await;
        tokio::time::sleep(Duration::from_mins(9)).await;
        tokio::time::resume();
        client.reads();
    };
    let (served, ()) = tokio::join!(serves(folder.path(), &client, waiting()), reading);
    served.expect("it ends well");
    assert_eq!(ids(&client.messages()).len(), WAITING + 1);
}

#[tokio::test(start_paused = true)]
async fn unread_output_is_a_failure() {
    let folder = tempfile::tempdir().expect("folders can be made");
    let client = Arc::new(Client::default());
    let served = serves(folder.path(), &client, waiting()).await;
    assert!(matches!(served, Err(ServeError::Unread)), "{served:?}");
    client.reads();
}

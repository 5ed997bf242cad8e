//! Bounds the pending work of a client that sends requests without reading the responses.
//!
//! The SDK queues everything it receives, so reading is paused instead: while too many requests
//! have no response in the writer, nothing more is read. Requests that read much from the disk wait
//! for a permit, and so do replays. A response that the client does not read keeps its permit until
//! it is written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::raws::VerbatimResults;
use crate::sys::lock;

/// How many requests may be pending, without prompts: a prompt may take hours, and its turn may
/// need a response of the client that follows other requests.
const REQUESTS: usize = 1024;

/// How many bytes of parameters may be pending, prompts included.
const BYTES: usize = 256 * 1024 * 1024;

/// The approximate overhead of a request besides its parameters, in bytes.
const EACH: usize = 4096;

/// How many bytes of finished results may wait for the writer before reading is paused, too.
const RESULTS: usize = 64 * 1024 * 1024;

/// The number of permits for requests that read much from the disk.
const READS: usize = 16;

/// How many replays may run at once. Each has its own thread.
const REPLAYS: usize = 16;

/// The pending work of one connection.
#[derive(Debug)]
pub struct Flow {
    state: Arc<Mutex<State>>,
    reads: Semaphore,
    replays: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests whose responses have not reached the writer, by id. An id may be used twice.
    open: HashMap<String, Vec<Open>>,
    /// How many of them count towards the limit.
    counted: usize,
    /// The bytes of their parameters, and of other held memory.
    bytes: usize,
    /// How many requests had an id that the SDK cannot represent.
    odd: u64,
    /// Notified when a request has ended.
    reader: Option<Waker>,
}

#[derive(Debug)]
struct Open {
    bytes: usize,
    counted: bool,
    /// The client's own id, if the SDK sees another one.
    own: Option<String>,
}

/// Bytes that count as held until this is dropped.
#[derive(Debug)]
pub struct Held {
    bytes: usize,
    state: Arc<Mutex<State>>,
}

/// How much of the disk and of memory a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Its result has a few hundred kilobytes at most.
    Light,
    /// Its result may have a few megabytes.
    Heavy,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            reads: Semaphore::new(READS),
            replays: Arc::new(Semaphore::new(REPLAYS)),
        }
    }
}

impl Flow {
    /// Records a request that was read. `id` is its JSON text. Returns the id for the SDK, which
    /// supports no numbers but integers and does not distinguish -0 from 0.
    pub fn begin(&self, id: &str, method: &str, params: usize) -> String {
        let counted = method != "session/prompt";
        let bytes = EACH + params;
        let mut state = self.lock();
        state.counted += usize::from(counted);
        state.bytes += bytes;
        let is_odd = id != "null" && !id.starts_with('"') && (id == "-0" || !is_integer(id));
        let shown = if is_odd {
            state.odd += 1;
            format!("\"_rejoinId{}\"", state.odd)
        } else {
            id.to_owned()
        };
        let own = is_odd.then(|| id.to_owned());
        let open = Open {
            bytes,
            counted,
            own,
        };
        state.open.entry(plain(&shown)).or_default().push(open);
        shown
    }

    /// The id in the SDK of the request with this id of the client.
    pub fn shown(&self, id: &str) -> Option<String> {
        let state = self.lock();
        let mut open = state.open.iter();
        let is_meant = |open: &Open| open.own.as_deref() == Some(id);
        let found = open.find(|(_, same)| same.iter().any(is_meant));
        found.map(|(shown, _)| shown.clone())
    }

    /// The client's own id of the request with this id in the SDK, if they differ.
    pub fn own(&self, id: &Value) -> Option<String> {
        let state = self.lock();
        let same = state.open.get(&id.to_string())?;
        same.last()?.own.clone()
    }

    /// Records that a response has reached the writer, or that there will be none.
    pub fn end(&self, id: &Value) {
        let mut state = self.lock();
        if let Some(same) = state.open.get_mut(&id.to_string()) {
            let ended = same.pop();
            if same.is_empty() {
                state.open.remove(&id.to_string());
            }
            if let Some(Open { bytes, counted, .. }) = ended {
                state.bytes -= bytes;
                state.counted -= usize::from(counted);
            }
        }
        wake(state);
    }

    /// Counts bytes that are held for a session meanwhile.
    pub fn hold(&self, bytes: usize) -> Held {
        self.lock().bytes += bytes;
        let state = Arc::clone(&self.state);
        Held { bytes, state }
    }

    /// Ready when the next message may be read.
    pub fn poll_room(&self, cx: &mut Context<'_>, results: &VerbatimResults) -> Poll<()> {
        let mut state = self.lock();
        // The lock is held until the waker is set, so no end of a request is missed.
        if state.counted < REQUESTS && state.bytes < BYTES && results.bytes() < RESULTS {
            state.reader = None;
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits for a permit to read from the disk. It is held until the response has reached the
    /// writer.
    pub async fn read(&self, load: Load) -> Option<SemaphorePermit<'_>> {
        let places = match load {
            Load::Light => 1,
            Load::Heavy => 4,
        };
        // The semaphore is never closed.
        self.reads.acquire_many(places).await.ok()
    }

    /// The semaphore for replays.
    pub fn replays(&self) -> Arc<Semaphore> {
        Arc::clone(&self.replays)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.bytes -= self.bytes;
        wake(state);
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

fn is_integer(id: &str) -> bool {
    id.parse::<i64>().is_ok()
}

/// An id in its canonical form, for comparison.
fn plain(id: &str) -> String {
    let value: Value = serde_json::from_str(id).unwrap_or_default();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_open(flow: &Flow) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        flow.poll_room(&mut cx, &VerbatimResults::default())
            .is_ready()
    }

    #[test]
    fn reading_waits_for_answers_and_not_for_turns() {
        let flow = Flow::default();
        for id in 0..REQUESTS {
            assert!(is_open(&flow), "{id}");
            flow.begin(&id.to_string(), "session/list", 2);
            flow.begin(&format!("\"{id}\""), "session/prompt", 2);
        }
        assert!(!is_open(&flow));
        flow.end(&"7".into());
        assert!(!is_open(&flow), "that was a prompt");
        flow.end(&7.into());
        assert!(is_open(&flow));
        flow.begin("7", "session/get", 2);
        assert!(!is_open(&flow));
    }

    #[test]
    fn reading_waits_for_bytes() {
        let flow = Flow::default();
        flow.begin(r#""\u0061""#, "session/prompt", BYTES);
        assert!(!is_open(&flow));
        flow.end(&"a".into());
        assert!(is_open(&flow));
        let held = flow.hold(BYTES);
        assert!(!is_open(&flow));
        drop(held);
        assert!(is_open(&flow));
        let results = VerbatimResults::default();
        results.put("x".repeat(RESULTS));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(flow.poll_room(&mut cx, &results).is_pending());
    }

    #[test]
    fn an_id_that_the_sdk_does_not_know_has_another_one_there() {
        let flow = Flow::default();
        for id in ["1", "-7", "null", r#""1.5""#] {
            assert_eq!(flow.begin(id, "m", 0), id);
            assert_eq!(flow.own(&serde_json::from_str(id).unwrap()), None);
        }
        for id in ["-0", "1.5", "1e3", "18446744073709551616"] {
            let shown = flow.begin(id, "m", 0);
            assert!(shown.starts_with('"'), "{shown}");
            assert_eq!(flow.shown(id), Some(shown.clone()));
            let shown = serde_json::from_str(&shown).unwrap();
            assert_eq!(flow.own(&shown).as_deref(), Some(id));
            flow.end(&shown);
            assert_eq!(flow.shown(id), None);
        }
    }

    #[test]
    fn an_id_that_is_used_twice_counts_twice() {
        let flow = Flow::default();
        flow.begin("null", "session/list", 0);
        flow.begin("null", "session/list", 0);
        flow.end(&Value::Null);
        assert_eq!(flow.lock().counted, 1);
        flow.end(&Value::Null);
        flow.end(&Value::Null);
        let state = flow.lock();
        assert_eq!((state.counted, state.bytes), (0, 0));
        assert!(state.open.is_empty());
    }

    #[tokio::test]
    async fn what_reads_much_takes_turns() {
        let flow = Flow::default();
        let heavy = [
            flow.read(Load::Heavy).await,
            flow.read(Load::Heavy).await,
            flow.read(Load::Heavy).await,
        ];
        let light = flow.read(Load::Light).await;
        assert!(flow.reads.try_acquire_many(4).is_err());
        drop(light);
        assert!(flow.reads.try_acquire_many(4).is_ok());
        drop(heavy);
    }
}

//! Bounds the pending work of a client that sends requests without reading the responses.
//!
//! While too many requests are pending, nothing more is read. Requests that read much from the disk
//! wait for a permit, and so do replays. A request is pending until its response has room in the
//! writer.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::protocol::method::SESSION_PROMPT;
use crate::sys::lock;

/// How many requests may be pending, without prompts: a prompt may take hours, and its turn may
/// need a response of the client that follows other requests.
const REQUESTS: usize = 1024;

/// How many bytes of parameters may be pending, prompts included.
const BYTES: usize = 256 * 1024 * 1024;

/// The approximate overhead of a request besides its parameters, in bytes.
const EACH: usize = 4096;

/// How many bytes of responses may wait for room in the writer before reading is paused, too.
const RESPONSES: usize = 64 * 1024 * 1024;

/// The number of permits for requests that read much from the disk.
const READS: usize = 16;

/// How many replays may run at once. Each has its own thread.
const REPLAYS: usize = 16;

/// The pending work of one connection.
#[derive(Debug)]
pub struct Flow {
    shared: Arc<Shared>,
    reads: Arc<Semaphore>,
    replays: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when something has ended.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Pending requests that count towards the limit.
    requests: usize,
    /// Their parameters and other held memory.
    bytes: usize,
    /// Responses that wait for room in the writer.
    responses: usize,
}

/// A share of the limits, which is given back when this is dropped.
#[derive(Debug)]
pub struct Held {
    requests: usize,
    bytes: usize,
    responses: usize,
    shared: Arc<Shared>,
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
            shared: Arc::default(),
            reads: Arc::new(Semaphore::new(READS)),
            replays: Arc::new(Semaphore::new(REPLAYS)),
        }
    }
}

impl Flow {
    /// Counts a request that was read, with parameters of this length.
    pub fn request(&self, method: &str, params: usize) -> Held {
        self.held(usize::from(method != SESSION_PROMPT), EACH + params)
    }

    /// Counts bytes that are held for a session meanwhile.
    pub fn hold(&self, bytes: usize) -> Held {
        self.held(0, bytes)
    }

    fn held(&self, requests: usize, bytes: usize) -> Held {
        let mut state = lock(&self.shared.state);
        state.requests += requests;
        state.bytes += bytes;
        Held {
            requests,
            bytes,
            responses: 0,
            shared: self.shared.clone(),
        }
    }

    /// Resolves when the next message may be read.
    pub async fn room(&self) {
        while !self.has_room() {
            // A notification in between is kept.
            self.shared.freed.notified().await;
        }
    }

    fn has_room(&self) -> bool {
        let state = lock(&self.shared.state);
        state.requests < REQUESTS && state.bytes < BYTES && state.responses < RESPONSES
    }

    /// Waits for a permit to read from the disk.
    pub async fn read(&self, load: Load) -> Option<OwnedSemaphorePermit> {
        let permits = match load {
            Load::Light => 1,
            Load::Heavy => 4,
        };
        // The semaphore is never closed.
        self.reads.clone().acquire_many_owned(permits).await.ok()
    }

    /// The semaphore for replays.
    pub fn replays(&self) -> Arc<Semaphore> {
        Arc::clone(&self.replays)
    }
}

impl Held {
    /// Counts a response that waits for room in the writer.
    pub(super) fn count_response(&mut self, bytes: usize) {
        self.responses += bytes;
        lock(&self.shared.state).responses += bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.shared.state);
            state.requests -= self.requests;
            state.bytes -= self.bytes;
            state.responses -= self.responses;
        }
        // Only the reader waits.
        self.shared.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_waits_for_responses_and_not_for_turns() {
        let flow = Flow::default();
        let mut requests = Vec::new();
        let mut prompts = Vec::new();
        for _ in 0..REQUESTS {
            assert!(flow.has_room());
            requests.push(flow.request("session/list", 2));
            prompts.push(flow.request("session/prompt", 2));
        }
        assert!(!flow.has_room());
        prompts.pop();
        assert!(!flow.has_room(), "that was a prompt");
        requests.pop();
        assert!(flow.has_room());
        requests.push(flow.request("session/get", 2));
        assert!(!flow.has_room());
    }

    #[test]
    fn reading_waits_for_bytes() {
        let flow = Flow::default();
        let prompt = flow.request("session/prompt", BYTES);
        assert!(!flow.has_room());
        drop(prompt);
        assert!(flow.has_room());
        let held = flow.hold(BYTES);
        assert!(!flow.has_room());
        drop(held);
        assert!(flow.has_room());
        let mut request = flow.request("session/get", 2);
        request.count_response(RESPONSES);
        assert!(!flow.has_room());
        drop(request);
        assert!(flow.has_room());
    }

    #[tokio::test]
    async fn heavy_reads_wait_for_each_other() {
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

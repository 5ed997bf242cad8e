//! Bounds the pending work of clients that send requests without reading the responses.
//!
//! While too much of a connection is pending, nothing more is read of it. Requests that read much from
//! the disk wait for a permit, and so do replays. A request is pending until its response has room in
//! the writer, or has been written if it has none.
//!
//! All connections of a process share what their requests and answers may take ([`ProcessFlow`]): one
//! that has nothing pending is still read, and one whose answer has no room gets an error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::protocol::method::SESSION_PROMPT;
use crate::sys::lock;

/// How many requests of a connection may be pending, without prompts: a prompt may take hours, and its
/// turn may need a response of the client that follows other requests.
const REQUESTS: usize = 1024;

/// How many bytes of parameters may be pending on a connection, prompts included.
const BYTES: usize = 256 * 1024 * 1024;

/// The approximate overhead of a request besides its parameters, in bytes.
const EACH: usize = 4096;

/// How many bytes of responses may wait for room in the writer before reading is paused, too.
const RESPONSES: usize = 64 * 1024 * 1024;

/// How many bytes may be pending on all connections of a process before only those are read that have
/// little pending.
const ALL: usize = 512 * 1024 * 1024;

/// How many bytes are little.
const LITTLE: usize = 4 * 1024 * 1024;

/// The number of permits of a connection for requests that read much from the disk.
const READS: usize = 16;

/// How many replays of a connection may run at once. Each has its own thread.
const REPLAYS: usize = 16;

/// How many bytes the long answers of a process may take until they are written, and how many the
/// others.
const LONG_ANSWERS: usize = 256 * 1024 * 1024;
const OTHER_ANSWERS: usize = 64 * 1024 * 1024;

/// The size that an answer counts with until its length is known, in bytes, if it is not a long
/// one.
const OTHER_ANSWER: usize = 1024 * 1024;

/// How long an answer may wait until others have been written.
const ROOM: Duration = Duration::from_secs(10);

/// In how many bytes answers are counted.
const UNIT: usize = 1024;

/// The pending work of one connection.
#[derive(Debug)]
pub struct Flow {
    shared: Arc<FlowInner>,
    reads: Arc<Semaphore>,
    replays: Arc<Semaphore>,
    /// The size that a long answer counts with until its length is known, in bytes.
    longest: usize,
}

/// The pending work of all connections of a process. Clones share it.
#[derive(Clone, Debug)]
pub struct ProcessFlow(Arc<ProcessUse>);

#[derive(Debug)]
struct ProcessUse {
    /// The memory of requests and responses, in bytes.
    bytes: AtomicUsize,
    /// Notified when there may be room again.
    freed: Notify,
    long_answers: Arc<Semaphore>,
    other_answers: Arc<Semaphore>,
}

#[derive(Debug)]
struct FlowInner {
    state: Mutex<FlowState>,
    /// Notified when something has ended.
    freed: Notify,
    process: ProcessFlow,
}

#[derive(Debug, Default)]
struct FlowState {
    /// Pending requests that count towards the limit.
    requests: usize,
    /// Their parameters and other held memory.
    bytes: usize,
    /// Responses that wait for room in the writer.
    responses: usize,
}

/// A share of the limits, which is given back when this is dropped.
#[derive(Debug)]
pub struct FlowPermit {
    requests: usize,
    bytes: usize,
    responses: usize,
    shared: Arc<FlowInner>,
}

/// The room of an answer, which is given back when this is dropped.
#[derive(Debug)]
pub struct Room {
    _of_connection: OwnedSemaphorePermit,
    of_process: OwnedSemaphorePermit,
}

/// Answers that other clients do not read leave no room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "clients of this process leave {} MiB of answers unread, and there is no room for more: try again \
     later", .0 / (1024 * 1024)
)]
pub struct NoRoom(usize);

/// How much of the disk and of memory a request uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Its result has a few hundred kilobytes at most.
    Light,
    /// Its result may have some megabytes.
    Heavy,
}

impl Default for ProcessFlow {
    fn default() -> Self {
        let units = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self(Arc::new(ProcessUse {
            bytes: AtomicUsize::new(0),
            freed: Notify::new(),
            long_answers: units(LONG_ANSWERS),
            other_answers: units(OTHER_ANSWERS),
        }))
    }
}

impl ProcessFlow {
    /// The work of a further connection, whose longest answers are about as long as a line may be, in
    /// bytes.
    pub fn connection(&self, line_limit: usize) -> Flow {
        Flow {
            shared: Arc::new(FlowInner {
                state: Mutex::default(),
                freed: Notify::new(),
                process: self.clone(),
            }),
            reads: Arc::new(Semaphore::new(READS)),
            replays: Arc::new(Semaphore::new(REPLAYS)),
            longest: line_limit.min(LONG_ANSWERS),
        }
    }

    fn add(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        let before = self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= ALL && before - bytes < ALL {
            self.0.freed.notify_waiters();
        }
    }

    fn has_room(&self) -> bool {
        self.0.bytes.load(Ordering::Relaxed) < ALL
    }
}

impl Default for Flow {
    /// The work of the only connection of a process.
    fn default() -> Self {
        ProcessFlow::default().connection(usize::MAX)
    }
}

impl Flow {
    /// The flow of the whole process, which its connections share.
    pub fn process(&self) -> &ProcessFlow {
        &self.shared.process
    }

    /// Counts a request that was read, with parameters of this length.
    pub fn request(&self, method: &str, params: usize) -> FlowPermit {
        self.held(usize::from(method != SESSION_PROMPT), EACH + params)
    }

    /// Counts bytes that are held for a session meanwhile.
    pub fn hold(&self, bytes: usize) -> FlowPermit {
        self.held(0, bytes)
    }

    fn held(&self, requests: usize, bytes: usize) -> FlowPermit {
        let mut state = lock(&self.shared.state);
        state.requests += requests;
        state.bytes += bytes;
        drop(state);
        self.shared.process.add(bytes);
        FlowPermit {
            requests,
            bytes,
            responses: 0,
            shared: self.shared.clone(),
        }
    }

    /// Resolves when the next message may be read.
    pub async fn room(&self) {
        loop {
            let mut freed_elsewhere = std::pin::pin!(self.shared.process.0.freed.notified());
            freed_elsewhere.as_mut().enable();
            if self.has_room() {
                return;
            }
            tokio::select! {
                // A notification in between is kept.
                () = self.shared.freed.notified() => {}
                () = freed_elsewhere => {}
            }
        }
    }

    fn has_room(&self) -> bool {
        let state = lock(&self.shared.state);
        let has_little = state.bytes + state.responses < LITTLE;
        state.requests < REQUESTS
            && state.bytes < BYTES
            && state.responses < RESPONSES
            && (has_little || self.shared.process.has_room())
    }

    /// Waits for a permit to read from the disk, and for room for the answer.
    pub async fn read(&self, load: Load) -> Result<Room, NoRoom> {
        let process = &self.shared.process.0;
        let (permits, answers, all, most) = match load {
            Load::Light => (1, &process.other_answers, OTHER_ANSWERS, OTHER_ANSWER),
            Load::Heavy => (8, &process.long_answers, LONG_ANSWERS, self.longest),
        };
        let full = NoRoom(all);
        let units = u32::try_from(most / UNIT).map_err(|_| full)?;
        // The semaphores are never closed.
        let own = self.reads.clone().acquire_many_owned(permits).await;
        let room = timeout(ROOM, answers.clone().acquire_many_owned(units)).await;
        Ok(Room {
            _of_connection: own.map_err(|_| full)?,
            of_process: room.map_err(|_| full)?.map_err(|_| full)?,
        })
    }

    /// The semaphore for replays.
    pub fn replays(&self) -> Arc<Semaphore> {
        Arc::clone(&self.replays)
    }
}

impl Room {
    /// The answer has so many bytes.
    pub(super) fn fit(&mut self, bytes: usize) {
        let spare = (self.of_process.num_permits()).saturating_sub(bytes.div_ceil(UNIT));
        drop(self.of_process.split(spare));
    }
}

impl FlowPermit {
    /// Counts a response that waits for room in the writer.
    pub(super) fn count_response(&mut self, bytes: usize) {
        self.responses += bytes;
        lock(&self.shared.state).responses += bytes;
        self.shared.process.add(bytes);
    }
}

impl Drop for FlowPermit {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.shared.state);
            state.requests -= self.requests;
            state.bytes -= self.bytes;
            state.responses -= self.responses;
        }
        self.shared.process.remove(self.bytes + self.responses);
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
        let process = ProcessFlow::default();
        let flow = process.connection(MIB);
        let heavy = flow.read(Load::Heavy).await.unwrap();
        let light = flow.read(Load::Light).await.unwrap();
        assert!(flow.reads.try_acquire_many(8).is_err());
        drop(light);
        assert!(flow.reads.try_acquire_many(8).is_ok());
        drop(heavy);
    }

    const MIB: usize = 1024 * 1024;

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_reads_leave_room_for_short_ones_and_errors_for_long_ones() {
        let process = ProcessFlow::default();
        let flow = || process.connection(64 * MIB);
        let mut rooms = Vec::new();
        for _ in 0..4 {
            rooms.push(flow().read(Load::Heavy).await.unwrap());
        }
        let refused = flow().read(Load::Heavy).await.unwrap_err();
        assert!(refused.to_string().contains("256 MiB"), "{refused}");
        assert!(flow().read(Load::Light).await.is_ok());
        // Two of them are shorter than they might have been.
        rooms[0].fit(40 * MIB);
        rooms[1].fit(24 * MIB);
        let another = flow().read(Load::Heavy).await.unwrap();
        drop((another, rooms));
        assert_eq!(
            process.0.long_answers.available_permits(),
            LONG_ANSWERS / UNIT
        );
        // An answer that is longer than all permits is sent alone.
        let all = process.connection(usize::MAX).read(Load::Heavy).await;
        assert_eq!(process.0.long_answers.available_permits(), 0);
        drop(all);
    }

    #[tokio::test]
    async fn a_connection_with_little_pending_is_read_whatever_others_have() {
        let process = ProcessFlow::default();
        let [first, second, third] = [(); 3].map(|()| process.connection(MIB));
        let held = [
            first.hold(BYTES - 1),
            second.hold(BYTES - 1),
            third.hold(2 * LITTLE),
        ];
        assert!(!first.has_room() && !second.has_room() && !third.has_room());
        let fourth = process.connection(MIB);
        let little = fourth.request("session/prompt", LITTLE / 2);
        assert!(fourth.has_room());
        let [_, large, _] = held;
        let freed = async {
            tokio::task::yield_now().await;
            drop(large);
        };
        tokio::join!(first.room(), third.room(), freed);
        drop(little);
    }
}

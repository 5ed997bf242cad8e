//! The only writer of a connection: two bounded lanes, drained by its own thread.
//!
//! While that has nothing to do, the caller writes a few lines itself if the client has room for them,
//! so that no thread has to wake up first.
//!
//! Responses and live updates go into the *control* lane, replays into the *bulk* lane. The writer
//! prefers control, so a long replay never delays another session. A replay ends with
//! [`Writer::bulk_taken`]; after it nothing that is put into the control lane can overtake the
//! replay.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;

use super::message::{Outcome, response_frame};
use super::requests::PendingRequest;
use crate::sys::lock;
use crate::sys::output::{AtOnce, LineOutput};

/// A lane accepts new lines while it holds fewer bytes than this. Large enough to keep the writer
/// busy, small enough that a client that does not read costs no memory.
const LANE_LIMIT: usize = 128 * 1024;

/// The most bytes that are written without the thread, which writes more while the next line is
/// composed.
const AT_ONCE: usize = 4 * 1024;

/// Buffers of up to this capacity are used again, in bytes; larger ones are freed after they were
/// written. The longest part of a text is about half as long.
const KEPT: usize = 2 * 1024 * 1024;

/// The writing end of a connection. Clones share it.
#[derive(Clone, Debug)]
pub struct Writer(Arc<Handle>);

/// The shared part of a writer's clones. When the last clone is dropped, the thread finishes and
/// ends.
#[derive(Debug)]
struct Handle(Arc<WriterInner>);

/// A writer that ends when nobody else has it.
#[derive(Debug)]
pub struct WeakWriter(Weak<Handle>);

impl WeakWriter {
    /// The other side is gone: drops what it has not read.
    pub fn give_up(&self) {
        if let Some(handle) = self.0.upgrade() {
            let mut state = handle.0.lock();
            state.broken = true;
            state.drop_unread();
            handle.0.work.notify_one();
            handle.0.tell_of_room(state);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_one();
    }
}

#[derive(Debug, Default)]
struct WriterInner {
    state: Mutex<WriterState>,
    /// Notifies the writing thread that there is something to write, or that it should end.
    work: Condvar,
    /// Notifies threads that wait for room in a lane, or for the bulk lane to be taken.
    room: Condvar,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing of its own about the two sides"
)]
struct WriterState {
    control: Vec<u8>,
    bulk: Vec<u8>,
    at_once: AtOnce,
    /// Requests whose responses are in the control lane beyond its limit.
    responses: Vec<PendingRequest>,
    /// Requests whose responses the thread is writing.
    written_responses: Vec<PendingRequest>,
    /// Total bytes put into the bulk lane, and total bytes taken out of it.
    bulk_put: u64,
    bulk_taken: u64,
    /// Total bytes written to the output.
    written: u64,
    /// Whether the thread has bytes that are not written yet.
    writing: bool,
    /// Whether the thread is waiting for something to write.
    idle: bool,
    /// Whether threads are waiting for room in a lane, or for the bulk lane to be taken.
    blocked: bool,
    broken: bool,
    closed: bool,
    /// Tasks that are waiting for room, or until everything is written.
    waiting: Vec<Waker>,
    /// Tasks that are waiting for the output to close.
    close_waiters: Vec<Waker>,
}

/// The other side no longer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has closed the connection")]
pub struct Gone;

impl From<Gone> for io::Error {
    fn from(gone: Gone) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, gone)
    }
}

impl Writer {
    /// Starts a thread that writes to `output`. It ends when the output breaks, or when the last
    /// clone is dropped and everything is written.
    pub fn start(output: impl Into<LineOutput>) -> io::Result<Self> {
        let LineOutput {
            waiting: mut output,
            at_once,
        } = output.into();
        let shared = Arc::new(WriterInner::default());
        shared.lock().at_once = at_once;
        let writer = Self(Arc::new(Handle(Arc::clone(&shared))));
        thread::Builder::new()
            .name("rejoin-writer".to_owned())
            .spawn(move || {
                let mut batch = Vec::new();
                while shared.write_once(&mut output, &mut batch) {}
            })?;
        Ok(writer)
    }

    /// A reference that does not keep the writer from ending.
    pub fn downgrade(&self) -> WeakWriter {
        WeakWriter(Arc::downgrade(&self.0))
    }

    fn shared(&self) -> &WriterInner {
        &self.0.0
    }

    /// Puts whole lines, line breaks included, into the control lane, as soon as there is room.
    pub fn poll_control(&self, cx: &mut Context<'_>, lines: &[u8]) -> Poll<Result<(), Gone>> {
        let mut state = self.shared().lock();
        if state.broken {
            return Poll::Ready(Err(Gone));
        }
        if state.control.len() >= LANE_LIMIT {
            remember(&mut state.waiting, cx);
            return Poll::Pending;
        }
        state.control.extend_from_slice(lines);
        self.shared().tell(state);
        Poll::Ready(Ok(()))
    }

    /// Puts the response to the request with this id into the control lane, even if it exceeds the
    /// limit. Then the request stays pending until the response is written.
    pub(super) fn respond(&self, id: &str, outcome: Outcome, mut pending: PendingRequest) {
        let mut state = self.shared().lock();
        if state.broken {
            return;
        }
        let before = state.control.len();
        put_response(&mut state.control, id, outcome);
        let fits = if state.control.len() > LANE_LIMIT {
            pending.count_response(state.control.len() - before);
            state.responses.push(pending);
            None
        } else {
            Some(pending)
        };
        self.shared().tell(state);
        drop(fits);
    }

    /// Puts a line, given without its line break, into the control lane even if it exceeds the
    /// limit.
    pub fn put_line(&self, line: &[u8]) -> Result<(), Gone> {
        let mut state = self.shared().lock();
        if state.broken {
            return Err(Gone);
        }
        state.control.extend_from_slice(line);
        state.control.push(b'\n');
        self.shared().tell(state);
        Ok(())
    }

    /// Puts whole lines, line breaks included, into the control lane, waiting for room.
    pub async fn control(&self, lines: &[u8]) -> Result<(), Gone> {
        std::future::poll_fn(|cx| self.poll_control(cx, lines)).await
    }

    /// Puts whole lines, line breaks included, into the bulk lane and leaves an empty buffer in
    /// their place. Blocks the thread until there is room.
    pub fn bulk(&self, lines: &mut Vec<u8>) -> Result<(), Gone> {
        let mut state = self.shared().lock();
        while state.bulk.len() >= LANE_LIMIT && !state.broken {
            state = self.shared().room(state);
        }
        if state.broken {
            return Err(Gone);
        }
        state.bulk_put += lines.len() as u64;
        if state.idle && lines.len() <= AT_ONCE {
            // Nothing can overtake it.
            state.bulk_taken += lines.len() as u64;
            state.control.append(lines);
        } else if state.bulk.is_empty() {
            // Reuses the buffers between the threads that fill them and the one that writes them.
            std::mem::swap(&mut state.bulk, lines);
        } else {
            state.bulk.append(lines);
        }
        self.shared().tell(state);
        Ok(())
    }

    /// Blocks the thread until what was put into the bulk lane before this call can no longer be
    /// overtaken.
    pub fn bulk_taken(&self) -> Result<(), Gone> {
        let mut state = self.shared().lock();
        let put = state.bulk_put;
        while state.bulk_taken < put && !state.broken {
            state = self.shared().room(state);
        }
        if state.broken { Err(Gone) } else { Ok(()) }
    }

    /// Waits until everything put so far is written to the output.
    pub async fn written(&self) -> Result<(), Gone> {
        std::future::poll_fn(|cx| {
            let mut state = self.shared().lock();
            if state.broken {
                Poll::Ready(Err(Gone))
            } else if state.control.is_empty() && state.bulk.is_empty() && !state.writing {
                Poll::Ready(Ok(()))
            } else {
                remember(&mut state.waiting, cx);
                Poll::Pending
            }
        })
        .await
    }

    /// Whether the other side no longer reads.
    pub fn is_gone(&self) -> bool {
        self.shared().lock().broken
    }

    /// Waits until the other side no longer reads.
    pub async fn gone(&self) {
        self.broken().await;
    }

    /// Resolves when the other side no longer reads. Does not keep the output open, and never resolves if
    /// that was closed.
    pub fn broken(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.0.0);
        std::future::poll_fn(move |cx| {
            let mut state = shared.lock();
            if state.broken {
                return Poll::Ready(());
            }
            remember(&mut state.close_waiters, cx);
            Poll::Pending
        })
    }

    /// How many bytes wait in the lanes.
    pub fn unread(&self) -> usize {
        let state = self.shared().lock();
        state.control.len() + state.bulk.len()
    }

    /// The total bytes written, and whether more are pending.
    pub fn progress(&self) -> (u64, bool) {
        let state = self.shared().lock();
        (
            state.written,
            state.writing || !state.control.is_empty() || !state.bulk.is_empty(),
        )
    }
}

/// Adds a response to a lane. A long one is not copied if nothing is before it.
fn put_response(lane: &mut Vec<u8>, id: &str, outcome: Outcome) {
    let (head, end) = response_frame(id, &outcome);
    let (Ok(mut body) | Err(mut body)) = outcome;
    if lane.is_empty() && body.len() > AT_ONCE {
        body.insert_str(0, &head);
        body.push_str(end);
        *lane = body.into_bytes();
        return;
    }
    if body.len() > LANE_LIMIT {
        // No more than it takes: a lane grows by doubling otherwise.
        lane.reserve_exact(head.len() + body.len() + end.len());
    }
    for part in [&head, &body, end] {
        lane.extend_from_slice(part.as_bytes());
    }
}

/// Adds a waiting task, once even if it polls repeatedly.
fn remember(tasks: &mut Vec<Waker>, cx: &Context<'_>) {
    if !tasks.iter().any(|task| task.will_wake(cx.waker())) {
        tasks.push(cx.waker().clone());
    }
}

impl WriterState {
    /// Drops what nobody will read, and wakes all that wait.
    fn drop_unread(&mut self) {
        (self.control, self.bulk) = (Vec::new(), Vec::new());
        self.written_responses.append(&mut self.responses);
        self.waiting.append(&mut self.close_waiters);
    }

    /// Writes what the other side has room for of the control lane, which is all that there is.
    fn write_at_once(&mut self) {
        let written = self.at_once.write(&self.control);
        self.control.drain(..written);
        self.written += written as u64;
    }
}

impl WriterInner {
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        lock(&self.state)
    }

    /// Writes what was put if that is possible at once, or notifies the writing thread that there is
    /// something to write, if it is idle. A notification costs a system call even without a waiter.
    fn tell(&self, mut state: MutexGuard<'_, WriterState>) {
        if state.idle && (1..=AT_ONCE).contains(&state.control.len()) {
            state.write_at_once();
        }
        let is_due = !state.control.is_empty() || !state.bulk.is_empty();
        let idle = is_due && std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.work.notify_one();
        }
    }

    /// Blocks the thread until there may be room in a lane.
    fn room<'a>(&self, mut state: MutexGuard<'a, WriterState>) -> MutexGuard<'a, WriterState> {
        state.blocked = true;
        let state = self.room.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all that wait for room in a lane.
    fn tell_of_room(&self, mut state: MutexGuard<'_, WriterState>) {
        let responses = if state.writing {
            Vec::new()
        } else {
            std::mem::take(&mut state.written_responses)
        };
        let waiting = std::mem::take(&mut state.waiting);
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        if blocked {
            self.room.notify_all();
        }
        waiting.into_iter().for_each(Waker::wake);
        drop(responses);
    }

    /// Waits for something in a lane and writes it. Returns false when the output is broken, or
    /// when the last clone is dropped.
    fn write_once(&self, output: &mut impl Write, batch: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        while state.control.is_empty() && state.bulk.is_empty() {
            if state.closed || state.broken {
                return false;
            }
            state.idle = true;
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        batch.clear();
        if state.control.is_empty() {
            std::mem::swap(&mut state.bulk, batch);
            state.bulk_taken += batch.len() as u64;
        } else {
            std::mem::swap(&mut state.control, batch);
            state.written_responses = std::mem::take(&mut state.responses);
        }
        state.writing = true;
        self.tell_of_room(state);

        let mut rest = batch.as_slice();
        let mut broken = false;
        while !rest.is_empty() && !broken {
            match output.write(rest) {
                Ok(0) => broken = true,
                Ok(count) => {
                    rest = &rest[count..];
                    self.lock().written += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => broken = true,
            }
        }
        broken |= output.flush().is_err();
        if batch.capacity() > KEPT {
            *batch = Vec::new();
        }
        let mut state = self.lock();
        state.writing = false;
        state.broken |= broken;
        if broken {
            state.drop_unread();
        }
        self.tell_of_room(state);
        !broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[tokio::test]
    async fn a_task_that_asks_again_is_noted_once() {
        let (_reader, output) = io::pipe().unwrap();
        let writer = Writer::start(output).unwrap();
        let mut gone = std::pin::pin!(writer.gone());
        std::future::poll_fn(|cx| {
            for _ in 0..100 {
                assert!(gone.as_mut().poll(cx).is_pending());
            }
            Poll::Ready(())
        })
        .await;
        assert_eq!(writer.shared().lock().close_waiters.len(), 1);
    }

    #[tokio::test]
    async fn control_is_not_held_up_by_bulk_and_never_overtakes_what_was_taken() {
        let (reader, output) = io::pipe().unwrap();
        let writer = Writer::start(output).unwrap();
        let bulk = writer.clone();
        let replay = thread::spawn(move || {
            for n in 0..20_000 {
                let mut lines = format!("bulk {n}\n").repeat(10).into_bytes();
                bulk.bulk(&mut lines).unwrap();
                assert!(lines.is_empty());
            }
            bulk.bulk_taken().unwrap();
            bulk.put_line(b"after").unwrap();
        });
        // The output is not read yet, so the bulk lane is full by the time this is put.
        writer.control(b"early\n").await.unwrap();
        let lines: Vec<String> = thread::spawn(move || {
            BufReader::new(reader)
                .lines()
                .map(Result::unwrap)
                .take(200_002)
                .collect()
        })
        .join()
        .unwrap();
        replay.join().unwrap();
        let early = lines.iter().position(|line| line == "early").unwrap();
        assert!(early < 100_000, "{early}");
        assert_eq!(lines.last().unwrap(), "after");
        let bulk: Vec<_> = lines
            .iter()
            .filter(|line| line.starts_with("bulk"))
            .collect();
        assert_eq!(bulk.len(), 200_000);
        assert_eq!(bulk[199_999], "bulk 19999");
    }

    /// Waits until the thread has nothing to do.
    fn wait_until_idle(writer: &Writer) {
        while !writer.shared().lock().idle {
            thread::yield_now();
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_few_lines_are_written_at_once() {
        let (reader, output) = io::pipe().unwrap();
        let writer = Writer::start(LineOutput::of(output)).unwrap();
        wait_until_idle(&writer);
        for n in 0..10 {
            writer.put_line(format!("line {n}").as_bytes()).unwrap();
            writer.bulk(&mut format!("bulk {n}\n").into()).unwrap();
            assert!(writer.shared().lock().idle, "the thread is not needed");
            assert_eq!(writer.progress(), ((n + 1) * 14, false));
        }
        writer.bulk_taken().unwrap();
        let lines = BufReader::new(reader).lines().map(Result::unwrap);
        let lines: Vec<_> = lines.take(20).collect();
        assert_eq!(lines[18..], ["line 9", "bulk 9"]);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_order_is_the_same_whoever_writes() {
        let (reader, output) = io::pipe().unwrap();
        let writer = Writer::start(LineOutput::of(output)).unwrap();
        let count = 4_000;
        let reading = thread::spawn(move || {
            let lines = BufReader::new(reader).lines().map(Result::unwrap);
            let numbers = lines.map(|line| line.trim_start().parse::<usize>().unwrap());
            numbers.take(count).collect::<Vec<_>>()
        });
        for n in 0..count {
            // Some are short, some longer than what is written at once, or than the pipe.
            let width = [0, 100, 5_000, 90_000][usize::from(n % 7 == 0) * (n % 4)];
            let mut line = format!("{}{n}\n", " ".repeat(width)).into_bytes();
            if n % 2 == 0 {
                writer.bulk(&mut line).unwrap();
                writer.bulk_taken().unwrap();
            } else {
                writer.control(&line).await.unwrap();
                writer.written().await.unwrap();
            }
        }
        assert_eq!(reading.join().unwrap(), (0..count).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_reader_that_goes_away_is_noticed() {
        let (reader, output) = io::pipe().unwrap();
        let writer = Writer::start(LineOutput::of(output)).unwrap();
        wait_until_idle(&writer);
        drop(reader);
        writer.control(b"x\n").await.unwrap();
        writer.gone().await;
        assert_eq!(writer.control(b"y\n").await, Err(Gone));
        assert_eq!(writer.bulk(&mut b"y\n".to_vec()), Err(Gone));
        assert_eq!(writer.bulk_taken(), Err(Gone));
    }
}

//! The one writer of a connection: two bounded lanes, drained by a thread of its own.
//!
//! Responses and live updates go into the *control* lane, replays into the *bulk* lane. The writer
//! prefers control, so a replay of any length never holds up another session; a replay ends with
//! [`Writer::bulk_taken`], after which nothing put into the control lane can overtake it.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::sys::lock;

/// A lane takes new lines while it holds fewer bytes than this. Large enough that the writer never
/// starves, small enough that a client that does not read costs no memory.
const LANE_LIMIT: usize = 128 * 1024;

/// A larger buffer is given back when it was written, in bytes. A replay joins text to about half
/// of this.
const KEPT: usize = 2 * 1024 * 1024;

/// The end of a connection that lines are written to. Clones share it.
#[derive(Clone, Debug)]
pub struct Writer(Arc<Handle>);

/// What the clones of a writer share; when the last is gone, the thread finishes and ends.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_one();
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told to the writing thread: there is something to write or to end.
    work: Condvar,
    /// Told to threads that wait for room in a lane, or for it to be taken.
    room: Condvar,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing of its own about the two sides"
)]
struct State {
    control: Vec<u8>,
    bulk: Vec<u8>,
    /// Bytes ever put into the bulk lane, and ever taken out of it.
    bulk_put: u64,
    bulk_taken: u64,
    /// Bytes that have left the process.
    written: u64,
    /// Whether the thread holds bytes that it has not written yet.
    writing: bool,
    /// Whether the thread waits to be told that there is something to write.
    idle: bool,
    /// Whether threads wait for room in a lane, or for it to be taken.
    blocked: bool,
    broken: bool,
    closed: bool,
    /// Tasks that wait for room, or for everything to be written.
    waiting: Vec<Waker>,
    /// Tasks that wait for the output to break.
    mourning: Vec<Waker>,
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
    /// Starts a thread that writes to `output`. It ends when the output breaks or when the last
    /// clone is gone and everything is written.
    pub fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = Self(Arc::new(Handle(Arc::clone(&shared))));
        thread::Builder::new()
            .name("rejoin-writer".to_owned())
            .spawn(move || {
                let mut output = output;
                let mut batch = Vec::new();
                while shared.write_once(&mut output, &mut batch) {}
            })?;
        Ok(writer)
    }

    fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// Puts whole lines, line breaks included, into the control lane, as soon as there is room.
    pub fn poll_control(&self, cx: &mut Context<'_>, lines: &[u8]) -> Poll<Result<(), Gone>> {
        let mut state = self.shared().lock();
        if state.broken {
            return Poll::Ready(Err(Gone));
        }
        if state.control.len() >= LANE_LIMIT {
            state.waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        state.control.extend_from_slice(lines);
        self.shared().tell(state);
        Poll::Ready(Ok(()))
    }

    /// Waits for room in the control lane.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut state = self.shared().lock();
        if state.broken {
            Poll::Ready(Err(Gone))
        } else if state.control.len() >= LANE_LIMIT {
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        } else {
            Poll::Ready(Ok(()))
        }
    }

    /// Puts a line, given without its line break, into the control lane even if that overfills it.
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
        if state.bulk.is_empty() {
            // The buffers go round between whoever fills them and the thread that writes them.
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

    /// Ready when everything put so far has left the process.
    pub fn poll_written(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let mut state = self.shared().lock();
        if state.broken {
            Poll::Ready(Err(Gone))
        } else if state.control.is_empty() && state.bulk.is_empty() && !state.writing {
            Poll::Ready(Ok(()))
        } else {
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        }
    }

    /// Waits until the other side no longer reads.
    pub async fn gone(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.shared().lock();
            if state.broken {
                return Poll::Ready(());
            }
            state.mourning.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Bytes that have left the process, and whether more are waiting to.
    pub fn progress(&self) -> (u64, bool) {
        let state = self.shared().lock();
        (
            state.written,
            state.writing || !state.control.is_empty() || !state.bulk.is_empty(),
        )
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Tells the writing thread that there is something to write, if it waits for that. Telling
    /// costs a system call whether somebody listens or not.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.work.notify_one();
        }
    }

    /// Blocks the thread until there may be room in a lane.
    fn room<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.blocked = true;
        let state = self.room.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits for room in a lane.
    fn tell_of_room(&self, mut state: MutexGuard<'_, State>) {
        let waiting = std::mem::take(&mut state.waiting);
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        if blocked {
            self.room.notify_all();
        }
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits for something in a lane and writes it; false when the output is broken, or when
    /// nobody can put in more.
    fn write_once(&self, output: &mut impl Write, batch: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        while state.control.is_empty() && state.bulk.is_empty() {
            if state.closed {
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
            let State {
                waiting, mourning, ..
            } = &mut *state;
            waiting.append(mourning);
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
        // Nobody reads yet, so the bulk lane is full by the time this is put.
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

    #[tokio::test]
    async fn a_reader_that_goes_away_is_noticed() {
        let (reader, output) = io::pipe().unwrap();
        let writer = Writer::start(output).unwrap();
        drop(reader);
        writer.control(b"x\n").await.unwrap();
        writer.gone().await;
        assert_eq!(writer.control(b"y\n").await, Err(Gone));
        assert_eq!(writer.bulk(&mut b"y\n".to_vec()), Err(Gone));
        assert_eq!(writer.bulk_taken(), Err(Gone));
    }
}

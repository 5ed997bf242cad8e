//! A bounded queue of bytes between two threads, which either side can end.

use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::sys::lock;

/// The write end of a lane. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Lane(Arc<LaneInner>);

/// The read end of a lane. Dropping it ends the lane.
#[derive(Debug)]
pub struct LaneReader {
    lane: Lane,
    /// The bytes that were taken out, and how many of them were read.
    taken: Vec<u8>,
    read: usize,
}

#[derive(Debug)]
struct LaneInner {
    limit: usize,
    state: Mutex<LaneState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LaneState {
    bytes: Vec<u8>,
    ended: bool,
}

/// A buffer larger than this is freed after it was read, in bytes.
const KEPT: usize = 1024 * 1024;

/// A lane that accepts bytes while it holds less than `limit` of them.
pub(super) fn lane(limit: usize) -> (Lane, LaneReader) {
    let lane = Lane(Arc::new(LaneInner {
        limit,
        state: Mutex::default(),
        changed: Condvar::new(),
    }));
    let reader = LaneReader {
        lane: lane.clone(),
        taken: Vec::new(),
        read: 0,
    };
    (lane, reader)
}

impl Lane {
    /// Moves the bytes in and leaves an empty buffer. Blocks the thread until there is room; bytes
    /// put in after the lane has ended are lost.
    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.lock();
        while state.bytes.len() >= self.0.limit && !state.ended {
            state = self.wait(state);
        }
        if state.ended {
            return bytes.clear();
        }
        if state.bytes.is_empty() {
            std::mem::swap(&mut state.bytes, bytes);
        } else {
            state.bytes.append(bytes);
        }
        drop(state);
        self.0.changed.notify_all();
    }

    /// Ends the lane. What it holds can still be read.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.0.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, LaneState>) -> MutexGuard<'a, LaneState> {
        let state = self.0.changed.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        lock(&self.0.state)
    }
}

impl Read for LaneReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.taken.len() {
            self.read = 0;
            self.taken.clear();
            if self.taken.capacity() > KEPT {
                self.taken = Vec::new();
            }
            let mut state = self.lane.lock();
            while state.bytes.is_empty() {
                if state.ended {
                    return Ok(0);
                }
                state = self.lane.wait(state);
            }
            std::mem::swap(&mut state.bytes, &mut self.taken);
            drop(state);
            self.lane.0.changed.notify_all();
        }
        let rest = &self.taken[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

impl Drop for LaneReader {
    fn drop(&mut self) {
        self.lane.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn everything_put_in_comes_out_however_small_the_lane() {
        for limit in [1, 7, 1 << 20] {
            let (lane, mut reader) = lane(limit);
            let writing = thread::spawn(move || {
                for n in 0..5000 {
                    lane.put(&mut format!("line {n}\n").into_bytes());
                }
                lane.end();
            });
            let mut found = String::new();
            reader.read_to_string(&mut found).unwrap();
            writing.join().unwrap();
            let lines: Vec<_> = (0..5000).map(|n| format!("line {n}\n")).collect();
            let expected = lines.concat();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_dropped_reader_ends_the_lane() {
        let (lane, reader) = lane(1);
        lane.put(&mut b"full".to_vec());
        let waiting = thread::spawn(move || {
            let mut more = b"more".to_vec();
            lane.put(&mut more);
            more
        });
        drop(reader);
        assert_eq!(waiting.join().unwrap(), b"");
    }
}

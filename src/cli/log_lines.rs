//! Lines of text for stderr and for log files. A line that cannot be written is lost, and counted:
//! nothing ends or fails for it.
//!
//! Commands for people write each line at once and wait for its reader, as programs do. In a process
//! that serves, nothing waits for a reader: lines wait in a bounded queue, and a thread writes them.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use rejoin::sys::lock;

/// How many bytes wait at most for a file or a reader that is slow. Lines beyond that are lost.
const WAITING: usize = 256 * 1024;

/// The approximate memory of a waiting line besides its text, in bytes.
const EACH: usize = 64;

/// How long to wait before writing again to a stream that has no room and does not wait for it.
const AGAIN: Duration = Duration::from_millis(20);

/// Where lines go. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct LogLines(Arc<LogShared>);

#[derive(Debug)]
struct LogShared {
    target: Mutex<LogTarget>,
    /// `None` if lines are written at once.
    queue: Option<LogQueue>,
}

/// Lines that wait for the thread that writes them.
#[derive(Debug, Default)]
struct LogQueue {
    state: Mutex<LogWaiting>,
    /// Notified when a line is put, and when one is done.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LogWaiting {
    waiting: VecDeque<LogEntry>,
    /// The memory of the waiting lines, in bytes.
    bytes: usize,
    /// How many entries were taken, and how many of them are done.
    taken: u64,
    done: u64,
    /// Whether the thread runs. The first line starts it.
    has_thread: bool,
}

#[derive(Debug)]
enum LogEntry {
    Line(Vec<u8>),
    /// So many lines had no room.
    Lost(u64),
}

/// A file or a stream, and what became of the last lines.
struct LogTarget {
    to: Box<dyn Write + Send>,
    /// How many lines were lost since that was last reported.
    lost: u64,
    /// Whether the last line was written only in part.
    torn: bool,
}

impl LogLines {
    /// Lines that the caller writes, who waits for the reader.
    pub(super) fn at_once(to: impl Write + Send + 'static) -> Self {
        Self::new(to, None)
    }

    /// Lines that wait in a queue for a thread that writes them.
    pub(super) fn queued(to: impl Write + Send + 'static) -> Self {
        Self::new(to, Some(LogQueue::default()))
    }

    fn new(to: impl Write + Send + 'static, queue: Option<LogQueue>) -> Self {
        let target = LogTarget {
            to: Box::new(to),
            lost: 0,
            torn: false,
        };
        Self(Arc::new(LogShared {
            target: Mutex::new(target),
            queue,
        }))
    }

    /// Writes one or more lines, each with its line break, or has them written.
    pub(super) fn put(&self, lines: &[u8]) {
        let Some(queue) = &self.0.queue else {
            return lock(&self.0.target).line(lines);
        };
        let mut state = lock(&queue.state);
        state.put(lines);
        if !state.has_thread {
            // If the system has no thread for it, the next line asks for one again.
            state.has_thread = self.start_thread();
        }
        drop(state);
        queue.changed.notify_all();
    }

    fn start_thread(&self) -> bool {
        let shared = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("rejoin-log".to_owned());
        thread.spawn(move || shared.write_queue()).is_ok()
    }

    /// Waits until all lines are written or lost, unless none is for as long as `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let Some(queue) = &self.0.queue else { return };
        let mut state = lock(&queue.state);
        let mut done = state.done;
        let mut until = Instant::now() + patience;
        while state.has_thread && !state.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = queue.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if std::mem::replace(&mut done, state.done) < state.done {
                until = Instant::now() + patience;
            }
        }
        if !state.has_thread {
            let mut target = lock(&self.0.target);
            while let Some(entry) = state.take() {
                target.entry(&entry);
                state.done += 1;
            }
        }
    }
}

impl LogShared {
    /// Writes what is put into the queue, for as long as the process lives.
    fn write_queue(&self) {
        let Some(queue) = &self.queue else { return };
        let mut target = lock(&self.target);
        loop {
            let entry = queue.next();
            target.entry(&entry);
            lock(&queue.state).done += 1;
            queue.changed.notify_all();
        }
    }
}

impl LogQueue {
    fn next(&self) -> LogEntry {
        let mut state = lock(&self.state);
        loop {
            if let Some(next) = state.take() {
                return next;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl LogWaiting {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.done == self.taken
    }

    /// A line that is longer than all the room waits if it is alone.
    fn put(&mut self, lines: &[u8]) {
        let bytes = lines.len() + EACH;
        if self.bytes == 0 || self.bytes + bytes <= WAITING {
            self.bytes += bytes;
            self.waiting.push_back(LogEntry::Line(lines.to_vec()));
        } else if let Some(LogEntry::Lost(count)) = self.waiting.back_mut() {
            *count += 1;
        } else {
            self.waiting.push_back(LogEntry::Lost(1));
        }
    }

    fn take(&mut self) -> Option<LogEntry> {
        let entry = self.waiting.pop_front()?;
        if let LogEntry::Line(line) = &entry {
            self.bytes -= line.len() + EACH;
        }
        self.taken += 1;
        Some(entry)
    }
}

impl LogTarget {
    fn entry(&mut self, entry: &LogEntry) {
        match entry {
            LogEntry::Line(line) => self.line(line),
            LogEntry::Lost(count) => {
                self.lost += count;
                self.report();
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.report();
        if self.write(line).is_err() {
            self.lost += 1;
        }
    }

    /// Says how many lines were lost, if any were.
    fn report(&mut self) {
        if self.lost == 0 {
            return;
        }
        let mut text = String::new();
        // Without a time it is still true.
        SystemTime.format_time(&mut Writer::new(&mut text)).ok();
        let lost = self.lost;
        let lines = if lost == 1 { "line" } else { "lines" };
        let text = format!("{text}  WARN rejoin: {lost} {lines} could not be written here\n");
        if self.write(text.as_bytes()).is_ok() {
            self.lost = 0;
        }
    }

    /// Writes whole lines with one call if the system takes them. What follows a part of a line begins
    /// on a line of its own.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.write_part(b"\n")?;
        }
        let mut rest = lines;
        while !rest.is_empty() {
            let written = self.write_part(rest)?;
            rest = &rest[written..];
            self.torn = !rest.is_empty();
        }
        Ok(())
    }

    fn write_part(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.to.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(AGAIN),
                result => return result,
            }
        }
    }
}

impl fmt::Debug for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogTarget")
            .field("lost", &self.lost)
            .field("torn", &self.torn)
            .finish_non_exhaustive()
    }
}

/// Writes the events of the log, each of which comes as a whole.
#[derive(Debug)]
pub(super) struct LogEvent<'a>(&'a LogLines);

impl Write for LogEvent<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.put(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = LogEvent<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LogEvent(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A file on a disk whose room is given out in steps.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Disk {
        fn has_room_for(&self, bytes: usize) {
            lock(&self.0).1 = bytes;
        }

        /// Its lines, without the times of reports.
        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(lock(&self.0).0.clone()).unwrap();
            let lines = text.lines().map(|line| match line.split_once("  WARN ") {
                Some((_, report)) => report.to_owned(),
                None => line.to_owned(),
            });
            lines.collect()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (text, room) = &mut *lock(&self.0);
            let some = bytes.len().min(*room);
            if some == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            *room -= some;
            text.extend_from_slice(&bytes[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const PATIENCE: Duration = Duration::from_mins(1);

    #[test]
    fn what_a_full_disk_has_no_room_for_is_lost_and_counted() {
        for make in [LogLines::at_once, LogLines::queued] {
            let disk = Disk::default();
            let lines = make(disk.clone());
            let put = |line: &str| {
                lines.put(format!("{line}\n").as_bytes());
                lines.flush(PATIENCE);
            };
            disk.has_room_for(8);
            put("one");
            put("another");
            put("third");
            assert_eq!(disk.lines(), ["one", "anot"]);
            disk.has_room_for(1000);
            put("last");
            put("very last");
            let lost = "rejoin: 2 lines could not be written here";
            assert_eq!(disk.lines(), ["one", "anot", lost, "last", "very last"]);
        }
    }

    /// A reader that reads only when it is let.
    struct Slow(mpsc::Receiver<()>, Disk);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().ok();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_holds_nobody_up_and_is_told_what_it_has_missed() {
        let (reads, to_read) = mpsc::channel();
        let disk = Disk::default();
        disk.has_room_for(usize::MAX);
        let lines = LogLines::queued(Slow(to_read, disk.clone()));
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        for _ in 0..1000 {
            lines.put(&line);
        }
        // Nothing is read, so this gives up.
        lines.flush(Duration::from_millis(1));
        assert_eq!(disk.lines().len(), 0);
        drop(reads);
        lines.flush(PATIENCE);
        lines.put(b"next\n");
        lines.flush(PATIENCE);
        let read = disk.lines();
        // The thread may have taken the first line before the queue was full.
        let kept = WAITING / (line.len() + EACH);
        let long = read.iter().filter(|read| read.len() == 1023).count();
        assert!((kept..=kept + 1).contains(&long), "{long}");
        let lost = format!("rejoin: {} lines could not be written here", 1000 - long);
        assert_eq!(read[long..], [lost, "next".to_owned()]);
    }

    #[test]
    fn a_line_longer_than_the_queue_is_written() {
        let disk = Disk::default();
        disk.has_room_for(usize::MAX);
        let lines = LogLines::queued(disk.clone());
        lines.put(&[&vec![b'x'; 2 * WAITING][..], b"\n"].concat());
        lines.flush(PATIENCE);
        assert_eq!(disk.lines()[0].len(), 2 * WAITING);
    }

    #[test]
    fn a_stream_without_room_is_tried_again() {
        struct Full(u32, Disk);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 % 2 == 1 {
                    return Err(ErrorKind::WouldBlock.into());
                }
                self.1.write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let disk = Disk::default();
        disk.has_room_for(1000);
        let lines = LogLines::queued(Full(0, disk.clone()));
        lines.put(b"one\n");
        lines.put(b"two\n");
        lines.flush(PATIENCE);
        assert_eq!(disk.lines(), ["one", "two"]);
    }
}

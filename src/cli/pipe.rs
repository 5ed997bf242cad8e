//! Passes the lines of a client to a process that serves it, and back.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rejoin::store::Store;
use rejoin::sys::lock;
use rejoin::sys::socket::Closer;
use rejoin::transport::stdio;

use super::exit::{Failure, IN_USE};
use super::socket::{self, HostConnection};

/// How much is read at once, in bytes.
const BLOCK: usize = 64 * 1024;
/// How much of the client's input is kept until something is answered, in bytes. A request that was not
/// answered can be sent to another process if there is nothing before it.
const KEPT: usize = 64 * 1024;

/// How long the client waits until the process is asked for a sign of life. The time becomes twice as
/// long each time, since a prompt may take hours, up to the longest; but not when the client has ended
/// its input.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_mins(1);

/// How often input that was not answered is sent to another process.
const TIMES: u32 = 3;

/// Connects to a process again.
type Connect<'a> = &'a dyn Fn() -> Result<HostConnection, Failure>;

/// The client's end, which outlives a process that ends before it has answered anything.
#[derive(Default)]
struct PipedClient {
    sink: Mutex<Sink>,
    wait: Mutex<Wait>,
    changed: Condvar,
}

/// Where the client's input goes.
#[derive(Default)]
struct Sink {
    /// Dropped at the end of the input, which lets the other end see that there is no more.
    output: Option<Box<dyn Write + Send>>,
    /// The bytes that were sent, as long as nothing was answered.
    kept: Option<Vec<u8>>,
    has_ended: bool,
}

/// Whether the client waits for something, and for how long.
struct Wait {
    /// When the process is asked next for a sign of life, if the client waits for one.
    due: Option<Instant>,
    /// How long after that it is asked again.
    pause: Duration,
    /// Counts what comes from the process.
    came: u64,
    /// Whether the process is asked one time only, after something has come.
    is_last: bool,
    /// Whether the client has ended its input.
    has_ended: bool,
    /// Whether the process is no longer watched.
    is_over: bool,
}

impl Default for Wait {
    fn default() -> Self {
        Self {
            due: None,
            pause: FIRST,
            came: 0,
            is_last: false,
            has_ended: false,
            is_over: false,
        }
    }
}

/// Passes all lines of the client to the process at the other end of `peer`, and back. If that ends
/// before it has answered anything, `again` finds another one. It gives up a process that gives no sign
/// of life while the client waits for one.
pub(super) fn pass(
    store: &Store,
    mut input: impl Read + Send + 'static,
    mut peer: HostConnection,
    again: Option<Connect<'_>>,
) -> Result<(), Failure> {
    let client = Arc::new(PipedClient::default());
    {
        let mut sink = lock(&client.sink);
        sink.kept = again.is_some().then(Vec::new);
        sink.output = Some(take_output(&mut peer));
    }
    let reader = client.clone();
    // This thread may wait for input for ever, so nothing waits for it.
    thread::spawn(move || reader.read(&mut input));
    let mut output = stdio::output().map_err(Failure::cannot_start)?;
    let mut left = TIMES;
    loop {
        let watch = client.watch(store, &peer);
        let passed = client.pass_back(&mut peer.stream.input, &mut output);
        client.end_watch();
        let is_silent = watch.join().unwrap_or_default();
        if passed.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            // The client no longer reads.
            return Ok(());
        }
        if let Some(again) = again.filter(|_| left > 0 && client.may_send_again()) {
            left -= 1;
            peer = again()?;
            client.send_again(take_output(&mut peer));
            continue;
        }
        if is_silent {
            return Err(no_answer(peer.pid));
        }
        if client.has_ended() {
            return Ok(());
        }
        return Err(Failure::new("the process that has the sessions has ended")
            .hint("start again and load the session: what was written is in its log"));
    }
}

fn take_output(peer: &mut HostConnection) -> Box<dyn Write + Send> {
    std::mem::replace(&mut peer.stream.output, Box::new(io::sink()))
}

fn no_answer(pid: u32) -> Failure {
    let text = format!("process {pid} has the sessions and gives no answer");
    Failure::with_code(IN_USE, text).hint(
        "`rejoin stop --force` ends it; start again and load the session: what was written is \
         in its log",
    )
}

impl PipedClient {
    /// Passes on the input.
    fn read(&self, input: &mut impl Read) {
        let mut block = vec![0; BLOCK];
        loop {
            let read = match input.read(&mut block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.unwrap_or_default(),
            };
            self.waits(read == 0);
            let mut sink = lock(&self.sink);
            if read == 0 {
                sink.has_ended = true;
                sink.output = None;
                return;
            }
            let answered = lock(&self.wait).came > 0;
            sink.write(&block[..read], answered);
        }
    }

    /// The client has sent something, or has ended its input, and waits for an answer.
    fn waits(&self, has_ended: bool) {
        let mut wait = lock(&self.wait);
        let due = Instant::now() + FIRST;
        wait.due = Some(wait.due.map_or(due, |earlier| earlier.min(due)));
        wait.pause = FIRST;
        wait.is_last = false;
        wait.has_ended |= has_ended;
        self.changed.notify_all();
    }

    /// Passes on what comes from the process.
    fn pass_back(&self, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
        let mut block = vec![0; BLOCK];
        loop {
            let read = match input.read(&mut block) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.unwrap_or_default(),
            };
            if read == 0 {
                return Ok(());
            }
            {
                let mut wait = lock(&self.wait);
                wait.came += 1;
                // At the end it waits until there is nothing more. Before that, what comes may be older
                // than what the client waits for, so the process is asked one time after it.
                let is_watched = wait.has_ended || wait.due.is_some();
                wait.due = is_watched.then(|| Instant::now() + FIRST);
                wait.is_last = !wait.has_ended;
            }
            output.write_all(&block[..read])?;
        }
    }

    fn has_ended(&self) -> bool {
        lock(&self.wait).has_ended
    }

    /// Whether nothing was answered, and all that was sent is still there, or is still to come.
    fn may_send_again(&self) -> bool {
        let answered = lock(&self.wait).came > 0;
        let sink = lock(&self.sink);
        let may_come = !sink.has_ended;
        let kept = sink.kept.as_ref();
        !answered && kept.is_some_and(|kept| may_come || !kept.is_empty())
    }

    /// Goes on with another process.
    fn send_again(&self, output: Box<dyn Write + Send>) {
        let mut sink = lock(&self.sink);
        sink.output = Some(output);
        if let Some(kept) = sink.kept.replace(Vec::new()) {
            self.waits(false);
            sink.write(&kept, false);
        }
        if sink.has_ended {
            sink.output = None;
        }
    }

    /// Watches whether the process gives signs of life while the client waits. The result is whether
    /// it has given none; its connection is closed in that case.
    fn watch(self: &Arc<Self>, store: &Store, peer: &HostConnection) -> JoinHandle<bool> {
        let (client, store) = (self.clone(), store.clone());
        let (socket, closer) = (peer.socket.clone(), peer.stream.closer.clone());
        lock(&self.wait).is_over = false;
        let is_alive = move || socket::check(&store, &socket, &|| false).is_ok();
        thread::spawn(move || client.is_silent(&closer, is_alive))
    }

    fn end_watch(&self) {
        lock(&self.wait).is_over = true;
        self.changed.notify_all();
    }

    fn is_silent(&self, closer: &Closer, is_alive: impl Fn() -> bool) -> bool {
        let mut wait = lock(&self.wait);
        while !wait.is_over {
            let Some(due) = wait.due else {
                let changed = self.changed.wait(wait);
                wait = changed.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let changed = self.changed.wait_timeout(wait, left);
                wait = changed.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            wait.due = None;
            let came = wait.came;
            drop(wait);
            let is_alive = is_alive();
            wait = lock(&self.wait);
            if wait.came > came {
                let again = Instant::now() + FIRST;
                wait.due = Some(wait.due.map_or(again, |due| due.min(again)));
                continue;
            }
            if !is_alive {
                closer.close();
                return true;
            }
            if std::mem::take(&mut wait.is_last) {
                continue;
            }
            let again = Instant::now() + wait.pause;
            wait.due = Some(wait.due.map_or(again, |due| due.min(again)));
            if !wait.has_ended {
                wait.pause = LONGEST.min(2 * wait.pause);
            }
        }
        false
    }
}

impl Sink {
    fn write(&mut self, bytes: &[u8], answered: bool) {
        let fits = |kept: &Vec<u8>| !answered && kept.len() + bytes.len() <= KEPT;
        match self.kept.take().filter(fits) {
            Some(mut kept) => {
                kept.extend_from_slice(bytes);
                self.kept = Some(kept);
            }
            None => self.kept = None,
        }
        if let Some(output) = &mut self.output {
            // A process that has ended is noticed where its output is read.
            output.write_all(bytes).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_does_not_end_the_watch() {
        let client = PipedClient::default();
        let closer = Closer::new(|| {});
        client.waits(false);
        let late = &mut &b"late"[..];
        client.pass_back(late, &mut Vec::new()).unwrap();
        assert!(client.is_silent(&closer, || false));
    }
}

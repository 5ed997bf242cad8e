//! An agent under test, in memory or as a process, and the thread that reads what it sends.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long anything may take before a test that hangs is ended. Nothing depends on its length.
pub(crate) const GUARD: Duration = Duration::from_mins(5);

/// A running agent.
pub(crate) trait Agent: Send {
    /// Writes to its input.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Ends its input.
    fn end_input(&mut self);
    /// Asks it to end, as the system does.
    fn stop(&mut self);
    /// Ends it at once, whatever it is doing; it has ended when this returns.
    fn kill(&mut self);
    /// Waits for it to end, which it was asked to.
    fn wait(&mut self) -> Result<(), String>;
    /// The id of the process it is in.
    fn process(&self) -> u32;
    /// What it said besides the protocol.
    fn said(&self) -> String;
}

/// How agents are started: on a store, with options of `rejoin serve`.
pub(crate) type Start = fn(&Path, &[String]) -> (Box<dyn Agent>, Box<dyn Read + Send>);

/// The lines that an agent sends, read on a thread of their own.
pub(crate) struct Inbox {
    lines: Receiver<Vec<u8>>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<Reading>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    On,
    Paused,
    Over,
}

/// Reads only while its gate lets it.
struct Gated {
    output: Box<dyn Read + Send>,
    gate: Arc<Gate>,
}

impl Read for Gated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.gate.state.lock().expect("no thread panics with it");
        let state = self
            .gate
            .changed
            .wait_while(state, |now| *now == Reading::Paused);
        let state = *state.expect("no thread panics with it");
        if state == Reading::Over {
            Ok(0)
        } else {
            self.output.read(buffer)
        }
    }
}

impl Inbox {
    pub(crate) fn new(output: Box<dyn Read + Send>) -> Self {
        let gate = Arc::<Gate>::default();
        let mut output = BufReader::new(Gated {
            output,
            gate: gate.clone(),
        });
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while let Ok(1..) = output.read_until(b'\n', &mut line) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Self { lines, gate }
    }

    /// The next line with its line break; `None` when there will be no more.
    pub(crate) fn next(&self, within: Duration) -> Result<Option<Vec<u8>>, String> {
        match self.lines.recv_timeout(within) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(format!("nothing came for {within:?}")),
        }
    }

    /// Stops reading, so that what the agent sends piles up on its side.
    pub(crate) fn pause(&self) {
        self.set(Reading::Paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        *self.gate.state.lock().expect("no thread panics with it") == Reading::Paused
    }

    /// Goes on reading.
    pub(crate) fn go_on(&self) {
        self.set(Reading::On);
    }

    /// Closes this end of the agent's output.
    pub(crate) fn close(&self) {
        self.set(Reading::Over);
    }

    fn set(&self, reading: Reading) {
        *self.gate.state.lock().expect("no thread panics with it") = reading;
        self.gate.changed.notify_all();
    }
}

//! The transport under the SDK: owns stdin and stdout, bounds lines, tolerates bad bytes, has one
//! writer with backpressure that both planes share.

pub mod answers;
pub mod line;
pub mod message;
pub mod sdk;
pub mod stash;
pub mod stdio;
pub mod writer;

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc;

pub use answers::Answers;
pub use stash::Stash;
pub use writer::{Gone, Writer};

use line::LineReader;
use sdk::{Incoming, Outgoing, Phase};

/// The longest line of input that is accepted by default: 32 MiB.
pub const LINE_LIMIT: usize = 32 * 1024 * 1024;

/// How many messages may be read ahead of the SDK. Two, because each may be as long as a line.
const READ_AHEAD: usize = 2;

/// How much is read from the input at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// One connection's shared parts.
#[derive(Debug)]
pub struct Wire {
    /// Where lines to the client go.
    pub writer: Writer,
    /// Parameters on their way to their handlers.
    pub stash: Stash,
    /// Who waits for which answer.
    pub answers: Answers,
}

impl Wire {
    /// Starts reading `input` and writing `output`, each on a thread of its own. Returns what the
    /// connection shares, and the ends for the SDK.
    pub fn start(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        line_limit: usize,
    ) -> io::Result<(Arc<Self>, Outgoing, Incoming)> {
        let wire = Arc::new(Self {
            writer: Writer::start(output)?,
            stash: Stash::default(),
            answers: Answers::default(),
        });
        let (sender, messages) = mpsc::channel(READ_AHEAD);
        thread::Builder::new()
            .name("rejoin-reader".to_owned())
            .spawn(move || {
                let mut lines = LineReader::new(BufReader::with_capacity(BLOCK, input), line_limit);
                loop {
                    match lines.next_line() {
                        Ok(Some(line)) => {
                            if sender
                                .blocking_send(message::read(line, line_limit))
                                .is_err()
                            {
                                return;
                            }
                        }
                        Ok(None) => return,
                        Err(error) => {
                            tracing::warn!(%error, "cannot read from the client; taken as its end");
                            return;
                        }
                    }
                }
            })?;
        let incoming = Incoming {
            wire: wire.clone(),
            messages,
            phase: Phase::New,
            unsent: None,
        };
        Ok((wire.clone(), Outgoing(wire), incoming))
    }
}

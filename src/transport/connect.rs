//! Starts a connection: a reader thread, a writer thread and the two ends for the SDK.

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::thread;

use tokio::sync::{mpsc, watch};

use super::answers::Answers;
use super::calls::OutgoingRequests;
use super::flow::Flow;
use super::line::LineReader;
use super::message::{self, Form};
use super::raws::VerbatimResults;
use super::sdk::{Incoming, Outgoing};
use super::shared::Wire;
use super::stash::PendingParams;
use super::writer::Writer;

/// The longest line of input that is accepted by default: 32 MiB.
pub const LINE_LIMIT: usize = 32 * 1024 * 1024;

/// How many messages may be read ahead of the SDK. Small, because each may be as long as a line.
const READ_AHEAD: usize = 2;

/// How much is read from the input at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// Starts reading `input` and writing `output`, each on its own thread. Returns the shared parts of
/// the connection and the ends for the SDK. `latest` is the latest supported version of the
/// protocol, and `form` is the form of messages that are accepted.
pub fn connect(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    line_limit: usize,
    latest: u16,
    form: Form,
) -> io::Result<(Arc<Wire>, Outgoing, Incoming)> {
    let wire = Arc::new(Wire {
        writer: Writer::start(output)?,
        stash: PendingParams::default(),
        answers: Answers::default(),
        calls: OutgoingRequests::default(),
        raws: VerbatimResults::default(),
        flow: Flow::default(),
        ended: watch::Sender::new(false),
    });
    let ended = wire.ended.clone();
    let (sender, messages) = mpsc::channel(READ_AHEAD);
    thread::Builder::new()
        .name("rejoin-reader".to_owned())
        .spawn(move || {
            let mut lines = LineReader::new(BufReader::with_capacity(BLOCK, input), line_limit);
            loop {
                match lines.next_line() {
                    Ok(Some(line)) => {
                        if sender
                            .blocking_send(message::read_as(line, line_limit, form))
                            .is_err()
                        {
                            break;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "cannot read from the client; taken as its end");
                        break;
                    }
                }
            }
            ended.send_replace(true);
        })?;
    let incoming = Incoming::new(wire.clone(), messages, latest);
    Ok((wire.clone(), Outgoing::new(wire), incoming))
}

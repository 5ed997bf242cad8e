//! The next component of a chain of proxies, reached through the conductor that started us.
//!
//! A conductor has one connection with each of its components. Messages of the client's side come
//! over it as they are; messages from and to the successor are wrapped in `proxy/successor`.
//! `demultiplexer` reads the input and separates the two, `envelope` finds the parts of a line that this
//! needs, `lane` is the queue that each side reads from, and `port` is the connection with the
//! successor, which the rest of the program uses like an agent's pipes. Parameters and results are
//! unwrapped and wrapped as text, without parsing.

mod demultiplexer;
mod envelope;
mod lane;
mod port;

use std::io::{self, Read};

pub use lane::LaneReader;
pub use port::{Port, SuccessorConnection};

/// Splits a conductor's connection in two: the port to the successor, and the client's input. The
/// limit for lines is `line_limit` bytes, or that of an agent's lines if it is larger.
pub fn split(
    input: impl Read + Send + 'static,
    line_limit: usize,
) -> io::Result<(Port, LaneReader)> {
    let port = Port::default();
    let client = demultiplexer::start(input, line_limit, port.clone())?;
    Ok((port, client))
}

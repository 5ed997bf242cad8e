//! The next component of a chain of proxies, reached through the conductor that has started us.
//!
//! A conductor has one connection with each of its components. Messages of the client's side come
//! over it as they are; those from and to the successor come inside of `proxy/successor`.
//! `sorter` reads the input and tells the two apart, `heading` finds what it has to know of a
//! line, `lane` is where either side reads what is meant for it, and `port` is the way to the
//! successor, which looks to the rest of the program as an agent's pipes do. Parameters and
//! results are cut out and put in as text.

mod heading;
mod lane;
mod port;
mod sorter;

use std::io::{self, Read};

pub use lane::LaneReader;
pub use port::{Port, Seat};

/// Parts a conductor's connection in two: the port to the successor, and the client's input. Lines
/// of up to `line_limit` bytes are taken, or longer ones if an agent's may be longer.
pub fn split(
    input: impl Read + Send + 'static,
    line_limit: usize,
) -> io::Result<(Port, LaneReader)> {
    let port = Port::default();
    let client = sorter::start(input, line_limit, port.clone())?;
    Ok((port, client))
}

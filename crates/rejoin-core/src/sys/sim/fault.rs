//! The faults of a simulated disk.

use std::io;

/// A fault at an operation. A fault that does not fit the operation has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Any operation: it fails and has no effect.
    Error(io::ErrorKind),
    /// A write writes half of its bytes, at least one, and returns their number.
    ShortWrite,
    /// A write writes half of its bytes and then fails.
    TornWrite(io::ErrorKind),
    /// A sync fails, and the unsynced data is never written: a later sync succeeds, yet a power
    /// failure leaves zeros in its place. Linux behaves like this.
    Sync(io::ErrorKind),
}

/// The fate of written but unsynced bytes in a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The bytes are lost.
    Lost,
    /// The first half of the bytes is kept.
    Torn,
    /// The file keeps its length, with zeros in their place.
    Zeroed,
}

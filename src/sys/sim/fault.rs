//! What can go wrong with a simulated disk.

use std::io;

/// What goes wrong at an operation. A fault that does not fit the operation does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Any operation: it fails and has no effect.
    Error(io::ErrorKind),
    /// A write takes half of its bytes, at least one, and says so.
    ShortWrite,
    /// A write takes half of its bytes and then fails.
    TornWrite(io::ErrorKind),
    /// A sync fails, and what was waiting for it is never written: a later sync succeeds, yet a
    /// power cut leaves zeros in its place. Linux behaves so.
    Sync(io::ErrorKind),
}

/// What a power cut makes of bytes that were written to a file and not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// They are gone.
    Lost,
    /// The first half of them is there.
    Torn,
    /// The file is as long as it was, with zeros in their place.
    Zeroed,
}

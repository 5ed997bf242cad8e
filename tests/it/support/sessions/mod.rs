//! A client of sessions that remembers what it saw, and holds a log and a replay against it.

pub(crate) mod client;
pub(crate) mod logged;
pub(crate) mod memory;
pub(crate) mod random;
pub(crate) mod seen;
pub(crate) mod view;

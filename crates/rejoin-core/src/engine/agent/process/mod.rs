//! The agent as a process: how it is started, reached and named.

pub(super) mod names;
pub(super) mod probe;
pub(super) mod transport;

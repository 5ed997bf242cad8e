//! The agent as a process: how it is started, reached and named.

pub(super) mod command;
pub(super) mod identity;
pub(super) mod probe;
pub(super) mod transport;

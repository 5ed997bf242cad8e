//! Another agent, run as a child process, as the engine of our sessions.

pub mod shape;

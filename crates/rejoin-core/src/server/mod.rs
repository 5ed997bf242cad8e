//! The connections of clients: serves their requests from the sessions.

mod capabilities;
mod connection;
pub mod control;
mod host;
mod error;
mod listen;
mod maintenance;
mod methods;
mod process;
pub mod serve;
mod shutdown;
mod tools;

pub use host::{HostError, Keep, host};
pub use process::{Process, ProcessKind};
pub use serve::{CLIENT_TIMEOUT, Options, ServeError, serve};

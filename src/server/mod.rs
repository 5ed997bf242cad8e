//! The connections of clients: serves their requests from the sessions.

mod capabilities;
mod connection;
mod error;
mod listen;
mod maintenance;
mod methods;
mod process;
pub mod serve;
mod shutdown;

pub use process::Process;
pub use serve::{CLIENT_TIMEOUT, Options, ServeError, serve};

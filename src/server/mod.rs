//! One client connection: serves its requests from the sessions.

mod capabilities;
mod error;
mod maintenance;
mod methods;
pub mod serve;
mod shutdown;

pub use serve::{CLIENT_TIMEOUT, Options, ServeError, serve};

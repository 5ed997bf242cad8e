//! One client connection: serves its requests from the sessions.

pub mod capabilities;
pub mod error;
mod maintenance;
pub mod responds;
pub mod serve;
pub mod methods;
pub mod v2;
mod wind_down;

pub use serve::{CLIENT_TIMEOUT, Options, ServeError, serve};

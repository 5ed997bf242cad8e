//! One client connection: serves its requests from the sessions.

pub mod capabilities;
pub mod error;
mod house;
pub mod responds;
pub mod serve;
pub mod v1;
pub mod v2;
mod wind_down;

pub use serve::{Options, serve};

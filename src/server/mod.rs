//! One client connection: serves its requests from the sessions.

pub mod capabilities;
pub mod error;
mod house;
pub mod serve;
pub mod v1;
mod wind_down;

pub use serve::{Options, serve};

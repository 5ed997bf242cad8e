//! Processes that engines start: each in a group that ends as a whole, also if we are killed.

mod guard;
mod shell;
mod signal;
mod tail;

pub(in crate::engine) use guard::Guard;
pub use guard::guard;
pub(in crate::engine) use shell::{Shell, shell};
pub(in crate::engine) use signal::{Signal, signal};

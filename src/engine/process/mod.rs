//! Processes that engines start: each in a group that ends as a whole, also if we are killed.

mod child;
mod guard;
mod shell;
mod signal;
mod tail;

pub use guard::guard;

pub(super) use child::{Child, Pipes};
pub(in crate::engine) use shell::{Shell, shell};

//! Processes that an engine starts: each with all that it has started ends when it is to, even if
//! we are killed.

mod child;
mod guard;
mod signal;

pub use guard::guard;

pub(super) use child::{Child, Pipes};

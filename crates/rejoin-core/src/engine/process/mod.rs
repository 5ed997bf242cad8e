//! Subprocesses of engines: each in a process group that ends as a whole, even if we are killed.

mod child;
mod group;
mod guard;
mod launch;
mod output;
mod shell;
mod signal;

pub use guard::{LEAVES, guard};
pub use launch::Launch;

pub(super) use child::Child;
pub(in crate::engine) use output::{ProcessInput, ProcessOutput};
pub(in crate::engine) use shell::Shell;
pub(crate) use shell::{run_notice, shell};

//! Bytes that nobody meant: into the transport, into the store, into a replay. Nothing panics,
//! nothing hangs, nothing is made up.

mod hostile;
mod input;
mod lines;
mod logs;
mod mutate;
mod payloads;

use crate::support::env;
use proptest::prelude::ProptestConfig;

/// So many cases, and many more if there is time.
fn cases(few: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if env::slow() { few * 50 } else { few })
}

//! Acts out every transcript again, with the real binary on real pipes.

use crate::support::{process, runner};
use crate::transcripts::path_of;

for_each_transcript!(crate::pipe::through_pipes);

/// Acts out one transcript.
pub(crate) fn through_pipes(name: &str) {
    runner::run(&path_of(name), process::start, false);
}

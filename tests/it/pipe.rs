//! Plays every fixture of `fixtures/transcripts` again, with the real binary on real pipes.

use std::path::Path;

use test_each_file::test_each_path;

use crate::support::{process, runner};

test_each_path! { for ["acp"] in "fixtures/transcripts" => through_pipes }

fn through_pipes([fixture]: [&Path; 1]) {
    runner::run(fixture, process::start, false);
}

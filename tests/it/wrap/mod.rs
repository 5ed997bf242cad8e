//! Plays every fixture of `fixtures/wrap`: the real binary, wrapping an agent that does what its
//! prompts say.

mod kill;
mod order;
#[cfg(test)]
mod nested;

use std::path::Path;

use test_each_file::test_each_path;

use crate::support::{env, process, runner};

test_each_path! { for ["acp"] in "fixtures/wrap" => wrapped }

fn wrapped([fixture]: [&Path; 1]) {
    runner::run(fixture, process::start, env::update_fixtures());
}

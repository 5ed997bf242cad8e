//! Plays every fixture of `fixtures/agent`: the real binary, with agents in a folder of its `PATH`.

#[cfg(test)]
mod registry;

use std::path::Path;

use test_each_file::test_each_path;

use crate::support::{env, process, runner};

test_each_path! { for ["acp"] in "fixtures/agent" => chosen }

fn chosen([fixture]: [&Path; 1]) {
    runner::run(fixture, process::start, env::update_fixtures());
}

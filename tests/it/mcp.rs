//! Plays every fixture of `fixtures/mcp`: the real binary, with MCP servers whose tools do what
//! servers may do.

use std::path::Path;

use test_each_file::test_each_path;

use crate::support::{env, process, runner};

test_each_path! { for ["acp"] in "fixtures/mcp" => with_servers }

fn with_servers([fixture]: [&Path; 1]) {
    runner::run(fixture, process::start, env::update_fixtures());
}

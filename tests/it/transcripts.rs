//! Plays every fixture of `fixtures/transcripts` against the server in this process, one test for
//! each file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use test_each_file::test_each_path;

use crate::support::{env, memory, runner};

test_each_path! { for ["acp"] in "fixtures/transcripts" => in_memory }

/// Plays one fixture. With `UPDATE_FIXTURES=1`, what it expects becomes what came.
fn in_memory([fixture]: [&Path; 1]) {
    runner::run(fixture, memory::start, env::update_fixtures());
}

/// The macro reads the folders when it is compiled, and the compiler does not notice a new file.
#[test]
fn every_fixture_has_a_test() {
    let tests = Command::new(std::env::current_exe().unwrap())
        .args(["--list", "--format", "terse"])
        .output()
        .unwrap();
    let tests = String::from_utf8(tests.stdout).unwrap();
    let tests: BTreeSet<&str> = tests.lines().collect();
    for module in ["transcripts", "pipe", "mcp", "wrap"] {
        let folder = if module == "pipe" {
            "transcripts"
        } else {
            module
        };
        for fixture in fixtures(&Path::new("fixtures").join(folder)) {
            assert!(
                tests.contains(&*format!("{module}::{fixture}: test")),
                "{folder}::{fixture} is new: `touch tests/it/main.rs` and run again"
            );
        }
    }
}

/// The fixtures of a folder, as the names of their tests.
fn fixtures(folder: &Path) -> Vec<String> {
    let text = |name: Option<&OsStr>| name.unwrap().to_str().unwrap().to_owned();
    let topics = folder
        .read_dir()
        .unwrap()
        .map(|topic| topic.unwrap().path());
    let topics = topics.filter(|topic| topic.is_dir());
    let files = topics.flat_map(|topic| topic.read_dir().unwrap());
    let paths = files.map(|file| file.unwrap().path());
    paths
        .map(|path| {
            let topic = text(path.parent().unwrap().file_name());
            format!("{topic}::{}", text(path.file_stem()))
        })
        .collect()
}

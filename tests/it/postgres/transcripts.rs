//! Plays the fixtures of `fixtures/transcripts` on a store in a database: in this process, and with
//! `RUN_SLOW_TESTS` with the real binary on real pipes. Of those of `fixtures/wrap`, it plays what
//! depends on places in a log and on keys.

use std::path::Path;

use test_each_file::test_each_path;

use super::cluster;
use crate::support::{env, memory, process, runner};

test_each_path! { for ["acp"] in "fixtures/transcripts" => in_a_database }
test_each_path! { for ["acp"] in "fixtures/wrap/keys" as wrapped_keys => wrapped }
test_each_path! { for ["acp"] in "fixtures/wrap/cursors" as wrapped_cursors => wrapped }
test_each_path! { for ["acp"] in "fixtures/wrap/rewind" as wrapped_rewind => wrapped }
test_each_path! { for ["acp"] in "fixtures/wrap/fork" as wrapped_fork => wrapped }

/// What is not played on a database, and why. Each is a part of the path of a fixture.
const ONLY_FILES: [(&str, &str); 6] = [
    (
        "/live/",
        "processes of a store in a database do not reach each other",
    ),
    (
        "/session/file_permissions",
        "it is about the modes of files",
    ),
    (
        "_replaced_",
        "a row is not replaced while a process has the session",
    ),
    (
        "log_removed_while_open",
        "a row is not removed while a process has the session",
    ),
    (
        "load_of_replaced_log",
        "a row is not replaced while a process has the session",
    ),
    (
        "prompt_to_replaced_log",
        "a row is not replaced while a process has the session",
    ),
];

fn in_a_database([fixture]: [&Path; 1]) {
    let path = fixture.to_string_lossy();
    if let Some((_, why)) = ONLY_FILES.iter().find(|(part, _)| path.contains(part)) {
        println!("{path} is not for a database: {why}");
        return;
    }
    let Some(store) = cluster::store() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let start = if env::slow() {
        process::start
    } else {
        memory::start
    };
    runner::run_on(&store, folder.path(), fixture, start, false);
}

fn wrapped([fixture]: [&Path; 1]) {
    let Some(store) = cluster::store() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    runner::run_on(&store, folder.path(), fixture, process::start, false);
}

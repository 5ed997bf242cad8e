//! Acts out the transcripts of `rejoin wrap` again, with a conductor between the two: what an agent
//! is to its client does not depend on who has started it.

use std::path::{Path, PathBuf};

use crate::support::{conductor, runner};

/// Transcripts of an agent that ends and is started again: without its agent a chain is no more.
const RESTARTS: [&str; 3] = [
    "an_agent_that_ends_in_a_fork",
    "an_agent_that_fails_to_start_is_no_agent_that_forgot",
    "both_sessions_go_on_after_the_agent_ended",
];

/// Acts out a folder of transcripts.
fn all_of(topic: &str) {
    let folder = Path::new("fixtures/wrap").join(topic);
    let (mut count, mut wrong) = (0, Vec::new());
    for file in folder.read_dir().expect("the folder is there") {
        let path = file.expect("it can be read").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let alone = text.contains("!kill-agent") || text.contains("!agent none");
        let restarts = RESTARTS.contains(&&*name) || alone;
        if !restarts && !text.contains("== agent starts") {
            let script = path.clone();
            let went =
                std::panic::catch_unwind(move || runner::run(&script, conductor::start, false));
            if went.is_err() {
                wrong.push(path);
            }
            count += 1;
        }
    }
    assert!(count > 1, "nothing to act out in {}", folder.display());
    assert_eq!(wrong, Vec::<PathBuf>::new());
}

#[test]
fn pass_through() {
    all_of("pass_through");
}

#[test]
fn recording() {
    all_of("recording");
}

#[test]
fn restoring() {
    all_of("restoring");
}

#[test]
fn foreign() {
    all_of("foreign");
}

#[test]
fn adoption() {
    all_of("adoption");
}

#[test]
fn fork() {
    all_of("fork");
}

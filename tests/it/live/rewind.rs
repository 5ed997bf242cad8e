//! `rejoin rewind`, for sessions that are open in no process and in another one.

use std::path::Path;

use super::peer::Peer;
use crate::support::command::{fails, runs};

/// What the command line shows of a session, a word of each prompt.
fn said(store: &Path, session: &str, all: bool) -> Vec<String> {
    let mut command = vec!["sessions", "show", "--no-pager", session];
    command.extend(all.then_some("--all-branches"));
    let shown = runs(store, &command);
    let words = shown.split_whitespace().collect::<Vec<_>>();
    let pairs = words.windows(2).filter(|pair| pair[0] == "/echo");
    pairs.map(|pair| pair[1].to_owned()).collect()
}

#[test]
fn the_command_line_goes_back_and_forth() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path();
    let mut peer = Peer::start(store, 1);
    let session = peer.new_session();
    for word in ["one", "two", "three"] {
        peer.turn(&session, &format!("/echo {word}"));
    }
    let rewind = |more: &[&str]| runs(store, &[&["sessions", "rewind", &session], more].concat());

    // The process that has the session open does it, and its client is notified.
    let before = peer.shown.clone();
    assert!(rewind(&["--to", "1"]).contains("goes on with 1 turn"));
    peer.wait(|peer| peer.shown != before);
    peer.turn(&session, "/echo other");
    assert_eq!(said(store, &session, false), ["one", "other"]);
    fails(
        store,
        &["sessions", "rewind", &session, "--to", "2"],
        3,
        "turn 2",
    );
    peer.leave();

    assert!(rewind(&["--undo"]).contains("goes on with 3 turns"));
    assert_eq!(said(store, &session, false), ["one", "two", "three"]);
    assert!(rewind(&["--undo"]).contains("goes on with 2 turns"));
    assert_eq!(said(store, &session, false), ["one", "other"]);
    assert!(rewind(&["--to", "0"]).contains("goes on with 0 turns"));
    assert_eq!(said(store, &session, false), [""; 0]);
    assert_eq!(
        said(store, &session, true),
        ["one", "two", "three", "other"]
    );
    let show = ["sessions", "show", "--no-pager", &session, "--all-branches"];
    let shown = runs(store, &show);
    let heads = shown.lines().filter_map(|line| line.strip_prefix("── "));
    let numbers: Vec<_> = heads.map(|head| &head[..1]).collect();
    assert_eq!(numbers, ["1", "2", "3", "2"]);
    fails(store, &["sessions", "rewind", &session], 2, "--to");
    runs(store, &["sessions", "verify"]);
}

#[test]
fn nothing_is_undone_while_a_turn_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path();
    let mut peer = Peer::start(store, 1);
    let session = peer.new_session();
    peer.turn(&session, "/echo one");
    let before = peer.shown.clone();
    peer.prompt(&session, "/slow 600");
    peer.wait(|peer| peer.shown != before);
    let command = ["sessions", "rewind", &session, "--to", "0"];
    fails(store, &command, 4, "active prompt");
    peer.leave();
}

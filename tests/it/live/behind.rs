//! A client that does not read is behind alone, also if its process has the session open.

use std::time::Instant;

use serde_json::json;

use super::peer::Peer;
use crate::support::agent::GUARD;

/// How much is said while a client does not read: more than pipes and buffers hold.
const FLOOD: &str = "/flood 4000 256";

fn behind(version: u8) {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Peer::start(folder.path(), version);
    let session = owner.new_session();
    let mut other = Peer::start(folder.path(), 1);
    other.load(&session).unwrap();
    owner.stops_reading();
    let flooded = owner.prompt(&session, FLOOD);
    let before = other.shown.clone();
    other.wait(|peer| peer.shown != before);
    // In version 1, it is refused while the turn runs.
    let mut answer = json!({});
    let begun = Instant::now();
    while answer.get("result").is_none() {
        assert!(begun.elapsed() < GUARD, "{answer}");
        let id = other.prompt(&session, "/run true");
        other.wait(|peer| !peer.waiting.contains(&id) || !peer.asked.is_empty());
        if let Some(asked) = other.asked.pop() {
            other.answer(&asked, "allow_once");
        }
        other.wait(|peer| !peer.waiting.contains(&id));
        answer = other.forget_answers().remove(0);
    }
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    owner.reads();
    owner.wait(|peer| !peer.waiting.contains(&flooded));
    owner.wait_until_shown(&other.shown);
    // It prompts as before, and is shown each prompt of the other client once.
    owner.turn(&session, "/echo again");
    other.wait_until_shown(&owner.shown);
    let mut reader = Peer::start(folder.path(), version);
    reader.load(&session).unwrap();
    owner.wait_until_shown(&reader.shown);
    // Version 1 has no update for a prompt of the client's own.
    let expected = match version {
        1 => &reader.prompts[1..2],
        _ => &reader.prompts[..],
    };
    assert_eq!(owner.prompts, expected);
    other.leave();
    owner.leave();
}

#[test]
fn the_owners_own_client_stops_reading() {
    behind(1);
}

#[test]
fn the_owners_own_client_of_version_2_stops_reading() {
    behind(2);
}

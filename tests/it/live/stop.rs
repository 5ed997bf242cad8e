//! Sessions that are stopped on purpose while clients of other processes have them open.

use std::path::Path;

use serde_json::{Value, json};

use super::peer::Peer;
use crate::support::command::{fails, runs};

#[test]
fn a_session_that_is_stopped_does_not_move_to_another_process_until_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path();
    let sessions = || -> Value {
        let live: Value = serde_json::from_str(&runs(store, &["ps", "--json"])).unwrap();
        live["sessions"].clone()
    };
    let mut owner = Peer::start(store, 1);
    let session = owner.new_session();
    owner.turn(&session, "/echo first");
    let mut others = [Peer::start(store, 1), Peer::start(store, 2)];
    for other in &mut others {
        other.load(&session).unwrap();
    }
    let live = sessions();
    assert_eq!(live[0]["clients"].as_array().unwrap().len(), 3, "{live}");
    let before = others[0].shown.clone();
    let id = others[0].prompt(&session, "/slow 600");
    others[0].wait(|peer| peer.shown != before);
    assert!(runs(store, &["stop", &session]).starts_with("stopped"));
    others[0].wait(|peer| !peer.waiting.contains(&id));
    let answer = others[0].forget_answers().remove(0);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_eq!(sessions(), Value::Array(Vec::new()));
    // The next prompt opens it again, in the process of the client that sends it.
    let answer = others[0].turn(&session, "/echo again");
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(sessions().as_array().unwrap().len(), 1);
    let [one, mut two] = others;
    two.wait_until_shown(&one.shown);
    two.turn(&session, "/echo third");
    one.leave();
    two.leave();
    owner.leave();
}

#[test]
fn a_name_means_a_session_that_is_open_before_it_means_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path();
    let mut first = Peer::start(store, 1);
    let left = first.new_session();
    first.turn(&left, "/echo the cache");
    first.leave();
    let mut owner = Peer::start(store, 1);
    let session = owner.new_session();
    owner.turn(&session, "/echo the cache again");
    fails(store, &["export", "cache"], 2, "2 sessions could be");
    let stopped = runs(store, &["stop", "cache"]);
    assert!(stopped.contains(&session), "{stopped}");
    for name in ["stop", "attach"] {
        fails(store, &[name, "cache"], 3, "is open");
    }
    owner.leave();
}

/// Two clients of different processes that have one session open, of one turn. The first one's process
/// owns it.
fn shared(store: &Path) -> (Peer, Peer, String) {
    let mut owner = Peer::start(store, 1);
    let session = owner.new_session();
    owner.turn(&session, "/echo first");
    let mut other = Peer::start(store, 1);
    other.load(&session).unwrap();
    (owner, other, session)
}

#[test]
fn a_session_that_is_open_is_deleted_by_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path();
    let (mut owner, mut other, session) = shared(store);
    let before = other.shown.clone();
    let prompt = other.prompt(&session, "/slow 600");
    other.wait(|peer| peer.shown != before);
    fails(store, &["sessions", "delete", &session], 4, "--force");
    runs(store, &["sessions", "delete", "--force", &session]);
    other.wait(|peer| !peer.waiting.contains(&prompt));
    let answer = other.forget_answers().remove(0);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    for peer in [&mut owner, &mut other] {
        let answer = peer.turn(&session, "/echo again");
        assert_eq!(answer["error"]["data"]["error"], "session_not_found");
    }
    owner.leave();
    other.leave();
}

#[test]
fn a_request_before_a_close_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path();
    let (owner, mut other, session) = shared(store);
    for _ in 0..10 {
        let mode = json!({ "sessionId": session, "modeId": "auto" });
        other.begin("session/set_mode", mode);
        other.begin("session/close", json!({ "sessionId": session }));
        other.wait(|peer| peer.waiting.is_empty());
        for answer in other.forget_answers() {
            // The owner may see the close first.
            let error = &answer["error"]["data"]["error"];
            assert!(error.is_null() || error == "session_not_open", "{answer}");
        }
        other.load(&session).unwrap();
    }
    owner.leave();
    other.leave();
}

#[test]
fn a_prompt_in_a_session_that_is_deleted_meanwhile_is_cancelled_or_finds_no_session() {
    for _ in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let mut peers = [(); 3].map(|()| Peer::start(folder.path(), 1));
        let session = peers[0].new_session();
        peers[0].turn(&session, "/echo one");
        let [_, other, third] = &mut peers;
        other.load(&session).unwrap();
        third.load(&session).unwrap();
        let force = json!({ "sessionId": session, "_meta": { "rejoin": { "force": true } } });
        let deleted = third.begin("session/delete", force);
        let answer = other.turn(&session, "/slow 600");
        let ended = &answer["result"]["stopReason"] == "cancelled"
            || &answer["error"]["data"]["error"] == "session_not_found";
        assert!(ended, "{answer}");
        third.wait(|peer| !peer.waiting.contains(&deleted));
        for peer in peers {
            peer.leave();
        }
    }
}

//! Sessions that are stopped on purpose while clients of other processes have them open.

use serde_json::Value;

use super::peer::Peer;
use crate::support::command::runs;

#[test]
fn a_session_that_is_stopped_does_not_move_to_another_process_until_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path();
    let sessions = || -> Value {
        let live: Value = serde_json::from_str(&runs(store, &["ps", "--json"])).unwrap();
        live["sessions"].clone()
    };
    let mut owner = Peer::start(store, 1);
    let made = owner.call("session/new", Peer::place(None)).unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let id = owner.prompt(&session, "/echo first");
    owner.wait(|peer| !peer.waiting.contains(&id));
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
    let id = others[0].prompt(&session, "/echo again");
    others[0].wait(|peer| !peer.waiting.contains(&id));
    let answer = others[0].forget_answers().remove(0);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(sessions().as_array().unwrap().len(), 1);
    let [one, mut two] = others;
    two.wait_until_shown(&one.shown);
    let id = two.prompt(&session, "/echo third");
    two.wait(|peer| !peer.waiting.contains(&id));
    one.leave();
    two.leave();
    owner.leave();
}

//! An orchestrator replaces a process while a turn runs: the new one loads the session at once.

use super::peer::Peer;
use crate::support::env;

#[test]
fn a_session_moves_to_the_next_process_with_all_it_has() {
    let times = if env::slow() { 1000 } else { 5 };
    let folder = tempfile::tempdir().unwrap();
    let mut old = Peer::start(folder.path(), 1);
    let made = old.call("session/new", Peer::place(None)).unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    for time in 0..times {
        let before = old.shown.clone();
        old.prompt(&session, "/slow 60");
        old.wait(|peer| peer.shown != before);
        // The new process may find the old one at work, ending, or gone.
        let mut new = Peer::start(folder.path(), 1);
        let leaving = std::thread::spawn(|| old.leave());
        let loaded = new.load(&session).unwrap();
        assert_eq!(loaded["modes"]["currentModeId"], "ask", "{time}: {loaded}");
        assert!(loaded["configOptions"].is_array(), "{time}: {loaded}");
        leaving.join().unwrap();
        let id = new.prompt(&session, "/echo next");
        new.wait(|peer| !peer.waiting.contains(&id));
        let answers = new.forget_answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(
            answers[0]["result"]["stopReason"], "end_turn",
            "{time}: {answers:?}"
        );
        old = new;
    }
}

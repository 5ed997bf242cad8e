//! An orchestrator replaces a process while a turn runs: the new one loads the session at once.

use serde_json::{Value, json};

use super::peer::Peer;
use crate::support::env;
use crate::support::wrapped::mcp_server;

#[test]
fn a_session_moves_to_the_next_process_with_all_it_has() {
    let times = if env::slow() { 1000 } else { 5 };
    let folder = tempfile::tempdir().unwrap();
    let server = json!({ "name": "tools", "command": mcp_server(), "args": [], "env": [] });
    let mut place = json!({ "cwd": "/", "mcpServers": [server] });
    let mut old = Peer::start(folder.path(), 1);
    let made = old.call("session/new", place.clone()).unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    place["sessionId"] = session.clone().into();
    for time in 0..times {
        let before = old.shown.clone();
        old.prompt(&session, "/slow 60");
        old.wait(|peer| peer.shown != before);
        // The new process may find the old one at work, ending, or gone.
        let mut new = Peer::start(folder.path(), 1);
        let leaving = std::thread::spawn(|| old.leave());
        let loaded = new.call("session/load", place.clone()).unwrap();
        assert_eq!(loaded["modes"]["currentModeId"], "ask", "{time}: {loaded}");
        assert!(loaded["configOptions"].is_array(), "{time}: {loaded}");
        leaving.join().unwrap();
        let text = format!(r#"/call tools echo {{"text":"{time}"}}"#);
        let answer: Value = new.turn(&session, &text);
        let reason = &answer["result"]["stopReason"];
        assert_eq!(reason, "end_turn", "{time}: {answer}");
        let shown = &new.shown;
        assert!(shown.says("`tools` has answered"), "{time}: {shown:?}");
        old = new;
    }
}

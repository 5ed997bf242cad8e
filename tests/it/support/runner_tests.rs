//! A transcript that does not fit must fail: each of these does, where and as it should.

use std::io::Write;
use std::panic::catch_unwind;

use super::run;
use crate::support::memory;

const NEW: &str = "-> {\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\",\"mcpServers\":[]}}\n\
                   <- {\"id\":1,\"result\":{\"sessionId\":\"<session:0>\",\"...\":\"...\"}}\n\
                   <- {\"method\":\"session/update\",\"params\":\"...\"}\n";

/// What a script fails with.
fn failure(script: &str) -> String {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(script.as_bytes()).unwrap();
    let path = file.path().to_owned();
    let result = catch_unwind(|| run(&path, memory::start, false));
    let panic = result.expect_err("it does not fail");
    panic
        .downcast_ref::<String>()
        .unwrap()
        .replace(path.to_str().unwrap(), "x")
}

#[test]
fn differences_are_shown_with_file_and_line() {
    for (script, expected) in [
        (
            "!initialize\n-> {\"id\":1,\"method\":\"session/list\"}\n<- {\"id\":1,\"result\":{\"sessions\":[1]}}\n",
            "x:3: at .result.sessions: 0 items instead of 1",
        ),
        (
            "!initialize\n-> {\"id\":1,\"method\":\"session/list\"}\n",
            "x:2: at the end of connection 1: unread: ",
        ),
        (
            "!initialize\n-> {\"method\":\"toast\"}\n!eof\n<- {\"id\":1,\"result\":\"...\"}\n",
            "x:4: its output has ended",
        ),
        (
            "!initialize\n-> {\"id\":1,\"method\":\"toast\"}\n<-raw {}\n",
            "x:3: ",
        ),
        (
            "!initialize\n-> {\"id\":1,\"method\":\"toast\"}\n<~ {\"id\":2}\n<~ {\"id\":3}\n",
            "x:3: got ",
        ),
        ("!new\n== files sessions 2\n", "x:2: there are 1"),
        ("!new\n== absent <session:0>\n", "x:2: there is such a file"),
        ("!new\n== nowhere protocolVersion\n", "x:2: it is in "),
        ("!new\n== log <session:0>\n", "x:2: there are more records"),
        (
            "!new\n== store <session:0>\n{\"kind\":\"end\"}\n",
            "x:2: {\"kind\":\"end\"} is not there",
        ),
        (
            "!new\n!note <session:0>\n-> {\"id\":1,\"method\":\"session/delete\",\"params\":{\"sessionId\":\"<session:0>\"}}\n<- \"...\"\n== noted <session:0>\n",
            "x:5: sess_",
        ),
        // Windows lets nobody else write to a log that is open.
        #[cfg(unix)]
        (
            "!new\n!note <session:0>\n!write <session:0> \"x\"\n!append <session:0> \"y\"\n== store <session:0>\n{\"a\":1}\n",
            "x:5: {\"a\":1} is not there",
        ),
    ] {
        let found = failure(script);
        assert!(found.starts_with(expected), "{found}\nfor\n{script}");
    }
    assert!(failure(&format!("!initialize\n{NEW}{NEW}")).contains("instead of \"<session:0>\""));
}

//! The command line as people and scripts meet it: the real binary, its output and its exit codes.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at and damages real files of the real binary"
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::{command, fails, runs};
use crate::support::systems::FOLDER;

const NOBODY: &str = "sess_019aa564-cd00-7b3c-9e41-5f2d8c6a1b07";

/// Pipes requests into `rejoin serve` and returns its answers, less `initialize`'s.
fn serve(store: &Path, requests: &[Value]) -> Vec<Value> {
    let mut lines = serve_all(store, requests);
    lines.retain(|line| line["id"].as_u64().is_some_and(|id| id > 0));
    lines
}

/// The same with everything that was sent.
fn serve_all(store: &Path, requests: &[Value]) -> Vec<Value> {
    let mut child = command(store, &["serve"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({ "method": "initialize", "params": { "protocolVersion": 1 } });
    for (id, request) in [hello].iter().chain(requests).enumerate() {
        let mut request = request.clone();
        request["jsonrpc"] = "2.0".into();
        request["id"] = id.into();
        writeln!(input, "{request}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn place(mut more: Value) -> Value {
    more["cwd"] = FOLDER.into();
    more["mcpServers"] = json!([]);
    more
}

/// A session with one prompt; returns its id.
fn talk(store: &Path, text: &str) -> String {
    let new = serve(
        store,
        &[json!({ "method": "session/new", "params": place(json!({})) })],
    );
    let id = new[0]["result"]["sessionId"].as_str().unwrap().to_owned();
    let blocks = json!([{ "type": "text", "text": text }]);
    let answers = serve(
        store,
        &[
            json!({ "method": "session/load", "params": place(json!({ "sessionId": id })) }),
            json!({ "method": "session/prompt", "params": { "sessionId": id, "prompt": blocks } }),
        ],
    );
    assert_eq!(answers[1]["result"]["stopReason"], "end_turn");
    id
}

#[test]
fn reading_commands_make_no_store() {
    let root = TempDir::new().unwrap();
    let store = root.path().join("store");
    for exists in [false, true] {
        if exists {
            fs::create_dir(&store).unwrap();
        }
        assert_eq!(runs(&store, &["sessions", "list"]), "");
        assert_eq!(runs(&store, &["sessions", "list", "--json"]), "[]\n");
        assert_eq!(runs(&store, &["sessions", "restore"]), "");
        assert_eq!(runs(&store, &["sessions", "restore", "--json"]), "[]\n");
        let why = format!("there is no store at {}", store.display());
        for verb in ["show", "delete", "restore", "verify"] {
            fails(&store, &["sessions", verb, NOBODY], 1, &why);
        }
        fails(&store, &["sessions", "verify"], 1, &why);
        fails(&store, &["sessions", "verify", "--json"], 1, &why);
        let made = fs::read_dir(&store).map_or(0, Iterator::count);
        assert_eq!(made, 0);
    }
}

#[test]
fn unreadable_store_is_an_error() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "mine").unwrap();
    fails(&file, &["sessions", "list"], 1, "is a file");
    let new = json!({ "method": "session/new", "params": place(json!({})) });
    let answers = serve(&file, &[new]);
    assert_eq!(answers[0]["error"]["data"]["error"], "storage_failed");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

/// Nobody listens at this address, so every command says that it cannot reach the database.
#[cfg(feature = "store-postgres")]
#[test]
fn the_password_of_a_database_is_in_no_message() {
    let secret = "hush-4711";
    let address = format!("postgres://ada:{secret}@127.0.0.1:1/db?patience=0s");
    let root = TempDir::new().unwrap();
    for arguments in [
        &["sessions", "list"][..],
        &["sessions", "show", "last"],
        &["store", "check"],
        &["doctor", "--no-agents"],
        &["ps"],
        &["serve"],
    ] {
        let mut command = command(root.path(), &[]);
        command.args(arguments).args(["--log-level", "trace"]);
        let mut plain = std::process::Command::new(command.get_program());
        plain
            .args(command.get_args().skip(2))
            .env("REJOIN_STORE", &address)
            .env("HOME", root.path())
            .stdin(std::process::Stdio::null());
        let output = plain.output().unwrap();
        for said in [output.stdout, output.stderr] {
            let said = String::from_utf8(said).unwrap();
            assert!(!said.contains(secret), "{arguments:?}: {said}");
        }
    }
    let given = Path::new(&address);
    let output = command(given, &["sessions", "list"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("is seen by all users") && !said.contains(secret),
        "{said}"
    );
}

#[test]
fn invalid_command_line_does_nothing() {
    let root = TempDir::new().unwrap();
    for (arguments, why) in [
        (vec!["fnord"], "unrecognized subcommand"),
        (vec!["serve", "--fnord"], "unexpected argument"),
        (
            vec!["wrap", "an-agent", "--acp"],
            "write `--` before the agent's command: `rejoin wrap -- an-agent --acp`",
        ),
        (vec!["serve", "--replay-tail", "0"], "0 is not in 1.."),
        (vec!["serve", "--max-line", "4095"], "4095 is not in 4096.."),
        (
            vec!["serve", "--durability", "x"],
            "not one of os, turn, each",
        ),
        (vec!["sessions"], " sessions "),
        (vec!["lst"], "'list'"),
        (vec!["serch", "x"], "'serve', 'search'"),
        (vec!["sessions", "lst"], "'list'"),
        (vec!["kill", "x"], "tip: `rejoin stop ID`"),
        (vec!["grep", "x"], "tip: `rejoin search WORDS`"),
        (vec!["history"], "tip: `rejoin list`"),
        (vec!["last"], "tip: `rejoin show last`"),
        (vec!["log"], "tip: `rejoin show ID`"),
        (vec!["xyzzy"], "unrecognized subcommand 'xyzzy'\n\nUsage"),
        (
            vec!["--unstable", "sessions", "list"],
            "before another command",
        ),
        (vec!["sessions", "show"], "no session is named"),
        (vec!["list", "-n", "0"], "expected 1 or more"),
        (vec!["search", "x", "--limit", "0"], "expected 1 or more"),
        (vec!["sessions", "list", "--log-level", "%"], "log level"),
        (vec!["sessions", "list", "--log-level", "loud"], "log level"),
        (vec!["wrap", "--name", "", "--", "x"], "a value is required"),
    ] {
        assert_eq!(fails(root.path(), &arguments, 2, why), "");
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_file_is_no_store() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    for store in [&file, &file.join("below")] {
        for command in ["list", "import", "stats"] {
            fails(
                store,
                &[command],
                1,
                "file is a file\n  hint: --store and REJOIN_STORE name",
            );
        }
    }
}

#[test]
fn sessions_are_listed_shown_deleted_and_restored() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let id = talk(store, "My name is Ada");

    let listed: Value =
        serde_json::from_str(&runs(store, &["sessions", "list", "--json"])).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["sessionId"], *id);
    assert_eq!(listed[0]["title"], "My name is Ada");
    assert_eq!(listed[0]["prompts"], 1);
    let line = runs(store, &["sessions", "list"]);
    assert!(
        line.starts_with(&id) && line.ends_with(&format!("  1 prompt  {FOLDER}  My name is Ada\n")),
        "{line}"
    );

    let shown = runs(store, &["sessions", "show", &id]);
    assert!(shown.contains("You\nMy name is Ada"), "{shown}");
    assert_eq!(
        runs(store, &["sessions", "list", "--cwd", "/elsewhere"]),
        ""
    );
    assert_eq!(
        runs(
            store,
            &["sessions", "list", "--cwd", &format!("{FOLDER}/.")]
        ),
        line
    );

    runs(store, &["sessions", "delete", &id]);
    assert_eq!(runs(store, &["sessions", "list"]), "");
    fails(
        store,
        &["sessions", "delete", &id],
        3,
        "there is no session",
    );
    let trash = runs(store, &["sessions", "restore"]);
    assert!(
        trash.starts_with(&id) && trash.ends_with("  My name is Ada\n"),
        "{trash}"
    );
    runs(store, &["sessions", "restore", &id]);
    fails(
        store,
        &["sessions", "restore", &id],
        3,
        "is not in the trash",
    );
    assert_eq!(runs(store, &["sessions", "list"]), line);
    assert_eq!(runs(store, &["sessions", "show", &id]), shown);
}

#[test]
fn environment_applies_to_all_commands() {
    let root = TempDir::new().unwrap();
    for (arguments, out) in [
        (&["sessions", "list"][..], ""),
        (&["sessions", "prune", "--keep", "1"], "0 sessions"),
    ] {
        let mut command = command(root.path(), arguments);
        let output = command.env("REJOIN_UNSTABLE", "1").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8(output.stdout).unwrap().starts_with(out));
    }
    let mut serve = command(root.path(), &["serve"]);
    let output = serve.env("REJOIN_UNSTABLE", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn hints_name_the_same_store() {
    let root = TempDir::new().unwrap();
    talk(root.path(), "hello");
    let why = format!("`rejoin --store {} list`", root.path().display());
    fails(root.path(), &["sessions", "show", NOBODY], 3, &why);
    let mut named = command(root.path(), &["sessions", "show", "no-such"]);
    let output = named.env("REJOIN_STORE", root.path()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text.contains("`rejoin list`"), "{text}");
}

#[test]
fn later_format_is_not_damage() {
    let root = TempDir::new().unwrap();
    let id = talk(root.path(), "hello");
    let log = root.path().join("sessions").join(format!("{id}.jsonl"));
    let text = fs::read_to_string(&log).unwrap();
    let first = text.lines().next().unwrap().len();
    let header = text[..first].replace(r#""format":1"#, r#""format":99"#);
    fs::write(&log, header + &text[first..]).unwrap();
    let verify = ["sessions", "verify"];
    let why = "1 of 1 session cannot be read by this version";
    let report = fails(root.path(), &verify, 5, why);
    assert!(
        report.ends_with("1 session, 0 sound, 0 damaged, 1 of a later format\n"),
        "{report}"
    );
}

#[test]
fn empty_file_is_neither_session_nor_damage() {
    let root = TempDir::new().unwrap();
    talk(root.path(), "hello");
    let log = root.path().join("sessions").join(format!("{NOBODY}.jsonl"));
    fs::write(&log, "").unwrap();
    for (arguments, report) in [
        (
            &["sessions", "verify"][..],
            "1 session, 1 sound, 0 damaged, 1 empty file without a session\n",
        ),
        (
            &["sessions", "verify", NOBODY],
            "0 sessions, 0 sound, 0 damaged, 1 empty file without a session\n",
        ),
        (&["sessions", "verify", NOBODY, "--json"], "[]\n"),
    ] {
        assert_eq!(runs(root.path(), arguments), report);
    }
    assert!(!runs(root.path(), &["sessions", "list"]).contains(NOBODY));
    let show = ["sessions", "show", NOBODY];
    fails(root.path(), &show, 5, "it is empty");
    assert!(log.exists());
}

#[test]
fn shown_text_has_no_control_characters() {
    let root = TempDir::new().unwrap();
    let id = talk(root.path(), "a\u{1b}]0;owned\u{7}b\u{202e}c\rd");
    for arguments in [vec!["sessions", "list"], vec!["sessions", "show", &id]] {
        let shown = runs(root.path(), &arguments);
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(bad), "{shown:?}");
        assert!(shown.contains("owned"), "{shown:?}");
    }
}

#[test]
fn closed_pipe_is_not_a_failure() {
    let root = TempDir::new().unwrap();
    let id = talk(root.path(), "hello");
    for arguments in [
        vec!["sessions", "list"],
        vec!["sessions", "show", &id],
        vec!["sessions", "verify", "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(root.path(), &arguments).stdout(writer).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn locked_session_is_shown_and_not_deleted() {
    let root = TempDir::new().unwrap();
    let id = talk(root.path(), "hello");
    let log = root.path().join("sessions").join(format!("{id}.jsonl"));
    let holder = fs::OpenOptions::new().append(true).open(&log).unwrap();
    holder.lock().unwrap();
    fails(root.path(), &["sessions", "delete", &id], 4, "is in use");
    assert!(runs(root.path(), &["sessions", "show", &id]).contains("You\nhello"));
    assert!(log.exists());
}

#[test]
fn verify_reports_damage_and_changes_nothing() {
    let root = TempDir::new().unwrap();
    let id = talk(root.path(), "hello");
    let log = root.path().join("sessions").join(format!("{id}.jsonl"));
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.windows(7).position(|seven| seven == b"\"hello\"");
    bytes[at.unwrap() + 1] ^= 1;
    fs::write(&log, &bytes).unwrap();

    let verify = ["sessions", "verify", "--json"];
    let report = fails(
        root.path(),
        &verify,
        5,
        "damage was found in 1 of 1 session",
    );
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report[0]["sound"], false);
    assert_eq!(report[0]["damage"][0]["line"], 2);
    let shown = runs(root.path(), &["sessions", "show", &id]);
    assert!(shown.contains("Damage: line 2"), "{shown}");
    assert_eq!(fs::read(&log).unwrap(), bytes);
}

#[test]
fn tool_call_with_damaged_beginning() {
    let root = TempDir::new().unwrap();
    let id = talk(root.path(), "/tool");
    let log = root.path().join("sessions").join(format!("{id}.jsonl"));
    let text = fs::read_to_string(&log).unwrap();
    let damaged = text.replacen(r#""tool_call","#, r#""tool_calm","#, 1);
    fs::write(&log, damaged).unwrap();

    let load = json!({ "method": "session/load", "params": place(json!({ "sessionId": id })) });
    let lines = serve_all(root.path(), &[load]);
    let updates = lines.iter().map(|line| &line["params"]["update"]);
    let calls: Vec<_> = updates
        .filter(|update| update["toolCallId"].is_string())
        .map(|update| update["sessionUpdate"].as_str().unwrap())
        .collect();
    assert_eq!(calls, ["tool_call", "tool_call_update", "tool_call_update"]);
    let damage = &lines.last().unwrap()["result"]["_meta"]["rejoin"]["damage"];
    assert_eq!(damage.as_array().map(Vec::len), Some(1), "{lines:?}");
}

/// The conversation by hand that the documents show, as a shell runs it.
#[cfg(unix)]
#[test]
fn documented_conversation_works() {
    let document = include_str!("../../../docs/integration.md");
    let start = document.find("## Talk to it by hand").unwrap();
    let blocks = document[start..].split("```sh\n").skip(1);
    let blocks: Vec<&str> = blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let [make, talk, look] = blocks[..] else {
        panic!("{} blocks", blocks.len());
    };
    let folder = TempDir::new().unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_rejoin")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [bin.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    // The second command is run twice, as the text says.
    let script = ["set -eu", make, talk, "echo again", talk, look].join("\n");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", std::env::join_paths(path).unwrap())
        .env_remove("REJOIN_STORE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let (first, again) = text.split_once("\nagain\n").unwrap();
    assert!(first.contains("This is the first prompt ") && !first.contains("user_message_chunk"));
    assert!(again.contains("user_message_chunk") && again.contains("This is prompt 2 of "));
    assert!(again.contains("You\nMy name is Ada") && again.contains(r#""kind":"end""#));
}

#[test]
fn demo_shows_restored_conversation() {
    let root = TempDir::new().unwrap();
    let kept = root.path().join("kept");
    let arguments = ["demo", "--keep", kept.to_str().unwrap()];
    let why = "uses a store of its own";
    assert_eq!(fails(root.path(), &arguments, 2, why), "");
    let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("   EQUAL: all 17 entries came back"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "colours without a terminal");
    assert_eq!(
        runs(&kept, &["sessions", "verify"]),
        "1 session, 1 sound, 0 damaged\n"
    );
}

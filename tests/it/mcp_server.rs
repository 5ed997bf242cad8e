//! `rejoin mcp`, as MCP clients meet it: the real binary, driven by the client of the `rmcp` crate.
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::io::Write;
use std::path::{MAIN_SEPARATOR, Path};
use std::process::Stdio;

use rejoin::record::{Kind, line};
use rejoin::sys::{Sys, Timestamp};
use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sources::home;
use crate::support::command::{command, fails};
use crate::support::systems::FOLDER;

/// A session in this folder with these records.
fn session(store: &Path, cwd: &str, records: &[(Kind, Value)]) -> String {
    let sys = Sys::real();
    let id = sys.ids.session().to_string();
    let mut log = Vec::new();
    let header = json!({ "format": 1, "sessionId": id, "cwd": cwd,
        "engine": { "name": "weaver" }, "protocolVersion": 1 });
    let all = [&[(Kind::Session, header)], records].concat();
    for (seq, (kind, payload)) in (0_u64..).zip(all) {
        let id = (kind == Kind::Prompt).then_some("msg_1");
        let at = Timestamp::from_millis(1_750_000_000_000 + seq.cast_signed() * 1000);
        line::encode(&mut log, seq, at, kind, id, &payload.to_string());
    }
    std::fs::create_dir_all(store.join("sessions")).unwrap();
    let path = store.join("sessions").join(format!("{id}.jsonl"));
    std::fs::write(path, log).unwrap();
    id
}

/// A turn: a prompt, a command with its output, an answer.
fn turn(prompt: &str, output: &str, answer: &str) -> Vec<(Kind, Value)> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": prompt, "title": "Run make",
        "kind": "execute", "status": "completed", "rawInput": { "command": "make" },
        "rawOutput": { "exit_code": 2 },
        "content": [{ "type": "content", "content": text(output) }] });
    let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": text(answer) });
    vec![
        (Kind::Prompt, json!({ "prompt": [text(prompt)] })),
        (Kind::Update, call),
        (Kind::Update, chunk),
        (Kind::End, json!({ "stopReason": "end_turn" })),
    ]
}

pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    service: RunningService<RoleClient, ()>,
}

impl Client {
    fn start(store: &Path, arguments: &[&str]) -> Self {
        Self::of(command(store, &[&["mcp"], arguments].concat()))
    }

    pub(crate) fn of(command: std::process::Command) -> Self {
        Self::with_lifecycle(command, ClientLifecycleMode::Initialize)
    }

    fn with_lifecycle(command: std::process::Command, lifecycle: ClientLifecycleMode) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let service = runtime.block_on(async {
            let mut command = tokio::process::Command::from(command);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.kill_on_drop(true).spawn().unwrap();
            let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
            tokio::spawn(async move { child.wait().await });
            ().serve_with_lifecycle(pipes, lifecycle).await.unwrap()
        });
        Self { runtime, service }
    }

    fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let arguments = arguments.as_object().unwrap().clone();
        let call = CallToolRequestParams::new(tool).with_arguments(arguments);
        self.runtime.block_on(self.service.call_tool(call)).unwrap()
    }

    /// The text and the object of a call that succeeds.
    #[track_caller]
    pub(crate) fn answer(&self, tool: &'static str, arguments: Value) -> (String, Value) {
        let result = self.call(tool, arguments);
        assert_ne!(result.is_error, Some(true), "{result:?}");
        (text(&result), result.structured_content.unwrap())
    }

    /// The message of a call that is refused.
    #[track_caller]
    pub(crate) fn refusal(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result.is_error, Some(true), "{result:?}");
        text(&result)
    }
}

fn text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts.map(|text| text.text.as_str()).collect()
}

#[test]
fn conversations_are_listed_searched_and_read() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let mut records = turn(
        "Fix the kiosk",
        "noise\nneedle-17\n",
        "It is the capacitor.",
    );
    for n in 0..30 {
        records.extend(turn(
            &format!("step {n}"),
            &format!("out {n} {}", "x".repeat(2000)),
            &format!("done {n}"),
        ));
    }
    let kiosk = session(store, FOLDER, &records);
    let other = session(store, "/elsewhere", &turn("Fix the boat", "", "Fixed."));
    let client = Client::start(store, &["--cwd", FOLDER]);

    let info = client.service.peer_info().unwrap();
    assert!(
        info.instructions
            .as_ref()
            .unwrap()
            .contains(&format!("held in {FOLDER}"))
    );
    let tools = client.runtime.block_on(client.service.list_all_tools());
    let names: Vec<_> = tools.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["search", "read", "list"]);

    let (text, object) = client.answer("list", json!({}));
    assert!(
        text.starts_with(&format!("1 conversation in {FOLDER}:\n\nFix the kiosk\n")),
        "{text}"
    );
    assert_eq!(object["sessions"][0]["session"], *kiosk);
    assert_eq!(object["sessions"][0]["messages"], 62);
    assert_eq!(object["total"], 1);

    let (text, object) = client.answer("search", json!({ "words": "capacitor" }));
    assert!(
        text.contains(&kiosk) && text.contains("It is the capacitor."),
        "{text}"
    );
    assert_eq!(object["complete"], true);
    assert_eq!(object["sessions"][0]["hits"][0]["kind"], "answer");
    let (_, object) = client.answer("search", json!({ "words": "needle-17" }));
    let hit = &object["sessions"][0]["hits"][0];
    assert_eq!(
        (&hit["kind"], &hit["tool"]),
        (&json!("toolOutput"), &json!("Run make"))
    );
    let at = json!({ "session": kiosk, "place": hit["place"], "max_bytes": 1000 });
    let (text, _) = client.answer("read", at);
    assert!(text.contains("\nneedle-17\n"), "{text}");
    let (text, object) = client.answer("search", json!({ "words": "boat" }));
    assert!(text.starts_with("Nothing has all"), "{text}");
    assert_eq!(object["sessions"], json!([]));

    // Page by page, everything is read.
    let (mut read, mut at, mut pages) = (String::new(), json!({ "session": kiosk }), 0);
    loop {
        let (text, object) = client.answer("read", at.clone());
        let turns = object["turns"].as_array().unwrap();
        for turn in turns {
            let shown = turn["text"].as_str().unwrap();
            assert!(text.contains(shown));
            read += shown;
        }
        pages += 1;
        if object["next"].is_null() {
            break;
        }
        assert!(text.contains("There is more: read on with turn "), "{text}");
        at["turn"] = object["next"]["turn"].clone();
        at["item"] = object["next"]["item"].clone();
    }
    assert!(pages > 3);
    assert!(read.contains("tool call] Run make (execute, completed, exit code 2)"));
    for n in 0..30 {
        assert_eq!(read.matches(&format!("\ndone {n}\n")).count(), 1);
    }

    let (text, object) =
        client.answer("read", json!({ "session": kiosk, "around": "\"step 20\"" }));
    assert_eq!(object["turns"][0]["turn"], 22, "{text}");
    let (_, object) = client.answer("read", json!({ "session": kiosk, "turn": -1 }));
    assert_eq!(object["turns"][0]["turn"], 31);
    assert_eq!(object["next"], Value::Null);
    let (text, _) = client.answer("read", json!({ "session": kiosk, "around": "needle-17" }));
    assert!(text.contains("\nneedle-17\n"), "{text}");

    for (tool, arguments, why) in [
        (
            "read",
            json!({ "session": other }),
            format!("only those in {FOLDER}").as_str(),
        ),
        (
            "read",
            json!({ "session": "x" }),
            "there is no session \"x\"",
        ),
        ("read", json!({ "session": 7 }), "`session`"),
        ("read", json!({}), "missing field `session`"),
        (
            "read",
            json!({ "session": kiosk, "around": "nowhere" }),
            "does not have all of the words",
        ),
        (
            "list",
            json!({ "folder": "/elsewhere" }),
            format!("rejoin mcp --cwd {MAIN_SEPARATOR}elsewhere").as_str(),
        ),
        ("list", json!({ "cursor": "x" }), "`cursor`"),
        ("search", json!({ "words": " " }), "no word to search for"),
    ] {
        let said = client.refusal(tool, arguments.clone());
        assert!(said.contains(why), "{tool} {arguments}: {said}");
    }
    let unknown = client
        .service
        .call_tool(CallToolRequestParams::new("write"));
    let unknown = client.runtime.block_on(unknown).unwrap_err().to_string();
    assert!(unknown.contains("there is no tool \"write\""), "{unknown}");
}

#[test]
fn all_folders_are_shown_only_if_that_is_asked_for() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let mine = session(store, FOLDER, &turn("Fix the kiosk", "", "Fixed."));
    session(store, "/elsewhere", &turn("Fix the boat", "", "Fixed."));
    let client = Client::start(store, &["--all"]);
    let (text, object) = client.answer("list", json!({}));
    assert_eq!(object["total"], 2, "{text}");
    let (text, object) = client.answer("list", json!({ "folder": format!("{FOLDER}/") }));
    assert_eq!(object["sessions"][0]["session"], *mine, "{text}");
    assert_eq!(object["total"], 1);
    let (_, object) = client.answer("list", json!({ "limit": 1 }));
    let cursor = &object["nextCursor"];
    let (_, object) = client.answer("list", json!({ "limit": 1, "cursor": cursor }));
    assert_eq!(object["sessions"].as_array().unwrap().len(), 1);
    assert!(object.get("nextCursor").is_none());
    fails(
        store,
        &["mcp", "--all", "--cwd", FOLDER],
        2,
        "cannot be used with",
    );
}

#[test]
fn other_worktrees_of_the_repository_are_shown_and_other_folders_are_not() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let place = store.canonicalize().unwrap();
    let write = |path: &str, text: &str| {
        let path = place.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let folder = |name: &str| place.join(name).to_str().unwrap().to_owned();
    write("main/.git/HEAD", "ref: refs/heads/main\n");
    let linked = folder("two/.git");
    write("main/.git/worktrees/two/gitdir", &format!("{linked}\n"));
    write("main/.git/worktrees/two/commondir", "../..\n");
    let git = folder("main/.git/worktrees/two");
    write("two/.git", &format!("gitdir: {git}\n"));
    let fixed = |folder: &str| session(store, folder, &turn("Fix the kiosk", "", "Fixed."));
    let there = fixed(&folder("two"));
    let here = fixed(&folder("main"));
    let other = fixed(&folder("other"));
    let client = Client::start(store, &["--cwd", &folder("main")]);
    let (text, object) = client.answer("list", json!({}));
    assert_eq!(object["total"], 2, "{text}");
    assert!(
        text.contains(&here) && text.contains(&there) && !text.contains(&other),
        "{text}"
    );
    let (text, object) = client.answer("list", json!({ "folder": folder("two") }));
    assert_eq!(object["total"], 1, "{text}");
    let (text, _) = client.answer("search", json!({ "words": "kiosk" }));
    assert!(text.contains(&there) && !text.contains(&other), "{text}");
    let (text, _) = client.answer("read", json!({ "session": there }));
    assert!(text.contains("Fix the kiosk"), "{text}");
    let refused = client.refusal("read", json!({ "session": other }));
    assert!(refused.contains("not shown here"), "{refused}");
}

#[test]
fn a_client_without_a_handshake_is_served() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let mine = session(store, FOLDER, &turn("Fix the kiosk", "", "Fixed."));
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let client = Client::with_lifecycle(
        command(store, &["mcp", "--all"]),
        ClientLifecycleMode::Discover { preferred_versions },
    );
    let info = client.service.peer_info().unwrap();
    assert!(info.instructions.is_some(), "{info:?}");
    let tools = client.runtime.block_on(client.service.list_tools(None));
    let tools = tools.unwrap();
    assert_eq!(tools.tools.len(), 3);
    assert_eq!(tools.ttl_ms, Some(0));
    let (_, object) = client.answer("list", json!({}));
    assert_eq!(object["sessions"][0]["session"], *mine);
}

/// What the server answers to these lines, which are all that it gets.
fn answers(store: &Path, lines: &[&str]) -> Vec<Value> {
    let mut server = command(store, &["mcp", "--all"]);
    server.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    input.write_all(lines.join("\n").as_bytes()).unwrap();
    drop(input);
    let output = server.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn messages_of_every_kind_are_answered() {
    let root = TempDir::new().unwrap();
    let initialize = |version: &str| {
        let params = format!(r#"{{"protocolVersion":"{version}","capabilities":{{}}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#)
    };
    let version = |asked: &str| {
        let answers = answers(root.path(), &[&initialize(asked)]);
        answers[0]["result"]["protocolVersion"].clone()
    };
    assert_eq!(version("2024-11-05"), "2024-11-05");
    assert_eq!(version("2026-07-28"), "2025-11-25");
    assert_eq!(version("1"), "2025-11-25");
    let answers = answers(
        root.path(),
        &[
            "{",
            "",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"3"}}}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"arguments":{}}}"#,
            // All that was asked is answered, even if the input has ended.
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"list"}}"#,
        ],
    );
    let seen: Vec<_> = answers
        .iter()
        .map(|answer| (&answer["id"], answer["error"]["code"].as_i64()))
        .collect();
    let expected = [
        (&Value::Null, Some(-32700)),
        (&json!("a"), None),
        (&json!(2), Some(-32601)),
        (&json!(3), Some(-32022)),
        (&json!(4), Some(-32602)),
        (&json!(5), None),
    ];
    assert_eq!(seen, expected, "{answers:?}");
    assert!(answers[3]["error"]["data"]["supported"].is_array());
    assert_eq!(answers[5]["result"]["isError"], false);
}

#[test]
fn a_store_that_does_not_exist_has_no_conversations_and_is_not_created() {
    let root = TempDir::new().unwrap();
    let store = root.path().join("none");
    let client = Client::start(&store, &["--all"]);
    let (text, _) = client.answer("list", json!({}));
    assert_eq!(text, "There are no conversations.\n");
    assert!(!store.exists());
}

#[test]
fn conversations_of_other_tools_are_searched_and_read() {
    let (home, store) = (home(), TempDir::new().unwrap());
    let mut server = command(store.path(), &["mcp", "--all", "--sources", "all"]);
    server.env_clear().env("HOME", home.path());
    server.env("USERPROFILE", home.path());
    let client = Client::of(server);
    let (_, listed) = client.answer("list", json!({}));
    assert!(listed["total"].as_u64().unwrap() > 10, "{listed}");
    let (_, found) = client.answer("search", json!({ "words": "exit" }));
    let first = &found["sessions"][0];
    let place = &first["hits"][0]["place"];
    let (text, _) = client.answer(
        "read",
        json!({ "session": first["session"], "place": place }),
    );
    assert!(text.to_lowercase().contains("exit"), "{found} {text}");
    let last = json!({ "session": first["session"], "turn": -1 });
    assert!(
        !client.answer("read", last).1["turns"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let around = json!({ "session": first["session"], "around": "exit" });
    assert!(
        client
            .answer("read", around)
            .0
            .to_lowercase()
            .contains("exit")
    );
}

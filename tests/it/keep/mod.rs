//! Sessions that live on when their client goes: `--keep`, and the commands for what is live.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::agent::{GUARD, Inbox};
use crate::support::client::Client;
use crate::support::command::{command, fails, runs};
use crate::support::env;
use crate::support::systems::{FOLDER, ask_to_end, is_running};
use crate::support::terminal::Terminal;
use crate::support::wrapped::{self, Wrapped};

/// How long to wait before looking again.
const AGAIN: Duration = Duration::from_millis(20);

/// A process that serves a client.
pub(crate) struct Served {
    pub(crate) process: Child,
    pub(crate) client: Client,
}

impl Served {
    pub(crate) fn start(mut command: Command, version: u8) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let input = process.stdin.take().expect("it was asked for");
        let output = process.stdout.take().expect("it was asked for");
        let inbox = Inbox::new(Box::new(output));
        let client = Client::new(Box::new(input), inbox, version);
        Self { process, client }
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().expect("it is a child of ours");
        self.process.wait().expect("it is a child of ours");
    }

    pub(crate) fn end(mut self) {
        self.client.end();
        assert!(self.process.wait().expect("it ends").success());
    }

    pub(crate) fn session(&mut self) -> String {
        let params = json!({ "cwd": FOLDER, "mcpServers": [] });
        let answer = self.client.answer("session/new", &params);
        answer["result"]["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        self.client.ask("session/prompt", &params)
    }

    /// Loads a session. The texts that it shows meanwhile.
    pub(crate) fn load(&mut self, session: &str) -> Vec<String> {
        let params = json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] });
        let id = self.client.ask("session/load", &params);
        let (shown, answer) = self.client.take(id);
        assert!(answer.get("result").is_some(), "{answer}");
        texts(&shown)
    }

    fn permission(&self) -> (Vec<String>, Value) {
        let (before, asked) = self
            .client
            .until(|message| message["method"] == "session/request_permission");
        (texts(&before), asked["id"].clone())
    }

    fn allow(&mut self, id: &Value) {
        let result = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
        self.client
            .send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// The texts that come until one of them ends like this.
    fn until(&self, end: &str) -> Vec<String> {
        let is_it = |message: &Value| {
            let text = message["params"]["update"]["content"]["text"].as_str();
            text.is_some_and(|text| text.ends_with(end))
        };
        let (mut before, last) = self.client.until(is_it);
        before.push(last);
        texts(&before)
    }
}

/// The texts of the agent's messages among these.
pub(crate) fn texts(messages: &[Value]) -> Vec<String> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    let said = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    said.filter_map(|update| Some(update["content"]["text"].as_str()?.to_owned()))
        .collect()
}

/// A store, and an agent that is wrapped. Nothing of it outlives a test.
struct Stage {
    folder: TempDir,
    agent: Wrapped,
}

impl Stage {
    fn new() -> Self {
        Self::of(&[])
    }

    /// An agent with these flags.
    fn of(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("folders can be made");
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let agent = Wrapped::new(folder.path(), &flags);
        Self { folder, agent }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// A client of the agent, with these options.
    fn client(&self, options: &[&str]) -> Served {
        self.client_of(options, 1)
    }

    /// The same, which speaks this version.
    fn client_of(&self, options: &[&str], version: u8) -> Served {
        let mut command = command(&self.store(), &["wrap"]);
        command.args(options).args(self.agent.arguments());
        Served::start(command, version)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let stopped = command(&self.store(), &["stop", "--all"]).output();
        stopped.expect("the binary was built");
    }
}

fn live(store: &Path) -> Value {
    serde_json::from_str(&runs(store, &["ps", "--json"])).expect("JSON")
}

/// Waits until what is live is like this.
fn until(store: &Path, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let live = live(store);
        if is_wanted(&live) {
            return live;
        }
        assert!(begun.elapsed() < GUARD, "{live}");
        std::thread::sleep(AGAIN);
    }
}

fn no_hosts(live: &Value) -> bool {
    live["hosts"] == json!([]) && live["sessions"] == json!([])
}

/// The process that keeps the only session.
fn host(live: &Value) -> u32 {
    let pid = live["hosts"][0]["pid"].as_u64().expect("it runs");
    u32::try_from(pid).expect("an id")
}

#[test]
fn a_turn_outlives_its_client_and_the_next_ones_see_it_once() {
    let stage = Stage::new();
    let store = &stage.store();
    let editor = || stage.client(&["--keep"]);
    let mut first = editor();
    let session = first.session();
    let steps =
        r#"say one ; ask {"toolCallId":"a"} ; say two ; ask {"toolCallId":"b"} ; say three"#;
    first.prompt(&session, steps);
    assert_eq!(first.permission().0, ["one"]);
    first.kill();
    let waiting = until(store, |live| live["sessions"][0]["clients"] == json!([]));
    assert_eq!(waiting["sessions"][0]["state"], "requires_action");
    assert_eq!(waiting["sessions"][0]["kept"], true);
    let process = host(&waiting);
    // Another client comes, sees everything, and allows it.
    let mut other = Served::start(command(store, &["attach", &session]), 1);
    assert_eq!(other.load(&session), ["one"]);
    let (_, asked) = other.permission();
    other.allow(&asked);
    let (said, _) = other.permission();
    assert!(
        said.last().is_some_and(|text| text.ends_with("two")),
        "{said:?}"
    );
    // The editor comes back.
    let mut second = editor();
    let shown = second.load(&session).concat();
    assert!(
        shown.starts_with("one") && shown.ends_with("two"),
        "{shown}"
    );
    let (_, also) = second.permission();
    assert_eq!(host(&live(store)), process, "it is the same process");
    // One of them answers, and the rest comes to both.
    second.allow(&also);
    assert!(second.until("three").concat().contains("selected"));
    assert!(other.until("three").concat().contains("selected"));
    other.end();
    second.end();
    assert!(runs(store, &["stop", "--all"]).contains("1 process ended"));
    assert!(no_hosts(&live(store)));
    until(store, |_| !is_running(process));
    stage.agent.gone().expect("its agent has ended, too");
}

/// Reads what a terminal shows until it has this.
fn shown_until(terminal: &Terminal, shown: &mut String, text: &str) {
    while !shown.contains(text) {
        let more = terminal.read();
        assert!(!more.is_empty(), "{text}: {shown}");
        shown.push_str(&String::from_utf8_lossy(&more));
    }
}

#[test]
fn a_terminal_shows_what_is_asked_and_offers_every_answer() {
    let stage = Stage::new();
    let store = &stage.store();
    let mut editor = stage.client(&["--keep"]);
    let session = editor.session();
    for turn in 0..11 {
        let said = editor.prompt(&session, &format!("say turn{turn}"));
        editor.client.take(said);
    }
    let call = json!({ "toolCallId": "a", "title": "List files", "kind": "execute",
        "rawInput": { "command": "rm -rf /home\u{1b}[2J" } });
    let always = json!({ "optionId": "always", "name": "Always allow", "kind": "allow_always" });
    editor.prompt(&session, &format!("ask {call} with {always} ; say done"));
    editor.permission();
    let attach = |more: &[&str]| {
        let terminal = Terminal::new();
        let mut attach = command(store, &[&["attach", &session], more].concat());
        attach.env("COLUMNS", "60").env("NO_COLOR", "1");
        attach.stdin(terminal.open()).stdout(terminal.open());
        (attach.stderr(terminal.open()).spawn().unwrap(), terminal)
    };
    let (mut looking, terminal) = attach(&[]);
    let mut shown = String::new();
    shown_until(&terminal, &mut shown, "--answer` gives one");
    assert!(shown.contains("… 2 earlier turns"), "{shown}");
    assert!(
        !shown.contains("turn1\r\n") && shown.contains("turn2\r\n"),
        "{shown}"
    );
    looking.kill().unwrap();
    looking.wait().unwrap();
    let (mut answering, terminal) = attach(&["--answer"]);
    let mut shown = String::new();
    shown_until(&terminal, &mut shown, "then Enter:");
    let question = "List files: rm -rf /home [2J\r\n  y  Yes\r\n  2  Always allow\r\n  n  No\r\n";
    assert!(shown.contains(question), "{shown:?}");
    terminal.press("7\n2\n");
    let answered = editor.until("done").concat();
    assert!(answered.contains("always"), "{answered}");
    answering.kill().unwrap();
    answering.wait().unwrap();
    editor.end();
    runs(store, &["stop", "--all"]);
}

#[test]
fn a_session_that_is_kept_without_a_client_is_renamed_and_not_called_open_in_one() {
    let stage = Stage::new();
    let store = &stage.store();
    let mut editor = stage.client(&["--keep"]);
    let session = editor.session();
    editor.prompt(&session, r#"ask {"toolCallId":"a"}"#);
    editor.permission();
    // Its client sees the new title.
    runs(store, &["rename", &session, "Fix", "the", "cache"]);
    editor
        .client
        .until(|message| message["params"]["update"]["title"] == "Fix the cache");
    fails(store, &["delete", &session], 4, "open in");
    editor.kill();
    until(store, |live| live["sessions"][0]["clients"] == json!([]));
    runs(store, &["rename", "last", "Repair the cache"]);
    let kept = format!("keeps session {session}, without a client");
    fails(store, &["delete", &session], 4, &kept);
    assert_eq!(live(store)["sessions"][0]["title"], "Repair the cache");
    runs(store, &["delete", "--force", &session]);
    runs(store, &["stop", "--all"]);
}

#[test]
fn a_host_that_is_not_used_ends_by_itself() {
    let stage = Stage::new();
    let store = &stage.store();
    let mut client = stage.client(&["--keep=10ms"]);
    let session = client.session();
    let asked = client.prompt(&session, "say done");
    assert!(client.client.take(asked).1.get("result").is_some());
    let process = host(&live(store));
    client.end();
    until(store, no_hosts);
    until(store, |_| !is_running(process));
    // The next client starts another one.
    let mut client = stage.client(&["--keep=10ms"]);
    assert_eq!(client.load(&session).concat(), "done");
    assert_ne!(host(&live(store)), process);
    client.end();
    until(store, no_hosts);
}

#[test]
fn clients_of_both_versions_have_an_agent_that_speaks_theirs() {
    let stage = Stage::of(&["--version-2"]);
    let store = &stage.store();
    let mut sessions = Vec::new();
    let mut clients = Vec::new();
    for version in [2, 1, 2] {
        let mut served = stage.client_of(&["--keep"], version);
        let session = served.session();
        let asked = served.prompt(&session, "say done");
        assert!(served.client.take(asked).1.get("result").is_some());
        sessions.push(session);
        clients.push(served);
    }
    assert_eq!(live(store)["hosts"].as_array().map(Vec::len), Some(1));
    // What was said to one is there for the other.
    assert_eq!(clients[1].load(&sessions[0]).concat(), "done");
    runs(store, &["stop", "--all"]);
    stage.agent.gone().expect("both agents have ended");
}

#[test]
fn a_client_of_another_version_that_comes_during_the_start_has_an_agent_that_speaks_its_own() {
    let stage = Stage::of(&["--version-2", "--slow-start", "300"]);
    let starting = || {
        let running = stage.agent.running();
        running
            .first()
            .map(drop)
            .ok_or("it does not run".to_owned())
    };
    let first = std::thread::scope(|scope| {
        let first = scope.spawn(|| stage.client_of(&["--keep"], 2));
        wrapped::until(starting).expect("it starts");
        let mut second = stage.client(&["--keep"]);
        let session = second.session();
        let asked = second.prompt(&session, "say done");
        let (shown, answer) = second.client.take(asked);
        assert_eq!(texts(&shown).concat(), "done");
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        second.end();
        first.join().expect("it is served")
    });
    assert_eq!(stage.agent.running().len(), 2, "one for each version");
    first.end();
}

#[test]
fn an_agent_that_is_started_again_speaks_the_version_that_it_has_spoken() {
    let stage = Stage::of(&["--version-2", "--load"]);
    let mut first = stage.client(&["--keep"]);
    let session = first.session();
    let second = stage.client_of(&["--keep"], 2);
    stage.agent.kill().expect("it runs");
    // The first prompt may come before that is noticed.
    let answers = [(); 2].map(|()| {
        let asked = first.prompt(&session, "say done");
        first.client.take(asked).1
    });
    assert_eq!(
        answers[1]["result"]["stopReason"], "end_turn",
        "{answers:?}"
    );
    second.end();
    first.end();
}

#[test]
fn stopping_a_session_ends_its_turn() {
    let stage = Stage::new();
    let store = &stage.store();
    let mut client = stage.client(&["--keep"]);
    let session = client.session();
    let prompt = client.prompt(&session, "hang");
    until(store, |live| live["sessions"][0]["state"] == "running");
    assert!(runs(store, &["stop", &session]).starts_with("stopped"));
    let (_, answer) = client.client.take(prompt);
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert_eq!(live(store)["sessions"], json!([]));
    assert!(runs(store, &["stop", &session]).is_empty());
    fails(store, &["attach", &session], 1, "no process has session");
    // The client may go on with it.
    assert_eq!(client.load(&session), Vec::<String>::new());
    client.kill();
    let process = host(&live(store));
    runs(store, &["stop", "--all"]);
    until(store, |_| !is_running(process));
}

/// A host's command line is in a file of the store, and `ps` shows it.
#[cfg(unix)]
#[test]
fn keys_in_the_command_line_of_a_host_are_neither_written_nor_shown() {
    let stage = Stage::new();
    let store = &stage.store();
    let given = stage.agent.arguments();
    let (dashes, agent) = given.split_first().expect("it has a program");
    assert_eq!(dashes, "--");
    let mut wrap = command(
        store,
        &["wrap", "--keep", "--", "env", "PLUM_API_KEY=hush-1"],
    );
    wrap.args(agent);
    let mut client = Served::start(wrap, 1);
    client.session();
    client.kill();
    let live = until(store, |live| live["hosts"][0]["clients"] == json!([]));
    let shown = live["hosts"][0]["command"].to_string();
    assert!(shown.contains(r#""env","PLUM_API_KEY=…""#), "{shown}");
    let files = std::fs::read_dir(store.join("run")).expect("a host has it");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("it can be listed").path();
        // A socket cannot be read.
        (path.clone(), std::fs::read(path).unwrap_or_default())
    };
    let mut written = files.map(read);
    assert!(written.all(|(_, bytes)| memchr::memmem::find(&bytes, b"hush-1").is_none()));
}

#[test]
#[cfg(unix)]
fn a_signal_to_a_host_interrupts_its_turns() {
    // The second agent ignores that its turn is cancelled.
    let scripts = ["say begun ; hang", "say begun ; sleep 600000"];
    for (version, script) in [1, 2]
        .into_iter()
        .flat_map(|one| scripts.map(|two| (one, two)))
    {
        let stage = Stage::new();
        let store = &stage.store();
        let mut client = stage.client_of(&["--keep"], version);
        let session = client.session();
        let prompt = client.prompt(&session, script);
        until(store, |live| live["sessions"][0]["state"] == "running");
        let process = host(&live(store));
        ask_to_end(process);
        let is_end = |message: &Value| match version {
            1 => message["id"] == prompt && message.get("method").is_none(),
            _ => message["params"]["update"]["stopReason"].is_string(),
        };
        let (_, end) = client.client.until(is_end);
        let error = match version {
            1 => &end["error"],
            _ => &end["params"]["update"]["error"],
        };
        assert_eq!(error["code"], -32603, "{end}");
        assert_eq!(error["data"]["error"], "interrupted", "{end}");
        until(store, |_| !is_running(process));
        let log = store.join(format!("sessions/{session}.jsonl"));
        let log = std::fs::read_to_string(log).expect("it is there");
        assert!(
            log.contains("interrupted") && !log.contains("cancelled"),
            "{log}"
        );
    }
}

#[test]
fn the_last_session_that_is_stopped_ends_its_host_also_if_its_client_was_killed() {
    for _ in 0..12 {
        let stage = Stage::new();
        let store = &stage.store();
        let mut client = stage.client(&["--keep"]);
        let session = client.session();
        client.prompt(&session, "hang");
        until(store, |live| live["sessions"][0]["state"] == "running");
        client.kill();
        until(store, |live| live["hosts"][0]["clients"] == json!([]));
        assert!(runs(store, &["stop", &session]).contains("has ended"));
        assert!(no_hosts(&live(store)));
        stage.agent.gone().expect("it has ended, too");
    }
}

#[test]
fn clients_that_come_while_everything_is_stopped_have_the_next_host() {
    let stage = Stage::new();
    for _ in 0..3 {
        // Each of them is served, or its test fails in `client`.
        std::thread::scope(|scope| {
            let start = || {
                let mut served = stage.client(&["--keep"]);
                // Its host may be stopped before it has left, which it reports.
                served.client.end();
                served.process.wait().expect("it ends");
            };
            start();
            for _ in 0..6 {
                scope.spawn(start);
            }
            scope.spawn(|| runs(&stage.store(), &["stop", "--all"]));
        });
    }
}

/// `RUN_SLOW_TESTS` waits for the 7 seconds that an agent has for a cancellation.
#[test]
fn all_sessions_are_stopped_at_once() {
    if !env::slow() {
        return;
    }
    let stage = Stage::new();
    let store = &stage.store();
    let mut client = stage.client(&["--keep"]);
    let sessions: Vec<_> = (0..4).map(|_| client.session()).collect();
    for session in &sessions {
        client.prompt(session, "hang-hard");
    }
    until(store, |live| {
        let running = live["sessions"].as_array().expect("a list").iter();
        running
            .filter(|session| session["state"] == "running")
            .count()
            == 4
    });
    let begun = Instant::now();
    let stopped = runs(store, &["stop", "--all"]);
    assert_eq!(stopped.trim(), "stopped 4 sessions; 1 process ended");
    println!("{:.2} s", begun.elapsed().as_secs_f64());
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let folder = tempfile::tempdir().expect("folders can be made");
    let store = &folder.path().join("store");
    for (arguments, why) in [
        (&["serve", "--keep", "--no-persist"][..], "cannot be kept"),
        (&["proxy", "--keep"], "conductor"),
        (&["serve", "--keep=soon"], "soon"),
        (&["attach", "x", "--observe", "--answer"], "--answer"),
        (&["stop"], "no session is named"),
    ] {
        fails(store, arguments, 2, why);
    }
    fails(store, &["ps"], 1, "no store");
    assert!(no_hosts(&live(store)));
}

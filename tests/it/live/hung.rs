//! A process that hangs, as one does that is stopped by SIGSTOP, at each moment of a conversation: what a
//! client does then takes effect all the same, and commands end.
//!
//! `RUN_SLOW_TESTS=1 cargo test --test it live::hung -- --nocapture` tries all cases, one after the other,
//! and says how long each takes.

#![expect(
    clippy::disallowed_methods,
    reason = "files of processes that run are removed under them"
)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::agent::{GUARD, Inbox};
use crate::support::command::{command, runs};
use crate::support::env;
use crate::support::systems::{ask_to_end, go_on, is_running, kill, pause};
use crate::support::wrapped::{Wrapped, until};

/// How long anything may take on an idle machine. The bounds are in docs/waits.md.
const BOUND: Duration = Duration::from_secs(11);
/// How long it may take while other tests keep the machine busy. What hangs takes for ever.
const BUSY: Duration = Duration::from_mins(1);

/// Which process hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The process of another client that has the session open.
    Owner,
    /// The host of the client's command line.
    Host,
    /// The agent that is wrapped.
    Agent,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Initialize,
    New,
    Load,
    /// A prompt that was sent to the process which hangs by then.
    Prompt,
    /// A turn that runs.
    Turn,
    Permission,
    Close,
}

/// What is done then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Nothing: the request under way is answered, or its client sees why not.
    Wait,
    Cancel,
    Close,
    EndOfInput,
    Terminate,
    TerminateTwice,
    StopAll,
}

type Case = (Role, Phase, Act);

/// A client with a process of its own.
struct Client {
    process: Child,
    input: Option<ChildStdin>,
    inbox: Inbox,
    last: u64,
}

impl Client {
    fn start(mut command: std::process::Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = process.stdout.take().unwrap();
        Self {
            input: process.stdin.take(),
            inbox: Inbox::new(Box::new(output)),
            process,
            last: 0,
        }
    }

    fn send(&mut self, message: &Value) {
        if let Some(input) = &mut self.input {
            // A process that has ended reads nothing.
            writeln!(input, "{message}").ok();
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// The next message that is wanted; `None` when the connection has ended.
    #[track_caller]
    fn until(&self, within: Duration, is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let begun = Instant::now();
        loop {
            let left = within.saturating_sub(begun.elapsed());
            let line = self.inbox.next(left).unwrap()?;
            let message: Value = serde_json::from_slice(&line).unwrap();
            if is_wanted(&message) {
                return Some(message);
            }
        }
    }

    /// The answer to a request; `None` if the connection has ended without one.
    #[track_caller]
    fn answer(&self, id: u64, within: Duration) -> Option<Value> {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        self.until(within, is_it)
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id, GUARD).unwrap();
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    fn initialize(&mut self) {
        self.call("initialize", &json!({ "protocolVersion": 1 }));
    }

    fn new_session(&mut self) -> String {
        let made = self.call("session/new", &place(None));
        made["sessionId"].as_str().unwrap().to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask(
            "session/prompt",
            &json!({ "sessionId": session, "prompt": prompt }),
        )
    }

    /// Waits until the process has ended.
    fn ended(&mut self, within: Duration) -> bool {
        let begun = Instant::now();
        while self.process.try_wait().unwrap().is_none() {
            if begun.elapsed() > within {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn place(session: Option<&str>) -> Value {
    let mut place = json!({ "cwd": "/w", "mcpServers": [] });
    if let Some(session) = session {
        place["sessionId"] = session.into();
    }
    place
}

/// A store, its processes, and which of them hangs.
struct Stage {
    // Dropped first: what hangs is killed before anything else ends.
    hung: Vec<Hung>,
    role: Role,
    agent: Wrapped,
    folder: TempDir,
}

/// A process that hangs until this is dropped.
struct Hung(u32);

impl Drop for Hung {
    fn drop(&mut self) {
        if is_running(self.0) {
            kill(self.0);
        }
    }
}

impl Stage {
    fn new(role: Role) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = Wrapped::new(folder.path(), &[]);
        Self {
            hung: Vec::new(),
            role,
            agent,
            folder,
        }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn client(&self) -> Client {
        let mut command = match self.role {
            Role::Owner => command(&self.store(), &["serve", "--sources", "none"]),
            Role::Host => command(&self.store(), &["serve", "--sources", "none", "--keep"]),
            Role::Agent => {
                let mut wrap = command(&self.store(), &["wrap", "--sources", "none"]);
                wrap.args(self.agent.arguments());
                wrap
            }
        };
        command.env_remove("REJOIN_STORE");
        Client::start(command)
    }

    /// From now on this process hangs.
    fn hang(&mut self, process: u32) {
        pause(process);
        self.hung.push(Hung(process));
    }

    /// The process that is to hang, as soon as there is one.
    fn process(&self, owner: &Client) -> u32 {
        match self.role {
            Role::Owner => owner.process.id(),
            Role::Host => {
                let live: Value =
                    serde_json::from_str(&runs(&self.store(), &["ps", "--json"])).unwrap();
                u32::try_from(live["hosts"][0]["pid"].as_u64().unwrap()).unwrap()
            }
            Role::Agent => *self.agent.running().last().unwrap(),
        }
    }

    /// Words for a prompt.
    fn text(&self, phase: Phase) -> &'static str {
        match (self.role, phase) {
            (Role::Agent, Phase::Permission) => r#"ask {"toolCallId":"t"}"#,
            (Role::Agent, _) => "say begun ; sleep 600000",
            (_, Phase::Permission) => "/run true",
            _ => "/slow 600",
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.hung.clear();
        command(&self.store(), &["stop", "--all"]).output().unwrap();
    }
}

/// A client that waits for something while another process hangs.
struct Scene {
    client: Client,
    session: String,
    /// The request that is under way.
    pending: u64,
    /// The client that has made the session, if that is another one.
    _first: Option<Client>,
}

/// Brings a conversation to a phase and has a process hang.
fn begin(stage: &mut Stage, phase: Phase) -> Scene {
    let mut first = stage.client();
    first.initialize();
    let session = first.new_session();
    let are_two = stage.role == Role::Owner || matches!(phase, Phase::Initialize | Phase::Load);
    if !are_two {
        let mut client = first;
        let pending = wait_for(stage, phase, &mut client, &session, None);
        return Scene {
            client,
            session,
            pending,
            _first: None,
        };
    }
    let said = first.prompt(
        &session,
        if stage.role == Role::Agent {
            "say hi"
        } else {
            "/echo hi"
        },
    );
    first.answer(said, GUARD).unwrap();
    if stage.role == Role::Agent {
        // Its agent would be asked, too.
        first.input = None;
        assert!(first.ended(GUARD));
    }
    let process = (stage.role != Role::Agent).then(|| stage.process(&first));
    if let (Phase::Initialize, Some(process)) = (phase, process) {
        // The other client starts beside it.
        stage.hang(process);
    }
    let mut client = stage.client();
    if phase != Phase::Initialize {
        client.initialize();
    }
    if !matches!(phase, Phase::Initialize | Phase::New | Phase::Load) {
        client.call("session/load", &place(Some(&session)));
    }
    let pending = wait_for(stage, phase, &mut client, &session, process);
    Scene {
        client,
        session,
        pending,
        _first: Some(first),
    }
}

/// Begins what is under way in a phase, and has a process hang: this one, or that of the client.
fn wait_for(
    stage: &mut Stage,
    phase: Phase,
    client: &mut Client,
    session: &str,
    process: Option<u32>,
) -> u64 {
    let process = process.unwrap_or_else(|| stage.process(client));
    let of_session = json!({ "sessionId": session });
    let begins_before = matches!(phase, Phase::Turn | Phase::Permission | Phase::Close);
    if !begins_before && stage.hung.is_empty() {
        stage.hang(process);
    }
    match phase {
        Phase::Initialize => client.ask("initialize", &json!({ "protocolVersion": 1 })),
        Phase::New => client.ask("session/new", &place(None)),
        Phase::Load => client.ask("session/load", &place(Some(session))),
        Phase::Prompt => client.prompt(session, stage.text(phase)),
        Phase::Turn | Phase::Permission | Phase::Close => {
            let prompted = client.prompt(session, stage.text(phase));
            let is_shown = |message: &Value| match phase {
                Phase::Permission => message["method"] == "session/request_permission",
                _ => message["params"]["update"]["sessionUpdate"] == "agent_message_chunk",
            };
            client.until(GUARD, is_shown).unwrap();
            stage.hang(process);
            match phase {
                Phase::Close => client.ask("session/close", &of_session),
                _ => prompted,
            }
        }
    }
}

/// Does something while a process hangs. Returns how long it takes until that has an effect.
fn takes((role, phase, act): Case, bound: Duration) -> Duration {
    let mut stage = Stage::new(role);
    let began = Instant::now();
    let Scene {
        mut client,
        session,
        pending,
        _first,
    } = begin(&mut stage, phase);
    let of_session = json!({ "sessionId": session });
    let mut begun = Instant::now();
    match act {
        Act::Wait => {
            client.answer(pending, bound);
        }
        Act::Cancel if matches!(phase, Phase::Prompt | Phase::Turn | Phase::Permission) => {
            client.notify("session/cancel", &of_session);
            match client.answer(pending, bound) {
                Some(answer) => {
                    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
                }
                // The client of a host sees the end of the connection in its place.
                None => assert_eq!(role, Role::Host),
            }
        }
        Act::Cancel => {
            client.notify("$/cancel_request", &json!({ "requestId": pending }));
            client.answer(pending, bound);
        }
        Act::Close => {
            let closed = client.ask("session/close", &of_session);
            client.answer(closed, bound);
        }
        Act::EndOfInput => {
            client.input = None;
            assert!(client.ended(bound), "{role:?} {phase:?}: it goes on");
        }
        Act::Terminate => {
            ask_to_end(client.process.id());
            assert!(client.ended(bound), "{role:?} {phase:?}: it goes on");
        }
        Act::TerminateTwice => {
            ask_to_end(client.process.id());
            begun = Instant::now();
            // It may have ended by then.
            if is_running(client.process.id()) {
                ask_to_end(client.process.id());
            }
            assert!(client.ended(bound), "{role:?} {phase:?}: it goes on");
        }
        Act::StopAll => {
            let stopped = command(&stage.store(), &["stop", "--all"])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&stopped.stderr).into_owned();
            let hangs = role != Role::Agent;
            assert_eq!(text.contains("gives no answer"), hangs, "{text}");
        }
    }
    let took = begun.elapsed();
    println!(
        "{role:?} {phase:?} {act:?}: {:.2} s of {:.2} s",
        took.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    took
}

/// All cases that there are.
fn cases() -> Vec<Case> {
    use Act::{Cancel, Close, EndOfInput, StopAll, Terminate, TerminateTwice, Wait};
    use Phase::{Initialize, Load, New, Permission, Prompt, Turn};
    let mut cases = Vec::new();
    for role in [Role::Owner, Role::Host, Role::Agent] {
        for phase in [
            Initialize,
            New,
            Load,
            Prompt,
            Turn,
            Permission,
            Phase::Close,
        ] {
            for act in [
                Wait,
                Cancel,
                Close,
                EndOfInput,
                Terminate,
                TerminateTwice,
                StopAll,
            ] {
                // A turn may take as long as it takes, and the waits for an agent have bounds of
                // their own.
                let has_turn = matches!(phase, Prompt | Turn | Permission);
                let is_long = act == Wait && (has_turn || role == Role::Agent);
                let has_none = act == Close && matches!(phase, Initialize | New);
                let is_of_agent = role == Role::Agent && phase == Initialize;
                if !is_long && !has_none && !is_of_agent {
                    cases.push((role, phase, act));
                }
            }
        }
    }
    cases
}

#[test]
fn what_a_client_does_takes_effect_although_another_process_hangs() {
    let few: [Case; 10] = [
        (Role::Host, Phase::Initialize, Act::Wait),
        (Role::Host, Phase::New, Act::Wait),
        (Role::Host, Phase::Turn, Act::Cancel),
        (Role::Host, Phase::Turn, Act::EndOfInput),
        (Role::Host, Phase::Turn, Act::StopAll),
        (Role::Owner, Phase::Load, Act::Wait),
        (Role::Owner, Phase::Turn, Act::Cancel),
        (Role::Owner, Phase::Permission, Act::Close),
        (Role::Owner, Phase::Prompt, Act::Terminate),
        (Role::Agent, Phase::Turn, Act::TerminateTwice),
    ];
    if env::slow() {
        let mut late = Vec::new();
        for case in cases() {
            let took = takes(case, BUSY);
            if took > BOUND {
                late.push((case, took));
            }
        }
        assert!(late.is_empty(), "{late:?}");
        return;
    }
    // Nearly all of the time is waiting.
    std::thread::scope(|scope| {
        for case in few {
            scope.spawn(move || takes(case, BUSY));
        }
    });
}

#[test]
fn a_cancelled_prompt_never_runs_in_the_process_that_takes_its_session_over() {
    let mut stage = Stage::new(Role::Owner);
    let (mut owner, mut other) = (stage.client(), stage.client());
    owner.initialize();
    other.initialize();
    let session = owner.new_session();
    let said = owner.prompt(&session, "/echo first");
    owner.answer(said, GUARD).unwrap();
    other.call("session/load", &place(Some(&session)));
    let process = owner.process.id();
    stage.hang(process);
    let prompted = other.prompt(&session, "/echo never");
    other.notify("session/cancel", &json!({ "sessionId": session }));
    // It has passed both on by the time at which it answers something else.
    other.call("session/list", &json!({}));
    drop(owner);
    let answer = other.answer(prompted, GUARD).unwrap();
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    let log = stage.store().join(format!("sessions/{session}.jsonl"));
    let log = std::fs::read_to_string(log).unwrap();
    let never = log.lines().filter(|line| line.contains("never"));
    assert!(
        never.clone().all(|line| line.contains("\"prompt\"")),
        "{log}"
    );
    let said = other.prompt(&session, "/echo second");
    let answer = other.answer(said, GUARD).unwrap();
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

#[test]
fn a_client_that_has_loaded_a_session_beside_a_hung_process_goes_on_when_that_does() {
    let mut stage = Stage::new(Role::Owner);
    let (mut owner, mut other) = (stage.client(), stage.client());
    owner.initialize();
    other.initialize();
    let sessions = [owner.new_session(), owner.new_session()];
    for session in &sessions {
        let said = owner.prompt(session, "/echo first");
        owner.answer(said, GUARD).unwrap();
    }
    let process = owner.process.id();
    stage.hang(process);
    let mut times = Vec::new();
    for session in sessions.iter().chain(&sessions) {
        let begun = Instant::now();
        let loaded = other.call("session/load", &place(Some(session)));
        times.push(begun.elapsed());
        let rejoin = &loaded["_meta"]["rejoin"];
        assert_eq!(rejoin["holder"]["pid"], process, "{loaded}");
        let refused = other.prompt(session, "/echo no");
        let refused = other.answer(refused, GUARD).unwrap();
        assert_eq!(
            refused["error"]["data"]["error"], "session_in_use",
            "{refused}"
        );
    }
    // The process is waited for once.
    let rest: Duration = times[1..].iter().sum();
    assert!(rest < times[0], "{times:?}");
    go_on(process);
    for session in &sessions {
        until(|| {
            let said = other.prompt(session, "/echo second");
            let answer = other.answer(said, GUARD).unwrap();
            match &answer["result"]["stopReason"] {
                Value::String(reason) if reason == "end_turn" => Ok(()),
                _ => Err(answer.to_string()),
            }
        })
        .unwrap();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_hangs_is_ended_by_force_and_nothing_else_is() {
    let mut stage = Stage::new(Role::Host);
    let mut client = stage.client();
    client.initialize();
    let session = client.new_session();
    let prompted = client.prompt(&session, "/slow 600");
    client.until(GUARD, |message| message["method"] == "session/update");
    let host = stage.process(&client);
    stage.hang(host);
    let store = &stage.store();
    // Each of them waits for it.
    std::thread::scope(|scope| {
        for arguments in [["stop", &session], ["attach", &session], ["stop", "--all"]] {
            scope.spawn(move || {
                let refused = command(store, &arguments).output().unwrap();
                let text = String::from_utf8_lossy(&refused.stderr).into_owned();
                assert_eq!(refused.status.code(), Some(4), "{text}");
                assert!(text.contains(&format!("process {host} ")), "{text}");
                assert!(
                    text.contains("gives no answer") && text.contains("--force"),
                    "{text}"
                );
            });
        }
    });
    // The same command line has another host.
    let mut other = stage.client();
    other.initialize();
    let ps = runs(store, &["ps"]);
    assert!(
        ps.contains("no answer") && ps.contains("stop --force"),
        "{ps}"
    );
    let live: Value = serde_json::from_str(&runs(store, &["ps", "--json"])).unwrap();
    assert_eq!(live["sessions"][0]["answers"], false, "{live}");
    let answers = live["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| &host["answers"]);
    let mut answers: Vec<_> = answers.map(Value::to_string).collect();
    answers.sort_unstable();
    assert_eq!(answers, ["false", "true"], "{live}");
    assert!(runs(store, &["stop", "--force"]).contains("1 process ended"));
    until(|| {
        let has_ended = !is_running(host);
        has_ended.then_some(()).ok_or("it goes on".to_owned())
    })
    .unwrap();
    assert!(
        client
            .answer(prompted, GUARD)
            .is_none_or(|answer| answer.get("error").is_some())
    );
    // The other host serves its client, which can go on with the session.
    let loaded = other.call("session/load", &place(Some(&session)));
    assert!(loaded["_meta"].is_null(), "{loaded}");
    let said = other.prompt(&session, "/echo on");
    let answer = other.answer(said, GUARD).unwrap();
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_hangs_without_a_socket_is_ended_by_force() {
    let end = |how: &[&str]| {
        let mut stage = Stage::new(Role::Owner);
        let mut client = stage.client();
        client.initialize();
        let session = client.new_session();
        let process = client.process.id();
        stage.hang(process);
        let store = &stage.store();
        for entry in std::fs::read_dir(store.join("run")).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|of| of == "sock") {
                std::fs::remove_file(path).unwrap();
            }
        }
        let live: Value = serde_json::from_str(&runs(store, &["ps", "--json"])).unwrap();
        assert_eq!(live["sessions"][0]["answers"], false, "{live}");
        assert_eq!(live["sessions"][0]["state"], Value::Null, "{live}");
        assert!(runs(store, &["ps"]).contains("no answer"));
        let mut arguments = vec!["stop", "--force"];
        arguments.extend(how);
        if how == ["ID"] {
            arguments[2] = &session;
        }
        let said = runs(store, &arguments);
        assert!(said.contains("ended"), "{said}");
        assert!(client.ended(GUARD), "{said}");
    };
    // Each of them waits for the process.
    std::thread::scope(|scope| {
        for how in [&["ID"][..], &["--all"], &[]] {
            scope.spawn(move || end(how));
        }
    });
}

#[test]
fn a_client_whose_host_ends_before_it_has_asked_for_anything_has_the_next_one() {
    let stage = Stage::new(Role::Host);
    let mut client = stage.client();
    until(|| {
        let live: Value = serde_json::from_str(&runs(&stage.store(), &["ps", "--json"])).unwrap();
        let is_there = live["hosts"][0]["pid"].is_u64();
        is_there.then_some(()).ok_or(live.to_string())
    })
    .unwrap();
    runs(&stage.store(), &["stop", "--all"]);
    client.initialize();
    client.new_session();
}

/// Something else has the name by which clients find a host.
#[test]
fn a_host_whose_name_is_taken_has_a_further_one_and_clients_can_come() {
    let stage = Stage::new(Role::Host);
    let store = &stage.store();
    let mut first = stage.client();
    first.initialize();
    first.new_session();
    let host = stage.process(&first);
    let run = store.join("run");
    let files = std::fs::read_dir(&run).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|of| of == "host"));
    let file = file.unwrap();
    std::fs::remove_file(&file).unwrap();
    // The host may have written it again.
    while std::fs::create_dir(&file).is_err() {
        std::fs::remove_file(&file).unwrap();
    }
    let mut second = stage.client();
    second.initialize();
    second.new_session();
    until(|| {
        let live: Value = serde_json::from_str(&runs(store, &["ps", "--json"])).unwrap();
        let hosts = live["hosts"].as_array().unwrap();
        let is_found = hosts.iter().any(|found| found["pid"] == host);
        is_found.then_some(()).ok_or(live.to_string())
    })
    .unwrap();
    assert!(runs(store, &["stop", "--all"]).contains("ended"));
    until(|| {
        let has_ended = !is_running(host);
        has_ended.then_some(()).ok_or("it goes on".to_owned())
    })
    .unwrap();
}

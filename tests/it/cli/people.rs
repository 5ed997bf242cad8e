//! What the commands say to people: that there is nothing, what is wrong with the command line and
//! with the agent to wrap, and nothing that a terminal would obey.
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

#[cfg(unix)]
use crate::setup::Home;
use crate::support::command::{command, fails, runs};
use crate::support::logs::session;
use crate::support::systems;
#[cfg(unix)]
use crate::support::terminal::Terminal;

fn output(store: &Path, arguments: &[&str]) -> Output {
    command(store, arguments).output().unwrap()
}

/// The command succeeds; what it prints on stdout and on stderr.
#[track_caller]
fn says(store: &Path, arguments: &[&str]) -> (String, String) {
    let output = output(store, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    (String::from_utf8(output.stdout).unwrap(), text)
}

#[test]
fn empty_results_are_reported_on_stderr() {
    let root = TempDir::new().unwrap();
    let typo = root.path().join("a_typo");
    let empty = root.path().join("empty");
    fs::create_dir_all(empty.join("sessions")).unwrap();
    for (verb, out) in [
        (&["list"][..], ""),
        (&["list", "--json"], "[]\n"),
        (&["search", "foo"], ""),
        (&["restore"], ""),
        (&["trash", "list"], ""),
        (&["trash", "list", "--json"], "[]\n"),
        (&["trash"], ""),
        (&["trash", "--json"], "[]\n"),
        (&["prune", "--keep", "1"], "0 sessions moved to the trash\n"),
    ] {
        let arguments = [&["sessions"], verb].concat();
        let (shown, text) = says(&typo, &arguments);
        assert_eq!(shown, out, "{verb:?}");
        assert!(text.contains("there are no sessions"), "{verb:?}: {text}");
        let hint = format!("the store would be {}", typo.display());
        assert!(text.contains(&hint), "{verb:?}: {text}");
        let (shown, text) = says(&empty, &arguments);
        assert_eq!(shown, out, "{verb:?}");
        let trash = verb[0] == "restore" || verb[0] == "trash";
        let expected = if trash {
            format!("no sessions in the trash of {}", empty.display())
        } else if verb[0] == "search" {
            "no session with these words".to_owned()
        } else {
            format!("no sessions in {}", empty.display())
        };
        assert!(text.contains(&expected), "{verb:?}: {text}");
    }
    assert!(!typo.exists());
    let (shown, text) = says(&empty, &["sessions", "verify"]);
    assert_eq!(shown, "0 sessions, 0 sound, 0 damaged\n");
    assert!(text.contains("there are no sessions"), "{text}");
}

#[test]
fn search_without_hits() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    let search = |more: &[&str]| says(root.path(), &[&["sessions", "search"], more].concat());
    let (shown, text) = search(&["goodbye"]);
    assert_eq!(shown, "");
    assert_eq!(
        text,
        "rejoin: there is no session with these words\n  \
         hint: use fewer words, or --substring for a part of a word\n"
    );
    let elsewhere = systems::FOLDER.to_owned() + "x";
    let (shown, text) = search(&["hello", "--cwd", &elsewhere, "--json"]);
    assert_eq!(shown, "[]\n");
    let expected = format!("that works in {elsewhere} with these words");
    assert!(text.contains(&expected), "{text}");
    let (shown, text) = search(&["hello"]);
    assert!(shown.ends_with("  hello\n") && text.is_empty(), "{text}");
    let (_, text) = search(&[
        "--regex",
        "x",
        "--role",
        "user",
        "--agent",
        "a",
        "--until",
        "2026-01-01",
    ]);
    assert_eq!(
        text,
        "rejoin: there is no session with text that matches, of the kind prompt, with the agent a, \
         until 2026-01-01\n  hint: begin it with (?i) to match upper and lower case\n"
    );
    let (_, text) = says(root.path(), &["sessions", "list", "--cwd", &elsewhere]);
    assert_eq!(
        text,
        format!("rejoin: there is no session that works in {elsewhere}\n")
    );
}

#[cfg(unix)]
#[test]
fn agents_have_names_for_people_and_for_scripts() {
    let home = Home::new();
    let folder = home.path(".claude/projects/p");
    std::fs::create_dir_all(&folder).unwrap();
    let prompt = json!({"type": "user", "uuid": "1", "parentUuid": null, "cwd": "/srv",
        "timestamp": "2026-03-01T10:00:00.000Z", "message": {"role": "user", "content": "hello"}});
    let file = folder.join("00000000-0000-4000-8000-000000000001.jsonl");
    std::fs::write(file, format!("{prompt}\n")).unwrap();
    for (arguments, name) in [
        (&["list"][..], "claude-code  sess_"),
        (&["search", "hello"], "10:00  claude-code\n"),
        (&["list", "--json"], "\"claude-agent-acp\""),
        (
            &["export", "last", "--format", "json"],
            "\"claude-agent-acp\"",
        ),
        (&["export", "last"], "- Agent: Claude Code\n"),
        (&["show", "last"], "Claude Code · /srv\n"),
        (&["stats"], "Claude Code "),
    ] {
        let text = home.runs(arguments);
        assert!(text.contains(name), "{arguments:?}: {text}");
    }
    for name in ["Claude Code", "claude-code", "claude-agent-acp"] {
        assert_eq!(home.runs(&["list", "--agent", name]).lines().count(), 1);
    }
}

#[test]
fn json_output_has_no_control_characters() {
    let root = TempDir::new().unwrap();
    let words = "a\u{9b}31mred\u{7f}\u{202e}b\u{61c}c";
    let id = session(root.path(), words);
    let title = |shown: &str, member: &str| {
        let bad = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{61c}".contains(c);
        assert!(!shown.contains(bad), "{shown:?}");
        let value: Value = serde_json::from_str(shown).unwrap();
        value.pointer(member).unwrap().as_str().unwrap().to_owned()
    };
    let list = runs(root.path(), &["sessions", "list", "--json"]);
    assert!(title(&list, "/0/title").contains("31mred"));
    let show = runs(root.path(), &["sessions", "show", &id, "--json"]);
    assert!(
        show.contains(r"a\u009b31mred\u007f\u202eb\u061cc"),
        "{show}"
    );
    runs(root.path(), &["sessions", "delete", &id]);
    let trash = runs(root.path(), &["sessions", "trash", "list", "--json"]);
    assert!(title(&trash, "/0/title").contains("31mred"));
}

#[test]
fn errors_have_no_control_characters() {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("sessions")).unwrap();
    let evil = "x\u{9b}2J\u{1b}]0;owned\u{7}\u{202e}\u{61c}";
    let option = format!("--{evil}");
    for arguments in [
        vec![evil],
        vec![&option],
        vec!["sessions", evil],
        vec!["sessions", "list", "-n", evil],
        vec!["sessions", "prune", "--older-than", evil],
        vec!["serve", "--durability", evil],
        vec!["serve", "--log-level", evil],
        vec!["sessions", "show", evil],
        vec!["sessions", "restore", evil],
    ] {
        let output = output(root.path(), &arguments);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let bad = |c: char| (c.is_control() && c != '\n') || "\u{202e}\u{61c}".contains(c);
        assert!(!text.contains(bad), "{arguments:?}: {text:?}");
        assert!(
            text.contains("owned") || text.contains("no sessions"),
            "{text}"
        );
    }
}

#[test]
fn invalid_arguments_are_explained() {
    let root = TempDir::new().unwrap();
    let number = "invalid value 'abc' for '--limit <N>': expected a number";
    fails(root.path(), &["sessions", "list", "-n", "abc"], 2, number);
    let prune = ["sessions", "prune", "--keep", "x"];
    fails(root.path(), &prune, 2, "expected a number");
    for resume in [&["continue"][..], &["load", "x"], &["sessions", "load"]] {
        let resume = output(root.path(), resume);
        assert_eq!(resume.status.code(), Some(2));
        let text = String::from_utf8(resume.stderr).unwrap();
        let tips = text.contains("`rejoin wrap -- AGENT`") && text.contains("`rejoin resume last`");
        let others = ["restore", "prune"].map(|other| text.contains(other));
        assert!(tips && others == [false; 2], "{text}");
    }
}

/// Runs the command with a terminal as its stdin, in which `keys` are pressed.
#[cfg(unix)]
fn in_terminal(store: &Path, arguments: &[&str], keys: &str) -> Output {
    let terminal = Terminal::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rejoin"));
    let command = command.args(arguments).env("REJOIN_STORE", store);
    let command = command
        .stdin(terminal.open())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    terminal.press(keys);
    child.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn serve_on_a_terminal_prints_a_hint() {
    let root = TempDir::new().unwrap();
    for arguments in [&["serve"][..], &["proxy"], &["wrap", "--", "sh"]] {
        // Ctrl-D, which a terminal makes the end of input.
        let output = in_terminal(root.path(), arguments, "\u{4}");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "rejoin: waiting for an ACP client on stdin; press Ctrl-D to end\n"
        );
    }
    // What cannot work is said at once.
    let output = in_terminal(root.path(), &["wrap", "--", "nonexistent-agent"], "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    let expected = "rejoin: there is no program `nonexistent-agent`\n  hint: ";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn empty_environment_variables_are_unset() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    session(&data.join("rejoin"), "hello");
    for arguments in [&["sessions", "list"][..], &["sessions", "verify"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rejoin"));
        let variables = [
            "REJOIN_STORE",
            "REJOIN_LOG",
            "REJOIN_LOG_FILE",
            "REJOIN_UNSTABLE",
        ];
        let command = command
            .args(arguments)
            .envs(variables.map(|name| (name, "")));
        let places = ["XDG_DATA_HOME", "LOCALAPPDATA"].map(|name| (name, &data));
        let command = command.envs(places).env("HOME", home.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(cfg!(target_os = "macos") || !output.stdout.is_empty());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn restore_of_several_sessions() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let ids = ["a", "b", "c"].map(|words| session(store, words));
    let listed = || runs(store, &["sessions", "list"]).lines().count();
    let delete = |ids: &[String]| {
        let ids = ids.iter().map(String::as_str);
        let arguments: Vec<_> = ["sessions", "delete"].into_iter().chain(ids).collect();
        let shown = runs(store, &arguments);
        let hint = format!("`rejoin --store {} restore ", store.display());
        assert!(shown.contains(&hint), "{shown}");
    };
    delete(&ids);
    let [a, b, c] = &ids;
    let shown = runs(store, &["sessions", "restore", a, b]);
    assert_eq!(shown, format!("{a} is back\n{b} is back\n"));
    fails(
        store,
        &["sessions", "restore", c, a],
        3,
        "is not in the trash",
    );
    assert_eq!(listed(), 3);
    delete(&ids);
    assert_eq!(
        runs(store, &["sessions", "restore", "--all"]),
        "3 sessions restored\n"
    );
    let pruned = runs(store, &["sessions", "prune", "--keep", "0"]);
    let summary = pruned.lines().last().unwrap();
    let hint = format!("`rejoin --store {} restore`", store.display());
    assert!(
        summary.starts_with("3 sessions moved") && summary.contains(&hint),
        "{summary}"
    );
    // What was deleted long ago stays.
    let old = fs::read_dir(store.join("trash"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    fs::rename(old.path(), store.join(format!("trash/{c}.1.jsonl"))).unwrap();
    let recent = ["sessions", "restore", "--deleted-within", "1h"];
    assert_eq!(runs(store, &recent), "2 sessions restored\n");
    assert_eq!(listed(), 2);
    assert_eq!(runs(store, &recent), "0 sessions restored\n");
    // One that is there already is not replaced, and does not keep others from coming back.
    fs::write(store.join(format!("sessions/{c}.jsonl")), "mine").unwrap();
    let why = format!("session {c} already exists");
    let shown = fails(store, &["sessions", "restore", "--all"], 1, &why);
    assert_eq!(shown, "0 sessions restored\n");
    let log = fs::read_to_string(store.join(format!("sessions/{c}.jsonl")));
    assert_eq!(log.unwrap(), "mine");
}

#[cfg(unix)]
#[test]
fn log_file_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let root = TempDir::new().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let made = root.path().join("made.log");
    let mine = root.path().join("mine.log");
    fs::write(&mine, "").unwrap();
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o644)).unwrap();
    for path in [&made, &mine] {
        let path = path.to_str().unwrap();
        runs(root.path(), &["sessions", "list", "--log-file", path]);
    }
    assert_eq!(mode(&made), 0o600);
    assert_eq!(mode(&mine), 0o644);
}

/// Runs the command with a client that sends `initialize` and nothing else.
fn initialized(store: &Path, arguments: &[&str]) -> Output {
    let mut child = command(store, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": 1 } });
    writeln!(child.stdin.take().unwrap(), "{hello}").unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn missing_agent_program_is_reported() {
    if !systems::can_run("missing_agent_program_is_reported") {
        return;
    }
    let root = TempDir::new().unwrap();
    let store = root.path();
    let wrap = ["wrap", "--", "nonexistent-agent"];
    fails(store, &wrap, 1, "there is no program `nonexistent-agent`");
    let known = ["wrap", "--", "codex-acp-that-is-missing/codex-acp"];
    let hint = "npm install --global @agentclientprotocol/codex-acp";
    fails(store, &known, 1, hint);
    // A client can read what is kept, and the response says so.
    let output = initialized(store, &wrap);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("there is no program"), "{text}");
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("\"result\"")
    );
}

/// Both where the log goes to a file and where it does not.
#[cfg(unix)]
#[test]
fn silent_agent_is_reported() {
    let root = TempDir::new().unwrap();
    let store = root.path();
    let log = root.path().join("the.log");
    let log = log.to_str().unwrap();
    let limit = ["--start-timeout", "50ms", "--", "sleep", "1000"];
    for to_file in [false, true] {
        let file: &[&str] = if to_file { &["--log-file", log] } else { &[] };
        let output = initialized(store, &[&["wrap"], file, &limit].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        let expected = "the agent `sleep` did not answer `initialize` within 50ms";
        assert!(text.contains(expected), "{text}");
        if to_file {
            assert!(fs::read_to_string(log).unwrap().contains(expected));
        }
    }
}

#[test]
fn program_without_acp_is_reported() {
    let root = TempDir::new().unwrap();
    for (command, meant) in [
        ("claude", "wrap -- claude-agent-acp`"),
        ("codex", "wrap -- codex-acp`"),
        ("gemini", "wrap -- gemini --acp`"),
    ] {
        let wrapped = output(root.path(), &["wrap", "--", command]);
        assert_eq!(wrapped.status.code(), Some(2), "{wrapped:?}");
        let text = String::from_utf8(wrapped.stderr).unwrap();
        let expected = format!("`{command}` is not an ACP agent");
        assert!(text.contains(&expected) && text.contains(meant), "{text}");
    }
    // With the right argument, or a name, it is taken for an agent.
    for right in [
        &["wrap", "--", "gemini", "--acp"][..],
        &["wrap", "--name", "mine", "--", "gemini"],
    ] {
        let right = output(root.path(), right);
        let text = String::from_utf8(right.stderr).unwrap();
        assert!(!text.contains("is not an ACP agent"), "{text}");
    }
}

//! `--notify`: a command is run when a turn has ended or waits, and harms nothing.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::command::command;
#[cfg(target_os = "linux")]
use crate::support::terminal::Terminal;

/// `rejoin serve`, and a client of it.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    next: u64,
}

impl Client {
    fn start(folder: &Path, options: &[&str]) -> Self {
        Self::with(folder, options, &[])
    }

    /// Starts it with these variables.
    fn with(folder: &Path, options: &[&str], variables: &[(&str, String)]) -> Self {
        let arguments = [&["serve"], options].concat();
        Self::of(
            folder,
            command(&folder.join("store"), &arguments),
            variables,
        )
    }

    /// Starts this command with these variables.
    fn of(folder: &Path, mut serve: Command, variables: &[(&str, String)]) -> Self {
        let mut child = serve
            .env_remove("REJOIN_NOTIFY")
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut client = Self {
            child,
            input,
            output: BufReader::new(output),
            session: String::new(),
            next: 0,
        };
        let capabilities = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        client.request("initialize", &capabilities);
        let new = json!({ "cwd": folder, "mcpServers": [] });
        let new = client.request("session/new", &new);
        new["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut client.session);
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the end");
        serde_json::from_str(&line).unwrap()
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.read();
            if message["id"] == id && message.get("method").is_none() {
                return message["result"].clone();
            }
        }
    }

    fn prompt(&mut self, words: &str) -> Value {
        let prompt = json!([{ "type": "text", "text": words }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.request("session/prompt", &params)
    }

    /// Prompts, and reads until permission is asked for; returns the id of that request.
    fn prompt_that_asks(&mut self, words: &str) -> Value {
        let prompt = json!([{ "type": "text", "text": words }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.send(
            &json!({ "jsonrpc": "2.0", "id": 99, "method": "session/prompt", "params": params }),
        );
        loop {
            let message = self.read();
            if message["method"] == "session/request_permission" {
                return message["id"].clone();
            }
        }
    }

    fn ends(mut self) {
        drop(self.input);
        let mut rest = String::new();
        while self.output.read_line(&mut rest).unwrap() > 0 {}
        assert!(self.child.wait().unwrap().success());
    }
}

/// The objects that a command has written to a file, when there are so many.
fn notices(file: &Path, count: usize) -> Vec<Value> {
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let whole: Vec<_> = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .collect();
        if whole.len() >= count {
            let lines = whole
                .into_iter()
                .map(|line| serde_json::from_str(line).unwrap());
            return lines.collect();
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_command_gets_what_has_happened() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("notices");
    let notify = format!("cat >> {}", file.display());
    let mut client = Client::start(root.path(), &["--notify", &notify, "--notify-after", "0s"]);
    client.prompt("hello");
    let [ended] = &notices(&file, 1)[..] else {
        panic!("one notice")
    };
    for (name, value) in [
        ("event", json!("ended")),
        ("sessionId", json!(client.session)),
        ("title", json!("hello")),
        ("cwd", json!(root.path())),
        ("stopReason", json!("end_turn")),
        ("agent", json!("rejoin")),
        ("message", json!("rejoin is done")),
    ] {
        assert_eq!(ended[name], value, "{ended}");
    }
    assert!(ended["durationMs"].is_u64(), "{ended}");
    let asked = client.prompt_that_asks("/run true");
    let waiting = &notices(&file, 2)[1];
    assert_eq!(waiting["event"], "waiting");
    assert_eq!(waiting["permission"]["subject"], "true", "{waiting}");
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "reject_once" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": asked, "result": outcome }));
    assert_eq!(notices(&file, 3)[2]["event"], "ended");
    client.ends();
}

#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "writes a program for the real binary"
)]
#[test]
fn the_desktop_shows_the_title_without_keys() {
    use std::os::unix::fs::PermissionsExt;

    let root = TempDir::new().unwrap();
    let (shown, program) = (root.path().join("shown"), root.path().join("notify-send"));
    let script = format!(
        "#!/bin/sh\n{{ printf '<%s>' \"$@\"; echo; }} >> {}\n",
        shown.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", root.path().display());
    let variables = [("PATH", path), ("DISPLAY", ":0".to_owned())];
    let options = ["--notify", "desktop", "--notify-after", "0s"];
    let mut client = Client::with(root.path(), &options, &variables);
    let key = concat!("AKIA", "QYLPMN5HHHFPZAM2");
    client.prompt(&format!("Use {key} <b>now</b>"));
    let line = loop {
        let text = fs::read_to_string(&shown).unwrap_or_default();
        if text.ends_with('\n') {
            break text;
        }
        std::thread::yield_now();
    };
    assert!(
        line.starts_with("<--app-name=rejoin><--><rejoin is done><Use "),
        "{line}"
    );
    assert!(!line.contains(key) && !line.contains("<b>"), "{line}");
    client.ends();
}

/// Without a desktop, the terminal of the process shows a notice.
#[cfg(target_os = "linux")]
#[test]
fn the_terminal_shows_the_title_without_keys() {
    let root = TempDir::new().unwrap();
    let options = ["serve", "--notify", "desktop", "--notify-after", "0s"];
    let serve = command(&root.path().join("store"), &options);
    // The first terminal that a session of processes opens is its own.
    let mut alone = Command::new("setsid");
    let opens = r#"tty=$1; shift; exec "$@" 3<>"$tty""#;
    let terminal = Terminal::new();
    alone.args(["sh", "-c", opens, "sh"]).arg(terminal.name());
    alone.arg(serve.get_program()).args(serve.get_args());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => alone.env(name, value),
            None => alone.env_remove(name),
        };
    }
    for desktop in ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"] {
        alone.env_remove(desktop);
    }
    let mut client = Client::of(root.path(), alone, &[]);
    let key = concat!("AKIA", "QYLPMN5HHHFPZAM2");
    client.prompt(&format!("Use {key}"));
    let mut shown = String::new();
    while !shown.ends_with('\u{7}') {
        shown.push_str(&String::from_utf8_lossy(&terminal.read()));
    }
    assert!(
        shown.starts_with("\u{1b}]9;rejoin is done: Use "),
        "{shown:?}"
    );
    assert!(!shown.contains(key), "{shown:?}");
    client.ends();
}

#[test]
fn a_variable_names_the_command() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("notices");
    let variables = [("REJOIN_NOTIFY", format!("cat >> {}", file.display()))];
    let mut client = Client::with(root.path(), &["--notify-after", "0s"], &variables);
    client.prompt("hello");
    assert_eq!(notices(&file, 1)[0]["event"], "ended");
    client.ends();
}

#[test]
fn who_is_there_is_not_disturbed() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("notices");
    let notify = format!("cat >> {}", file.display());
    let mut client = Client::start(root.path(), &["--notify", &notify, "--notify-after", "1h"]);
    client.prompt("hello");
    client.prompt_that_asks("/run true");
    client.ends();
    assert!(!file.exists());
}

#[test]
fn a_command_that_hangs_floods_or_fails_harms_nothing() {
    let root = TempDir::new().unwrap();
    let flood = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2";
    for notify in [
        "sleep 1000",
        "exit 3",
        "/no/such/program",
        "kill -9 $$",
        flood,
    ] {
        let mut client = Client::start(root.path(), &["--notify", notify, "--notify-after", "0s"]);
        // More of them than may run at a time.
        for _ in 0..8 {
            assert_eq!(client.prompt("hello")["stopReason"], "end_turn", "{notify}");
        }
        client.ends();
    }
}

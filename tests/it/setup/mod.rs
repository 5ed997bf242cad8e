//! `rejoin setup` on settings as editors and people write them: what it makes of them, and that it
//! brings them back.
#![cfg(unix)]
#![expect(
    clippy::disallowed_methods,
    reason = "writes real files for the real binary"
)]

mod changes;
#[cfg(target_os = "linux")]
mod service;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::env;
use crate::support::wrapped::program;

/// A home folder with some programs.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::in_folder(TempDir::new().unwrap())
    }

    /// One whose path has the same length wherever the test runs: that of `/home/ada-smith`.
    pub(crate) fn of_ada() -> Self {
        let folder = TempDir::with_prefix_in("home", "/tmp");
        Self::in_folder(folder.unwrap())
    }

    fn in_folder(folder: TempDir) -> Self {
        let home = Self { folder };
        let bin = home.path("bin");
        fs::create_dir(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_rejoin"), bin.join("rejoin")).unwrap();
        for name in ["claude-agent-acp", "gemini", "npx"] {
            home.program(name);
        }
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn program(&self, name: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/rejoin"));
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.env("HOME", self.folder.path());
        command.env("PATH", self.path("bin"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// The command succeeds; what it prints, with the home folder made the same everywhere.
    #[track_caller]
    pub(crate) fn runs(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
        self.general(&String::from_utf8(output.stdout).unwrap())
    }

    /// The command fails with this code; what it prints, and what on stderr.
    #[track_caller]
    fn fails(&self, arguments: &[&str], code: i32) -> (String, String) {
        let output = self.run(arguments);
        let text = self.general(&String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        (
            self.general(&String::from_utf8(output.stdout).unwrap()),
            text,
        )
    }

    /// The same with the path that [`Self::of_ada`] names.
    pub(crate) fn as_of_ada(&self, text: &str) -> String {
        text.replace(self.folder.path().to_str().unwrap(), "/home/ada-smith")
    }

    pub(crate) fn general(&self, text: &str) -> String {
        text.replace(self.folder.path().to_str().unwrap(), "<home>")
    }

    /// Writes the settings of an editor; where they are.
    pub(crate) fn settings(&self, editor: &str, text: &str) -> PathBuf {
        let path = self.path(place(editor));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

fn place(editor: &str) -> &'static str {
    match editor {
        "zed" => ".config/zed/settings.json",
        _ => ".jetbrains/acp.json",
    }
}

/// The text is what a file of the fixtures has.
#[track_caller]
pub(crate) fn is_as_in(path: &Path, text: &str) {
    if env::update_fixtures() {
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, expected, "{}", path.display());
}

/// Every pair of files of an editor.
fn fixtures(editor: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(format!("fixtures/setup/{editor}")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.to_str().unwrap().ends_with(".before.json"))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// Settings are changed as the fixture says, and brought back to the byte.
fn plays(editor: &str) {
    for before in fixtures(editor) {
        let name = before.to_str().unwrap().replace(".before.json", "");
        let text = fs::read_to_string(&before).unwrap();
        let home = Home::new();
        let path = home.settings(editor, &text);
        let said = home.runs(&["setup", editor, "--yes"]);
        let changed = fs::read_to_string(&path).unwrap();
        is_as_in(
            Path::new(&format!("{name}.after.json")),
            &home.general(&changed),
        );
        is_as_in(Path::new(&format!("{name}.txt")), &said);
        // Again, there is nothing to do.
        let again = home.runs(&["setup", editor, "--yes"]);
        assert!(again.contains("nothing to change"), "{name}: {again}");
        if said == again {
            continue;
        }
        home.runs(&["setup", editor, "--undo", "--yes"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{name}");
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "{name}: a file is left behind");
        // The same with the line ends and the mark of Windows.
        let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
        home.settings(editor, &windows(&text));
        home.runs(&["setup", editor, "--yes"]);
        if text.contains('\n') {
            assert_eq!(
                fs::read_to_string(&path).unwrap(),
                windows(&changed),
                "{name}"
            );
        }
        home.runs(&["setup", editor, "--undo", "--yes"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), windows(&text), "{name}");
    }
}

#[test]
fn zed() {
    plays("zed");
}

#[test]
fn jetbrains() {
    plays("jetbrains");
}

/// An agent for Node in a folder that only the shell's `PATH` has, as nvm makes it, and the node that
/// runs it.
fn install_for_node(home: &Home) -> PathBuf {
    let folder = home.path("node-v22/bin");
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    };
    let agent = program();
    write(
        "ada-node",
        &format!("#!/bin/sh\nexec {}\n", agent.display()),
    );
    write("qwen", "#!/usr/bin/env -S ada-node --quiet\n");
    folder
}

/// What the wrapped agent of an entry says to a client, started with a desktop's `PATH`.
fn answers(home: &Home, settings: &Path, name: &str) -> String {
    let settings: Value = serde_json::from_slice(&fs::read(settings).unwrap()).unwrap();
    let entry = &settings["agent_servers"][name];
    let arguments = entry["args"].as_array().unwrap().iter();
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(arguments.map(|word| word.as_str().unwrap()));
    command.env_clear().env("HOME", home.path(""));
    command.env("PATH", "/usr/bin:/bin").stdout(Stdio::piped());
    let mut started = command.stdin(Stdio::piped()).spawn().unwrap();
    let initialize = json!({ "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } });
    let new = json!({ "id": 1, "method": "session/new",
        "params": { "cwd": home.path(""), "mcpServers": [] } });
    let mut input = started.stdin.take().unwrap();
    for mut request in [initialize, new] {
        request["jsonrpc"] = "2.0".into();
        writeln!(input, "{request}").unwrap();
    }
    let mut lines = BufReader::new(started.stdout.take().unwrap()).lines();
    let answer = lines.find_map(|line| line.ok().filter(|line| line.contains(r#""id":1"#)));
    drop(input);
    started.wait().unwrap();
    answer.expect("rejoin answers")
}

#[test]
fn an_agent_whose_interpreter_only_the_shell_finds_starts_from_a_desktop() {
    let home = Home::new();
    let folder = install_for_node(&home);
    let text = |args: &str| {
        let entry = format!(r#"{{ "type": "custom", {args}, "env": {{}} }}"#);
        format!("{{\n  \"agent_servers\": {{ \"Qwen\": {entry} }}\n}}\n")
    };
    let in_shell = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        let path = std::env::join_paths([home.path("bin"), folder.clone()]).unwrap();
        let output = command.env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        home.general(&String::from_utf8(output.stdout).unwrap())
    };
    let plain = text(r#""command": "qwen", "args": ["--acp"]"#);
    let path = home.settings("zed", &plain);
    in_shell(&["setup", "zed", "--yes"]);
    let changed = home.general(&fs::read_to_string(&path).unwrap());
    let words = r#""--path", "<home>/node-v22/bin", "--", "<home>/node-v22/bin/qwen""#;
    assert!(changed.contains(words), "{changed}");
    let answered = answers(&home, &path, "Qwen");
    assert!(answered.contains(r#""sessionId""#), "{answered}");
    assert!(in_shell(&["setup", "zed", "--yes"]).contains("nothing to change"));
    in_shell(&["setup", "zed", "--undo", "--yes"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), plain);
    // An entry of earlier versions, or written by hand.
    let rejoin = home.path("bin/rejoin");
    let (rejoin, agent) = (rejoin.display(), folder.join("qwen"));
    let by_hand = text(&format!(
        r#""command": "{rejoin}", "args": ["wrap", "--", "{}", "--acp"]"#,
        agent.display()
    ));
    home.settings("zed", &by_hand);
    assert!(!answers(&home, &path, "Qwen").contains(r#""sessionId""#));
    let doctor = in_shell(&["doctor", "--no-agents"]);
    let needs = "it needs ada-node, which an editor";
    assert!(
        doctor.contains(needs) && doctor.contains("`rejoin setup zed`"),
        "{doctor}"
    );
    let said = in_shell(&["setup", "zed", "--yes"]);
    assert!(
        said.contains("the folder of its interpreter is added"),
        "{said}"
    );
    let answered = answers(&home, &path, "Qwen");
    assert!(answered.contains(r#""sessionId""#), "{answered}");
    assert!(!in_shell(&["doctor", "--no-agents"]).contains(needs));
    // A `PATH` of the entry's own is the user's affair.
    let with_path = by_hand.replace(r#""env": {}"#, r#""env": { "PATH": "/somewhere" }"#);
    home.settings("zed", &with_path);
    assert!(in_shell(&["setup", "zed", "--yes"]).contains("nothing to change"));
    // What is pasted into other editors has it, too.
    let words = format!(r#""--path", {:?}, "--""#, folder.display().to_string());
    let pasted = in_shell(&["setup", "neovim"]);
    assert!(pasted.contains(&home.general(&words)), "{pasted}");
}

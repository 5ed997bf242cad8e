//! `rejoin` or `rejoin sessions` alone: a list to choose from in a terminal, an agent or help elsewhere.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use rejoin::sys::Timestamp;
use serde_json::json;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::tcgetattr;
use tempfile::TempDir;

use crate::setup::Home;
use crate::support::command::{command, fails, runs};
use crate::support::logs::session;
use crate::support::terminal::Terminal;

use super::wait::OpenSession;

/// What gives the screen back and shows the cursor.
const GIVEN_BACK: &str = "\u{1b}[?1049l\u{1b}[?25h";

/// The picker in a terminal.
struct Picker {
    terminal: Terminal,
    child: Child,
    printed: String,
}

impl Picker {
    fn start(store: &Path) -> Self {
        Self::of(command(store, &["sessions"]), 100)
    }

    /// Starts this command in a terminal of so many columns.
    fn of(picker: Command, columns: u16) -> Self {
        Self::with_pager(picker, columns, "cat")
    }

    /// Starts this command in a terminal of so many columns, with this pager.
    fn with_pager(mut picker: Command, columns: u16, pager: &str) -> Self {
        let terminal = Terminal::new();
        let size = ["cols", &columns.to_string(), "rows", "20"];
        let size = Command::new("stty")
            .args(size)
            .stdin(terminal.open())
            .status();
        assert!(size.unwrap().success());
        picker.env("PAGER", pager).env("NO_COLOR", "1");
        picker.stdin(terminal.open()).stdout(terminal.open());
        let child = picker.stderr(terminal.open()).spawn();
        Self {
            terminal,
            child: child.unwrap(),
            printed: String::new(),
        }
    }

    /// Reads what is printed until this comes. What was printed before that is forgotten.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        loop {
            if let Some(at) = self.printed.find(text) {
                self.printed.drain(..at + text.len());
                return;
            }
            assert!(self.read(), "no {text:?} in {:?}", self.printed);
        }
    }

    /// Reads what is printed until all of these have come, in any order.
    #[track_caller]
    fn expect_all(&mut self, texts: &[&str]) {
        while !texts.iter().all(|text| self.printed.contains(text)) {
            assert!(self.read(), "not all of {texts:?} in {:?}", self.printed);
        }
        self.printed.clear();
    }

    fn read(&mut self) -> bool {
        let more = self.terminal.read();
        self.printed.push_str(&String::from_utf8_lossy(&more));
        !more.is_empty()
    }

    fn press(&self, keys: &str) {
        self.terminal.press(keys);
    }

    /// The user has left the picker, and the terminal is as before.
    #[track_caller]
    fn ends(self) {
        self.ends_with(0);
    }

    /// The picker ends with this code, and the terminal is as before.
    #[track_caller]
    fn ends_with(mut self, code: i32) {
        assert_eq!(self.child.wait().unwrap().code(), Some(code));
        while self.read() {}
        assert!(self.printed.contains(GIVEN_BACK), "{:?}", self.printed);
    }

    /// Sends this to the process of the picker, and no other one.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

#[test]
fn a_session_is_found_shown_copied_and_deleted() {
    let root = TempDir::new().unwrap();
    let id = session(root.path(), "Fix the Redis timeout");
    session(root.path(), "Write docs");
    let mut picker = Picker::start(root.path());
    // The last one is in the preview of the first session.
    picker.expect_all(&["Fix the Redis timeout", "2 conversations of 1 agent", "You"]);
    picker.press("/redis");
    picker.expect("1 of 2");
    // The preview has the place of the word.
    picker.expect("  prompt  ");
    picker.press("\r");
    picker.expect(GIVEN_BACK);
    picker.expect(&id);
    picker.expect("Esc goes back");
    picker.press("x\r");
    picker.expect("Search: redis");
    picker.press("\tc");
    picker.expect("\u{1b}]52;c;");
    picker.expect("is in the clipboard");
    picker.press("d");
    picker.expect("to the trash?");
    picker.press("y");
    picker.expect("is in the trash");
    picker.press("\u{3}");
    picker.ends();
    assert_eq!(runs(root.path(), &["sessions", "list"]).lines().count(), 1);
}

/// The code of a process that a signal has ended, as shells see it.
fn code(signal: Signal) -> i32 {
    128 + signal.as_raw()
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut picker = Picker::start(root.path());
        picker.expect("1 conversation of 1 agent");
        picker.signal(signal);
        picker.ends_with(code(signal));
    }
    // A conversation that is shown waits for a key.
    let mut picker = Picker::start(root.path());
    picker.expect("1 conversation of 1 agent");
    picker.press("\r");
    picker.expect("Enter, q or Esc goes back");
    picker.signal(Signal::TERM);
    picker.ends_with(code(Signal::TERM));
}

#[test]
fn a_signal_ends_the_pager() {
    let root = TempDir::new().unwrap();
    let long = "a line\n".repeat(20_000);
    session(root.path(), &format!("hello\n{long}"));
    // Neither reads all: the writer waits for it. The second does not end when it is asked to, and leaves
    // the terminal without an echo.
    let stubborn = "trap '' TERM HUP; stty -echo -icanon; echo shown; exec sleep 1000";
    for pager in ["echo shown; exec sleep 1000", stubborn] {
        for (arguments, signal) in [
            (&["sessions"][..], Signal::TERM),
            (&["sessions"], Signal::HUP),
            (&["show", "last"], Signal::TERM),
        ] {
            let shows = command(root.path(), arguments);
            let mut picker = Picker::with_pager(shows, 100, pager);
            let before = tcgetattr(picker.terminal.open()).unwrap().local_modes;
            if arguments == ["sessions"] {
                picker.expect("1 conversation of 1 agent");
                picker.press("\r");
            }
            picker.expect("shown");
            // Ctrl-C is for the pager, which has it from the terminal.
            picker.signal(Signal::INT);
            picker.signal(signal);
            assert_eq!(picker.child.wait().unwrap().code(), Some(code(signal)));
            assert_eq!(
                tcgetattr(picker.terminal.open()).unwrap().local_modes,
                before
            );
            // Nobody has the terminal any more.
            while picker.read() {}
        }
    }
}

#[test]
fn a_signal_ends_what_was_chosen_from_the_list() {
    let root = TempDir::new().unwrap();
    let _open = OpenSession::new(root.path());
    for signal in [Signal::INT, Signal::TERM] {
        let mut picker = Picker::of(command(root.path(), &["attach"]), 100);
        picker.expect_all(&["1 conversation of 1 agent", "Enter attach"]);
        picker.press("\r");
        picker.expect(GIVEN_BACK);
        picker.expect("Ctrl-C leaves");
        picker.signal(signal);
        let status = picker.child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()));
    }
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    let mut picker = Picker::start(root.path());
    picker.expect("1 conversation of 1 agent");
    let Picker {
        terminal,
        mut child,
        ..
    } = picker;
    drop(terminal);
    assert_eq!(child.wait().unwrap().code(), Some(code(Signal::HUP)));
}

#[test]
fn elsewhere_there_is_help() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    fails(root.path(), &["sessions"], 2, "Usage: rejoin sessions");
    let mut piped = command(root.path(), &["sessions"]);
    let output = piped.stdin(Stdio::null()).output().unwrap();
    assert!(output.stdout.is_empty());
}

#[test]
fn rejoin_alone_is_the_list_in_terminals_of_any_width() {
    let root = TempDir::new().unwrap();
    session(root.path(), "Fix the Redis timeout");
    session(root.path(), "Write docs");
    let folder = TempDir::new().unwrap();
    for columns in [60, 100, 120, 160] {
        let mut alone = command(root.path(), &[]);
        alone.current_dir(folder.path());
        let mut picker = Picker::of(alone, columns);
        picker.expect_all(&["> Write docs", "2 conversations of 1 agent"]);
        picker.press("?");
        picker.expect("go on with it in its own tool");
        picker.expect("any key: back to the list");
        picker.press("x");
        picker.expect("? keys");
        picker.press(&format!("jn\u{15}Wide {columns}\r"));
        picker.expect("It is renamed.");
        picker.press("e");
        picker.expect("Written to conversation-");
        picker.press("r");
        picker.expect("is not known");
        picker.press("a");
        picker.expect("no process has it open");
        picker.press("q");
        picker.ends();
        let listed = runs(root.path(), &["list"]);
        assert!(listed.contains(&format!("Wide {columns}")), "{listed}");
    }
    let exported = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(exported, 4, "no file is overwritten");
}

/// A conversation of Claude Code that was changed so many days ago.
fn conversation(home: &Home, number: u8, cwd: &str, title: &str, days: u32) {
    let folder = home.path(".claude/projects/p");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!(
        "00000000-0000-4000-8000-0000000000{number:02}.jsonl"
    ));
    let at = Timestamp::of_system(SystemTime::now() - days * DAY);
    let prompt = json!({"type": "user", "uuid": "1", "parentUuid": null, "cwd": cwd,
        "timestamp": at.to_string(), "message": {"role": "user", "content": title}});
    std::fs::write(&path, format!("{prompt}\n")).unwrap();
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - days * DAY).unwrap();
}

const DAY: Duration = Duration::from_hours(24);

#[test]
fn a_conversation_that_its_tool_will_delete_is_kept_by_a_key() {
    let home = Home::new();
    let project = home.path("project");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    std::fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::create_dir(project.join("part")).unwrap();
    let part = project.join("part");
    conversation(&home, 1, "/srv", "Somewhere else", 1);
    conversation(&home, 2, part.to_str().unwrap(), "About to go", 28);
    for columns in [60, 100, 120, 160] {
        let mut alone = home.command(&[]);
        alone.current_dir(&project);
        let mut picker = Picker::of(alone, columns);
        picker.expect_all(&[
            "> About to go",
            "1 in this project, first",
            "Claude Code will delete 1 conversation",
            "2 days left",
        ]);
        if columns == 160 {
            picker.press("d");
            picker.expect("Claude Code keeps it");
            picker.press("w");
            picker.expect("What tools will delete");
            picker.press("i");
            picker.expect_all(&["A copy is in the store", "kept"]);
            // It stays where it was, so that the next key is about it.
            picker.press("d");
            picker.expect("to the trash?");
            picker.press("n");
        }
        picker.press("q");
        picker.ends();
    }
    let listed = home.runs(&["list", "--sources", "none"]);
    assert!(
        listed.contains("About to go") && !listed.contains("Somewhere"),
        "{listed}"
    );
    let mut alone = home.command(&[]);
    alone.current_dir(&project);
    let mut picker = Picker::of(alone, 100);
    picker.expect("1 in this project, first");
    picker.press("q");
    assert!(
        !picker.printed.contains("will delete"),
        "{}",
        picker.printed
    );
    picker.ends();
}

#[test]
fn what_a_pager_leaves_on_the_screen_is_left_by_keys() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    // Pagers that end by themselves: `less` does not, whatever its options are.
    for (pager, keys, leaves) in [
        ("cat", "q", false),
        ("cat", "\u{1b}", false),
        ("cat", " ", false),
        ("cat", "\u{3}", true),
        ("tail -n 3", "\u{3}", true),
        ("less -FRX", "q", false),
    ] {
        if pager.starts_with("less") && Command::new("less").arg("-V").output().is_err() {
            continue;
        }
        let mut shows = command(root.path(), &["sessions"]);
        shows.env_remove("LESS");
        let mut picker = Picker::with_pager(shows, 100, pager);
        picker.expect("1 conversation of 1 agent");
        picker.press("\r");
        picker.expect(GIVEN_BACK);
        picker.expect(if pager.starts_with("less") {
            "END"
        } else {
            "Ctrl-C leaves"
        });
        picker.press(keys);
        if !leaves {
            picker.expect("1 conversation of 1 agent");
            picker.press("q");
        }
        picker.ends();
    }
}

#[test]
fn commands_without_a_session_have_it_chosen_from_the_list() {
    let root = TempDir::new().unwrap();
    session(root.path(), "Fix the Redis timeout");
    session(root.path(), "Write docs");
    for name in ["show", "open", "export", "resume"] {
        let mut picker = Picker::of(command(root.path(), &[name]), 100);
        picker.expect_all(&["2 conversations of 1 agent", &format!("Enter {name}")]);
        picker.press("/redis\r");
        picker.expect(GIVEN_BACK);
        match name {
            // Which ends with the id.
            "open" => picker.expect(".html"),
            "resume" => picker.expect("is not known"),
            _ => picker.expect("Fix the Redis timeout"),
        }
        let code = picker.child.wait().unwrap().code();
        assert_eq!(code, Some(i32::from(name == "resume")), "{name}");
    }
    for (name, code) in [("show", 1), ("stop", 3), ("attach", 3)] {
        let mut picker = Picker::of(command(root.path(), &[name]), 100);
        if name == "show" {
            picker.expect("Enter show");
            picker.press("q");
        } else {
            picker.expect("no session is open");
        }
        assert_eq!(picker.child.wait().unwrap().code(), Some(code), "{name}");
    }
    for name in ["show", "open", "export", "resume", "stop", "attach"] {
        fails(root.path(), &[name], 2, "no session is named");
    }
}

#[test]
fn a_conversation_that_its_tool_has_deleted_is_gone_at_once() {
    let home = Home::new();
    conversation(&home, 1, "/srv", "Still there", 1);
    conversation(&home, 2, "/srv", "Soon gone", 2);
    let mut picker = Picker::of(home.command(&[]), 100);
    picker.expect_all(&["> Still there", "2 conversations of 1 agent"]);
    let file = home.path(".claude/projects/p/00000000-0000-4000-8000-000000000002.jsonl");
    std::fs::remove_file(file).unwrap();
    picker.press("j");
    picker.expect("Claude Code has deleted this conversation");
    picker.press("k");
    picker.expect("1 conversation of 1 agent");
    picker.press("q");
    picker.ends();
}

#[test]
fn without_conversations_it_says_how_to_begin() {
    let home = Home::new();
    let mut picker = Picker::of(home.command(&[]), 100);
    picker.expect("there are no conversations so far");
    picker.expect("rejoin setup");
    assert_eq!(picker.child.wait().unwrap().code(), Some(0));
}

#[test]
fn options_for_serving_are_refused_in_a_terminal() {
    let root = TempDir::new().unwrap();
    let mut picker = Picker::of(command(root.path(), &["--no-persist"]), 100);
    picker.expect("nothing to do");
    assert_eq!(picker.child.wait().unwrap().code(), Some(2));
}

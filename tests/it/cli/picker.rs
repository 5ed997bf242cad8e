//! `rejoin sessions` alone: a list to choose from in a terminal, help elsewhere.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::command::{command, fails, runs};
use crate::support::logs::session;
use crate::support::terminal::Terminal;

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
        let terminal = Terminal::new();
        let size = ["cols", "100", "rows", "20"];
        let size = Command::new("stty")
            .args(size)
            .stdin(terminal.open())
            .status();
        assert!(size.unwrap().success());
        let mut picker = command(store, &["sessions"]);
        picker.env("PAGER", "cat").env("NO_COLOR", "1");
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

    fn read(&mut self) -> bool {
        let more = self.terminal.read();
        self.printed.push_str(&String::from_utf8_lossy(&more));
        !more.is_empty()
    }

    fn press(&self, keys: &str) {
        self.terminal.press(keys);
    }

    /// The picker ends, and the terminal is as before.
    #[track_caller]
    fn ends(mut self) {
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        while self.read() {}
        assert!(self.printed.contains(GIVEN_BACK), "{:?}", self.printed);
    }
}

#[test]
fn a_session_is_found_shown_copied_and_deleted() {
    let root = TempDir::new().unwrap();
    let id = session(root.path(), "Fix the Redis timeout");
    session(root.path(), "Write docs");
    let mut picker = Picker::start(root.path());
    picker.expect("2 of 2");
    picker.expect("Fix the Redis timeout");
    // The preview of the first one.
    picker.expect("You");
    picker.press("/redis");
    picker.expect("1 of 2");
    picker.press("\r");
    picker.expect(GIVEN_BACK);
    picker.expect(&id);
    picker.expect("Press Enter");
    picker.press("\n");
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

#[test]
fn a_signal_gives_the_terminal_back() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut picker = Picker::start(root.path());
        picker.expect("1 of 1");
        let pid = Pid::from_child(&picker.child);
        kill_process(pid, signal).unwrap();
        picker.ends();
    }
}

#[test]
fn it_ends_when_its_terminal_is_gone() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    let mut picker = Picker::start(root.path());
    picker.expect("1 of 1");
    let Picker {
        terminal,
        mut child,
        ..
    } = picker;
    drop(terminal);
    assert_eq!(child.wait().unwrap().code(), Some(0));
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

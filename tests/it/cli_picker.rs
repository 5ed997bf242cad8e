//! `rejoin sessions` alone: a list to choose from in a terminal, help elsewhere.
#![expect(clippy::disallowed_methods, reason = "opens a real terminal")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

use crate::support::command::{command, fails, runs};
use crate::support::logs::session;

/// What gives the screen back and shows the cursor.
const GIVEN_BACK: &str = "\u{1b}[?1049l\u{1b}[?25h";

/// A terminal in which the picker runs.
struct Terminal {
    ours: OwnedFd,
    child: Child,
    printed: String,
}

impl Terminal {
    fn start(store: &Path) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let open = || {
            let name = OsStr::from_bytes(name.as_bytes());
            File::options().read(true).write(true).open(name).unwrap()
        };
        let size = ["cols", "100", "rows", "20"];
        let size = Command::new("stty").args(size).stdin(open()).status();
        assert!(size.unwrap().success());
        let mut picker = command(store, &["sessions"]);
        picker.env("PAGER", "cat").env("NO_COLOR", "1");
        let child = picker.stdin(open()).stdout(open()).stderr(open()).spawn();
        Self {
            ours,
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
        let mut buffer = [0; 4096];
        let read = File::from(self.ours.try_clone().unwrap()).read(&mut buffer);
        let count = read.unwrap_or(0);
        // The end of the terminal, when nothing has it open, is an error.
        self.printed
            .push_str(&String::from_utf8_lossy(&buffer[..count]));
        count > 0
    }

    fn press(&mut self, keys: &str) {
        let mut ours = File::from(self.ours.try_clone().unwrap());
        ours.write_all(keys.as_bytes()).unwrap();
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
    let mut terminal = Terminal::start(root.path());
    terminal.expect("2 of 2");
    terminal.expect("Fix the Redis timeout");
    // The preview of the first one.
    terminal.expect("You");
    terminal.press("/redis");
    terminal.expect("1 of 2");
    terminal.press("\r");
    terminal.expect(GIVEN_BACK);
    terminal.expect(&id);
    terminal.expect("Press Enter");
    terminal.press("\n");
    terminal.expect("Search: redis");
    terminal.press("\tc");
    terminal.expect("\u{1b}]52;c;");
    terminal.expect("is in the clipboard");
    terminal.press("d");
    terminal.expect("to the trash?");
    terminal.press("y");
    terminal.expect("is in the trash");
    terminal.press("\u{3}");
    terminal.ends();
    assert_eq!(runs(root.path(), &["sessions", "list"]).lines().count(), 1);
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let root = TempDir::new().unwrap();
    session(root.path(), "hello");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = Terminal::start(root.path());
        terminal.expect("1 of 1");
        let pid = Pid::from_child(&terminal.child);
        kill_process(pid, signal).unwrap();
        terminal.ends();
    }
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

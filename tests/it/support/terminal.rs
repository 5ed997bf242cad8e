//! A pseudo-terminal: what it shows, and keys that are pressed in it.
#![expect(clippy::disallowed_methods, reason = "opens a real terminal")]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

pub(crate) struct Terminal {
    ours: OwnedFd,
    name: OsString,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        // A process with this end would keep the terminal alive.
        fcntl_setfd(&ours, FdFlags::CLOEXEC).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let name = OsStr::from_bytes(name.as_bytes()).to_owned();
        Self { ours, name }
    }

    /// The path of its device.
    #[cfg(target_os = "linux")]
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The end for a program's input or output.
    pub(crate) fn open(&self) -> File {
        let mut options = File::options();
        options.read(true).write(true).open(&self.name).unwrap()
    }

    /// Reads some of what is printed; nothing at the end, when no program has the terminal open.
    pub(crate) fn read(&self) -> Vec<u8> {
        let mut buffer = vec![0; 4096];
        // The end is an error.
        let count = self.file().read(&mut buffer).unwrap_or(0);
        buffer.truncate(count);
        buffer
    }

    pub(crate) fn press(&self, keys: &str) {
        self.file().write_all(keys.as_bytes()).unwrap();
    }

    fn file(&self) -> File {
        File::from(self.ours.try_clone().unwrap())
    }
}

/// What a command prints on a terminal. It succeeds.
#[track_caller]
pub(crate) fn shown(mut command: Command) -> String {
    let terminal = Terminal::new();
    command.stdout(terminal.open());
    let (printed, code) = runs_in(&terminal, command);
    assert_eq!(code, Some(0), "{printed}");
    printed
}

/// What a command prints on a terminal, messages included, and its exit code. The user presses
/// Ctrl-D.
pub(crate) fn shown_with_messages(mut command: Command) -> (String, Option<i32>) {
    let terminal = Terminal::new();
    terminal.press("\u{4}");
    command.stdin(terminal.open()).stdout(terminal.open());
    command.stderr(terminal.open());
    runs_in(&terminal, command)
}

fn runs_in(terminal: &Terminal, mut command: Command) -> (String, Option<i32>) {
    let mut child = command.spawn().unwrap();
    // Its end of the terminal, which would keep ours open.
    drop(command);
    let mut printed = Vec::new();
    loop {
        let more = terminal.read();
        if more.is_empty() {
            break;
        }
        printed.extend(more);
    }
    let printed = String::from_utf8(printed).unwrap().replace("\r\n", "\n");
    (printed, child.wait().unwrap().code())
}

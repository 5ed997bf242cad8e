//! How programs are started.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

/// How an engine starts programs.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The program that [guards](super::guard) them, if any.
    pub guard: Option<PathBuf>,
    /// The variables of our environment that they do not get: those that lead to the store.
    pub withheld: Vec<String>,
    /// The `PATH` that they get in place of ours, if any.
    pub path: Option<OsString>,
}

impl Launch {
    /// The command that starts a program, without arguments. It gets the rest of our environment.
    pub(in crate::engine) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for name in &self.withheld {
            command.env_remove(name);
        }
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_withheld_is_not_passed_on_and_may_be_given_all_the_same() {
        let launch = Launch {
            guard: None,
            withheld: vec!["PATH".to_owned(), "HOME".to_owned()],
            path: Some("/there".into()),
        };
        let run = |command: &mut Command| {
            let output = command.output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let mut command = launch.command("/bin/sh");
        command.args(["-c", "echo \"${HOME-none}\""]);
        assert_eq!(run(&mut command), "none\n");
        assert_eq!(run(command.env("HOME", "/here")), "/here\n");
        let mut command = launch.command("/bin/sh");
        assert_eq!(run(command.args(["-c", "echo $PATH"])), "/there\n");
    }
}

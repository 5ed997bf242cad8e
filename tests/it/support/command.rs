//! Runs the real binary's commands, as people and scripts do.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary with nothing of the caller's environment that it looks at.
pub(crate) fn command(store: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    for name in [
        "REJOIN_STORE",
        "REJOIN_SOURCES",
        "REJOIN_LOG",
        "REJOIN_LOG_FILE",
        "NO_COLOR",
    ] {
        command.env_remove(name);
    }
    command.arg("--store").arg(store).args(arguments);
    command.stdin(Stdio::null());
    command
}

fn run(store: &Path, arguments: &[&str]) -> Output {
    command(store, arguments).output().unwrap()
}

/// The command succeeds; what it prints.
#[track_caller]
pub(crate) fn runs(store: &Path, arguments: &[&str]) -> String {
    let output = run(store, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}

/// The command fails with this code and says why on stderr, which contains `why`. Returns stdout.
#[track_caller]
pub(crate) fn fails(store: &Path, arguments: &[&str], code: i32, why: &str) -> String {
    let output = run(store, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.contains(why), "{arguments:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}

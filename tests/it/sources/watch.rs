//! `rejoin import --watch`.

#![expect(
    clippy::disallowed_methods,
    reason = "the files of other tools are no store"
)]

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::home;
use super::import::at_home;
use crate::support::command::runs;

#[test]
fn what_changes_is_imported_until_the_command_is_interrupted() {
    let (home, store) = (home(), tempfile::tempdir().unwrap());
    let (home, store) = (home.path(), store.path());
    let archive = home.join(".codex/sessions/2025/06/01");
    let name = "rollout-2025-06-01T08-00-00-0190aaaa-0000-7000-8000-000000000003.jsonl";
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = at_home(store, home, &["import", "--watch", "codex", "goose"]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        assert!(next().starts_with("codex        "));
        assert!(next().starts_with("goose        "));
        let file = archive.join(name);
        let mut grown = OpenOptions::new().append(true).open(&file).unwrap();
        let answer = r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"More."}]}"#;
        writeln!(grown, "{answer}").unwrap();
        assert_eq!(next(), format!("codex        extended {}", file.display()));
        // In folders that were not there.
        let day = home.join(format!(".codex/sessions/2026/06/{}", signal.as_raw()));
        fs::create_dir_all(&day).unwrap();
        let new = day.join(format!("rollout-{}.jsonl", signal.as_raw()));
        let id = format!("another-{}", signal.as_raw());
        let text = fs::read_to_string(&file).unwrap();
        let old = "0190aaaa-0000-7000-8000-000000000003";
        fs::write(&new, text.replace(old, &id)).unwrap();
        assert_eq!(next(), format!("codex        imported {}", new.display()));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
        assert!(lines.next().is_none());
    }
    runs(store, &["sessions", "verify"]);
}

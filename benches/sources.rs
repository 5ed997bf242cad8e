//! How long lists take that have the conversations of other tools: 10,000 files of 100 kB, half of
//! them Claude Code's and half Codex's.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rejoin::store::Durability;
use serde_json::json;

use crate::client::{Client, INITIALIZE, timed};
use crate::fill::Filled;
use crate::report::{Report, median, ms};
use crate::{Result, Settings};

/// How many times fewer conversations there are than sessions in a large store.
const SHARE: usize = 10;
/// How long a conversation is, in bytes.
const LENGTH: usize = 100_000;
/// How many conversations are in a folder.
const IN_A_FOLDER: usize = 100;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    let home = filled.beside("home");
    let count = settings.sessions / SHARE;
    for number in 0..count {
        conversation(&home, number)?;
    }
    let bytes = count * LENGTH / 1_000_000;
    report.note(&format!("{count} conversations, {bytes} MB"));
    let start = |sources: &str| client(filled.path(), &home, sources);
    let list = |client: &mut Client| timed(|| client.call("session/list", "{}").map(drop));
    let begin = timed(|| start("all").map(drop))?;
    let mut client = start("all")?;
    let first = list(&mut client)?.as_secs_f64();
    let detail = format!(
        "of the files, which the system has in memory; start {}",
        ms(begin.as_secs_f64())
    );
    report.at_most("first list ever", first, 1.0, "s", &detail);
    drop(client);
    let rounds = |of: &dyn Fn() -> Result<Duration>| -> Result<f64> {
        let times = (0..settings.rounds).map(|_| Ok(of()?.as_secs_f64()));
        Ok(median(times.collect::<Result<Vec<_>>>()?))
    };
    let first = rounds(&|| list(&mut start("all")?))?;
    let off = rounds(&|| list(&mut start("none")?))?;
    let detail = format!("without sources {}", ms(off));
    report.figure("first list of a process", &ms(first), &detail);
    let further = rounds(&|| {
        let mut client = start("all")?;
        list(&mut client)?;
        list(&mut client)
    })?;
    report.figure("a further list", &ms(further), "looks at every file again");
    let grown = rounds(&|| {
        let mut client = start("all")?;
        list(&mut client)?;
        append(&home, 0)?;
        list(&mut client)
    })?;
    report.figure("a list after one file grew", &ms(grown), "");
    fs::remove_dir_all(&home)?;
    Ok(())
}

fn client(store: &Path, home: &Path, sources: &str) -> Result<Client> {
    let mut command = Command::new(crate::machine::program());
    command.arg("serve").arg("--store").arg(store);
    command.args(["--sources", sources]).env("HOME", home);
    for name in rejoin::sources::ToolFolders::names() {
        command.env_remove(name);
    }
    let mut client = Client::of(command)?;
    client.write(INITIALIZE)?;
    client.output.until_answer(1)?;
    Ok(client)
}

/// Writes the conversation with this number.
fn conversation(home: &Path, number: usize) -> Result<()> {
    let mut text = String::new();
    let mut turn = 0;
    while text.len() < LENGTH {
        let lines = if number.is_multiple_of(2) {
            claude_code(number, turn)
        } else {
            codex(number, turn)
        };
        for line in lines {
            text.push_str(&line.to_string());
            text.push('\n');
        }
        turn += 1;
    }
    let file = file(home, number);
    fs::create_dir_all(file.parent().ok_or("no folder")?)?;
    Ok(fs::write(file, text)?)
}

/// Where the conversation with this number is.
fn file(home: &Path, number: usize) -> std::path::PathBuf {
    let folder = number / IN_A_FOLDER;
    if number.is_multiple_of(2) {
        let folder = home.join(format!(".claude/projects/-w-{folder}"));
        folder.join(format!("{number:08}-0000-4000-8000-000000000000.jsonl"))
    } else {
        let (month, day) = (folder / 28 + 1, folder % 28 + 1);
        let folder = home.join(format!(".codex/sessions/2026/{month:02}/{day:02}"));
        folder.join(format!(
            "rollout-2026-01-01T00-00-00-{number:08}-0000-7000-8000-000000000000.jsonl"
        ))
    }
}

fn append(home: &Path, number: usize) -> Result<()> {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(file(home, number))?;
    for line in claude_code(number, 1000) {
        writeln!(file, "{line}")?;
    }
    Ok(())
}

const OUTPUT: &str = "   Compiling something v0.1.0 and so on, as tools print it\n";

fn claude_code(number: usize, turn: usize) -> Vec<serde_json::Value> {
    let record = |step: usize, kind: &str, message: serde_json::Value| {
        let at = turn * 10 + step;
        let parent = at.checked_sub(1).map(|at| format!("{number}-{at}"));
        json!({"type": kind, "uuid": format!("{number}-{at}"), "parentUuid": parent, "cwd": "/w",
            "gitBranch": "main", "timestamp": time(number, at), "message": message})
    };
    let mut lines = vec![record(
        0,
        "user",
        json!({"role": "user", "content": format!("Prompt {turn} of {number}")}),
    )];
    for step in [1, 3, 5, 7] {
        let id = format!("call-{turn}-{step}");
        let call =
            json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "make"}}]);
        lines.push(record(
            step,
            "assistant",
            json!({"id": id, "model": "a-model", "content": call}),
        ));
        let output = OUTPUT.repeat(25);
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": output}]);
        lines.push(record(
            step + 1,
            "user",
            json!({"role": "user", "content": result}),
        ));
    }
    let said = json!([{"type": "text", "text": "That is done."}]);
    lines.push(record(
        9,
        "assistant",
        json!({"id": format!("m{turn}"), "model": "a-model", "content": said}),
    ));
    lines
}

fn codex(number: usize, turn: usize) -> Vec<serde_json::Value> {
    let record = |step: usize, kind: &str, payload: serde_json::Value| json!({"timestamp": time(number, turn * 10 + step), "type": kind, "payload": payload});
    let mut lines = Vec::new();
    if turn == 0 {
        let instructions = "You are a coding agent.\n".repeat(500);
        lines.push(record(
            0,
            "session_meta",
            json!({"id": format!("{number:08}-0000-7000-8000-000000000000"),
            "cwd": "/w", "base_instructions": {"text": instructions}}),
        ));
    }
    lines.push(record(
        0,
        "event_msg",
        json!({"type": "user_message", "message": format!("Prompt {turn} of {number}")}),
    ));
    for step in [1, 3, 5, 7] {
        let id = format!("call-{turn}-{step}");
        lines.push(record(
            step,
            "response_item",
            json!({"type": "function_call", "name": "shell",
            "arguments": "{\"command\":[\"make\"]}", "call_id": id}),
        ));
        lines.push(record(
            step + 1,
            "response_item",
            json!({"type": "function_call_output",
            "call_id": id, "output": OUTPUT.repeat(25)}),
        ));
    }
    lines.push(record(
        9,
        "event_msg",
        json!({"type": "agent_message", "message": "That is done."}),
    ));
    lines
}

/// The time of a record.
fn time(number: usize, at: usize) -> String {
    let (day, hour, minute) = (number % 28 + 1, number / 28 % 24, number / 672 % 60);
    let (second, millis) = (at / 1000 % 60, at % 1000);
    format!("2026-01-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

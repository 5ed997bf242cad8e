//! How long an export of a large conversation takes in which keys and tokens are masked: 50 MB of tool
//! calls that have read the sources of this project.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rejoin::record::Kind;
use rejoin::store::{Durability, Sync};
use rejoin::sys::SessionId;
use serde_json::json;

use crate::client::timed;
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

/// How long the conversation is, in bytes.
const LENGTH: usize = 50_000_000;
/// How much of a file a tool call returns, in bytes.
const FILE: usize = 60_000;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    let id = conversation(&filled)?;
    let pairs = Pairs::measure(
        settings.rounds,
        || export(&filled, &id, &["--redact"]),
        || export(&filled, &id, &[]),
    )?;
    let rate = LENGTH as f64 / 1e6 / pairs.ours();
    let detail = format!(
        "{}, {rate:.0} MB/s; without {}",
        ms(pairs.ours()),
        ms(pairs.theirs())
    );
    report.figure(
        "export --redact",
        &format!("{:.1}x", pairs.ratio()),
        &detail,
    );
    Ok(())
}

fn export(filled: &Filled, id: &SessionId, options: &[&str]) -> Result<Duration> {
    let mut command = Command::new(crate::machine::program());
    command.arg("--store").arg(filled.path());
    command.args(["export", id.as_str(), "--format", "json", "--output"]);
    command.arg(filled.beside("export.json")).args(options);
    timed(|| {
        let output = command.output()?;
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(why.into())
    })
}

fn conversation(filled: &Filled) -> Result<SessionId> {
    let mut texts = Vec::new();
    read(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut texts,
    )?;
    let mut log = filled.session()?;
    let prompt = json!({ "prompt": [{ "type": "text", "text": "Read the sources." }] });
    log.append(
        Kind::Prompt,
        Some("msg_1"),
        &prompt.to_string(),
        Sync::Buffered,
    )?;
    let mut length = 0;
    for (number, text) in texts.iter().cycle().enumerate() {
        let part = &text[..text.floor_char_boundary(FILE)];
        let id = format!("call_{number}");
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": "Read a file",
            "kind": "read", "status": "completed",
            "content": [{ "type": "content", "content": { "type": "text", "text": part } }] });
        log.append(Kind::Update, None, &call.to_string(), Sync::Buffered)?;
        length += part.len();
        if length > LENGTH {
            break;
        }
    }
    log.append(Kind::End, None, r#"{"stopReason":"end_turn"}"#, Sync::Turn)?;
    Ok(log.id().clone())
}

fn read(folder: &Path, texts: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(path)?);
        }
    }
    Ok(())
}

//! Starts an agent to see whether it speaks ACP, and ends it again.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::engine::upstream::Patience;
use crate::protocol::method;
use crate::sys::blocking;
use crate::transport::message::request_line;

use super::transport::{Program, start, with_stderr};

/// The longest line that is read of an agent, in bytes.
const LONGEST: u64 = 1024 * 1024;
/// How long its end may take to be noticed.
const END: Duration = Duration::from_millis(500);

/// The agent's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduced {
    /// Its version.
    pub version: Option<String>,
}

/// Starts a program, sends `initialize`, and ends it. Fails with a description.
pub async fn probe(program: &Program, within: Duration) -> Result<Introduced, String> {
    let started = blocking(|| start(program));
    let (child, mut input, output) =
        started.map_err(|error| format!("it could not be started: {error}"))?;
    let params = json!({
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": { "name": "rejoin", "version": env!("CARGO_PKG_VERSION") },
    });
    let line = request_line("0", method::INITIALIZE, &params.to_string());
    let asked = tokio::task::spawn_blocking(move || {
        // An agent that does not read may write.
        input.write_all(line.as_bytes()).ok();
        let answer = answer(output);
        (answer, input)
    });
    let asked = tokio::time::timeout(within, asked).await;
    let result = match asked {
        Ok(Ok((Some(answer), _input))) => introduced(&answer),
        Ok(_) => {
            let how = tokio::time::timeout(END, child.ended()).await;
            let how = how.map_or_else(
                |_| "it closed its output".to_owned(),
                |how| format!("it ended ({how})"),
            );
            Err(with_stderr(how, &child))
        }
        Err(_) => Err(with_stderr(
            format!(
                "it did not answer within {}",
                humantime::format_duration(within)
            ),
            &child,
        )),
    };
    child.end(Patience::EndOfInput).await;
    result
}

/// The response to our request, if one comes. Other lines are skipped.
fn answer(output: impl Read) -> Option<Value> {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if read.ok()? == 0 {
            return None;
        }
        let message: Option<Value> = serde_json::from_slice(&line).ok();
        let message = message.filter(|message| message["id"] == 0 && message["method"].is_null());
        if message.is_some() {
            return message;
        }
    }
}

fn introduced(answer: &Value) -> Result<Introduced, String> {
    if answer["result"]["protocolVersion"].is_u64() {
        let version = answer["result"]["agentInfo"]["version"].as_str();
        let version = version.map(str::to_owned);
        return Ok(Introduced { version });
    }
    match answer["error"]["message"].as_str() {
        Some(message) => Err(format!("it refused `initialize`: {message}")),
        None => Err("its answer to `initialize` is not one of ACP".to_owned()),
    }
}

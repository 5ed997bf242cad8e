//! `rejoin demo`: a conversation survives `kill -9`, shown with real processes of this program.

mod columns;
mod peer;
mod verdict;

use std::path::{Path, PathBuf};

use serde_json::json;

use rejoin::conversation::Transcript;

use super::exit::Failure;
use super::term::{Output, PLAIN, StyledLine, printable, wrap};
use columns::Paint;
use peer::Peer;

/// The prompts of the demo, in order.
const PROMPTS: [&str; 2] = ["My name is Ada. Please remember it.", "/demo"];
/// The prompt that is being answered when the agent is killed.
const LAST: &str = "/slow 60";
/// How many pieces of that answer are seen before the kill.
const PIECES: usize = 6;

/// The indentation below a heading.
const INDENT: &str = "   ";
/// How many columns precede an answer.
const ANSWER: usize = 10;

/// How to show it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep the demo's store in this folder. By default it is temporary.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    // In the place of the global option, so that help does not show it: the demo refuses it.
    #[arg(long, hide = true)]
    store: Option<PathBuf>,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<(), Failure> {
    if let Some(folder) = &args.keep {
        let folder = std::path::absolute(folder)
            .map_err(|error| Failure::new(format!("cannot find {}: {error}", folder.display())))?;
        return show(&folder, output);
    }
    let folder = std::env::temp_dir().join(format!("rejoin-demo-{}", std::process::id()));
    let result = show(&folder, output);
    std::fs::remove_dir_all(&folder).ok();
    result
}

fn show(folder: &Path, output: &mut Output) -> Result<(), Failure> {
    let paint = Paint::new(output.colour());
    let say = |output: &mut Output, text: String| output.line(text).and_then(|()| output.flush());

    let mut agent = Peer::start(folder)?;
    say(
        output,
        paint.head("1. An editor starts the agent and talks to it."),
    )?;
    agent.request("initialize", json!({ "protocolVersion": 1 }))?;
    let place = json!({ "cwd": std::env::temp_dir(), "mcpServers": [] });
    let session = agent.request("session/new", place.clone())?;
    let Some(session) = session["sessionId"].as_str().map(str::to_owned) else {
        return Err(Failure::new("the agent gave no session id"));
    };
    let text = format!("process {}, session {session}", agent.id());
    say(output, indented(&text, output, str::to_owned) + "\n")?;

    let mut live = Transcript::default();
    for text in PROMPTS {
        let prompt = prompt(&session, text);
        live.user_prompt(None, &prompt.to_string());
        agent.request_folding("session/prompt", prompt, &mut live)?;
    }
    let last = prompt(&session, LAST);
    live.user_prompt(None, &last.to_string());
    agent.begin("session/prompt", last)?;
    agent.fold_updates(PIECES, &mut live)?;

    say(
        output,
        paint.head("2. It is killed during an answer, without warning."),
    )?;
    let killed = agent.id();
    agent.kill(&mut live)?;
    say(output, format!("   kill -9 {killed}\n"))?;

    say(output, paint.head("3. A new process loads the session."))?;
    let mut agent = Peer::start(folder)?;
    agent.request("initialize", json!({ "protocolVersion": 1 }))?;
    let mut load = place;
    load["sessionId"] = session.clone().into();
    let mut replayed = Transcript::default();
    let count = agent.request_folding("session/load", load, &mut replayed)?;
    say(
        output,
        format!("   process {}, {count} updates replayed\n", agent.id()),
    )?;

    let live = live.seen();
    let replayed = replayed.seen();
    columns::print(paint, &live, &replayed, output)?;
    let verdict = verdict::compare(&live, &replayed);
    let text = indented(&verdict.text(), output, |line| {
        paint.verdict(&verdict, line)
    });
    say(output, format!("\n{text}\n"))?;

    say(
        output,
        paint.head("4. The next prompt has the full context."),
    )?;
    let question = "What did I tell you?";
    let mut answer = Transcript::default();
    agent.request_folding("session/prompt", prompt(&session, question), &mut answer)?;
    say(output, format!("   you    {question}"))?;
    let answer = answer.text();
    let answer = answer.strip_prefix("agent: ").unwrap_or(&answer);
    let answer = printable(answer.trim());
    for (at, line) in lines(&answer, ANSWER, output).iter().enumerate() {
        let who = if at == 0 { "agent" } else { "" };
        say(output, format!("   {who:<6} {line}"))?;
    }
    agent.leave()?;
    verdict.into_result()
}

/// The lines of a text that is behind so many columns, broken if a person reads them.
fn lines(text: &str, behind: usize, output: &Output) -> Vec<String> {
    let look = output.look();
    let room = look.terminal.then(|| look.width.saturating_sub(behind));
    let lines = wrap(&[(PLAIN, text.to_owned())], room).into_iter();
    lines.map(|line| StyledLine::of(line).text(false)).collect()
}

/// A text below a heading. `paint` gives a line its colour.
fn indented(text: &str, output: &Output, paint: impl Fn(&str) -> String) -> String {
    let lines = lines(text, INDENT.len(), output);
    let lines: Vec<_> = lines
        .iter()
        .map(|line| format!("{INDENT}{}", paint(line)))
        .collect();
    lines.join("\n")
}

fn prompt(session: &str, text: &str) -> serde_json::Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

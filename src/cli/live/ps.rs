//! `rejoin ps`.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anstyle::Style;
use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::cli::global::Global;
use crate::cli::sessions::context::CommandContext;
use crate::cli::sessions::open_sessions::ListedOpenSession;
use crate::cli::store_changes::StoreChanges;
use crate::cli::store_path;
use crate::cli::term::{
    ACTIVE, FAINT, ID, Output, STRONG, WAITING, cut, one_line, printable_json, width,
};
use rejoin::engine::known::title as agent;
use rejoin::record::ActivityState;
use rejoin::store::Host;
use rejoin::sys::{Sys, Timestamp, lock};

use super::Live;

/// How many columns of the terminal are between those of the table.
const GAP: usize = 2;
/// The least width of titles.
const TITLE: usize = 20;
/// How wide the other columns may be.
const MOST: usize = 30;
/// The columns that are left out of narrow terminals, the least important first: since when, the
/// process, the agent, the clients.
const LEFT_OUT: [usize; 4] = [4, 5, 1, 3];
/// What a session without a title is called.
const UNTITLED: &str = "(untitled)";

/// How to list what is live.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Print a JSON object with the sessions, and the processes that keep some without a client.
    #[arg(long)]
    json: bool,
    /// Show it again whenever something has changed, until Ctrl-C; with `--json`, an object on a line
    /// of its own each time.
    #[arg(long)]
    watch: bool,
}

/// How often it is looked again, since not every change is reported.
const TICK: Duration = Duration::from_secs(2);
/// How long what is shown stays as it is at least.
const STEADY: Duration = Duration::from_millis(100);
/// How many rows a terminal has if it does not say.
const ROWS: usize = 24;

pub(in crate::cli) fn run(
    global: &Global,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    if args.json && !store_path::is_there(&store_path::root(global)?, &Sys::real())? {
        return output.json(&json!({ "sessions": [], "hosts": [] }));
    }
    let context = CommandContext::of_existing(global)?;
    if args.watch {
        return follow(&context, args, output);
    }
    let live = Live::read(&context)?;
    if args.json {
        return output.json(&all_as_json(&live));
    }
    show(&context, &live, output)?;
    if live.sessions.is_empty() {
        context.nothing("no session is open");
    }
    Ok(())
}

fn all_as_json(live: &Live) -> Value {
    json!({
        "sessions": live.sessions.iter().map(|session| as_json(live, session)).collect::<Vec<_>>(),
        "hosts": live.hosts.iter().map(|host| host_json(live, host)).collect::<Vec<_>>(),
    })
}

/// Shows what is live again whenever that has changed, until nobody reads it.
fn follow(context: &CommandContext<'_>, args: &Args, output: &mut Output) -> Result<(), Failure> {
    let changes = StoreChanges::of(&context.store);
    let mut shown: Option<String> = None;
    loop {
        let live = Live::read(context)?;
        let text = if args.json {
            printable_json(&all_as_json(&live).to_string()) + "\n"
        } else {
            table(context, &live, output)?
        };
        if shown.as_ref() != Some(&text) {
            if let Some(shown) = shown.filter(|_| output.is_terminal() && !args.json) {
                // What has left the screen stays as it is.
                let size = terminal_size::terminal_size();
                let rows = size.map_or(ROWS, |(_, height)| height.0.into());
                let up = shown.lines().count().min(rows.saturating_sub(1));
                output.raw(&format!("\x1b[{up}A\r\x1b[J"))?;
            }
            output.raw(&text)?;
            output.flush()?;
            shown = Some(text);
        }
        if output.closed() {
            return Ok(());
        }
        thread::sleep(STEADY);
        changes.wait(TICK);
    }
}

/// The live sessions and processes, as they are shown to people.
fn table(context: &CommandContext<'_>, live: &Live, output: &Output) -> Result<String, Failure> {
    let buffer = Buffer::default();
    let mut page = Output::on(Box::new(buffer.clone()), output.look().clone());
    show(context, live, &mut page)?;
    if live.sessions.is_empty() {
        page.line("no session is open")?;
    }
    page.finish()?;
    let bytes = lock(&buffer.0).clone();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Output that is kept.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shows the sessions, the processes that have none, and what gives no answer.
fn show(context: &CommandContext<'_>, live: &Live, output: &mut Output) -> Result<(), Failure> {
    print(context, live, output)?;
    for host in unused(live) {
        let but = match live.answers(Some(&host.socket)) {
            Some(false) => ", and gives no answer",
            _ => "",
        };
        let text = format!(
            "process {} keeps `rejoin {}` ready, without a session{but}",
            host.pid,
            one_line(&host.command.join(" "))
        );
        output.say(text)?;
    }
    if !live.silent.is_empty() {
        let text = "what gives no answer is ended by `rejoin stop --force`";
        output.say(context.global.with_store(text))?;
    }
    Ok(())
}

/// The hosts that have no session.
fn unused(live: &Live) -> impl Iterator<Item = &Host> {
    live.hosts.iter().filter(|host| {
        let mut sockets = live.sessions.iter().map(ListedOpenSession::socket);
        !sockets.any(|socket| socket == Some(&host.socket))
    })
}

/// Prints a table of sessions that fits into the terminal.
fn print(context: &CommandContext<'_>, live: &Live, output: &mut Output) -> Result<(), Failure> {
    if live.sessions.is_empty() {
        return Ok(());
    }
    let (look, now) = (output.look().clone(), context.sys.clock.now());
    let short = context.short(&[])?;
    let heads = [
        "ID",
        "Agent",
        "State",
        "Clients",
        "Runs since",
        "PID",
        "Title",
    ];
    let rows = live.sessions.iter().map(|session| {
        let summary = &session.listed.summary;
        let process = live.process_of(session);
        let since = process.and_then(|process| Timestamp::parse(&process.since));
        let title = summary.title.as_deref().unwrap_or(UNTITLED);
        [
            short.id(session.id()),
            one_line(agent(&summary.source)),
            state(live, session).0.to_owned(),
            one_line(&clients(live, session).join(", ")),
            since.map_or_else(|| "-".to_owned(), |since| look.when(since, now)),
            session.holder.pid.to_string(),
            one_line(title),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let wide = |n: usize| {
        let cells = rows.iter().map(|row| width(&row[n]));
        cells.chain([width(heads[n])]).max().unwrap_or_default()
    };
    let last = heads.len() - 1;
    let mut wides: Vec<usize> = (0..last).map(|n| wide(n).min(MOST)).collect();
    let used = |wides: &[usize]| -> usize {
        let shown = wides.iter().filter(|wide| **wide > 0);
        shown.map(|wide| wide + GAP).sum()
    };
    for n in LEFT_OUT {
        if used(&wides) + TITLE > look.width {
            wides[n] = 0;
        }
    }
    wides.push(look.width.saturating_sub(used(&wides)).max(TITLE));
    let line = |cells: &[String], styles: &[Style]| {
        let mut line = String::new();
        for (n, cell) in cells.iter().enumerate().filter(|(n, _)| wides[*n] > 0) {
            let shown = cut(cell, wides[n]);
            line.push_str(&look.paint(styles[n], &shown));
            if n < last {
                line.push_str(&" ".repeat(wides[n] - width(&shown) + GAP));
            }
        }
        line
    };
    output.line(line(&heads.map(str::to_owned), &[STRONG; 7]))?;
    for (row, session) in rows.iter().zip(&live.sessions) {
        let plain = Style::new();
        let styles = [
            ID,
            plain,
            state(live, session).1,
            plain,
            FAINT,
            FAINT,
            plain,
        ];
        output.line(line(row, &styles))?;
    }
    Ok(())
}

/// The state of a session, for people.
fn state(live: &Live, session: &ListedOpenSession) -> (&'static str, Style) {
    if live.answers(session.socket()) == Some(false) {
        return ("no answer", WAITING);
    }
    match session.state {
        ActivityState::Running => ("running", ACTIVE),
        ActivityState::RequiresAction => ("waiting", WAITING),
        ActivityState::Idle => ("idle", FAINT),
    }
}

/// The names of a session's clients.
fn clients(live: &Live, session: &ListedOpenSession) -> Vec<String> {
    let Some(process) = live.process_of(session) else {
        // Nothing but the name in the lock's hint is known then.
        return session.holder.client.iter().cloned().collect();
    };
    let has_it = process
        .clients
        .iter()
        .filter(|client| client.sessions.iter().any(|id| id == session.id().as_str()));
    has_it
        .map(|client| client.name.clone().unwrap_or_else(|| "a client".to_owned()))
        .collect()
}

fn as_json(live: &Live, session: &ListedOpenSession) -> Value {
    let (summary, process) = (&session.listed.summary, live.process_of(session));
    let answers = live.answers(session.socket());
    json!({
        "sessionId": session.id().as_str(),
        "title": summary.title,
        "cwd": summary.cwd,
        "agent": summary.source,
        // What it does now is not known if it gives no answer.
        "state": (answers != Some(false)).then(|| session.state.name()),
        "clients": clients(live, session),
        "since": process.map(|process| &process.since),
        "pid": session.holder.pid,
        "machine": session.holder.host,
        "kept": process.map(|process| process.host),
        "answers": answers,
    })
}

fn host_json(live: &Live, host: &Host) -> Value {
    let process = live.processes.get(&host.socket);
    json!({
        "pid": host.pid,
        "version": host.version,
        "command": host.command,
        "since": host.since,
        "clients": process.map(|process| &process.clients),
        "answers": live.answers(Some(&host.socket)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sessions::snapshots::check_commands;

    #[test]
    fn what_is_live_fits_into_a_terminal() {
        let ps = |context: CommandContext<'_>, output: &mut Output| {
            let mut live = Live::read(&context)?;
            for session in &mut live.sessions {
                session.holder.pid = 4711;
            }
            print(&context, &live, output)
        };
        check_commands("ps", &[("ps", &ps)]);
    }
}

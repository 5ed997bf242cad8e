//! `rejoin wait`: blocks until a turn ends or waits for an answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::exit::{Failure, NOT_WELL, TIME_OVER, WAITS};
use crate::cli::global::Global;
use crate::cli::sessions::context::CommandContext;
use crate::cli::sessions::id::find;
use crate::cli::sessions::named::SESSION;
use crate::cli::sessions::open_sessions::open_sessions;
use crate::cli::store_changes::StoreChanges;
use crate::cli::term::{Output, one_line};
use crate::cli::values::Timeout;
use rejoin::conversation::TurnEnding;
use rejoin::record::{ActivityState, Kind};
use rejoin::sys::SessionId;

/// How often it is looked whether a process has a session open, which no change of a log reports.
const TICK: Duration = Duration::from_secs(1);

/// What to wait for.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[arg(value_name = "ID", help = SESSION)]
    id: Option<String>,
    /// Wait no longer than this, such as `30s` or `10m`.
    #[arg(long, value_name = "TIME", default_value = "none")]
    timeout: Timeout,
    /// Print a JSON object: the session, its title, and what happened.
    #[arg(long)]
    json: bool,
}

/// The state in which a session was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeenSession {
    state: ActivityState,
    /// When its last turn ended.
    ended_at: Option<String>,
}

/// How the wait has ended.
enum WaitEnd {
    Ended,
    Waits,
    NotWell(String),
}

pub(in crate::cli) fn run(
    global: &Global,
    args: &Args,
    output: &mut Output,
) -> Result<(), Failure> {
    let context = CommandContext::of_existing(global)?;
    let one = args.id.as_ref().map(|text| find(&context, text));
    let one = one.transpose()?;
    let deadline = args.timeout.0.map(|limit| Instant::now() + limit);
    let changes = StoreChanges::of(&context.store);
    let mut before = seen(&context, one.as_ref())?;
    loop {
        let waits = before
            .iter()
            .find(|(_, seen)| seen.state == ActivityState::RequiresAction);
        if let Some((id, _)) = waits {
            return report(&context, args, id, &WaitEnd::Waits, output);
        }
        if before
            .values()
            .all(|seen| seen.state == ActivityState::Idle)
        {
            if let Some(id) = &one {
                return report(&context, args, id, &WaitEnd::Ended, output);
            }
            context.nothing("no session is answering a prompt");
            return Ok(());
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Failure::with_code(
                TIME_OVER,
                "the time is over: no turn has ended or waits",
            ));
        }
        changes.wait(left.map_or(TICK, |left| left.min(TICK)));
        let now = seen(&context, one.as_ref())?;
        for (id, was) in before
            .iter()
            .filter(|(_, was)| was.state != ActivityState::Idle)
        {
            let is = now.get(id);
            let has_ended =
                is.is_none_or(|is| is.ended_at != was.ended_at || is.state == ActivityState::Idle);
            if has_ended {
                let outcome = how_it_ended(&context, id)?;
                return report(&context, args, id, &outcome, output);
            }
        }
        before = now;
    }
}

/// The sessions that processes have open, or the one that was named.
fn seen(
    context: &CommandContext<'_>,
    one: Option<&SessionId>,
) -> Result<BTreeMap<SessionId, SeenSession>, Failure> {
    let mut all = BTreeMap::new();
    if let Some(id) = one {
        let Some(summary) = context.catalog.find(id) else {
            return Ok(all);
        };
        let state = if context.store.is_open(id) {
            summary.activity.state()
        } else {
            ActivityState::Idle
        };
        let ended_at = summary.activity.last_turn_ended_at;
        all.insert(id.clone(), SeenSession { state, ended_at });
        return Ok(all);
    }
    for open in open_sessions(context)? {
        let ended_at = open.listed.summary.activity.last_turn_ended_at;
        let state = open.state;
        all.insert(open.listed.id, SeenSession { state, ended_at });
    }
    Ok(all)
}

/// How the last turn of a session has ended.
fn how_it_ended(context: &CommandContext<'_>, id: &SessionId) -> Result<WaitEnd, Failure> {
    let mut log = context.store.read(id)?;
    let mut last = None;
    let scan = log.scan_with(&mut |entry| {
        if entry.record.kind == Kind::End {
            last = Some(TurnEnding::of(entry.record.payload));
        }
    })?;
    if scan.turn_open() && !context.store.is_open(id) {
        let why = "The turn was interrupted: its process ended.";
        return Ok(WaitEnd::NotWell(why.to_owned()));
    }
    Ok(match last {
        None | Some(TurnEnding::Completed) => WaitEnd::Ended,
        Some(other) => {
            let how = other.sentence();
            WaitEnd::NotWell(how.unwrap_or_else(|| "The turn was interrupted.".to_owned()))
        }
    })
}

/// Prints how the wait has ended, and ends with its exit code.
fn report(
    context: &CommandContext<'_>,
    args: &Args,
    id: &SessionId,
    outcome: &WaitEnd,
    output: &mut Output,
) -> Result<(), Failure> {
    let (name, code) = match outcome {
        WaitEnd::Ended => ("ended", None),
        WaitEnd::Waits => ("waiting", Some(WAITS)),
        WaitEnd::NotWell(_) => ("failed", Some(NOT_WELL)),
    };
    if args.json {
        let title = context.catalog.find(id).and_then(|summary| summary.title);
        let mut object = json!({ "sessionId": id.as_str(), "title": title, "outcome": name });
        if let WaitEnd::NotWell(why) = outcome {
            object["reason"] = why.as_str().into();
        }
        output.json(&object)?;
    } else {
        let text = match outcome {
            WaitEnd::Ended => "is idle".to_owned(),
            WaitEnd::Waits => "waits for an answer".to_owned(),
            WaitEnd::NotWell(why) => one_line(why),
        };
        let session = context.name(id, output)?;
        output.line(format!("{session}: {text}"))?;
    }
    output.flush()?;
    match code {
        Some(code) => Err(Failure::with_code(code, "")),
        None => Ok(()),
    }
}

//! How long `session/get` and a search take in a store of 10,000 sessions, against the first page
//! of its list: 20 sessions, as somebody who searches sees them.

use std::time::Duration;

use rejoin::store::Durability;

use crate::client::{Client, timed};
use crate::fill::Filled;
use crate::report::{Pairs, Report, ms};
use crate::{Result, Settings};

const SESSIONS: usize = 10_000;

/// What is asked within one measurement, so that it is not only the time of a pipe.
const TIMES: usize = 10;

pub(crate) fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let filled = Filled::new(Durability::Os)?;
    let last = filled.sessions(SESSIONS)?;
    let long = filled.many_turns(10_000)?;
    report.note(&format!("{SESSIONS} sessions of one turn, one of 10,000"));
    let mut client = Client::initialized(filled.path(), &[])?;
    client.call("session/list", "{}")?;
    let time = timed(|| {
        // Each reads some more of what was never read.
        loop {
            let id = client.ask("session/list", r#"{"limit":1,"search":"nowhere"}"#)?;
            if !client.output.answer(id)?.contains("searchIncomplete") {
                return Ok(());
            }
        }
    })?;
    let name = format!("reading the words of {SESSIONS}");
    report.figure(&name, &ms(time.as_secs_f64()), "once for each store");

    let list = r#"{"limit":20}"#.to_owned();
    let get = |params: &str| format!(r#"{{"sessionId":"{last}"{params}}}"#);
    let of_long = |params: &str| format!(r#"{{"sessionId":"{long}"{params}}}"#);
    for (name, method, params, goal) in [
        ("get, a session of one turn", "session/get", get(""), 2.0),
        (
            "get, 20 turns of 10,000",
            "session/get",
            of_long(r#","limit":20"#),
            3.0,
        ),
        (
            "get, 20 turns behind 19,900",
            "session/get",
            of_long(r#","limit":20,"offset":19900"#),
            100.0,
        ),
        (
            "search, met in two sessions",
            "session/list",
            r#"{"limit":20,"search":"4711"}"#.to_owned(),
            3.0,
        ),
        (
            "search, met nowhere",
            "session/list",
            r#"{"limit":20,"search":"nowhere"}"#.to_owned(),
            2.0,
        ),
        (
            "search, met in all sessions",
            "session/list",
            r#"{"limit":20,"search":"what about"}"#.to_owned(),
            100.0,
        ),
    ] {
        let mut ours = Client::initialized(filled.path(), &[])?;
        let mut theirs = Client::initialized(filled.path(), &[])?;
        let pairs = Pairs::measure(
            settings.rounds,
            || asked(&mut ours, method, &params),
            || asked(&mut theirs, "session/list", &list),
        )?;
        let each = |seconds: f64| ms(seconds / TIMES as f64);
        let detail = format!("{}; list {}", each(pairs.ours()), each(pairs.theirs()));
        report.at_most(name, pairs.ratio(), goal, "x", &detail);
    }
    Ok(())
}

fn asked(client: &mut Client, method: &str, params: &str) -> Result<Duration> {
    timed(|| {
        for _ in 0..TIMES {
            client.call(method, params)?;
        }
        Ok(())
    })
}

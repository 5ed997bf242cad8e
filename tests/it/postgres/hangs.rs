//! The database accepts connections and says nothing, as a machine that was stopped does: nobody who
//! wants to end something waits for it.
//!
//! Here a proxy in front of the database says nothing, and the address asks for an hour of patience:
//! what waits for that does not end. With `RUN_SLOW_TESTS`, the processes of the server, of a pooler and
//! of a synchronous standby are stopped instead, with the usual patience, and the times are printed.

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rejoin::store::Store;
use rejoin::sys::Sys;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::cluster::{self, Cluster};
use super::failover::await_with_each_commit;
use super::processes::{Process, load, prompt};
use super::proxy::Proxy;
use crate::support::command::command;
use crate::support::env;
use crate::support::rows::Rows;
use crate::support::wrapped::Wrapped;

/// How long what is promised may take at most.
const PROMISED: Duration = Duration::from_secs(10);

/// What a process is doing when the database stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A turn runs.
    Turn,
    /// A session is open, and its client prompts.
    Prompt,
    /// A client loads a session.
    Load,
    /// A client reads the list.
    List,
    /// A client comes: it is introduced and makes a session.
    Start,
}
use Phase::{List, Load, Prompt, Start, Turn};

/// What its client or the system then does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Cancel,
    Close,
    EndOfInput,
    Terminate,
}
use Act::{Cancel, Close, EndOfInput, Terminate};

const CASES: [(Phase, Act); 13] = [
    (Turn, Cancel),
    (Turn, Close),
    (Turn, EndOfInput),
    (Turn, Terminate),
    (Prompt, Cancel),
    (Prompt, Close),
    (Prompt, EndOfInput),
    (Prompt, Terminate),
    (Load, EndOfInput),
    (Load, Terminate),
    (List, EndOfInput),
    (Start, EndOfInput),
    (Start, Terminate),
];

#[test]
fn nobody_waits_for_a_database_that_says_nothing() {
    let Some(cluster) = cluster::shared() else {
        return;
    };
    let proxy = Proxy::start(cluster.port);
    let (direct, behind) = cluster.through(proxy.port);
    Store::migrate(&direct, &Sys::real()).unwrap();
    let patient = format!("{}&patience=1h", behind.display());
    let (known, times) = all(patient.as_ref(), |frozen| proxy.hold(frozen));
    assert_eq!(times.len(), CASES.len());
    goes_on(patient.as_ref(), &known);
}

/// A turn that is ended while the database says nothing.
#[derive(Clone, Copy, Debug)]
struct EndedTurn {
    /// The version of the client.
    version: u8,
    /// The prompt: of the fake agent, or of the built-in engine if it begins with a slash.
    prompt: &'static str,
    by: EndedBy,
}

/// How the client ends it.
#[derive(Clone, Copy, Debug)]
enum EndedBy {
    Cancel,
    CancelRequest,
    Close,
}

const fn ended_turn(version: u8, prompt: &'static str, by: EndedBy) -> EndedTurn {
    EndedTurn {
        version,
        prompt,
        by,
    }
}

/// Turns whose agent obeys, or says more and more, so that an append has failed already.
const OBEYED: [EndedTurn; 8] = [
    ended_turn(1, "say begun ; hang", EndedBy::Cancel),
    ended_turn(1, "say begun ; hang", EndedBy::Close),
    ended_turn(1, "ticks 1000000 1000", EndedBy::Cancel),
    ended_turn(1, "ticks 1000000 1000", EndedBy::CancelRequest),
    ended_turn(1, "ticks 1000000 1000", EndedBy::Close),
    ended_turn(2, "/flood 1000000 40", EndedBy::Cancel),
    ended_turn(2, "say begun ; hang", EndedBy::Cancel),
    ended_turn(2, "ticks 1000000 1000", EndedBy::Cancel),
];

/// Turns whose agent is deaf.
const DEAF: [EndedTurn; 4] = [
    ended_turn(1, "say begun ; hang-hard", EndedBy::Cancel),
    ended_turn(1, "say begun ; hang-hard", EndedBy::CancelRequest),
    ended_turn(1, "say begun ; hang-hard", EndedBy::Close),
    ended_turn(2, "say begun ; hang-hard", EndedBy::Cancel),
];

#[test]
fn a_cancelled_turn_is_cancelled_whatever_hangs() {
    let Some(cluster) = cluster::shared() else {
        return;
    };
    let proxy = Proxy::start(cluster.port);
    let (direct, behind) = cluster.through(proxy.port);
    Store::migrate(&direct, &Sys::real()).unwrap();
    let patient = format!("{}&patience=1h", behind.display());
    let deaf = if env::slow() { &DEAF[..] } else { &[] };
    let turns: Vec<_> = OBEYED.iter().chain(deaf).copied().collect();
    let (ready, frozen) = (Barrier::new(turns.len() + 1), Barrier::new(turns.len() + 1));
    thread::scope(|scope| {
        let turns = turns.iter().map(|turn| {
            let (place, ready, frozen) = (patient.as_ref(), &ready, &frozen);
            scope.spawn(move || (turn, is_cancelled(place, *turn, ready, frozen)))
        });
        let turns: Vec<_> = turns.collect();
        ready.wait();
        proxy.hold(true);
        frozen.wait();
        for ended in turns {
            let (turn, time) = ended.join().unwrap();
            if env::slow() {
                println!("{turn:?}: {:.1} s", time.as_secs_f64());
                assert!(time <= PROMISED, "{turn:?}: {time:?}");
            }
        }
        proxy.hold(false);
    });
}

/// Begins a turn, ends it when the database is frozen, and checks that it counts as cancelled. Returns
/// how long that takes.
fn is_cancelled(place: &Path, turn: EndedTurn, ready: &Barrier, frozen: &Barrier) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let agent = Wrapped::new(folder.path(), &[]);
    let flags = agent.arguments();
    let arguments: Vec<_> = if turn.prompt.starts_with('/') {
        vec!["serve"]
    } else {
        let wrap = ["wrap"].into_iter();
        wrap.chain(flags.iter().map(String::as_str)).collect()
    };
    let mut process = Process::with_client(command(place, &arguments), turn.version);
    let session = process.new_session();
    let request = process.begin("session/prompt", &prompt(&session, turn.prompt));
    if turn.version > 1 {
        process.wait(request).unwrap();
    }
    process.take_updates(1);
    ready.wait();
    frozen.wait();
    let begun = Instant::now();
    let named = json!({ "sessionId": session });
    match turn.by {
        EndedBy::Cancel => process.notify("session/cancel", &named),
        EndedBy::CancelRequest => {
            process.notify("$/cancel_request", &json!({ "requestId": request }));
        }
        EndedBy::Close => drop(process.begin("session/close", &named)),
    }
    if turn.version > 1 {
        let idle = process.take_idle();
        assert_eq!(idle["stopReason"], "cancelled", "{turn:?}: {idle}");
    } else {
        let answer = process.wait(request);
        let is_cancelled = match &answer {
            Ok(answer) => answer["stopReason"] == "cancelled",
            Err(error) => error["code"] == -32800 && matches!(turn.by, EndedBy::CancelRequest),
        };
        assert!(is_cancelled, "{turn:?}: {answer:?}");
    }
    if let EndedBy::Close = turn.by {
        let closed = process.wait(request + 1);
        assert!(closed.is_ok() || is_unreachable(&closed), "{closed:?}");
    }
    let time = begun.elapsed();
    process.signal(Signal::KILL);
    time
}

/// The agent has a second to end a turn that has failed, and not as long as for one that was cancelled.
#[test]
fn a_failed_turn_waits_for_no_deaf_agent() {
    let Some(cluster) = cluster::shared() else {
        return;
    };
    let proxy = Proxy::start(cluster.port);
    let (direct, behind) = cluster.through(proxy.port);
    Store::migrate(&direct, &Sys::real()).unwrap();
    let impatient = format!("{}&patience=1s", behind.display());
    let folder = tempfile::tempdir().unwrap();
    let agent = Wrapped::new(folder.path(), &[]);
    let flags = agent.arguments();
    let arguments: Vec<_> = ["wrap"]
        .into_iter()
        .chain(flags.iter().map(String::as_str))
        .collect();
    let mut process = Process::with_client(command(impatient.as_ref(), &arguments), 1);
    let session = process.new_session();
    let endless = prompt(&session, "ticks 1000000 1000 ; hang-hard");
    let request = process.begin("session/prompt", &endless);
    process.take_updates(1);
    proxy.hold(true);
    let begun = Instant::now();
    let failed = process.wait(request);
    assert!(is_unreachable(&failed), "{failed:?}");
    let time = begun.elapsed();
    assert!(time < Duration::from_secs(6), "{time:?}");
    process.signal(Signal::KILL);
}

#[test]
fn what_waits_for_a_stopped_server_pooler_or_standby_ends_in_time() {
    if !env::slow() {
        return;
    }
    let mut cluster = Cluster::start(false).expect("a server is needed for this");
    let (_, standby) = cluster.standby().expect("pg_basebackup is needed for this");
    let place = cluster.place("");
    Store::migrate(&place, &Sys::real()).unwrap();
    let pooled = cluster
        .pooled(&place)
        .expect("PgBouncer is needed for this");
    let pooled = pooled.to_str().unwrap().replace("patience=1m&", "");
    let rows = Rows::at(&place);
    await_with_each_commit(&rows);
    for (what, place) in [
        ("server", &*place),
        ("pooler", Path::new(&pooled)),
        ("standby", &*place),
    ] {
        let (known, times) = all(place, |frozen| cluster.freeze(what, frozen));
        // PgBouncer ends with "bad client state" if those who asked it to cancel statements have gone
        // meanwhile (its issue 801).
        if what != "pooler" {
            goes_on(place, &known);
        }
        for (case, time) in &times {
            println!("{what}, {case:?}: {:.1} s", time.as_secs_f64());
        }
        let longest = times.iter().map(|(_, time)| *time).max().unwrap();
        assert!(longest <= PROMISED, "{what}: {times:?}");
        // Nothing is left behind that still works.
        let busy = "SELECT count(*) FROM pg_stat_activity
                    WHERE application_name = 'rejoin' AND state <> 'idle'";
        crate::support::wrapped::until(|| match rows.ask(busy, &[])?[0].get::<_, i64>(0) {
            0 => Ok(()),
            left => Err(format!("{left} statements are left")),
        })
        .unwrap();
    }
    drop(standby);
}

/// All goes on where it was.
fn goes_on(place: &Path, known: &str) {
    let mut after = Process::start(place);
    after.ask("session/load", &load(known, false)).unwrap();
    assert_eq!(after.text, "known");
    let answer = after.ask("session/prompt", &prompt(known, "/echo on"));
    assert_eq!(answer.unwrap()["stopReason"], "end_turn");
    after.leave();
}

/// How long a case took.
type Took = ((Phase, Act), Duration);

/// Tries all cases while the database is frozen: how long each takes from what its client does to its end,
/// and a session that was known before.
fn all(place: &Path, mut freeze: impl FnMut(bool)) -> (String, Vec<Took>) {
    let mut made = Process::start(place);
    let known = made.new_session();
    let answer = made.ask("session/prompt", &prompt(&known, "/echo known"));
    answer.unwrap();
    made.leave();
    let (ready, frozen) = (Barrier::new(CASES.len() + 1), Barrier::new(CASES.len() + 1));
    let times = thread::scope(|scope| {
        let cases = CASES.map(|case| {
            let (ready, frozen, known) = (&ready, &frozen, &known);
            scope.spawn(move || (case, one(place, case, known, ready, frozen)))
        });
        ready.wait();
        freeze(true);
        frozen.wait();
        let times = cases.map(|case| case.join().unwrap());
        freeze(false);
        times
    });
    (known, times.to_vec())
}

fn one(
    place: &Path,
    (phase, act): (Phase, Act),
    known: &str,
    ready: &Barrier,
    frozen: &Barrier,
) -> Duration {
    if phase == Start {
        ready.wait();
        frozen.wait();
        let mut process = Process::silent(place);
        let begun = Instant::now();
        let hello = process.ask("initialize", &json!({ "protocolVersion": 1 }));
        hello.expect("initialize waits for no database");
        assert!(begun.elapsed() < PROMISED || !env::slow());
        let new = json!({ "cwd": "/work", "mcpServers": [] });
        process.begin("session/new", &new);
        return ended(process, act);
    }
    let mut process = Process::start(place);
    let session = process.new_session();
    let turn = (phase == Turn).then(|| {
        let turn = process.begin("session/prompt", &prompt(&session, "/flood 1000000 40"));
        process.take_updates(20);
        turn
    });
    ready.wait();
    frozen.wait();
    let request = match phase {
        Turn | Start => turn,
        Prompt => Some(process.begin("session/prompt", &prompt(&session, "hello"))),
        Load => Some(process.begin("session/load", &load(known, false))),
        List => Some(process.begin("session/list", &json!({}))),
    };
    let begun = Instant::now();
    match (act, request) {
        (EndOfInput | Terminate, _) => return ended(process, act),
        (Cancel, Some(request)) => {
            process.notify("session/cancel", &json!({ "sessionId": session }));
            let answer = process.wait(request);
            let is_cancelled = matches!(&answer, Ok(answer) if answer["stopReason"] == "cancelled");
            assert!(is_cancelled, "{phase:?}: {answer:?}");
        }
        (Close, _) => {
            // The store may be too late to release it, but nobody waits for that.
            let closed = process.ask("session/close", &json!({ "sessionId": session }));
            assert!(closed.is_ok() || is_unreachable(&closed), "{closed:?}");
        }
        (Cancel, None) => unreachable!("there is a request to cancel"),
    }
    let time = begun.elapsed();
    process.signal(Signal::KILL);
    time
}

fn is_unreachable(answer: &Result<Value, Value>) -> bool {
    matches!(answer, Err(error) if error["data"]["error"] == "store_unreachable")
}

/// Ends a process, and waits for that.
fn ended(mut process: Process, act: Act) -> Duration {
    let begun = Instant::now();
    if act == Terminate {
        process.signal(Signal::TERM);
    } else {
        process.end_input();
    }
    process.ends();
    begun.elapsed()
}

//! Many processes on a server with few connections, and commits that wait for a standby which is gone.
//!
//! With `RUN_SLOW_TESTS` there are 100 processes on a server with 100 connections, and a standby that is
//! stopped and goes on.

use std::thread;
use std::time::Duration;

use rejoin::store::{Durability, Store};
use rejoin::sys::{SessionId, Sys};

use super::cluster::Cluster;
use super::failover::await_with_each_commit;
use super::processes::{Process, prompt};
use crate::support::env;
use crate::support::rows::Rows;
use crate::support::wrapped::until;

/// The connections of rejoin: how many there are, and how many of them have a statement.
fn connections(rows: &Rows) -> (i64, i64) {
    let sql = "SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity
               WHERE application_name = 'rejoin'";
    let row = rows.ask(sql, &[]).unwrap().remove(0);
    (row.get(0), row.get(1))
}

#[test]
fn nobody_is_locked_out_and_nothing_is_left_behind() {
    let (processes, most) = if env::slow() { (100, 100) } else { (12, 14) };
    let Some(mut cluster) = Cluster::with_connections(most) else {
        return;
    };
    let place = cluster.place(if env::slow() { "" } else { "&patience=5s" });
    Store::migrate(&place, &Sys::real()).unwrap();
    let rows = Rows::at(&place);
    let standby = env::slow().then(|| cluster.standby().expect("a standby is needed for this"));
    if standby.is_some() {
        await_with_each_commit(&rows);
    }
    let mut all: Vec<_> = (0..processes)
        .map(|_| {
            let mut process = Process::start(&place);
            let session = process.new_session();
            let answer = process.ask("session/prompt", &prompt(&session, "/echo first"));
            assert_eq!(answer.unwrap()["stopReason"], "end_turn");
            (process, session)
        })
        .collect();
    let (open, _) = connections(&rows);
    println!("{processes} processes with a session have {open} connections");
    assert!(open < i64::from(most), "{open}");

    // All prompt while no standby answers.
    if standby.is_some() {
        cluster.freeze("standby", true);
    } else {
        set_standby(&rows, "nobody");
    }
    thread::scope(|scope| {
        for (process, session) in &mut all {
            scope.spawn(move || {
                let failed = process.ask("session/prompt", &prompt(session, "/echo lost"));
                let failed = failed.unwrap_err();
                assert_eq!(failed["data"]["error"], "store_unreachable", "{failed}");
            });
        }
        // Somebody else can still log in, as soon as not all processes wait at once.
        for _ in 0..5 {
            until(|| Rows::connect(&place).map(drop)).unwrap();
            thread::sleep(Duration::from_millis(200));
        }
    });
    let (open, _) = connections(&rows);
    println!("after the standby was gone they have {open}");
    until(|| match connections(&rows).1 {
        0 => Ok(()),
        busy => Err(format!("{busy} statements are left")),
    })
    .unwrap();

    if standby.is_some() {
        cluster.freeze("standby", false);
    } else {
        set_standby(&rows, "");
    }
    thread::scope(|scope| {
        for (process, session) in &mut all {
            // All at once may be more than the server accepts, so some have to try again.
            scope.spawn(move || {
                until(|| {
                    let answer = process.ask("session/prompt", &prompt(session, "/echo last"));
                    let answer = answer.map_err(|error| error.to_string())?;
                    assert_eq!(answer["stopReason"], "end_turn");
                    Ok(())
                })
                .unwrap();
            });
        }
    });
    let store = Store::at(&place, Sys::real(), Durability::Turn);
    for (process, session) in all {
        process.leave();
        let scan = store.read(&SessionId::parse(&session).unwrap());
        let scan = scan.unwrap().scan().unwrap();
        assert_eq!((scan.damage.len(), scan.turn_open()), (0, false));
    }
}

/// Has commits wait for a standby with this name.
fn set_standby(rows: &Rows, name: &str) {
    for sql in [
        &*format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"),
        "SELECT pg_reload_conf()",
    ] {
        rows.run(sql).unwrap();
    }
    until(|| {
        let shown = rows.ask("SHOW synchronous_standby_names", &[])?;
        let is_set = shown[0].get::<_, String>(0) == name;
        is_set.then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .unwrap();
}

#[test]
fn each_mode_waits_for_what_it_says() {
    let Some(cluster) = Cluster::with_connections(30) else {
        return;
    };
    let place = cluster.place("&patience=1s");
    Store::migrate(&place, &Sys::real()).unwrap();
    let rows = Rows::at(&place);
    // What the role has as its default does not count.
    rows.run("ALTER ROLE rejoin SET synchronous_commit = off")
        .unwrap();
    let begin = |mode: &str| {
        let command = crate::support::command::command(&place, &["serve", "--durability", mode]);
        let mut process = Process::of(command);
        let hello = serde_json::json!({ "protocolVersion": 1 });
        process.ask("initialize", &hello).unwrap();
        let session = process.new_session();
        (process, session)
    };
    let modes = ["os", "turn", "each"].map(begin);
    set_standby(&rows, "nobody");
    let answers = modes.map(|(mut process, session)| {
        let answer = process.ask("session/prompt", &prompt(&session, "/echo a"));
        let shown = process.text.clone();
        process.leave();
        (answer, shown)
    });
    let [os, turn, each] = answers;
    assert_eq!(os.0.unwrap()["stopReason"], "end_turn");
    assert_eq!(os.1, "a");
    for (answer, shown) in [turn, each] {
        assert_eq!(answer.unwrap_err()["data"]["error"], "store_unreachable");
        // The prompt was not safe, so nothing was done.
        assert_eq!(shown, "");
    }
    set_standby(&rows, "");
}

#[test]
fn connections_that_nobody_uses_are_closed() {
    let Some(cluster) = Cluster::with_connections(40) else {
        return;
    };
    let place = cluster.place("");
    Store::migrate(&place, &Sys::real()).unwrap();
    let rows = Rows::at(&place);
    let mut process = Process::start(&place);
    let session = process.new_session();
    process
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap();
    let left = |most: i64| {
        until(|| match connections(&rows).0 {
            open if open <= most => Ok(()),
            open => Err(format!("{open} connections are open")),
        })
        .unwrap();
    };
    left(1);
    // A server with few connections left gets all of them back.
    let others: Vec<_> = (0..25).map(|_| Rows::at(&place)).collect();
    left(0);
    process
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap();
    drop(others);
    process.leave();
}

//! The database goes away, and comes back.

use rejoin::store::{Durability, Store, place};
use rejoin::sys::Sys;

use super::cluster::{self, Cluster};
use super::processes::{Process, load, prompt};
use crate::support::rows::Rows;

#[test]
fn a_turn_waits_for_a_database_that_crashed() {
    let Some(mut cluster) = Cluster::start(false) else {
        return;
    };
    let place = cluster.place("&patience=1m");
    Store::migrate(&place, &Sys::real()).unwrap();
    let mut first = Process::start(&place);
    let session = first.new_session();
    let answering = first.begin("session/prompt", &prompt(&session, "/flood 3000 40"));
    for updates in [20, 600, 1200] {
        first.take_updates(updates);
        cluster.crash();
        cluster.start_again();
    }
    let answer = first.wait(answering).unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    let shown = first.text.clone();
    first.leave();
    let mut second = Process::start(&place);
    second.ask("session/load", &load(&session, false)).unwrap();
    assert_eq!(second.text, shown);
    second.leave();
    let store = Store::at(&place, Sys::real(), Durability::Turn);
    let id = rejoin::sys::SessionId::parse(&session).unwrap();
    assert_eq!(store.read(&id).unwrap().scan().unwrap().damage, []);
}

#[test]
fn a_turn_fails_if_the_database_stays_away() {
    let Some(mut cluster) = Cluster::start(false) else {
        return;
    };
    let place = cluster.place("&patience=100ms");
    Store::migrate(&place, &Sys::real()).unwrap();
    let mut first = Process::start(&place);
    let session = first.new_session();
    let answering = first.begin("session/prompt", &prompt(&session, "/flood 200000 40"));
    first.take_updates(50);
    cluster.crash();
    let failed = first.wait(answering).unwrap_err();
    assert_eq!(failed["data"]["error"], "store_unreachable", "{failed}");
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(message.contains("cannot reach the store"), "{failed}");
    first
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap_err();
    let shown = first.text.clone();
    cluster.start_again();
    let patient = cluster.place("&patience=1m");
    Store::is_at(&patient, &Sys::real()).unwrap();
    let answer = first
        .ask("session/prompt", &prompt(&session, "hello"))
        .unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    first.leave();
    let mut second = Process::start(&place);
    second.ask("session/load", &load(&session, false)).unwrap();
    // A crash of the database may take the last second of a turn that did not end.
    let same = shown
        .bytes()
        .zip(second.text.bytes())
        .take_while(|(a, b)| a == b);
    assert!(same.count() > 40, "{shown}");
    second.leave();
}

#[test]
fn connections_are_encrypted() {
    let Some(cluster) = cluster::shared() else {
        return;
    };
    let Some(place) = cluster.encrypted() else {
        eprintln!("skipped: there is no openssl here");
        return;
    };
    assert!(Store::migrate(&place, &Sys::real()).unwrap());
    let store = Store::open(&place, Sys::real(), Durability::Turn).unwrap();
    assert_eq!(store.ids().unwrap(), []);
    // A login is bound to the certificate; the password comes from a command.
    let rows = Rows::at(&cluster.place(""));
    rows.run("CREATE ROLE asked LOGIN SUPERUSER PASSWORD 'secret-text'")
        .unwrap();
    let asked = place.to_str().unwrap().replace("rejoin@", "asked@") + "&channel_binding=require";
    let without = Store::is_at(asked.as_ref(), &Sys::real()).unwrap_err();
    assert!(without.to_string().contains("set PGPASSWORD"), "{without}");
    for (command, works) in [
        ("echo secret-text", true),
        ("echo other-text", false),
        ("exit 3", false),
    ] {
        let place = place::with_password_command(asked.as_ref(), command);
        let tried = Store::is_at(&place, &Sys::real());
        assert_eq!(tried.is_ok(), works, "{command}: {tried:?}");
        let said = format!("{tried:?} {}", place::shown(&place));
        assert!(!said.contains("-text"), "{said}");
    }
    // Its time is part of that of the statement.
    let place = place::with_password_command(asked.as_ref(), "sleep 1234567");
    let patient = format!("{}&patience=1s", place.display());
    let failed = Store::is_at(patient.as_ref(), &Sys::real()).unwrap_err();
    assert!(failed.to_string().contains("takes too long"), "{failed}");
    let left = || match std::process::Command::new("pgrep")
        .args(["-f", "sleep 1234567"])
        .output()
    {
        Ok(found) if !found.stdout.is_empty() => Err("the command goes on".to_owned()),
        _ => Ok(()),
    };
    crate::support::wrapped::until(left).unwrap();
    // The certificate is not from an authority that the system trusts.
    let text = place.to_str().unwrap();
    let (text, _) = text.split_once("&sslrootcert=").unwrap();
    let strange = format!("{text}&patience=0s");
    let error = Store::is_at(strange.as_ref(), &Sys::real()).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

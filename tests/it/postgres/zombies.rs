//! Writers that take a session from each other without end, and none of which knows when it was
//! taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use rejoin::record::Kind;
use rejoin::store::{Durability, Store, StoreError, Sync};
use rejoin::sys::{SessionId, Sys};

use super::cluster;
use super::logs::header;
use crate::support::env;

/// How many writers there are.
const WRITERS: usize = 3;
/// How often each of them takes a session over.
const TAKEN: usize = 20;

#[test]
fn what_is_confirmed_is_there_and_no_claim_is_mixed_with_another() {
    let Some(place) = cluster::store() else {
        return;
    };
    let sessions = if env::slow() {
        10_000 / (WRITERS * TAKEN)
    } else {
        4
    };
    for _ in 0..sessions {
        fight(&place);
    }
}

/// Several writers work on one session.
fn fight(place: &Path) {
    let store = Store::at(place, Sys::real(), Durability::Os);
    let id = Sys::real().ids.session();
    drop(store.create(&id, &header(&id)).unwrap());
    let confirmed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let confirmed = &confirmed;
            let id = &id;
            scope.spawn(move || write(place, id, writer, confirmed));
        }
    });
    let mut reader = store.read(&id).unwrap();
    reader.next().unwrap().unwrap();
    let mut logged = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        let payload = rejoin::json::text_member(entry.record.payload, "claim").unwrap();
        let number = rejoin::json::text_member(entry.record.payload, "number").unwrap();
        logged.push((payload.to_owned(), number.parse::<usize>().unwrap()));
    }
    // Each record has the next number, or the reader would report it.
    assert_eq!(reader.damage(), []);
    let confirmed = confirmed.into_inner().unwrap();
    assert_eq!(
        logged.iter().cloned().collect::<BTreeSet<_>>().len(),
        logged.len()
    );
    let mut of_claims = BTreeMap::<_, Vec<usize>>::new();
    for (claim, number) in &confirmed {
        of_claims.entry(claim.clone()).or_default().push(*number);
    }
    let mut runs = Vec::new();
    for (claim, number) in logged {
        match runs.last_mut() {
            Some((last, numbers)) if *last == claim => Vec::push(numbers, number),
            _ => runs.push((claim, vec![number])),
        }
    }
    let found: BTreeMap<_, _> = runs.iter().cloned().collect();
    assert_eq!(
        found.len(),
        runs.len(),
        "records of two claims are mixed: {runs:?}"
    );
    assert_eq!(found, of_claims);
}

/// Takes the session over again and again, and writes until somebody else does.
fn write(place: &Path, id: &SessionId, writer: usize, confirmed: &Mutex<Vec<(String, usize)>>) {
    let store = Store::at(place, Sys::real(), Durability::Os);
    for taken in 0..TAKEN {
        let mut log = match store.take_over_with(id, &mut |_| {}) {
            Ok(opened) => opened.log,
            // It was taken over while it read the log.
            Err(StoreError::Fenced { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let claim = format!("\"{writer}-{taken}\"");
        for number in 0..20 {
            let payload = format!(
                r#"{{"sessionUpdate":"plan","entries":[],"claim":{claim},"number":{number}}}"#
            );
            match log.append(Kind::Update, None, &payload, Sync::Buffered) {
                Ok(_) => confirmed.lock().unwrap().push((claim.clone(), number)),
                Err(StoreError::Fenced { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

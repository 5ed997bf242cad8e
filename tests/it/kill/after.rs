//! What must hold after a kill: in the logs as they lie there, and of what the next process makes
//! of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rejoin::record::Kind;
use rejoin::store::{Durability, Store};
use rejoin::sys::Sys;

use crate::support::place;
use crate::support::sessions::logged::Logged;
use crate::support::sessions::random::Random;
use crate::support::sessions::seen::{Asked, Seen};
use crate::support::sessions::view;

use super::process::Process;

/// Runs `sessions verify`, which must find nothing.
pub(crate) fn verify(folder: &Path) {
    let verify = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .args(["--store".as_ref(), folder.as_os_str()])
        .args(["sessions", "verify"])
        .output()
        .unwrap();
    assert!(verify.status.success(), "{verify:?}");
}

/// Goes on with every session in a new process, and checks what it shows.
pub(crate) fn look(
    process: &mut Process,
    folder: &Path,
    sessions: &mut BTreeMap<String, Seen>,
    random: &mut Random,
) {
    let place = place::at(folder);
    process.client.seen = std::mem::take(sessions);
    let ids: Vec<String> = process.client.seen.keys().cloned().collect();
    for id in &ids {
        let before = place.read(id).unwrap();
        let known = process.client.seen[id].events.len();
        let first = if random.once_in(3) {
            Asked::Resume
        } else {
            Asked::Load
        };
        process.ask(id, first);
        let opened = place.read(id).unwrap();
        let logged = Logged::read(&store(folder), id).unwrap();
        check_recovery(&before, &opened, &logged, known);

        process
            .client
            .seen
            .get_mut(id)
            .unwrap()
            .adopt(logged.events(), logged.shown);
        for _ in 0..2 {
            process.ask(id, Asked::Load);
        }
        let unchanged = place.read(id).unwrap();
        let more = unchanged
            .strip_prefix(&opened[..])
            .map(String::from_utf8_lossy);
        assert_eq!(more.as_deref(), Some(""), "loading changes nothing");
        let seen = &process.client.seen[id];
        assert_eq!(seen.replays[0].lines, seen.replays[1].lines);
        let logged = Logged::read(&store(folder), id).unwrap();
        view::same(&seen.shown, &logged.shown).unwrap();
        assert_eq!(view::open_calls(&seen.shown), [""; 0]);

        let events = seen.events.len();
        let answer = process.ask(id, Asked::text("Do you remember?"));
        assert_eq!(answer["stopReason"], "end_turn");
        let seen = &process.client.seen[id];
        assert!(seen.events.len() > events + 2, "it says something");
        let logged = Logged::read(&store(folder), id).unwrap();
        assert_eq!(logged.holds(&seen.events, false).unwrap().behind, 0);
    }
}

/// Checks what opening a log has changed: what was whole is as it was, and nothing came but the
/// end of what was open.
fn check_recovery(before: &[u8], opened: &[u8], logged: &Logged, known: usize) {
    let whole = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    assert!(opened.starts_with(&before[..whole]), "whole lines stay");
    assert!(logged.scan.damage.is_empty() && logged.scan.torn.is_none());
    assert!(!logged.scan.turn_open());
    let added = &logged.records[known..];
    let Some((end, updates)) = added.split_last() else {
        return;
    };
    assert_eq!(end.0, Kind::End);
    assert!(end.1.contains("interrupted"), "{end:?}");
    for (kind, update) in updates {
        assert_eq!(*kind, Kind::Update);
        assert!(update.contains(r#""status":"failed""#), "{update}");
    }
}

pub(crate) fn store(folder: &Path) -> Store {
    Store::open(folder, Sys::real(), Durability::Os).unwrap()
}

//! The disk stops for good while a session is forked: a fork that was reported has all that was
//! said before, and one that was not is whole or not there.

use rejoin::record::Kind;
use rejoin::store::{Durability, Store};
use rejoin::sys::sim::{Fault, SimDisk, Tail};

use crate::support::sessions::memory::{Memory, Setup};
use crate::support::sessions::seen::Asked;

use super::root;

/// What the client received: the source if it has all of its turns, and the fork.
type ClientView = (Option<String>, Option<String>);

/// A session with two turns is made and forked, and the fork is prompted.
fn tell(memory: &mut Memory) -> Option<ClientView> {
    let client = &mut memory.client;
    let Ok(source) = client.new_session()? else {
        return Some((None, None));
    };
    client.seen.get_mut(&source)?.mends = true;
    for text in ["/echo one", "/tool edit"] {
        if client.ask(&source, Asked::text(text))?.is_err() {
            return Some((None, None));
        }
    }
    let Ok(fork) = client.fork(&source)? else {
        return Some((Some(source), None));
    };
    client.seen.get_mut(&fork)?.mends = true;
    client.ask(&fork, Asked::text("/echo three"))?.ok();
    Some((Some(source), Some(fork)))
}

/// Every record behind the header, without those of later turns.
fn history(store: &Store, id: &str) -> Option<Vec<(Kind, String)>> {
    let id = rejoin::sys::SessionId::parse(id)?;
    let mut reader = store.read(&id).ok()?;
    let (mut records, mut ends) = (Vec::new(), 0);
    while let Some(entry) = reader.next().expect("it can be read") {
        if entry.record.kind != Kind::Session && ends < 2 {
            records.push((entry.record.kind, entry.record.payload.to_owned()));
        }
        ends += usize::from(entry.record.kind == Kind::End);
    }
    Some(records)
}

#[test]
fn reported_forks_survive_power_cut() {
    let setup = Setup {
        durability: Durability::Turn,
        ..Setup::default()
    };
    let disk = SimDisk::new();
    let mut memory = Memory::start(root(), &disk.sys(), &setup);
    let client_view = tell(&mut memory).expect("nothing fails");
    assert!(client_view.1.is_some());
    memory.end();
    let (mut forked, mut alone) = (0, 0);
    for at in 0..disk.operations() {
        let disk = SimDisk::new();
        for n in at..at + 2000 {
            disk.fail_at(n, Fault::Error(std::io::ErrorKind::Other));
        }
        let mut memory = Memory::start(root(), &disk.sys(), &setup);
        let client_view = tell(&mut memory).unwrap_or_default();
        drop(memory.abandon());
        forked += usize::from(client_view.1.is_some());
        alone += usize::from(client_view.0.is_some() && client_view.1.is_none());
        for tail in [None, Some(Tail::Lost), Some(Tail::Torn), Some(Tail::Zeroed)] {
            let what = format!("operation {at}, {tail:?}, client_view {client_view:?}");
            let left = tail.map_or_else(|| disk.crash(), |tail| disk.power_cut(tail));
            check(&left, &setup, &client_view, &what);
        }
    }
    assert!(forked > 3 && alone > 3, "{forked} forks, {alone} failures");
}

fn check(disk: &SimDisk, setup: &Setup, client_view: &ClientView, what: &str) {
    let (Some(source), fork) = client_view else {
        return;
    };
    let store = Store::open(root(), disk.sys(), Durability::Os).unwrap();
    let expected = history(&store, source).expect(what);
    for id in store.ids().unwrap() {
        // A fork that was not reported may be there, whole.
        assert_eq!(
            history(&store, id.as_str()),
            Some(expected.clone()),
            "{what}"
        );
    }
    if let Some(fork) = fork {
        assert!(history(&store, fork).is_some(), "{what}: it is missing");
        let mut memory = Memory::start(root(), &disk.sys(), setup);
        memory.client.ask(fork, Asked::Load).unwrap().expect(what);
        let answer = memory.client.ask(fork, Asked::text("/echo more")).unwrap();
        assert_eq!(answer.expect(what)["stopReason"], "end_turn");
        memory.end();
    }
}

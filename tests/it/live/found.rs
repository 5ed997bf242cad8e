//! An owner that a client does not find when it loads the session.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::peer::Peer;
use crate::support::wrapped::until;

#[test]
#[expect(clippy::disallowed_methods, reason = "sockets are removed by hand")]
fn an_owner_that_is_not_found_at_first_serves_the_client_later_without_another_load() {
    for version in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path();
        let mut owner = Peer::start(store, 1);
        let session = owner.new_session();
        owner.turn(&session, "/echo first");
        let mut other = Peer::start(store, version);
        let is_loaded = AtomicBool::new(false);
        let remove_sockets = || {
            let run = fs::read_dir(store.join("run")).unwrap();
            for file in run.map(|file| file.unwrap().path()) {
                if file.extension().is_some_and(|kind| kind == "sock") {
                    fs::remove_file(file).ok();
                }
            }
        };
        remove_sockets();
        let loaded = thread::scope(|scope| {
            // The owner makes its socket anew.
            scope.spawn(|| {
                while !is_loaded.load(Ordering::Relaxed) {
                    remove_sockets();
                    thread::yield_now();
                }
            });
            let loaded = other.load(&session);
            is_loaded.store(true, Ordering::Relaxed);
            loaded.unwrap()
        });
        let holder = &loaded["_meta"]["rejoin"]["holder"];
        assert_eq!(holder["pid"], owner.id(), "{loaded}");
        until(|| {
            let answer = other.turn(&session, "/echo second");
            let refused = answer.get("error").is_some();
            (!refused).then_some(()).ok_or(answer.to_string())
        })
        .unwrap();
        other.wait(|peer| peer.shown.says("second"));
        owner.leave();
        other.leave();
    }
}

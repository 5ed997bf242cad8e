//! The connection breaks after each byte of what is sent and of what is answered. Whatever the
//! outcome was, it is the one that was reported, and nothing is there twice.

use rejoin::record::Kind;
use rejoin::store::{Durability, Store, Sync};
use rejoin::sys::{SessionId, Sys};

use super::cluster;
use super::logs::{header, new_id, open, texts, update};
use super::proxy::{Proxy, To};
use crate::support::env;

/// A store behind a connection that breaks, and without.
struct Stage {
    proxy: Proxy,
    behind: Store,
    direct: Store,
}

impl Stage {
    fn new() -> Option<Self> {
        let cluster = cluster::shared()?;
        let proxy = Proxy::start(cluster.port);
        let (direct, behind) = cluster.through(proxy.port);
        Store::migrate(&direct, &Sys::real()).unwrap();
        Some(Self {
            proxy,
            behind: Store::at(&behind, Sys::real(), Durability::Turn),
            direct: open(&direct),
        })
    }

    /// Does something while the connection breaks, at each place once.
    fn cut_everywhere(&self, mut act: impl FnMut(&Store, &str)) {
        let step = if env::slow() { 1 } else { 101 };
        for to in [To::Server, To::Client] {
            let mut bytes = 0;
            loop {
                self.proxy.cut_after(to, bytes);
                act(&self.behind, &format!("{to:?} {bytes}"));
                if !self.proxy.has_cut() {
                    break;
                }
                bytes += step;
            }
            assert!(bytes > 0);
        }
    }

    /// The same to a new session each time.
    fn cut_with_sessions(&self, mut act: impl FnMut(&Store, &SessionId, &str)) {
        self.cut_everywhere(|store, at| act(store, &self.new_session(), at));
    }

    fn new_session(&self) -> SessionId {
        let id = new_id();
        drop(self.direct.create(&id, &header(&id)).unwrap());
        id
    }
}

#[test]
fn an_append_is_there_once() {
    let Some(stage) = Stage::new() else {
        return;
    };
    let id = stage.new_session();
    let mut log = stage.behind.open_log(&id).unwrap().log;
    let mut expected = Vec::new();
    stage.cut_everywhere(|_, at| {
        let text = update(at);
        log.append(Kind::Update, None, &text, Sync::Turn).unwrap();
        expected.push(text);
    });
    assert_eq!(texts(&stage.direct, &id)[1..], expected);
}

#[test]
fn a_session_is_claimed_once() {
    let Some(stage) = Stage::new() else {
        return;
    };
    stage.cut_with_sessions(|store, id, at| {
        let mut log = store.open_log(id).unwrap().log;
        let text = update(at);
        log.append(Kind::Update, None, &text, Sync::Turn).unwrap();
        assert_eq!(texts(&stage.direct, id)[1..], [text]);
    });
}

#[test]
fn a_session_is_created_once() {
    let Some(stage) = Stage::new() else {
        return;
    };
    let mut made = Vec::new();
    stage.cut_everywhere(|store, _| {
        let id = new_id();
        drop(store.create(&id, &header(&id)).unwrap());
        made.push(id);
    });
    made.sort_unstable();
    assert_eq!(stage.direct.ids().unwrap(), made);
    for id in &made {
        assert_eq!(texts(&stage.direct, id).len(), 1);
    }
}

#[test]
fn the_trash_has_it_once() {
    let Some(stage) = Stage::new() else {
        return;
    };
    let mut ids = Vec::new();
    stage.cut_with_sessions(|store, id, at| {
        assert!(store.trash(id).unwrap(), "{at}");
        ids.push(id.clone());
    });
    let trashed = stage.direct.trashed().unwrap();
    ids.sort_unstable();
    let found: Vec<_> = trashed.into_iter().map(|trashed| trashed.id).collect();
    assert_eq!(found, ids);
}

#[test]
fn a_session_is_restored_once() {
    let Some(stage) = Stage::new() else {
        return;
    };
    stage.cut_with_sessions(|store, id, at| {
        assert!(stage.direct.trash(id).unwrap());
        let restored = store.restore(id);
        restored.unwrap_or_else(|error| panic!("{at}: {error}"));
        assert_eq!(stage.direct.trashed().unwrap(), []);
        assert_eq!(texts(&stage.direct, id).len(), 2, "{at}");
    });
}

#[test]
fn a_session_is_erased_once() {
    let Some(stage) = Stage::new() else {
        return;
    };
    stage.cut_with_sessions(|store, id, at| {
        assert!(store.erase(id).unwrap(), "{at}");
        assert!(!stage.direct.has_traces_of(id).unwrap());
    });
}

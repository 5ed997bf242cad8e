//! Tests of the catalog against logs on a simulated disk that counts how often they are read.

mod damage;
mod erasing;
mod foreign;
mod freshness;
mod hits;
mod inners;
mod logs_disk;
mod model;
mod paging;
mod processes;
mod searching;
mod summaries;
mod tool_words;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tempfile::TempDir;
use uuid::Uuid;

use crate::record::AgentSessionId;
use crate::store::{Durability, Store};
use crate::sys::{Clock, SessionId, Sys, Timestamp};

use super::logs::Logs;
use super::{Catalog, Filter, Listed, Summary};
use logs_disk::{Entry, LogsDisk, log_of};

/// The least length of a piece of text, so that short logs have several.
const PIECE: usize = 30;

/// An id of the only agent in these tests.
fn inner(id: &str) -> AgentSessionId {
    AgentSessionId {
        agent: "agent".to_owned(),
        id: id.to_owned(),
    }
}

#[derive(Debug, Default)]
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A store, and the machine that it is on.
struct World {
    dir: TempDir,
    clock: Arc<TestClock>,
    logs: Arc<LogsDisk>,
    store: Store,
    sys: Sys,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let logs = Arc::new(LogsDisk::new(&root));
        let sys = Sys {
            clock: clock.clone(),
            disk: logs.clone(),
            ..Sys::real()
        };
        Self {
            dir,
            clock,
            logs,
            store: Store::at(&root, sys.clone(), Durability::Os),
            sys,
        }
    }

    /// A world with this many sessions of one prompt each, created long ago.
    fn with_sessions(count: usize) -> (Self, Vec<SessionId>) {
        let world = Self::new();
        let ids = (0..count).map(|n| {
            let id = world.copy_in("/work");
            let at = i64::try_from(n).unwrap();
            world.append(&id, Entry::Prompt { at });
            id
        });
        let ids = ids.collect();
        world.pass(3_600_000);
        (world, ids)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("store").join("index.sqlite")
    }

    /// The catalog as one process opens it.
    fn catalog(&self) -> Catalog {
        let mut logs = Logs::new(self.store.clone());
        logs.piece = PIECE;
        Catalog::of(logs, None)
    }

    fn pass(&self, millis: i64) {
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }

    /// Adds a log to the folder without a report to the catalog.
    fn copy_in(&self, cwd: &str) -> SessionId {
        let id = SessionId::from_uuid(Uuid::now_v7());
        self.restore(&id, vec![Entry::Header { cwd: cwd.into() }]);
        id
    }

    fn restore(&self, id: &SessionId, log: Vec<Entry>) {
        self.logs.write(id, log, self.now());
    }

    /// Adds a log with this entry to the trash.
    fn copy_to_trash(&self, id: &SessionId, entry: Entry) {
        self.restore(id, vec![Entry::Header { cwd: "/w".into() }, entry]);
        let log = log_of(&self.logs.sessions, id);
        let trashed = self.logs.trash.join(format!("{id}.1.jsonl"));
        self.logs
            .sim
            .put(&trashed, &self.logs.sim.bytes(&log).unwrap());
        self.take_out(id);
    }

    /// Removes a log from the folder without a report to the catalog.
    fn take_out(&self, id: &SessionId) {
        self.logs.remove(id, self.now());
    }

    fn append(&self, id: &SessionId, entry: Entry) {
        self.logs.append(id, entry);
    }

    /// Creates a session as this program does.
    fn create(&self, catalog: &Catalog, cwd: &str) -> SessionId {
        let before = catalog.before_change();
        let id = self.copy_in(cwd);
        catalog.created(&id, &self.summary(&id), before);
        id
    }

    /// Records a prompt as this program does.
    fn prompt(&self, catalog: &Catalog, id: &SessionId) {
        catalog.opened(id);
        self.append(id, Entry::Prompt { at: self.now() });
        catalog.put(id, &self.summary(id));
    }

    fn delete(&self, catalog: &Catalog, id: &SessionId) {
        let before = catalog.before_change();
        self.take_out(id);
        catalog.removed(id, before);
    }

    /// The summary of a log, read from its beginning.
    fn summary(&self, id: &SessionId) -> Summary {
        // Past the disk that counts.
        let store = Store::at(self.store.root(), self.logs.sim.sys(), Durability::Os);
        Logs::new(store).summarize(id, None).unwrap()
    }

    /// The expected list.
    fn expected(&self, cwd: Option<&str>) -> Vec<Listed> {
        let ids: Vec<_> = {
            let folder = self.logs.folder();
            let readable = folder
                .logs
                .keys()
                .filter(|id| !folder.damaged.contains(*id));
            readable.cloned().collect()
        };
        let sessions = ids.into_iter().map(|id| Listed {
            summary: self.summary(&id),
            id,
            snippet: None,
            tool_branch: None,
            is_pinned: false,
        });
        let mut sessions: Vec<_> = sessions
            .filter(|listed| listed.summary.prompts > 0)
            .filter(|listed| cwd.is_none_or(|cwd| listed.summary.cwd == cwd))
            .collect();
        sessions.sort_by_key(|listed| (listed.summary.updated_at.clone(), listed.id.clone()));
        sessions.reverse();
        sessions
    }

    /// Runs something while the next log is read.
    fn meanwhile(self: &Arc<Self>, event: impl FnOnce(&Self) + Send + 'static) {
        let world = Arc::downgrade(self);
        let event = move || event(&world.upgrade().unwrap());
        *self.logs.meanwhile.lock().unwrap() = Some(Box::new(event));
    }

    #[track_caller]
    fn check(&self, catalog: &Catalog) {
        let (listed, expected) = (all(catalog, None, 7), self.expected(None));
        let odd = |some: &[Listed], others: &[Listed]| {
            let odd = some.iter().filter(|listed| !others.contains(listed));
            odd.cloned().collect::<Vec<_>>()
        };
        let (more, missing) = (odd(&listed, &expected), odd(&expected, &listed));
        assert_eq!((more, missing), (Vec::new(), Vec::new()));
        assert_eq!(listed, expected);
    }
}

/// All pages, concatenated.
#[track_caller]
fn all(catalog: &Catalog, cwd: Option<&str>, limit: usize) -> Vec<Listed> {
    let filter = Filter {
        cwd: cwd.map(str::to_owned),
        ..Filter::default()
    };
    let mut sessions = Vec::new();
    let mut cursors = BTreeSet::new();
    let mut cursor = None;
    loop {
        let page = catalog.list(&filter, cursor.as_deref(), limit).unwrap();
        assert!(page.sessions.len() <= limit);
        sessions.extend(page.sessions);
        cursor = page.next_cursor;
        match &cursor {
            Some(cursor) => assert!(cursors.insert(cursor.clone()), "a cursor repeats"),
            None => return sessions,
        }
    }
}

/// The first page, with room for everything.
#[track_caller]
fn first(catalog: &Catalog) -> Vec<Listed> {
    catalog
        .list(&Filter::default(), None, 500)
        .unwrap()
        .sessions
}

fn overwrite(path: &Path, content: &[u8]) {
    std::fs::File::create(path)
        .unwrap()
        .write_all(content)
        .unwrap();
}

/// Deletes a file of the catalog. Windows keeps one that is open, and the tests hold there, too.
fn remove(world: &World, path: &Path) {
    let removed = world.sys.disk.remove_file(path);
    #[cfg(windows)]
    removed.ok();
    #[cfg(not(windows))]
    removed.unwrap();
}

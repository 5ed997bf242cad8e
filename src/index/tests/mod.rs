//! Tests of the catalog against logs in memory that count how often they are accessed.

mod damage;
mod erasing;
mod foreign;
mod freshness;
mod inners;
mod model;
mod paging;
mod processes;
mod searching;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tempfile::TempDir;
use uuid::Uuid;

use crate::record::AgentSessionId;
use crate::sys::{Clock, SessionId, Sys, Timestamp};

use super::{Catalog, Filter, Listed, Logs, Piece, Summary, Texts};

/// The bytes of one entry of a log.
const ENTRY: u64 = 10;

/// What a log in memory is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Header { cwd: String },
    Prompt { at: i64 },
    Update,
    Said { words: &'static str },
    Reopen { cwd: String },
    AgentSessionId { id: &'static str },
}

#[derive(Default)]
struct Folder {
    logs: BTreeMap<SessionId, Vec<Entry>>,
    damaged: BTreeSet<SessionId>,
    trash: Vec<(SessionId, Vec<AgentSessionId>)>,
    changed: i64,
    missing: bool,
    forbidden: bool,
}

/// The logs of a store, in memory.
#[derive(Default)]
struct MemoryLogs {
    folder: Mutex<Folder>,
    /// Entries that were read.
    read: AtomicUsize,
    /// How often the names were read.
    listed: AtomicUsize,
    /// How often a length was read.
    looked: AtomicUsize,
    /// What another process does while a log is read, once.
    meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

impl Logs for MemoryLogs {
    fn ids(&self) -> io::Result<Vec<SessionId>> {
        self.listed.fetch_add(1, Ordering::Relaxed);
        let folder = self.accessible()?;
        Ok(folder.logs.keys().rev().cloned().collect())
    }

    fn folder_changed(&self) -> io::Result<Timestamp> {
        Ok(Timestamp::from_millis(self.accessible()?.changed))
    }

    fn len(&self, id: &SessionId) -> io::Result<Option<u64>> {
        self.looked.fetch_add(1, Ordering::Relaxed);
        let folder = self.accessible()?;
        Ok(folder.logs.get(id).map(|log| log.len() as u64 * ENTRY))
    }

    fn summarize(&self, id: &SessionId, from: Option<&Summary>) -> Result<Summary, String> {
        let folder = self.accessible().map_err(|error| error.to_string())?;
        if folder.damaged.contains(id) {
            self.read.fetch_add(1, Ordering::Relaxed);
            return Err("it is damaged".into());
        }
        let log = folder.logs.get(id).ok_or("there is no such log")?;
        let mut summary = from.cloned().unwrap_or_default();
        let new = &log[usize::try_from(summary.scanned / ENTRY).unwrap()..];
        self.read.fetch_add(new.len(), Ordering::Relaxed);
        for entry in new {
            fold(&mut summary, entry);
        }
        drop(folder);
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        Ok(summary)
    }

    fn trashed(&self) -> io::Result<Vec<(SessionId, Vec<AgentSessionId>)>> {
        Ok(self.accessible()?.trash.clone())
    }

    /// Everything before the last prompt is complete; no more than two entries are read at once.
    fn texts(&self, id: &SessionId, from: u64, _: usize) -> Result<Texts, String> {
        let folder = self.accessible().map_err(|error| error.to_string())?;
        if folder.damaged.contains(id) {
            return Err("it is damaged".into());
        }
        let log = folder.logs.get(id).ok_or("there is no such log")?;
        let from = usize::try_from(from / ENTRY).unwrap();
        let last = log.iter().rposition(|e| matches!(e, Entry::Prompt { .. }));
        let end = last.unwrap_or(0).max(from).min(from + 2);
        let text = |entries: &[Entry]| {
            let said = entries.iter().filter_map(|entry| match entry {
                Entry::Said { words } => Some(*words),
                _ => None,
            });
            said.collect::<Vec<_>>().join(" ")
        };
        let whole = end >= last.unwrap_or(0);
        Ok(Texts {
            done: vec![Piece {
                text: text(&log[from..end]),
                end: end as u64 * ENTRY,
            }],
            open: whole.then(|| text(&log[end..])),
            from: end as u64 * ENTRY,
        })
    }
}

fn fold(summary: &mut Summary, entry: &Entry) {
    summary.scanned += ENTRY;
    match entry {
        Entry::Header { cwd } | Entry::Reopen { cwd } => {
            summary.cwd.clone_from(cwd);
            summary.additional_directories = vec![format!("{cwd}/\"more\""), String::new()];
        }
        Entry::Prompt { at } => {
            let at = Timestamp::from_millis(*at).to_string();
            summary.title.get_or_insert_with(|| format!("at {at}"));
            summary.updated_at = summary.updated_at.take().max(Some(at));
            summary.prompts += 1;
        }
        Entry::AgentSessionId { id } => summary.inners.push(inner(id)),
        Entry::Update | Entry::Said { .. } => {}
    }
}

/// An id of the only agent in these tests.
fn inner(id: &str) -> AgentSessionId {
    AgentSessionId {
        agent: "agent".to_owned(),
        id: id.to_owned(),
    }
}

impl MemoryLogs {
    fn folder(&self) -> MutexGuard<'_, Folder> {
        self.folder.lock().unwrap()
    }

    fn accessible(&self) -> io::Result<MutexGuard<'_, Folder>> {
        let folder = self.folder();
        if folder.missing {
            return Err(io::ErrorKind::NotFound.into());
        }
        if folder.forbidden {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(folder)
    }

    /// The expected summary of a log.
    fn summary(&self, id: &SessionId) -> Summary {
        let mut summary = Summary::default();
        for entry in &self.folder().logs[id] {
            fold(&mut summary, entry);
        }
        summary
    }

    /// How many entries, names and lengths were read since the last call.
    fn touched(&self) -> (usize, usize, usize) {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        (take(&self.read), take(&self.listed), take(&self.looked))
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
    logs: Arc<MemoryLogs>,
    sys: Sys,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        let sys = Sys {
            clock: clock.clone(),
            ..Sys::real()
        };
        Self {
            dir: tempfile::tempdir().unwrap(),
            clock,
            logs: Arc::default(),
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
        Catalog::open(Some(&self.path()), self.logs.clone(), &self.sys)
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
        let mut folder = self.logs.folder();
        folder.logs.insert(id.clone(), log);
        folder.changed = self.now();
    }

    /// Removes a log from the folder without a report to the catalog.
    fn take_out(&self, id: &SessionId) {
        let mut folder = self.logs.folder();
        folder.logs.remove(id);
        folder.changed = self.now();
    }

    fn append(&self, id: &SessionId, entry: Entry) {
        let mut folder = self.logs.folder();
        folder.logs.get_mut(id).unwrap().push(entry);
    }

    /// Creates a session as this program does.
    fn create(&self, catalog: &Catalog, cwd: &str) -> SessionId {
        let before = catalog.before_change();
        let id = self.copy_in(cwd);
        catalog.created(&id, &self.logs.summary(&id), before);
        id
    }

    /// Records a prompt as this program does.
    fn prompt(&self, catalog: &Catalog, id: &SessionId) {
        catalog.opened(id);
        self.append(id, Entry::Prompt { at: self.now() });
        catalog.put(id, &self.logs.summary(id));
    }

    fn delete(&self, catalog: &Catalog, id: &SessionId) {
        let before = catalog.before_change();
        self.take_out(id);
        catalog.removed(id, before);
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
            summary: self.logs.summary(&id),
            id,
            snippet: None,
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

fn remove(world: &World, path: &Path) {
    world.sys.disk.remove_file(path).unwrap();
}

//! Tests of the catalog against logs on a simulated disk that counts how often they are read.

mod damage;
mod erasing;
mod foreign;
mod freshness;
mod inners;
mod model;
mod paging;
mod processes;
mod searching;
mod summaries;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use crate::record::{AgentSessionId, FORMAT, Kind, line};
use crate::store::{Durability, Store};
use crate::sys::disk::FileInfo;
use crate::sys::sim::SimDisk;
use crate::sys::{Clock, Disk, DiskFile, SessionId, Sys, Timestamp};

use super::logs::Logs;
use super::{Catalog, Filter, Listed, Summary};

/// The least length of a piece of text, so that short logs have several.
const PIECE: usize = 30;

/// What a log is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Header {
        cwd: String,
    },
    /// Ends the turn before it.
    Prompt {
        at: i64,
    },
    Update,
    Said {
        words: &'static str,
    },
    Reopen {
        cwd: String,
    },
    AgentSessionId {
        id: &'static str,
    },
}

#[derive(Debug, Default)]
struct Folder {
    logs: BTreeMap<SessionId, Vec<Entry>>,
    damaged: BTreeSet<SessionId>,
    changed: i64,
    forbidden: bool,
}

/// A disk with the logs in memory, and everything else on the real one.
struct LogsDisk {
    sim: SimDisk,
    real: Arc<dyn Disk>,
    sessions: PathBuf,
    trash: PathBuf,
    folder: Mutex<Folder>,
    /// Whether the rest is simulated too, so that SQLite cannot use it.
    simulated: AtomicBool,
    /// How many logs were opened.
    read: AtomicUsize,
    /// How often the names were read.
    listed: AtomicUsize,
    /// How often a length was read.
    looked: AtomicUsize,
    /// What another process does while a log is read, once.
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

/// An open log. Something may happen between the reading of it and what the reader does then.
struct LogFile {
    file: Box<dyn DiskFile>,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

/// The path of the session's log.
fn log_of(sessions: &Path, id: &SessionId) -> PathBuf {
    sessions.join(format!("{id}.jsonl"))
}

impl LogsDisk {
    fn new(store: &Path) -> Self {
        let (sim, real) = (SimDisk::new(), Sys::real().disk);
        let (sessions, trash) = (store.join("sessions"), store.join("trash"));
        sim.create_dir_all(&sessions).unwrap();
        sim.create_dir_all(&trash).unwrap();
        Self {
            sim,
            real,
            sessions,
            trash,
            folder: Mutex::default(),
            simulated: AtomicBool::new(false),
            read: AtomicUsize::new(0),
            listed: AtomicUsize::new(0),
            looked: AtomicUsize::new(0),
            meanwhile: Arc::default(),
        }
    }

    fn folder(&self) -> MutexGuard<'_, Folder> {
        self.folder.lock().unwrap()
    }

    /// The disk that a path is on.
    fn disk(&self, path: &Path) -> &dyn Disk {
        if path.starts_with(&self.sessions) || path.starts_with(&self.trash) {
            &self.sim
        } else {
            &*self.real
        }
    }

    /// How many logs, names and lengths were read since the last call.
    fn touched(&self) -> (usize, usize, usize) {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        (take(&self.read), take(&self.listed), take(&self.looked))
    }

    /// Makes a log of these entries, instead of any other.
    fn write(&self, id: &SessionId, log: Vec<Entry>, now: i64) {
        let mut folder = self.folder();
        let mut bytes = Vec::new();
        for at in 0..log.len() {
            encode(&mut bytes, id, &log[..=at]);
        }
        self.sim.put(&log_of(&self.sessions, id), &bytes);
        folder.logs.insert(id.clone(), log);
        folder.changed = now;
    }

    fn append(&self, id: &SessionId, entry: Entry) {
        let mut folder = self.folder();
        let log = folder.logs.get_mut(id).unwrap();
        log.push(entry);
        let mut bytes = Vec::new();
        encode(&mut bytes, id, log);
        let path = log_of(&self.sessions, id);
        let mut file = self.sim.open_append(&path).unwrap();
        file.append(&bytes).unwrap();
    }

    fn remove(&self, id: &SessionId, now: i64) {
        let mut folder = self.folder();
        folder.logs.remove(id);
        folder.changed = now;
        self.sim.remove_file(&log_of(&self.sessions, id)).unwrap();
    }
}

/// Encodes the last entry of a log.
fn encode(out: &mut Vec<u8>, id: &SessionId, log: &[Entry]) {
    let (entry, before) = log.split_last().unwrap();
    let last = before.iter().rev().find_map(|entry| match entry {
        Entry::Prompt { at } => Some(*at),
        _ => None,
    });
    // Two for each entry, since a prompt may need a second record.
    let seq = 2 * u64::try_from(before.len()).unwrap();
    let at = Timestamp::from_millis(last.unwrap_or_default());
    let mut record = |seq, at, kind, id, payload: Value| {
        line::encode(out, seq, at, kind, id, &payload.to_string());
    };
    let workspace = |cwd: &str| {
        let more = [format!("{cwd}/\"more\""), String::new()];
        json!({"cwd": cwd, "additionalDirectories": more})
    };
    let said = |words: &str| {
        // Each is a message of its own.
        let content = json!({"type": "text", "text": words});
        json!({"sessionUpdate": "agent_message_chunk", "messageId": seq, "content": content})
    };
    match entry {
        Entry::Header { cwd } => {
            let mut header = workspace(cwd);
            header["format"] = json!(FORMAT);
            header["sessionId"] = json!(id.as_str());
            header["engine"] = json!({"name": "weaver"});
            header["protocolVersion"] = json!(1);
            record(seq, at, Kind::Session, None, header);
        }
        Entry::Prompt { at: prompted } => {
            if last.is_some() {
                record(seq - 1, at, Kind::End, None, json!({}));
            }
            let text = format!("asked {prompted}");
            let prompt = json!({"prompt": [{"type": "text", "text": text}]});
            let at = Timestamp::from_millis(*prompted);
            record(seq, at, Kind::Prompt, Some("msg"), prompt);
        }
        Entry::Update => record(
            seq,
            at,
            Kind::Update,
            None,
            json!({"sessionUpdate": "plan"}),
        ),
        Entry::Said { words } => record(seq, at, Kind::Update, None, said(words)),
        Entry::Reopen { cwd } => record(seq, at, Kind::Reopen, None, workspace(cwd)),
        Entry::AgentSessionId { id } => {
            let payload = json!({"id": id, "agent": {"name": "agent"}});
            record(seq, at, Kind::AgentSessionId, None, payload);
        }
    }
}

impl Disk for LogsDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk(path).create_dir_all(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk(path).create_new(path)
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk(path).open_append(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        if path.parent() != Some(&self.sessions) {
            return self.disk(path).open_read(path);
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        let name = path.file_stem().unwrap().to_str();
        let id = SessionId::parse(name.unwrap()).unwrap();
        if self.folder().damaged.contains(&id) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let file = self.sim.open_read(path)?;
        let meanwhile = self.meanwhile.clone();
        Ok(Box::new(LogFile { file, meanwhile }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk(from).rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk(path).remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk(path).sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        if path == self.sessions {
            self.listed.fetch_add(1, Ordering::Relaxed);
            if self.folder().forbidden {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        self.disk(path).list(path)
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        let mut info = self.disk(path).info(path);
        if path == self.sessions {
            let folder = self.folder();
            if folder.forbidden {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            if let Ok(info) = &mut info {
                info.modified = Timestamp::from_millis(folder.changed);
            }
        } else if path.starts_with(&self.sessions) {
            self.looked.fetch_add(1, Ordering::Relaxed);
        }
        info
    }

    fn native_path(&self, path: &Path) -> Option<PathBuf> {
        let simulated = self.simulated.load(Ordering::Relaxed);
        self.disk(path).native_path(path).filter(|_| !simulated)
    }
}

impl DiskFile for LogFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.file.is_at(path)
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    }
}

impl std::fmt::Debug for LogsDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogsDisk").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

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
        let mut catalog = Catalog::open(self.store.clone());
        catalog.logs.piece = PIECE;
        catalog
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

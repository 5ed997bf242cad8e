//! Logs on a simulated disk that counts how often they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::record::{FORMAT, Kind, line};
use crate::sys::disk::FileInfo;
use crate::sys::sim::SimDisk;
use crate::sys::{Disk, DiskFile, SessionId, Sys, Timestamp};

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
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
    /// A member of a tool call with the id `c`.
    Tool {
        member: &'static str,
        text: &'static str,
    },
    Reopen {
        cwd: String,
    },
    AgentSessionId {
        id: &'static str,
    },
}

#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) logs: BTreeMap<SessionId, Vec<Entry>>,
    pub(super) damaged: BTreeSet<SessionId>,
    changed: i64,
    pub(super) forbidden: bool,
}

/// A disk with the logs in memory, and everything else on the real one.
pub(super) struct LogsDisk {
    pub(super) sim: SimDisk,
    real: Arc<dyn Disk>,
    pub(super) sessions: PathBuf,
    pub(super) trash: PathBuf,
    folder: Mutex<Folder>,
    /// Whether the rest is simulated too, so that SQLite cannot use it.
    pub(super) simulated: AtomicBool,
    /// How many logs were opened.
    read: AtomicUsize,
    /// How often the names were read.
    listed: AtomicUsize,
    /// How often a length was read.
    looked: AtomicUsize,
    /// The action of another process while a log is read, once.
    pub(super) meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

pub(super) type Meanwhile = Box<dyn FnOnce() + Send>;

/// An open log. Something may happen between the reading of it and what the reader does then.
struct LogFile {
    file: Box<dyn DiskFile>,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

/// The path of the session's log.
pub(super) fn log_of(sessions: &Path, id: &SessionId) -> PathBuf {
    sessions.join(format!("{id}.jsonl"))
}

impl LogsDisk {
    pub(super) fn new(store: &Path) -> Self {
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

    pub(super) fn folder(&self) -> MutexGuard<'_, Folder> {
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
    pub(super) fn touched(&self) -> (usize, usize, usize) {
        let take = |count: &AtomicUsize| count.swap(0, Ordering::Relaxed);
        (take(&self.read), take(&self.listed), take(&self.looked))
    }

    /// Makes a log of these entries, instead of any other.
    pub(super) fn write(&self, id: &SessionId, log: Vec<Entry>, now: i64) {
        let mut folder = self.folder();
        let mut bytes = Vec::new();
        for at in 0..log.len() {
            encode(&mut bytes, id, &log[..=at]);
        }
        self.sim.put(&log_of(&self.sessions, id), &bytes);
        folder.logs.insert(id.clone(), log);
        folder.changed = now;
    }

    pub(super) fn append(&self, id: &SessionId, entry: Entry) {
        let mut folder = self.folder();
        let log = folder.logs.get_mut(id).unwrap();
        log.push(entry);
        let mut bytes = Vec::new();
        encode(&mut bytes, id, log);
        let path = log_of(&self.sessions, id);
        let mut file = self.sim.open_append(&path).unwrap();
        file.append(&bytes).unwrap();
    }

    pub(super) fn remove(&self, id: &SessionId, now: i64) {
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
            // Equal titles would be numbered.
            let text = format!("asked {prompted} in {}", id.as_str());
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
        Entry::Tool { member, text } => {
            let text = match *member {
                "title" => json!(text),
                _ => json!([text]),
            };
            let payload =
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", *member: text});
            record(seq, at, Kind::Update, None, payload);
        }
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

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.overwrite(bytes)
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

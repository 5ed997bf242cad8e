//! The folder of sessions: names, rights, the trash.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rejoin::record::{AgentSessionId, Kind};
use rejoin::store::{Durability, Store, StoreError};
use rejoin::sys::disk::FileInfo;
use rejoin::sys::sim::{Fault, SimDisk, Tail};
use rejoin::sys::{Disk, DiskFile, SessionId, Sys, Timestamp};

use super::support::*;

fn other() -> SessionId {
    SessionId::parse("sess_01902f3c-7b1e-7c3a-8f00-000000000002").unwrap()
}

#[test]
fn stray_files_are_ignored() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let name = |name: &str| root().join("sessions").join(name);
    for stray in [
        ".DS_Store".to_owned(),
        "notes.txt".to_owned(),
        format!("{}.jsonl~", id()),
        format!("{}.JSONL", id()),
        format!("{}.jsonl", id().as_str().to_uppercase()),
        "sess_67e55044-10b1-426f-9247-bb680e5fe0c8.jsonl".to_owned(),
    ] {
        disk.put(&name(&stray), b"x");
    }
    assert_eq!(store.ids().unwrap(), []);
    drop(store.create(&id(), &header()).unwrap());
    disk.put(&name(&format!("{}.jsonl", other())), b"");
    assert_eq!(store.ids().unwrap(), [id(), other()]);
    assert!(store.exists(&id()).unwrap());
    assert_eq!(store.len_of(&other()).unwrap(), Some(0));
}

#[test]
fn sessions_of_another_program_are_no_store() {
    let sessions = root().join("sessions");
    let log = format!("{}.jsonl", id());
    for (names, is_store) in [
        (&[][..], true),
        (&[".DS_Store"], true),
        (&["2025/rollout.jsonl"], false),
        (&["notes.txt", ".DS_Store"], false),
        // From a backup of the logs alone, for instance.
        (&["notes.txt", &*log], true),
    ] {
        let disk = SimDisk::new();
        for name in names {
            disk.put(&sessions.join(name), b"x");
        }
        let there = Store::is_at(root(), &disk.sys());
        let opened = Store::open(root(), disk.sys(), Durability::Turn);
        if is_store {
            assert_eq!(there.unwrap(), !names.is_empty(), "{names:?}");
            opened.unwrap();
        } else {
            for error in [opened.unwrap_err(), there.unwrap_err()] {
                assert!(matches!(error, StoreError::OfAnother { .. }), "{error}");
            }
            assert!(disk.sys().disk.info(&root().join("trash")).is_err());
        }
    }
}

#[test]
fn absent_session_is_not_found_and_not_made() {
    let disk = SimDisk::new();
    let store = store(&disk);
    for error in [
        store.read(&id()).map(drop).unwrap_err(),
        store.open_log(&id()).map(drop).unwrap_err(),
        store.restore(&id()).unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    }
    assert!(!store.exists(&id()).unwrap());
    assert_eq!(store.len_of(&id()).unwrap(), None);
    assert!(!store.trash(&id()).unwrap());
    assert_eq!(disk.files(), [""; 0].map(PathBuf::from));
}

/// Asks a store about the session; the error that came.
type Ask = fn(&Store) -> Option<StoreError>;

#[test]
fn unreadable_session_is_not_absent() {
    // A folder that cannot be looked into, and one that is gone.
    for fault in [Some(ErrorKind::PermissionDenied), None] {
        let disk = SimDisk::new();
        let store = store(&disk);
        let asks: [Ask; 6] = [
            |store| store.read(&id()).err(),
            |store| store.open_log(&id()).err(),
            |store| store.trash(&id()).err(),
            |store| store.exists(&id()).err(),
            |store| store.ids().err(),
            |store| store.erase(&id()).err(),
        ];
        for ask in asks {
            let nowhere = Store::at(Path::new("/nowhere"), disk.sys(), Durability::Turn);
            let store = match fault {
                Some(kind) => {
                    disk.fail_at(disk.operations(), Fault::Error(kind));
                    &store
                }
                None => &nowhere,
            };
            let error = ask(store).expect("its existence is not known");
            assert!(error.disk_error().is_some(), "{error}");
        }
    }
}

#[test]
fn concurrent_creation_replaces_nothing() {
    let disk = SimDisk::new();
    let one = store(&disk);
    let two = one.clone();
    let mut quick = None;
    // While the first writes its records, the second makes the whole session.
    let records = std::iter::once_with(|| {
        quick = Some(two.create(&id(), &header()));
        (Kind::Prompt, Some("m"), PROMPT)
    });
    let slow = one.create_with(&id(), &header(), records);
    let error = slow.map(drop).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    let mut log = quick.unwrap().unwrap();
    add(&mut log, Kind::Prompt, PROMPT).unwrap();
    assert_eq!(kinds(&read(&one)), [Kind::Session, Kind::Prompt]);
    assert_eq!(trash(&disk), []);
}

#[test]
fn session_creation_is_atomic() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let inner = r#"{"id":"a","agent":{"name":"n"}}"#;
    let good = [
        (Kind::AgentSessionId, None, inner),
        (Kind::AgentSessionId, None, inner),
        (Kind::Prompt, Some("m"), PROMPT),
    ];
    let bad = [
        (Kind::AgentSessionId, None, inner),
        (Kind::Update, None, "{\n}"),
    ];
    let error = store.create_with(&id(), &header(), bad.into_iter());
    let error = error.map(drop).unwrap_err();
    assert!(matches!(error, StoreError::LineBreak { .. }), "{error}");
    assert_eq!(disk.files(), [""; 0].map(PathBuf::from));

    let log = store
        .create_with(&id(), &header(), good.into_iter())
        .unwrap();
    let end = log.end();
    drop(log);
    let known = [AgentSessionId {
        agent: "n".to_owned(),
        id: "a".to_owned(),
    }];
    let scan = store.read(&id()).unwrap().scan().unwrap();
    assert_eq!((scan.records, scan.prompts.len(), scan.end), (4, 1, end));
    assert_eq!(scan.agent_ids, known);
    assert!(store.trash(&id()).unwrap());
    let trashed = store.trashed().unwrap();
    let scan = store.read_trashed(&trashed[0]).unwrap().scan().unwrap();
    assert_eq!((scan.end, &scan.agent_ids[..]), (end, &known[..]));
}

#[test]
fn repeated_creation_is_refused() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let log = store.create(&id(), &header()).unwrap();
    let exists = store.create(&id(), &header()).unwrap_err();
    assert!(matches!(exists, StoreError::Exists { .. }));
    drop(log);
    let exists = store.create(&id(), &header()).unwrap_err();
    assert!(matches!(exists, StoreError::Exists { .. }));
    let wrong = store.create(&other(), &header()).unwrap_err();
    assert!(matches!(wrong, StoreError::WrongId { .. }));
    assert_eq!(read(&store).len(), 1);
}

#[test]
fn restore_takes_the_last_deleted() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let mut first = store.create(&id(), &header()).unwrap();
    assert!(matches!(
        store.trash(&id()).unwrap_err(),
        StoreError::InUse { .. }
    ));
    add(&mut first, Kind::Prompt, PROMPT).unwrap();
    first.trash().unwrap();
    assert!(!store.exists(&id()).unwrap());
    assert!(!store.trash(&id()).unwrap(), "it is gone already");
    drop(store.create(&id(), &header()).unwrap());
    assert!(store.trash(&id()).unwrap());
    let trashed = store.trashed().unwrap();
    assert_eq!(trashed.len(), 2);
    assert!(trashed[0].at < trashed[1].at);

    store.restore(&id()).unwrap();
    // It says of itself that it was brought back, which is a use of it.
    let records = read(&store);
    assert_eq!((records.len(), records[1].kind), (2, Kind::Info));
    assert_eq!(records[1].payload, r#"{"restored":true}"#);
    let scan = store.read(&id()).unwrap().scan().unwrap();
    assert!(scan.restored_at.is_some_and(|at| at > scan.created_at));
    assert!(matches!(
        store.restore(&id()).unwrap_err(),
        StoreError::Exists { .. }
    ));
    assert!(store.trash(&id()).unwrap());
    assert_eq!(store.trashed().unwrap().len(), 2);
    let held = root().join("open");
    assert!(!disk.files().iter().any(|path| path.starts_with(&held)));
}

#[test]
fn replaced_file_of_an_open_log_is_untouched() {
    let disk = SimDisk::new();
    let store = store(&disk);
    let log = store.create(&id(), &header()).unwrap();
    disk.put(&log_path(), b"by hand");
    log.trash().unwrap();
    assert_eq!(disk.bytes(&log_path()), Some(b"by hand".to_vec()));
}

/// A disk on which another process deletes the session just after it was opened for writing.
#[derive(Debug)]
struct Racing(SimDisk);

impl Disk for Racing {
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.0.open_append(path)?;
        let trashed = root().join(format!("trash/{}.1.jsonl", id()));
        self.0.rename(path, &trashed)?;
        Ok(file)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.create_new(path)
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.open_read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.0.list(path)
    }
    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.0.info(path)
    }
    fn native_path(&self, path: &Path) -> Option<PathBuf> {
        self.0.native_path(path)
    }
}

#[test]
fn delete_during_open() {
    let disk = SimDisk::new();
    let content = sample().concat();
    disk.put(&log_path(), &content);
    let sys = Sys {
        disk: Arc::new(Racing(disk.clone())),
        ..disk.sys()
    };
    let store = Store::open(root(), sys, Durability::Turn).unwrap();
    let error = store.open_log(&id()).unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
    assert_eq!(trash(&disk).pop().unwrap().1, content);
    assert_eq!(disk.files().len(), 1, "nor is a hint left");
}

/// Another process may create the same session in the same millisecond, such as one of an agent.
#[test]
fn a_log_is_written_beside_that_of_another_process() {
    let disk = SimDisk::new();
    let now = disk.sys().clock.now().as_millis();
    let other = root().join(format!("trash/{}.torn-0-{now}", id()));
    disk.put(&other, b"x");
    let store = store(&disk);
    let log = store.create(&id(), &header()).unwrap();
    assert_eq!(disk.bytes(&other).unwrap(), b"x");
    store.create(&id(), &header()).unwrap_err();
    assert_eq!(
        store.holder(&id()).unwrap().pid,
        std::process::id(),
        "the hint of the log that is there"
    );
    drop(log);
    assert_eq!(store.holder(&id()), None);
}

#[test]
fn the_trash_is_emptied_by_age() {
    let disk = SimDisk::new();
    let name = |ms: i64| root().join(format!("trash/{}.{ms}.jsonl", id()));
    let torn = |ms: i64| root().join(format!("trash/{}.torn-7-{ms}", id()));
    let stray = root().join("trash/keep.txt");
    let now = disk.sys().clock.now().as_millis();
    for path in [name(now - 5000), torn(now - 5000), name(now), torn(now)] {
        disk.put(&path, b"x");
    }
    disk.put(&stray, b"x");
    let store = store(&disk);
    let before = |ms| store.empty_trash(Timestamp::from_millis(ms)).unwrap();
    assert_eq!(before(now - 10_000), 0);
    assert_eq!(before(i64::MIN), 0);
    assert_eq!(before(now - 1000), 2);
    assert_eq!(disk.files(), [stray, name(now), torn(now)]);
}

#[test]
fn delete_and_restore_lose_no_session() {
    let disk = SimDisk::new();
    let fresh = store(&disk);
    drop(fresh.create(&id(), &header()).unwrap());
    let start = disk.power_cut(Tail::Lost);
    let run = |disk: &SimDisk| {
        let store = store(disk);
        let deleted = store.trash(&id()).map(drop);
        let restored = store.restore(&id());
        (deleted, restored)
    };
    let counting = start.crash();
    let (deleted, restored) = run(&counting);
    deleted.unwrap();
    restored.unwrap();
    let first = {
        let disk = start.crash();
        store(&disk);
        disk.operations()
    };
    for n in first..counting.operations() {
        for fault in [
            Fault::Error(ErrorKind::Other),
            Fault::Sync(ErrorKind::Other),
        ] {
            let disk = start.crash();
            disk.fail_at(n, fault);
            run(&disk).1.ok();
            for after in [disk.crash(), disk.power_cut(Tail::Lost)] {
                let store = store(&after);
                if !store.exists(&id()).unwrap() {
                    store.restore(&id()).unwrap();
                }
                let records = read(&store);
                assert_eq!(records[0].kind, Kind::Session, "operation {n}, {fault:?}");
                assert!(records[1..].iter().all(|record| record.kind == Kind::Info));
            }
        }
    }
}

#[test]
fn a_new_store_survives_a_power_cut_with_its_first_session() {
    for durability in [Durability::Turn, Durability::Each] {
        let disk = SimDisk::new();
        let store = store_with(&disk, durability);
        drop(store.create(&id(), &header()).unwrap());
        let after = disk.power_cut(Tail::Lost);
        assert_eq!(read(&self::store(&after)).len(), 1);
    }
}

#[test]
fn a_store_that_cannot_be_made_is_an_error() {
    let disk = SimDisk::new();
    disk.put(Path::new("/data"), b"a file");
    let error = Store::open(root(), disk.sys(), Durability::Turn).unwrap_err();
    let message = error.to_string();
    let folder = root().join("sessions");
    let expected = format!("cannot create the folder {}: ", folder.display());
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn works_on_the_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("deep/rejoin");
    let store = Store::open(&root, Sys::real(), Durability::Turn).unwrap();
    let second = Store::open(&root, Sys::real(), Durability::Turn).unwrap();
    let mut log = store.create(&id(), &header()).unwrap();
    add(&mut log, Kind::Prompt, PROMPT).unwrap();
    let error = second.open_log(&id()).unwrap_err();
    let pid = std::process::id();
    assert!(error.to_string().contains(&pid.to_string()), "{error}");
    assert_eq!(read(&second).len(), 2);
    drop(log);
    let opened = second.open_log(&id()).unwrap();
    assert_eq!(opened.scan.records, 3);
    opened.log.trash().unwrap();
    assert!(!store.exists(&id()).unwrap());
    store.restore(&id()).unwrap();
    assert_eq!(read(&store)[2].payload, INTERRUPTED);
}

#[test]
fn a_copy_of_a_store_may_lack_the_trash() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Sys::real(), Durability::Turn).unwrap();
    drop(store.create(&id(), &header()).unwrap());
    std::fs::remove_dir(dir.path().join("trash")).unwrap();
    assert!(store.trashed().unwrap().is_empty());
    assert_eq!(store.ids().unwrap(), [id()]);
}

#[cfg(unix)]
#[test]
fn file_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("rejoin");
    let store = Store::open(&root, Sys::real(), Durability::Turn).unwrap();
    let log = root.join(format!("sessions/{}.jsonl", id()));
    drop(store.create(&id(), &header()).unwrap());
    let sys = Sys::real();
    sys.disk.open_append(&log).unwrap().append(b"torn").unwrap();
    let opened = store.open_log(&id()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in ["", "sessions", "trash", "open"] {
        assert_eq!(mode(&root.join(folder)), 0o700, "{folder}");
    }
    for file in [
        log,
        root.join(format!("open/{}", id())),
        opened.kept_aside.unwrap(),
    ] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

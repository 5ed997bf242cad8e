//! A log that cannot be written: on a full disk, closed, or a pipe that nobody reads.
#![expect(
    clippy::disallowed_methods,
    reason = "fills disks and files that are no store's"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::stage::{KINDS, Kind, Stage, answer, ends};
use crate::keep::{Served, texts};
use crate::support::command::runs;
use crate::support::env;

/// A device that is always full, where the system has one.
const FULL: &str = "/dev/full";

/// The size beyond which a process can write no file, as an option of `ulimit`: half a megabyte or one,
/// depending on the shell.
const SMALL_FILES: &str = "ulimit -f 1024";

/// A size beyond that, in bytes, at which a host does not begin its log anew.
const LONG: u64 = 1024 * 1024;

/// The places of a log that cannot be written.
fn unwritable() -> Vec<(&'static str, Stdio, Option<io::PipeReader>)> {
    let (closed, no_reader) = io::pipe().expect("pipes can be made");
    drop(closed);
    let (unread, full_pipe) = io::pipe().expect("pipes can be made");
    let mut places = vec![
        ("a pipe without a reader", no_reader.into(), None),
        ("a pipe that nobody reads", full_pipe.into(), Some(unread)),
    ];
    if let Ok(full) = OpenOptions::new().write(true).open(FULL) {
        places.push(("a full device", full.into(), None));
    }
    places
}

#[test]
fn a_log_that_cannot_be_written_holds_nobody_up() {
    for kind in KINDS {
        for (place, stderr, unread) in unwritable() {
            let stage = Stage::new(kind);
            let mut command = stage.command(&["--log-level", "trace"], "");
            command.stderr(stderr);
            let mut client = Served::start(command, 1);
            let session = client.session();
            ends(&mut client, &session, &stage.flood(2000, 10));
            // The log of so many turns is longer than a pipe.
            for _ in 0..100 {
                ends(&mut client, &session, &stage.say("words"));
            }
            println!("{kind:?} logs to {place}");
            client.end();
            drop(unread);
        }
    }
}

#[test]
fn a_log_file_that_cannot_be_written_holds_nobody_up() {
    if !Path::new(FULL).exists() {
        return;
    }
    for kind in KINDS {
        let stage = Stage::new(kind);
        let mut client = stage.client(&["--log-level", "trace", "--log-file", FULL]);
        let session = client.session();
        ends(&mut client, &session, &stage.flood(2000, 10));
        client.end();
    }
}

/// What is read late of the log says how much of it is missing.
#[test]
fn lost_lines_are_counted() {
    let stage = Stage::new(Kind::Serve);
    let (mut log, stderr) = io::pipe().expect("pipes can be made");
    let mut command = stage.command(&["--log-level", "trace"], "");
    command.stderr(stderr);
    let mut client = Served::start(command, 1);
    let session = client.session();
    for _ in 0..1000 {
        ends(&mut client, &session, &stage.say("words"));
    }
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        log.read_to_string(&mut text).map(|_| text)
    });
    client.end();
    let text = read.join().expect("it does not panic").expect("it is text");
    let lost = text
        .lines()
        .find(|line| line.contains("could not be written"));
    assert!(
        lost.is_some_and(|line| line.contains(" WARN rejoin: ")),
        "{lost:?}"
    );
}

/// A file system of so few megabytes that a test can fill it, if this process may have one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(folder: &Path) -> Option<Self> {
        if cfg!(not(target_os = "linux")) {
            return None;
        }
        fs::create_dir_all(folder).expect("folders can be made");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(folder);
        let mounted = mount.stderr(Stdio::null()).status();
        let is_mounted = mounted.is_ok_and(|status| status.success());
        is_mounted.then(|| Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that ends may still have a file open.
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

/// The files of a process can grow no longer in the middle of a turn: its store's, and the log of a host.
fn small_files(kind: Kind, keeps: bool) {
    let stage = Stage::new(kind);
    let mut options = vec!["--log-level", "info"];
    options.extend(keeps.then_some("--keep"));
    if keeps {
        // The next host of this command line finds its log as long as files may be.
        let mut client = Served::start(stage.command(&options, SMALL_FILES), 1);
        client.session();
        client.end();
        runs(&stage.store, &["stop", "--all"]);
        let log = OpenOptions::new().write(true).open(host_log(&stage.store));
        log.and_then(|log| log.set_len(LONG)).expect("it is ours");
    }
    let mut command = stage.command(&options, SMALL_FILES);
    command.stderr(
        OpenOptions::new()
            .write(true)
            .open(FULL)
            .map_or_else(|_| Stdio::null(), Stdio::from),
    );
    let mut client = Served::start(command, 1);
    let session = client.session();
    let process = stage.live()["sessions"][0]["pid"].clone();
    let failed = answer(&mut client, &session, &stage.flood(20_000, 500));
    assert_eq!(
        failed["error"]["data"]["error"], "storage_failed",
        "{failed}"
    );
    answer(&mut client, &session, &stage.say("again"));
    // Another session has a file of its own.
    let other = client.session();
    ends(&mut client, &other, &stage.say("with room"));
    let live = stage.live();
    let sessions = live["sessions"].as_array().expect("a list");
    assert!(sessions.iter().all(|live| live["pid"] == process), "{live}");
    client.end();
}

/// The log of the only host that there was.
fn host_log(store: &Path) -> PathBuf {
    let files = fs::read_dir(store.join("run")).expect("there was a host");
    let mut paths = files.map(|file| file.expect("a file").path());
    let log = paths.find(|path| path.extension().is_some_and(|extension| extension == "log"));
    log.expect("a host has a log")
}

/// What is taken of a small disk at first, in bytes: more than an agent that floods has still to say when
/// there is room again.
const RESERVED: usize = 21 * 1024 * 1024;

/// The disk under the store, the log of the host and stderr is full in the middle of a turn; later it is
/// not. So many more of its bytes are taken by something else at first.
fn full_disk(kind: Kind, keeps: bool, taken: usize) -> bool {
    let folder = tempfile::tempdir().expect("folders can be made");
    let root = folder.path().join("disk");
    let Some(disk) = SmallDisk::at(&root) else {
        return false;
    };
    let stage = Stage::at(kind, folder, root.join("store"));
    let other = root.join("other");
    fs::write(&other, vec![0; RESERVED + taken]).expect("there is room");
    // Little is logged, so the log has no room of its own before the disk is full.
    let options: &[&str] = if keeps { &["--keep"] } else { &[] };
    let mut command = stage.command(options, "");
    command.stderr(File::create(root.join("stderr")).expect("there is room"));
    let mut client = Served::start(command, 1);
    let session = client.session();
    let process = stage.live()["sessions"][0]["pid"].clone();
    let asked = client.prompt(&session, &stage.flood(20_000, 500));
    let (shown, failed) = client.client.take(asked);
    assert_eq!(
        failed["error"]["data"]["error"], "storage_failed",
        "{failed}"
    );
    answer(&mut client, &session, &stage.say("again"));
    fs::remove_file(&other).expect("it was made");
    client.load(&session);
    ends(&mut client, &session, &stage.say("with room"));
    assert_eq!(
        stage.live()["sessions"][0]["pid"],
        process,
        "it is the same process"
    );
    client.end();
    // All that was shown of the first turn is there.
    let mut second = stage.client(&[]);
    let loaded = second.load(&session).concat();
    assert!(
        loaded.starts_with(&texts(&shown).concat()),
        "{}",
        loaded.len()
    );
    assert!(loaded.ends_with("with room"), "{}", loaded.len());
    second.end();
    drop((stage, disk));
    true
}

#[test]
fn files_that_cannot_grow_end_no_process() {
    for kind in KINDS {
        for keeps in [false, true] {
            small_files(kind, keeps);
        }
    }
}

/// `RUN_SLOW_TESTS` fills the disk at many moments.
#[test]
fn a_full_disk_ends_no_process() {
    let steps = if env::slow() { 64 } else { 1 };
    for step in 1..=steps {
        let taken = 2 * 1024 * 1024 / steps * step;
        for kind in KINDS {
            for keeps in [false, true] {
                if !full_disk(kind, keeps, taken) {
                    println!("this process may mount no disk");
                    return;
                }
            }
        }
    }
}

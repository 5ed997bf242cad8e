//! What other users of the machine have planted is not used, and a front of another release gets a clear
//! answer.
#![expect(
    clippy::disallowed_methods,
    reason = "what is planted is not written by the program"
)]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::peer::Peer;
use crate::support::command::{command, runs};

/// The id of a user who has nothing to do with this.
const NOBODY: u32 = 65534;

/// Whether this is a user who can make files of another one.
fn is_root(folder: &Path) -> bool {
    let file = folder.join("probe");
    fs::write(&file, "").unwrap();
    let can = chown(&file, Some(NOBODY), None).is_ok();
    if !can {
        eprintln!("only root can make files of another user: not checked");
    }
    can
}

fn new_session(store: &Path) -> (Peer, String) {
    let mut owner = Peer::start(store, 1);
    let session = owner.new_session();
    owner.turn(&session, "/echo said");
    (owner, session)
}

/// A process that does nothing until this is dropped.
struct Stopped(u32);

impl Stopped {
    fn new(process: u32) -> Self {
        Self::signal(process, "STOP");
        Self(process)
    }

    fn signal(process: u32, signal: &str) {
        let kill = format!("kill -{signal} {process}");
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{kill}");
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        Self::signal(self.0, "CONT");
    }
}

/// The socket of the only process.
fn socket(store: &Path) -> PathBuf {
    let run = fs::read_dir(store.join("run")).unwrap();
    let mut files = run.map(|file| file.unwrap().path());
    let found = files.find(|path| path.extension().is_some_and(|of| of == "sock"));
    found.expect("the process has a socket")
}

/// Loads the session in another process. Whether that could reach the one that has it.
fn reaches(store: &Path, session: &str) -> bool {
    let mut other = Peer::start(store, 1);
    let loaded = other.load(session).unwrap();
    other.leave();
    loaded["_meta"]["rejoin"]["owner"].is_object()
}

#[test]
fn a_folder_of_sockets_that_others_may_enter_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::set_permissions(&run, Permissions::from_mode(0o777)).unwrap();
    let (owner, session) = new_session(folder.path());
    assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
    assert!(!reaches(folder.path(), &session));
    owner.leave();
}

#[test]
fn a_folder_of_sockets_of_another_user_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    if !is_root(folder.path()) {
        return;
    }
    let store = folder.path().join("store");
    let run = store.join("run");
    fs::create_dir_all(&run).unwrap();
    fs::set_permissions(&run, Permissions::from_mode(0o700)).unwrap();
    chown(&run, Some(NOBODY), None).unwrap();
    let (owner, session) = new_session(&store);
    assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
    assert!(!reaches(&store, &session));
    owner.leave();
}

#[test]
fn a_socket_of_another_user_or_a_link_in_its_place_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (owner, session) = new_session(&store);
    assert!(reaches(&store, &session));
    let socket = socket(&store);
    // It would make its socket anew.
    let stopped = Stopped::new(owner.id());
    // Another program listens where a link leads.
    let planted = folder.path().join("planted.sock");
    let listener = UnixListener::bind(&planted).unwrap();
    fs::remove_file(&socket).unwrap();
    symlink(&planted, &socket).unwrap();
    assert!(!reaches(&store, &session));
    // The same at its own place, by another user.
    fs::remove_file(&socket).unwrap();
    drop(listener);
    if is_root(folder.path()) {
        let listener = UnixListener::bind(&socket).unwrap();
        chown(&socket, Some(NOBODY), None).unwrap();
        assert!(!reaches(&store, &session));
        drop(listener);
    }
    drop(stopped);
    owner.leave();
}

#[test]
fn a_pointer_that_is_a_link_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("x".repeat(90));
    let (owner, session) = new_session(&store);
    assert!(reaches(&store, &session));
    let run = fs::read_dir(store.join("run")).unwrap();
    let mut files = run.map(|file| file.unwrap().path());
    let pointer = files
        .find(|path| path.extension().is_some_and(|of| of == "at"))
        .expect("the path is too long for a socket");
    let stopped = Stopped::new(owner.id());
    let copy = folder.path().join("copy");
    fs::rename(&pointer, &copy).unwrap();
    symlink(&copy, &pointer).unwrap();
    assert!(!reaches(&store, &session));
    drop(stopped);
    owner.leave();
}

#[test]
fn a_front_of_another_protocol_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let (owner, session) = new_session(folder.path());
    let mut stream = UnixStream::connect(socket(folder.path())).unwrap();
    let attach = json!({
        "jsonrpc": "2.0", "id": 1, "method": "_rejoin/attach",
        "params": { "protocol": 2, "version": "9.9.9", "sessionId": session, "name": session },
    });
    writeln!(stream, "{attach}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let message = answer["error"]["message"].as_str().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        message.contains(&format!("rejoin {version} has")),
        "{message}"
    );
    assert!(message.contains("9.9.9"), "{message}");
    owner.leave();
}

/// Has everybody read a folder and what is in it.
fn publish(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            publish(&path);
        } else {
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        }
    }
}

/// A command that another user runs, with a copy of the binary where that user finds it.
fn of_nobody(command: Command, folder: &Path) -> Command {
    let copy = folder.join("rejoin");
    if !copy.exists() {
        // A copy cannot be started while another test, which is starting a process, has it open.
        if fs::hard_link(command.get_program(), &copy).is_err() {
            fs::copy(command.get_program(), &copy).unwrap();
        }
    }
    let mut other = Command::new(copy);
    other.args(command.get_args()).env("HOME", folder);
    other.uid(NOBODY).gid(NOBODY).current_dir("/");
    other
}

#[test]
fn a_store_of_somebody_else_shows_at_most_what_may_be_read() {
    let folder = tempfile::tempdir().unwrap();
    if !is_root(folder.path()) {
        return;
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let store = folder.path().join("store");
    let (mut owner, session) = new_session(&store);
    let serve = || {
        let serve = command(&store, &["serve", "--sources", "none"]);
        Peer::of(of_nobody(serve, folder.path()), 1)
    };
    // Nobody else may enter it.
    let mut stranger = serve();
    let refused = stranger.load(&session).unwrap_err();
    assert!(!refused.to_string().contains("said"), "{refused}");
    stranger.call("session/new", Peer::place(None)).unwrap_err();
    stranger.leave();
    // Its user lets others read it, but for the sockets: what is said can be read and not answered.
    publish(&store.join("sessions"));
    publish(&store.join("open"));
    fs::set_permissions(&store, Permissions::from_mode(0o755)).unwrap();
    let mut stranger = serve();
    let loaded = stranger.load(&session).unwrap();
    assert!(!loaded["_meta"]["rejoin"]["owner"].is_object(), "{loaded}");
    assert!(stranger.shown.says("said"), "{:?}", stranger.shown);
    let refused = stranger.turn(&session, "/echo mine");
    assert_eq!(refused["error"]["data"]["error"], "storage_failed");
    stranger.leave();
    // Nor does one answer who reaches the socket.
    publish(&store.join("run"));
    let socket = socket(&store);
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let ps = of_nobody(command(&store, &["ps", "--json"]), folder.path()).output();
    let listed = String::from_utf8(ps.unwrap().stdout).unwrap();
    assert!(!listed.contains("clients\":[{"), "{listed}");
    assert!(reached_by_nobody(&socket).is_none_or(|answer| answer.is_empty()));
    owner.turn(&session, "/echo still here");
    assert!(runs(&store, &["sessions", "show", &session]).contains("still here"));
    owner.leave();
}

/// What another user who connects to a socket is answered, where there is a program for that.
fn reached_by_nobody(socket: &Path) -> Option<Vec<u8>> {
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        s.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"_rejoin/processes\",\"params\":{}}\\n')\n\
        sys.stdout.buffer.write(s.recv(99))\n";
    let mut python = Command::new("python3");
    python
        .args(["-c", script])
        .arg(socket)
        .uid(NOBODY)
        .gid(NOBODY);
    let output = python.current_dir("/").output();
    if output.is_err() {
        eprintln!("there is no Python: a connection of another user is not checked");
    }
    Some(output.ok()?.stdout)
}

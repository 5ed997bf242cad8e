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
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::peer::Peer;

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
    let made = owner.call("session/new", Peer::place(None)).unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let id = owner.prompt(&session, "/echo said");
    owner.wait(|peer| !peer.waiting.contains(&id));
    (owner, session)
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
    let copy = folder.path().join("copy");
    fs::rename(&pointer, &copy).unwrap();
    symlink(&copy, &pointer).unwrap();
    assert!(!reaches(&store, &session));
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

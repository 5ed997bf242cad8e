//! The folder of sockets in a state that others have made.
#![expect(
    clippy::disallowed_methods,
    reason = "does to the folder what other programs do"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::stage::{Kind, Stage, ends};
use crate::support::systems::FOLDER;
use crate::support::wrapped::until;

/// The files of a store's processes with this extension.
fn files(store: &Path, extension: &str) -> Vec<PathBuf> {
    let run = fs::read_dir(store.join("run")).into_iter();
    let files = run.flatten().flatten().map(|file| file.path());
    let is_it = |path: &PathBuf| path.extension().is_some_and(|of| of == extension);
    files.filter(is_it).collect()
}

/// The socket of the only process that has one.
pub(super) fn socket(store: &Path) -> PathBuf {
    let mut sockets = Vec::new();
    until(|| {
        sockets = files(store, "sock");
        if sockets.len() == 1 {
            Ok(())
        } else {
            Err(format!("{sockets:?}"))
        }
    })
    .expect("there is one");
    sockets.remove(0)
}

#[test]
fn a_socket_that_was_removed_is_made_anew() {
    let stage = Stage::new(Kind::Serve);
    let mut owner = stage.client(&[]);
    let session = owner.session();
    ends(&mut owner, &session, "/echo one");
    fs::remove_file(socket(&stage.store)).expect("it is ours");
    let mut other = stage.client(&[]);
    let load = json!({ "sessionId": session, "cwd": FOLDER, "mcpServers": [] });
    until(|| {
        let loaded = other.client.answer("session/load", &load);
        match loaded["result"]["_meta"]["rejoin"]["owner"] {
            Value::Object(_) => Ok(()),
            _ => Err(loaded.to_string()),
        }
    })
    .expect("it is reached");
    ends(&mut other, &session, "/echo two");
    other.end();
    owner.end();
}

#[test]
fn a_host_whose_files_were_removed_or_changed_is_found_again() {
    let stage = Stage::new(Kind::Serve);
    let store = &stage.store;
    let mut first = stage.client(&["--keep"]);
    let session = first.session();
    let host = stage.live()["hosts"][0]["pid"].clone();
    let removed = |files: Vec<PathBuf>| {
        for file in files {
            fs::remove_file(file).expect("it is ours");
        }
    };
    for change in 0..3 {
        match change {
            0 => removed([files(store, "sock"), files(store, "host")].concat()),
            1 => fs::write(&files(store, "host")[0], "rubbish").expect("it is ours"),
            _ => fs::remove_dir_all(store.join("run")).expect("it is ours"),
        }
        if change != 1 {
            // Until it is back, a client would start another host.
            until(|| {
                let live = stage.live();
                if live["hosts"][0]["pid"] == host {
                    Ok(())
                } else {
                    Err(live.to_string())
                }
            })
            .expect("it is found");
            socket(store);
        }
        let mut next = stage.client(&["--keep"]);
        next.load(&session);
        assert_eq!(stage.live()["hosts"][0]["pid"], host);
        next.end();
    }
    first.end();
}

#[test]
fn a_folder_that_others_may_read_is_closed_to_them() {
    let stage = Stage::new(Kind::Serve);
    let run = stage.store.join("run");
    fs::create_dir_all(&run).expect("folders can be made");
    fs::set_permissions(&run, Permissions::from_mode(0o755)).expect("it is ours");
    let mut client = stage.client(&["--keep"]);
    client.session();
    let mode = fs::metadata(&run)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    client.end();
}

//! A database server for the tests, on a socket in a temporary folder. It ends with the tests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rejoin::store::Store;
use rejoin::sys::Sys;

/// Says whether tests may do without a server: not if it is `required`.
const WANTED: &str = "REJOIN_TEST_POSTGRES";

/// Makes the cluster in the folder `$1` with the programs in `$2`, and serves until its input ends.
const SERVE: &str = r#"
    "$2/initdb" -D "$1/data" -U rejoin -A trust --no-sync -E UTF8 --locale C >"$1/initdb.log" 2>&1 || exit
    "$2/postgres" -D "$1/data" -k "$1" -c listen_addresses= -c fsync=off -c max_connections=200 \
        >"$1/server.log" 2>&1 &
    read -r _
    kill -INT $!
    wait
    rm -rf "$1"
"#;

struct Cluster {
    folder: PathBuf,
    /// Its input is open as long as the tests run.
    _server: Child,
}

/// The address of a new store, which has its tables; none if there is no server, and none is
/// required.
pub(crate) fn store() -> Option<PathBuf> {
    let place = place()?;
    Store::migrate(&place, &Sys::real()).unwrap();
    Some(place)
}

/// The same without tables.
pub(crate) fn place() -> Option<PathBuf> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let cluster = CLUSTER.get_or_init(start);
    let Some(cluster) = cluster else {
        eprintln!("skipped: there is no PostgreSQL here");
        return None;
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = cluster.folder.to_str().unwrap().replace('/', "%2F");
    Some(format!("postgres://rejoin@{folder}/postgres?schema=test_{number}").into())
}

fn start() -> Option<Cluster> {
    let Some(programs) = programs() else {
        let wanted = rejoin::sys::environment::variable(WANTED);
        assert_ne!(
            wanted.as_deref(),
            Some("required"),
            "no PostgreSQL was found"
        );
        return None;
    };
    let folder = tempfile::Builder::new()
        .prefix("rejoin-postgres-")
        .tempdir_in("/tmp")
        .unwrap()
        .keep();
    // The server refuses to run as root.
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|id| id.stdout == b"0\n");
    let mut server = if is_root {
        let given = Command::new("chown").arg("nobody").arg(&folder).status();
        assert!(given.unwrap().success());
        let mut command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--clear-groups", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    let server = server
        .args(["-c", SERVE, "sh"])
        .args([&folder, &programs])
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait(&folder);
    Some(Cluster {
        folder,
        _server: server,
    })
}

/// Waits until the server answers: a store in it can be looked for.
fn wait(folder: &Path) {
    let folder = folder.to_str().unwrap().replace('/', "%2F");
    let place = PathBuf::from(format!("postgres://rejoin@{folder}/postgres"));
    let mut last = None;
    for _ in 0..6 {
        match Store::is_at(&place, &Sys::real()) {
            Ok(_) => return,
            Err(error) => last = Some(error),
        }
    }
    panic!("the server does not start: {last:?}");
}

/// The folder with `initdb` and `postgres`.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = Path::new("/usr/lib/postgresql").read_dir();
    let versions = versions.into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    let mut folders = std::env::split_paths(&path).chain(versions);
    folders.find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

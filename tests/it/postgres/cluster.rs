//! A database server for the tests, on a socket in a temporary folder. It ends with the tests.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rejoin::store::Store;
use rejoin::sys::Sys;

/// Says whether tests may do without a server: not if it is `required`, nor if it is `pooled`, which
/// puts a pooler in front of it.
const WANTED: &str = "REJOIN_TEST_POSTGRES";

/// How many connections a server accepts.
const CONNECTIONS: u16 = 200;

/// Makes the cluster in the folder `$1` with the programs in `$2`, which listens on the port `$3`,
/// with the pooler `$5` on the port `$4` in front of it if there is one, which asks the server for
/// roles that tests make, writes to the disk as `$6` says, accepts `$7` connections,
/// and does what its input says until that ends.
const SERVE: &str = r#"
    cd "$1" || exit
    "$2/initdb" -D data -U rejoin -A trust --no-sync -E UTF8 --locale C >initdb.log 2>&1 || exit
    key() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "$@" 2>>tls.log; }
    printf 'host all asked all scram-sha-256\n%s\n' "$(cat data/pg_hba.conf)" >hba
    cp hba data/pg_hba.conf
    echo subjectAltName=DNS:localhost >names
    encrypt="-c ssl=on -c ssl_cert_file=$1/server.crt -c ssl_key_file=$1/server.key"
    key -x509 -subj /CN=authority -keyout ca.key -out ca.crt &&
        key -subj /CN=localhost -keyout server.key -out server.csr &&
        openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names \
            -out server.crt 2>>tls.log || encrypt=
    start() {
        "$2/postgres" -D data -k "$1" -p "$3" -c listen_addresses=localhost -c "fsync=$6" \
            -c "max_connections=$7" $encrypt >>server.log 2>&1 &
        server=$!
    }
    start "$@"
    if [ "$5" ]; then
        printf '%s\n' '[databases]' "* = host=$1 port=$3" '[pgbouncer]' 'listen_addr = 127.0.0.1' \
            "listen_port = $4" 'unix_socket_dir =' 'auth_type = trust' "auth_file = $1/users" \
            'auth_user = rejoin' 'max_client_conn = 1000' 'pool_mode = transaction' 'default_pool_size = 5' "logfile = $1/pooler.log" >pooler.ini
        echo '"rejoin" ""' >users
        "$5" -q pooler.ini 2>>pooler.log &
        pooler=$!
    fi
    while read -r command; do
        case $command in
            crash)
                children=$(pgrep -P $server)
                kill -KILL $server $children
                wait $server
                echo crashed
                ;;
            start) start "$@" ;;
            stop*|cont*)
                eval "process=\$${command#* }"
                children=$(pgrep -P $process)
                case $command in
                    stop*) kill -STOP $process $children ;;
                    cont*) kill -CONT $children $process ;;
                esac
                echo signaled
                ;;
            copy*)
                "$2/pg_basebackup" -D copy -h "$1" -p "$3" -U rejoin -c fast --no-sync \
                    >>copy.log 2>&1 && echo copied || echo without
                "$2/postgres" -D copy -k "$1" -p "${command#copy }" \
                    -c listen_addresses=localhost -c fsync=off -c max_connections=200 \
                    >>copy.log 2>&1 &
                copy=$!
                ;;
            standby*)
                "$2/pg_basebackup" -D standby -R -h "$1" -p "$3" -U rejoin -c fast --no-sync \
                    >>standby.log 2>&1 && echo standby || echo without
                "$2/postgres" -D standby -k "$1" -p "${command#standby }" \
                    -c listen_addresses=localhost -c fsync=off -c max_connections=200 \
                    >>standby.log 2>&1 &
                standby=$!
                ;;
        esac
    done
    kill -CONT $server $standby $copy $pooler
    kill -INT $server $standby $copy $pooler
    wait
    rm -rf "$1"
"#;

/// A server for databases.
pub(crate) struct Cluster {
    folder: PathBuf,
    pub(super) port: u16,
    /// That of a pooler in front of it, which gives a connection to each transaction only.
    pooler: Option<u16>,
    /// Its input is open as long as the server is to run.
    server: Child,
}

impl Cluster {
    /// A server of one's own, which may crash; none if there is no server here. If it is `synced`, a
    /// commit waits for the disk.
    pub(crate) fn start(synced: bool) -> Option<Self> {
        start(synced, CONNECTIONS)
    }

    /// One that accepts only so many connections.
    pub(super) fn with_connections(most: u16) -> Option<Self> {
        start(false, most)
    }

    /// Starts a server from a copy of this one as it is now, which then has a life of its own. Returns
    /// its port; none if there is no program that copies a server.
    pub(super) fn copy(&mut self) -> Option<u16> {
        let port = free_port();
        self.tell(&format!("copy {port}"));
        if self.heard() != "copied\n" {
            return None;
        }
        let copy = address(&format!("localhost:{port}"), 0, "&patience=1m");
        Store::is_at(&copy, &Sys::real()).expect("it starts");
        Some(port)
    }

    /// Stops all processes of the `server`, the `standby` or the `pooler`, as a virtual machine is
    /// stopped, or lets them go on.
    pub(super) fn freeze(&mut self, what: &str, frozen: bool) {
        let verb = if frozen { "stop" } else { "cont" };
        self.tell(&format!("{verb} {what}"));
        self.heard();
    }

    /// The address of a new store in it, without tables.
    pub(crate) fn place(&self, options: &str) -> PathBuf {
        let folder = self.folder.to_str().unwrap().replace('/', "%2F");
        self.at(&folder, options)
    }

    /// The same through TLS, if there was a program to make keys.
    pub(crate) fn encrypted(&self) -> Option<PathBuf> {
        let authority = self.folder.join("ca.crt");
        let options = format!("&sslmode=verify-full&sslrootcert={}", authority.display());
        self.folder
            .join("server.crt")
            .exists()
            .then(|| self.at("localhost", &options))
    }

    /// The addresses of a new store: its own, and one through another port.
    pub(super) fn through(&self, port: u16) -> (PathBuf, PathBuf) {
        let number = number();
        let own = format!("localhost:{}", self.port);
        let other = format!("127.0.0.1:{port}");
        (address(&own, number, ""), address(&other, number, ""))
    }

    /// The same store through the pooler, if there is one.
    pub(super) fn pooled(&self, place: &Path) -> Option<PathBuf> {
        let (_, options) = place.to_str().unwrap().split_once('?').unwrap();
        let port = self.pooler?;
        Some(format!("postgres://rejoin@127.0.0.1:{port}/postgres?patience=1m&{options}").into())
    }

    /// Starts a server that follows this one. Returns the address of a new store in either of them,
    /// and that of the server that follows; none if there is no program that copies a server.
    pub(super) fn standby(&mut self) -> Option<(PathBuf, PathBuf)> {
        let port = free_port();
        self.tell(&format!("standby {port}"));
        if self.heard() != "standby\n" {
            return None;
        }
        let hosts = format!("localhost:{},localhost:{port}", self.port);
        let place = address(&hosts, number(), "&patience=1m");
        let standby = address(&format!("localhost:{port}"), 0, "&patience=1m");
        Store::is_at(&standby, &Sys::real()).expect("it follows");
        Some((place, standby))
    }

    fn at(&self, host: &str, options: &str) -> PathBuf {
        address(&format!("{host}:{}", self.port), number(), options)
    }

    /// Kills all processes of the server.
    pub(crate) fn crash(&mut self) {
        self.tell("crash");
        self.heard();
    }

    /// What the shell has answered.
    fn heard(&mut self) -> String {
        let output = self.server.stdout.as_mut().unwrap();
        let (mut answer, mut byte) = (String::new(), [0]);
        while byte != *b"\n" {
            output.read_exact(&mut byte).unwrap();
            answer.push(byte[0].into());
        }
        answer
    }

    /// Starts it again.
    pub(crate) fn start_again(&mut self) {
        self.tell("start");
    }

    fn tell(&mut self, command: &str) {
        let input = self.server.stdin.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
    }
}

/// The program of a pooler, if there is one.
fn pooler_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let mut programs = folders.map(|folder| folder.join("pgbouncer"));
    programs.find(|program| program.is_file())
}

/// The address of a new store, which has its tables; none if there is no server, and none is
/// required.
pub(crate) fn store() -> Option<PathBuf> {
    let place = place()?;
    Store::migrate(&place, &Sys::real()).unwrap();
    if rejoin::sys::environment::variable(WANTED).is_some_and(|wanted| wanted == "pooled") {
        return Some(shared()?.pooled(&place).expect("PgBouncer is required"));
    }
    Some(place)
}

/// The address of a store without the pooler, if there is one.
pub(crate) fn direct(place: &Path) -> PathBuf {
    let text = place.to_str().unwrap();
    match shared() {
        Some(Cluster {
            port,
            pooler: Some(pooler),
            ..
        }) => text
            .replace(
                &format!("127.0.0.1:{pooler}/"),
                &format!("localhost:{port}/"),
            )
            .into(),
        _ => place.to_owned(),
    }
}

/// The same without tables.
pub(crate) fn place() -> Option<PathBuf> {
    Some(shared()?.place(""))
}

/// The server that all tests share.
pub(crate) fn shared() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    CLUSTER.get_or_init(|| start(false, CONNECTIONS)).as_ref()
}

fn start(synced: bool, connections: u16) -> Option<Cluster> {
    let Some(programs) = programs() else {
        let wanted = rejoin::sys::environment::variable(WANTED);
        assert!(
            !wanted.is_some_and(|wanted| wanted == "required" || wanted == "pooled"),
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
    let (port, pooler_port) = (free_port(), free_port());
    let pooler = pooler_program();
    let server = server
        .args(["-c", SERVE, "sh"])
        .args([&folder, &programs])
        .args([port.to_string(), pooler_port.to_string()])
        .arg(pooler.as_deref().unwrap_or(Path::new("")))
        .arg(if synced { "on" } else { "off" })
        .arg(connections.to_string())
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let cluster = Cluster {
        folder,
        port,
        pooler: pooler.map(|_| pooler_port),
        server,
    };
    // It answers when a store in it can be looked for.
    let place = cluster.place("&patience=1m");
    Store::is_at(&place, &Sys::real()).expect("the server starts");
    Some(cluster)
}

/// A number that no other store of these tests has.
fn number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

fn address(hosts: &str, number: u32, options: &str) -> PathBuf {
    format!("postgres://rejoin@{hosts}/postgres?schema=test_{number}{options}").into()
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind("localhost:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// The folder with `initdb` and `postgres`.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = Path::new("/usr/lib/postgresql").read_dir();
    let versions = versions.into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    let folders = std::env::split_paths(&path).chain(versions);
    // A link to one program may lie in a folder that lacks the others.
    let mut folders = folders.filter_map(|folder| {
        let program = folder.join("initdb").canonicalize().ok()?;
        program.parent().map(Path::to_owned)
    });
    folders.find(|folder| folder.join("postgres").is_file())
}

//! `--keep`: the sessions live in a host, a process of its own, and this one passes lines between it
//! and the client.
//!
//! The first client of a command line starts the host; later ones find it through the store. The host
//! is in a session of its own and no child of ours, so nothing that ends the client, its process
//! group or its tree of processes ends the host.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rejoin::redact::command::masked_command;
use rejoin::server::Keep;
use rejoin::store::{Durability, Holder, Host, Store};
use rejoin::sys::Sys;
use rejoin::sys::descriptors;
use rejoin::transport::stdio;

use crate::cli::exit::Failure;
use crate::cli::global::{Global, Stage};
use crate::cli::socket::{self, HostConnection};
use crate::cli::term::note;
use crate::cli::values::Timeout;
use crate::cli::{pipe, store_path};

/// How often a host is looked for or started: it may end just when a client comes.
const ATTEMPTS: u32 = 5;

/// How long to wait for a host whose file cannot be read. Hosts look at theirs every few seconds.
const UNREADABLE: Duration = Duration::from_secs(2);

/// How many hosts one command line has at most: a further one is started beside those that give no
/// answer.
const MOST: u8 = 4;

/// How long a host may take until clients can come.
const STARTS: Duration = Duration::from_secs(15);

/// The line that a host writes when clients can come.
const READY: &str = "ready\n";

/// Serves the client at the other end of `input` and stdout through the host of this command line.
pub(super) fn pipe(global: &Global, input: impl Read + Send + 'static) -> Result<(), Failure> {
    let store = open_store(global)?;
    let connect = || {
        let peer = connect_to_host(global, &store)?;
        let (own, version) = (env!("CARGO_PKG_VERSION"), &peer.version);
        if version != own {
            let text = format!("the sessions are kept by rejoin {version}, and this is {own}");
            let hint = "`rejoin stop --all` ends it, and the next client starts the new one";
            note(global, &text, Some(hint));
        }
        Ok(peer)
    };
    let peer = connect()?;
    pipe::pass(&store, input, peer, Some(&connect))
}

/// Connects to a host of this command line. Unless a host exists and gives an answer, a further one is
/// started.
fn connect_to_host(global: &Global, store: &Store) -> Result<HostConnection, Failure> {
    let mut failure = Failure::new("the process that keeps the sessions ends again and again");
    // The ids of the hosts that gave no answer, by their numbers.
    let mut silent = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        let running = (1..=MOST).filter_map(|number| {
            let host = store.host(&name(store, number))?;
            Some((number, host))
        });
        let running: BTreeMap<_, _> = running.collect();
        let asked = running
            .iter()
            .filter(|(number, _)| !silent.contains_key(*number));
        match first_to_answer(store, asked.map(|(number, host)| (*number, host))) {
            Ok(peer) => return Ok(peer),
            Err(errors) => {
                for (number, error) in errors {
                    let pid = running[&number].pid;
                    if error.kind() == io::ErrorKind::TimedOut {
                        let text = format!(
                            "process {pid} keeps sessions of this command line and gives no \
                             answer; another one is started"
                        );
                        let hint = "`rejoin stop --force` ends it; until then, its sessions can only \
                                    be read";
                        note(global, &text, Some(hint));
                        silent.insert(number, pid);
                    }
                    failure = Failure::new(format!(
                        "cannot reach process {pid} that keeps the sessions: {error}"
                    ));
                }
            }
        }
        let is_usable = |number| !store.has_unusable_host(&name(store, number));
        let free = (1..=MOST).find(|number| !silent.contains_key(number) && is_usable(*number));
        let Some(number) = free else {
            let hint = "`rejoin stop --force` ends the processes that give no answer";
            return Err(failure.hint(hint));
        };
        let name = name(store, number);
        if store.has_unreadable_host(&name) {
            let run = store.run_folder();
            failure = Failure::new(format!(
                "{name}.host in {}, the file of the process that keeps the sessions, cannot be read",
                run.display()
            ));
            // The process writes it again.
            thread::sleep(UNREADABLE);
            continue;
        }
        start(store, number)?;
    }
    let log = log(store, &name(store, 1));
    Err(failure.hint(format!("{} may say why", log.display())))
}

/// Asks hosts to serve the client. Returns the first one that answers, or the error of each.
fn first_to_answer<'a>(
    store: &Store,
    hosts: impl Iterator<Item = (u8, &'a Host)>,
) -> Result<HostConnection, Vec<(u8, io::Error)>> {
    let (answer, answers) = mpsc::channel();
    for (number, host) in hosts {
        let (store, host, answer) = (store.clone(), host.clone(), answer.clone());
        thread::spawn(move || {
            let peer = socket::greet(&store, &host.socket, host.pid, false);
            answer.send((number, peer)).ok();
        });
    }
    drop(answer);
    let mut errors = Vec::new();
    for (number, peer) in answers {
        match peer {
            Ok(peer) => return Ok(peer),
            Err(error) => errors.push((number, error)),
        }
    }
    Err(errors)
}

/// Starts the host with this number, and waits until clients can come.
fn start(store: &Store, number: u8) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot start another process: {error}"));
    let name = name(store, number);
    let mut starting = command(Stage::Detach(number)).map_err(failed)?;
    starting.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = descriptors::spawn(&mut starting).map_err(failed)?;
    let mut output = child.stdout.take();
    let (said, says) = mpsc::channel();
    // Neither is waited for any longer than this.
    thread::spawn(move || {
        let mut text = String::new();
        let read = output
            .as_mut()
            .map(|output| output.read_to_string(&mut text));
        let read = read.unwrap_or(Ok(0)).and_then(|_| child.wait());
        said.send(read.map(|_| text)).ok();
    });
    let log = log(store, &name);
    let Ok(said) = says.recv_timeout(STARTS) else {
        let within = humantime::format_duration(STARTS);
        let text = format!("the process that keeps the sessions did not begin within {within}");
        return Err(Failure::new(text).hint(format!("{} may say why", log.display())));
    };
    // Another client may have been faster.
    let said = said.map_err(failed)?;
    if said == READY || store.host(&name).is_some() || store.has_unreadable_host(&name) {
        return Ok(());
    }
    Err(
        Failure::new("the process that keeps the sessions could not begin")
            .hint(format!("{} says why", log.display())),
    )
}

/// This command line at another stage.
fn command(stage: Stage) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(format!("--host={stage}")).args(own_arguments());
    Ok(command)
}

/// The arguments of this process as the user gave them.
fn own_arguments() -> impl Iterator<Item = OsString> {
    let mut own = std::env::args_os().skip(1).peekable();
    own.next_if(|first| first.to_string_lossy().starts_with("--host="));
    own
}

/// Leaves the client's session and process group, and starts the host.
pub(super) fn detach(global: &Global, number: u8) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot start another process: {error}"));
    let store = open_store(global)?;
    store.prepare()?;
    let log = open_log(&store, &name(&store, number)).map_err(failed)?;
    #[cfg(unix)]
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    let mut host = command(Stage::Serve(number)).map_err(failed)?;
    host.stdin(Stdio::null()).stderr(log);
    descriptors::spawn(&mut host).map(drop).map_err(failed)
}

/// The host that serves this process's command line.
pub(super) fn keep(store: &Path, unused: Timeout, stage: Stage) -> Keep {
    let store = Store::at(store, Sys::real(), Durability::Os);
    let arguments: Vec<String> = own_arguments()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let own = stage.number();
    let further = (1..=MOST).filter(|number| *number != own);
    Keep {
        name: name(&store, own),
        further: further.map(|number| name(&store, number)).collect(),
        command: masked_command(arguments.iter().map(String::as_str)),
        unused: unused.0,
    }
}

/// Lets the process that waits for this host know that clients can come.
pub(super) fn ready() {
    if let Err(error) = stdio::last_output(READY.as_bytes()) {
        tracing::warn!(%error, "nobody waits for this process");
    }
}

fn open_store(global: &Global) -> Result<Store, Failure> {
    let root = store_path::root(global)?;
    Ok(Store::at(&root, Sys::real(), Durability::Os))
}

/// The name of the host with this number of this command line, in this folder and on this machine:
/// options may be relative to the folder, and the environment has some, too.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line may be relative to the folder"
)]
fn name(store: &Store, number: u8) -> String {
    let mut text = Vec::new();
    let mut add = |part: &[u8]| {
        text.extend_from_slice(&part.len().to_le_bytes());
        text.extend_from_slice(part);
    };
    add(Holder::this_process(None).host.as_bytes());
    add(store.root().as_os_str().as_encoded_bytes());
    let folder = std::env::current_dir().unwrap_or_default();
    add(folder.as_os_str().as_encoded_bytes());
    for argument in own_arguments() {
        add(argument.as_encoded_bytes());
    }
    let options = std::env::vars_os();
    let mut options: Vec<_> = options
        .filter(|(name, _)| name.as_encoded_bytes().starts_with(b"REJOIN_"))
        .collect();
    options.sort();
    for (name, value) in options {
        add(name.as_encoded_bytes());
        add(value.as_encoded_bytes());
    }
    let digest = format!("{:x}", md5::compute(text));
    let name = &digest[..16];
    match number {
        1 => name.to_owned(),
        _ => format!("{name}-{number}"),
    }
}

/// The file with what a host logs.
fn log(store: &Store, name: &str) -> PathBuf {
    store.run_folder().join(format!("{name}.log"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the log is no part of the store's data"
)]
fn open_log(store: &Store, name: &str) -> io::Result<File> {
    let folder = store.run_folder();
    store.sys().disk.create_dir_all(&folder)?;
    let path = log(store, name);
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

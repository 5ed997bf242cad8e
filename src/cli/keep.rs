//! `--keep`: the sessions live in a host, a process of its own, and this one passes lines between it
//! and the client.
//!
//! The first client of a command line starts the host; later ones find it through the store. The host
//! is in a session of its own and no child of ours, so nothing that ends the client, its process
//! group or its tree of processes ends the host.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::redact::command::masked_command;
use crate::server::Keep;
use crate::store::{Durability, Holder, Store};
use crate::sys::Sys;
use crate::sys::descriptors;
use crate::sys::socket::Stream;
use crate::transport::stdio;

use super::exit::Failure;
use super::global::Global;
use super::note::note;
use super::socket::greet;
use super::store;
use super::timeout::Timeout;

/// How often a host is looked for or started: it may end just when a client comes.
const ATTEMPTS: u32 = 5;

/// How long to wait for a host whose file cannot be read. Hosts look at theirs every few seconds.
const UNREADABLE: Duration = Duration::from_secs(2);

/// What a host writes when clients can come.
const READY: &str = "ready\n";

/// How far the start of a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Stage {
    /// The process leaves the client's session and starts the host.
    Detach,
    /// The process is the host.
    Serve,
}

/// Serves the client at the other end of `input` and stdout through the host of this command line.
pub(super) fn pipe(global: &Global, input: impl Read + Send + 'static) -> Result<(), Failure> {
    let store = open_store(global)?;
    let name = name(&store);
    let (mut stream, version) = connect_to_host(&store, &name)?;
    let own = env!("CARGO_PKG_VERSION");
    if version != own {
        let text = format!("the sessions are kept by rejoin {version}, and this is {own}");
        note(
            global,
            &text,
            Some("`rejoin stop --all` ends it, and the next client starts the new one"),
        );
    }
    pass(input, &mut stream)
}

/// Passes all lines of the client to a process that serves it, and back.
pub(super) fn pass(
    mut input: impl Read + Send + 'static,
    stream: &mut Stream,
) -> Result<(), Failure> {
    let mut to_host = std::mem::replace(&mut stream.output, Box::new(io::sink()));
    let mut output = stdio::output().map_err(Failure::cannot_start)?;
    let (ended, has_ended) = std::sync::mpsc::channel();
    // It may wait for input for ever, so nothing waits for it.
    thread::spawn(move || {
        io::copy(&mut input, &mut to_host).ok();
        ended.send(()).ok();
        // Dropping the output lets the other end see that there is no more.
        drop(to_host);
    });
    match io::copy(&mut stream.input, &mut output) {
        // The client no longer reads.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        _ if has_ended.try_recv().is_ok() => Ok(()),
        _ => Err(Failure::new("the process that has the sessions has ended")
            .hint("start again and load the session: what was written is in its log")),
    }
}

/// Connects to the host by this name, which is started if it does not run. Returns its release, too.
fn connect_to_host(store: &Store, name: &str) -> Result<(Stream, String), Failure> {
    let mut failure = Failure::new("the process that keeps the sessions ends again and again");
    for _ in 0..ATTEMPTS {
        if let Some(host) = store.host(name) {
            match greet(store, &host.socket, false) {
                Ok(connected) => return Ok(connected),
                Err(error) => {
                    failure = Failure::new(format!(
                        "cannot reach process {} that keeps the sessions: {error}",
                        host.pid
                    ));
                }
            }
        } else if store.has_unreadable_host(name) {
            let run = store.run_folder();
            failure = Failure::new(format!(
                "{name}.host in {}, the file of the process that keeps the sessions, cannot be read",
                run.display()
            ));
            // The process writes it again.
            thread::sleep(UNREADABLE);
            continue;
        }
        start(store, name)?;
    }
    let log = log(store, name);
    Err(failure.hint(format!("{} may say why", log.display())))
}

/// Starts the host by this name, and waits until clients can come.
fn start(store: &Store, name: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot start another process: {error}"));
    let mut starting = command(Stage::Detach).map_err(failed)?;
    starting.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = descriptors::spawn(&mut starting).map_err(failed)?;
    let mut said = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut said).map_err(failed)?;
    }
    child.wait().map_err(failed)?;
    // Another client may have been faster.
    if said == READY || store.host(name).is_some() || store.has_unreadable_host(name) {
        return Ok(());
    }
    let log = log(store, name);
    Err(
        Failure::new("the process that keeps the sessions could not begin")
            .hint(format!("{} says why", log.display())),
    )
}

/// This command line at another stage.
fn command(stage: Stage) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let stage = match stage {
        Stage::Detach => "--host=detach",
        Stage::Serve => "--host=serve",
    };
    command.arg(stage).args(own_arguments());
    Ok(command)
}

/// The arguments of this process as the user gave them.
fn own_arguments() -> impl Iterator<Item = OsString> {
    let mut own = std::env::args_os().skip(1).peekable();
    own.next_if(|first| first.to_string_lossy().starts_with("--host="));
    own
}

/// Leaves the client's session and process group, and starts the host.
pub(super) fn detach(global: &Global) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::new(format!("cannot start another process: {error}"));
    let store = open_store(global)?;
    store.prepare()?;
    let log = open_log(&store, &name(&store)).map_err(failed)?;
    #[cfg(unix)]
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    let mut host = command(Stage::Serve).map_err(failed)?;
    host.stdin(Stdio::null()).stderr(log);
    descriptors::spawn(&mut host).map(drop).map_err(failed)
}

/// What the host of this command line is for.
pub(super) fn keep(store: &Path, unused: Timeout) -> Keep {
    let store = Store::at(store, Sys::real(), Durability::Os);
    let arguments: Vec<String> = own_arguments()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    Keep {
        name: name(&store),
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
    let root = store::root(global)?;
    Ok(Store::at(&root, Sys::real(), Durability::Os))
}

/// The name of the host of this command line, in this folder and on this machine: options may be
/// relative to the folder, and the environment has some, too.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line may be relative to the folder"
)]
fn name(store: &Store) -> String {
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
    let digest = md5::compute(text);
    format!("{digest:x}")[..16].to_owned()
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

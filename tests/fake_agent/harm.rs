//! What an agent should not do: junk on stdout, ends at the wrong time, deafness to signals.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::link::Link;
use crate::record::Record;

/// Sends a line that is no message.
pub(crate) fn junk(link: &Link, what: &str) {
    let (what, size) = what.split_once(' ').unwrap_or((what, ""));
    match what {
        "utf8" => link.bytes(b"\xff\xfe{\"jsonrpc\"\n"),
        "nul" => link.bytes(b"\0\0\0\n"),
        "blank" => link.bytes(b"\n \n\r\n"),
        "json" => link.line(r#"{"jsonrpc":"2.0","method":"#),
        "array" => link.line("[]"),
        "number" => link.line("17"),
        "answer" => link.line(r#"{"jsonrpc":"2.0","id":"nobody asked","result":{}}"#),
        "nobody" => link.line(
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"nobody","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello?"}}}}"#,
        ),
        "long" => {
            let size = size.parse().unwrap_or(1 << 20);
            link.line(&"x".repeat(size));
        }
        _ => link.line("this is no JSON"),
    }
}

/// Writes so many bytes to stderr, in lines.
pub(crate) fn stderr_flood(bytes: usize) {
    let line = [&[b'e'; 99][..], b"\n"].concat();
    let mut out = std::io::stderr().lock();
    for _ in 0..bytes.div_ceil(line.len()) {
        out.write_all(&line).ok();
    }
}

/// Starts a process that has our pipes and would stay long.
pub(crate) fn grandchild(record: &Record) {
    let child = Command::new("sleep")
        .arg("300")
        .stdin(Stdio::null())
        .spawn();
    if let Ok(child) = child {
        record.note("grandchild", &child.id().to_string());
    }
}

/// Starts a process of another group that holds our stdout and stderr open until our input ends.
#[cfg(unix)]
#[expect(clippy::zombie_processes, reason = "it outlives this process")]
pub(crate) fn leave_process(record: &Record) {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("sh");
    // The shell waits, with all of our pipes.
    command
        .args(["-c", "cat >/dev/null; exit"])
        .process_group(0);
    let child = command.spawn().expect("there is a shell");
    record.note("grandchild", &child.id().to_string());
}

/// Becomes a program that reads what it is sent and has no stdout.
#[cfg(unix)]
pub(crate) fn close_stdout() {
    use std::os::unix::process::CommandExt as _;
    let error = Command::new("cat").stdout(Stdio::null()).exec();
    eprintln!("cannot become another program: {error}");
}

/// Becomes a program that reads nothing, has our stdout, and says a line first.
#[cfg(unix)]
pub(crate) fn close_stdin(line: &str) {
    use std::os::unix::process::CommandExt as _;
    let script = r#"printf '%s\n' "$0"; exec sleep 300"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, line]).stdin(Stdio::null());
    let error = command.exec();
    eprintln!("cannot become another program: {error}");
}

/// Waits until the process that started this one is gone, and goes on writing to it.
#[cfg(unix)]
pub(crate) fn outlive_client() {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // More than a pipe holds.
    let line = [&[b'x'; 4095][..], b"\n"].concat();
    for _ in 0..1024 {
        std::io::stdout()
            .write_all(&line)
            .expect("the client reads");
        std::io::stderr()
            .write_all(&line)
            .expect("the client reads");
    }
}

/// From now on, a request of the system to end does nothing.
#[cfg(unix)]
pub(crate) fn ignore_term() {
    let (tell, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("runtimes can be made");
        runtime.block_on(async {
            let kind = tokio::signal::unix::SignalKind::terminate();
            let mut signals = tokio::signal::unix::signal(kind).expect("signals can be caught");
            tell.send(()).ok();
            while signals.recv().await.is_some() {}
        });
    });
    ready.recv().ok();
}

/// There is no such thing here.
#[cfg(not(unix))]
pub(crate) fn leave_process(_: &Record) {
    eprintln!("cannot leave a process behind on this system");
}

/// There is no such thing here.
#[cfg(not(unix))]
pub(crate) fn close_stdout() {
    eprintln!("cannot close stdout on this system");
}

/// There is no such thing here.
#[cfg(not(unix))]
pub(crate) fn close_stdin(_: &str) {
    eprintln!("cannot close stdin on this system");
}

/// There is no such thing here.
#[cfg(not(unix))]
pub(crate) fn outlive_client() {}

/// There is no such thing here.
#[cfg(not(unix))]
pub(crate) fn ignore_term() {}

//! An MCP server for tests, over stdio or streamable HTTP: its tools show what a server may do.
//!
//! `--record FILE` notes what happens to it, `--name NAME` is what it calls itself, `--mute` never
//! answers, `--fail` ends at once, `--deaf` does not end with its input, `--http FILE` serves HTTP
//! on a free port of this machine and writes its address to the file, `--hostile` has tools
//! that send more than can be taken, in a list without an end, `--more N` has N tools more. Every
//! other argument is a secret of the test.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program of its own that owns its stdio and ends when and how it is asked to"
)]

mod http;
mod record;
mod serve;
mod tools;

use std::io::{BufRead, Write};
use std::time::Duration;

use record::Record;
use serve::Server;

fn main() {
    let mut record = Record::default();
    let mut name = "fake".to_owned();
    let mut http = None;
    let (mut mute, mut fail, mut deaf) = (false, false, false);
    let (mut hostile, mut more) = (false, 0);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_default();
        match arg.as_str() {
            "--record" => record = Record::to(value().into()),
            "--name" => name = value(),
            "--http" => http = Some(value()),
            "--mute" => mute = true,
            "--fail" => fail = true,
            "--deaf" => deaf = true,
            "--hostile" => hostile = true,
            "--more" => more = value().parse().unwrap_or_default(),
            _ => {}
        }
    }
    record.note("started", &std::process::id().to_string());
    if fail {
        let key = std::env::var("KEY").unwrap_or_default();
        eprintln!("cannot start with the key {key}");
        std::process::exit(3);
    }
    let mut server = Server::new(name, record.clone());
    server.hostile = hostile;
    server.learned = (0..more).map(|at| format!("more-{at}")).collect();
    if let Some(file) = http {
        return http::serve(server, &file);
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if mute {
            continue;
        }
        let mut out = std::io::stdout().lock();
        for answer in server.take(&line) {
            // A client that closed this pipe is about to close the other one.
            writeln!(out, "{answer}").ok();
        }
        out.flush().ok();
    }
    record.note("ended", "\"input\"");
    if deaf {
        std::thread::sleep(Duration::from_hours(1));
    }
}

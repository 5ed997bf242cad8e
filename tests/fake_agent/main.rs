//! An agent for tests: it speaks the Agent Client Protocol over stdio, and does in each turn what
//! the prompt asks for. Flags say what it declares and how it misbehaves.
//!
//! Its flags and the language of its prompts are described in `fixtures/wrap/README.md`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program of its own that owns its stdio and ends when and how it is asked to"
)]

mod describe;
mod early;
mod flood;
mod harm;
mod link;
mod memory;
mod message;
mod options;
mod record;
mod script;
mod serve;
mod turn;
mod version_2;

use std::io::BufRead;
use std::time::Duration;

use clap::Parser;

use options::Options;
use serve::Agent;

/// How long an agent that ignores the end of its input stays, so that none stays for ever.
const STUBBORN: Duration = Duration::from_mins(2);

fn main() {
    let options = Options::parse();
    let agent = Agent::new(options);
    agent.start();
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    while let Ok(1..) = input.read_until(b'\n', &mut line) {
        agent.line(&line);
        line.clear();
    }
    agent.record.note("ended", "\"input\"");
    if agent.options.outlives_client {
        harm::outlive_client();
        agent.record.note("ended", "\"alone\"");
    }
    if agent.options.ignore_eof {
        std::thread::sleep(STUBBORN);
    }
    std::process::exit(0);
}

//! Measures what `docs/performance.md` promises: `cargo bench`, or `cargo bench -- NAME…` for some.
//!
//! Each question has a file. What is measured is the real binary over real pipes, and nearly every
//! answer is a ratio to something simple that is measured in the same run and in turns with it, so
//! that it means the same on another machine, or on one that has other things to do.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program to be run by hand: it prints, and takes time and files from the machine"
)]
#![expect(
    clippy::cast_precision_loss,
    reason = "counts and lengths here are far below 2^52"
)]

mod append;
mod baseline;
mod client;
mod fill;
mod history;
mod list;
mod live;
mod load;
mod machine;
mod memory;
#[cfg(all(unix, feature = "store-postgres"))]
mod postgres;
mod redact;
mod replay;
mod report;
mod shared;
mod sources;
mod start;
mod subscription;
mod v2;
mod wrap;

use std::process::ExitCode;

use report::Report;

/// What may go wrong while measuring; all of it ends the question.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

type Question = fn(&Settings, &mut Report) -> Result<()>;

const QUESTIONS: &[(&str, Question)] = &[
    ("replay", replay::run),
    ("v2", v2::run),
    ("memory", memory::run),
    ("append", append::run),
    ("start", start::run),
    ("list", list::run),
    ("subscription", subscription::run),
    ("history", history::run),
    ("redact", redact::run),
    ("shared", shared::run),
    ("sources", sources::run),
    ("load", load::run),
    ("live", live::run),
    ("wrap", wrap::run),
    #[cfg(all(unix, feature = "store-postgres"))]
    ("postgres", postgres::run),
];

const HELP: &str = "\
usage: cargo bench -- [NAME…] [--rounds N] [--memory-mb N] [--sessions N]
  NAME           replay, v2, memory, append, start, list, subscription,
                 history, redact, sources, load, live, wrap, postgres; all by default
  --rounds N     how often each thing is measured; 11 by default
  --memory-mb N  the size of the log in `memory`; 256 by default, the promise is about 1024
  --sessions N   the size of the large store in `list`, `load` and `subscription`,
                 a tenth of the sessions in `postgres`, and ten times
                 the conversations in `sources`; 100000 by default
The environment variable REJOIN_BENCH_PROGRAM names another program to measure, such as that of a release.";

/// How to measure.
#[derive(Clone, Copy, Debug)]
struct Settings {
    /// How often each thing is measured.
    rounds: usize,
    /// The size of the log whose replay's memory is measured, in 10^6 bytes.
    memory_mb: usize,
    /// How many sessions a large store has.
    sessions: usize,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let Some(role) = std::env::args().nth(1)
        && baseline::play(&role)
    {
        return ExitCode::SUCCESS;
    }
    let mut settings = Settings {
        rounds: 11,
        memory_mb: 256,
        sessions: 100_000,
    };
    let mut names = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|number| number.parse().ok());
        let taken = match argument.as_str() {
            // Cargo says so to every benchmark.
            "--bench" => Some(()),
            "--rounds" => number().map(|n: usize| settings.rounds = n.max(1)),
            "--memory-mb" => number().map(|n: usize| settings.memory_mb = n.max(1)),
            "--sessions" => number().map(|n: usize| settings.sessions = n.max(1000)),
            name if QUESTIONS.iter().any(|(known, _)| *known == name) => {
                names.push(name.to_owned());
                Some(())
            }
            _ => None,
        };
        if taken.is_none() {
            println!("{HELP}");
            return ExitCode::from(2);
        }
    }
    println!("{}", machine::describe());
    let mut report = Report::new();
    for &(name, question) in QUESTIONS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        report.begin(name);
        if let Err(error) = question(&settings, &mut report) {
            report.failed(&error.to_string());
        }
    }
    report.end()
}
